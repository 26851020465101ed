"""app/cli/pipeline/auditing/note.py: what the database notes of audits that end, fail, are killed or run at once."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from typer.testing import CliRunner

from app.checks.ledger import LedgerReport
from app.cli.failure import CommandFailed
from app.cli.main import application
from app.cli.pipeline.auditing.note import audit_noted, forgotten
from app.cli.pipeline.auditing.report import AuditReport
from app.settings.settings import load_settings
from db.errors import DatabaseError
from db.secret_box import SecretBoxError
from pipeline.audit.inquiry import OTHER_KEY, Finding
from pipeline.storage import LakeStorage
from tests.app.conftest import opened

NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)


def report(findings: int = 0, until: datetime = NOON, unconfirmed: int = 0) -> AuditReport:
    """A report with so many findings."""
    ledger = LedgerReport(
        since_at=NOON, through_at=NOON, is_behind=False, cells=1, accepted=1, owed=1, sent=1, dead=0, unequal=()
    )
    return AuditReport(
        NOON - timedelta(days=9), until, ledger, cells=1, webhook_hours=0, records=1, remembered=0, outside=0,
        unarchived=0, unequal=0, unproved=0, unjudged=(), findings=(), lake=("a log was cut",) * findings,
        unconfirmed=("evt_k3v7q2ha_9",) * unconfirmed,
    )  # fmt: skip


class Audits:
    """Audits of one lake, and what the database notes of them."""

    def __init__(self, database: Any, sql: Any, lake_uri: str) -> None:
        self.lake = LakeStorage(lake_uri)
        self.database = database
        self.sql = sql

    async def run(self, ends: AuditReport | Exception, *, is_own: bool = True, has_contents: bool = False) -> Any:
        """Run an audit that ends so, and return its report or its error."""

        async def judged() -> AuditReport:
            if isinstance(ends, Exception):
                raise ends
            return ends

        try:
            return await audit_noted(self.database, self.lake, judged(), is_own=is_own, has_contents=has_contents)
        except Exception as error:  # noqa: BLE001 - the test compares it
            return error

    async def noted(self, columns: str) -> list[Any]:
        """The columns of the lake's row; [] if there is none."""
        row = await self.sql.fetchrow(f"SELECT {columns} FROM hookwire.lake_audits WHERE lake = $1", self.lake.uri)
        return [] if row is None else list(row)


JUDGED = "exit_code, findings, not_compared, failure_code, failure, started_at"


async def test_an_audit_that_fails_takes_no_finding_back(lake_uri: str, database_url: str) -> None:
    """GP-14: lost events of Monday were replaced by a wrong setting of Tuesday. A judgement takes the failure back."""
    async with opened(database_url) as (database, sql):
        audits = Audits(database, sql, lake_uri)
        notes = []
        for ends in (report(3), CommandFailed("no setting\nmore", 2), report(unconfirmed=1)):
            await audits.run(ends)
            notes.append(await audits.noted(JUDGED))
    assert notes == [[1, 3, 0, None, None, None], [1, 3, 0, 2, "no setting", None], [2, 0, 1, None, None, None]]


@pytest.mark.parametrize(
    ("failure", "code", "told"),
    [
        (DatabaseError("canceling statement due to statement timeout"), 3, "the database cannot be used: canceling"),
        (SecretBoxError("another key"), 2, "another key"),
        (RuntimeError("a bug"), None, None),
    ],
    ids=["statement over its time", "wrong keys", "a bug"],
)
async def test_each_failure_that_the_command_tells_is_noted(
    failure: Exception, code: int | None, told: str | None, lake_uri: str, database_url: str
) -> None:
    """GP-14: only some were. After a bug the audit has begun and has not ended."""
    async with opened(database_url) as (database, sql):
        audits = Audits(database, sql, lake_uri)
        raised = await audits.run(failure)
        noted, reason, has_begun = await audits.noted("failure_code, failure, started_at IS NOT NULL")
    assert (raised, noted, reason and told and reason.startswith(told)) == (failure, code, True if told else None)
    assert has_begun == (told is None)


async def test_a_database_that_takes_no_note_costs_no_report(
    lake_uri: str, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """GP-14: a newer lake beside an older hub ended with exit code 3 after hours, and its findings were not printed."""
    async with opened(database_url) as (database, sql):
        await sql.execute("ALTER TABLE hookwire.lake_audits RENAME TO another")
        ended = await Audits(database, sql, lake_uri).run(report(3))
    assert (ended, "the database does not note this audit: " in capsys.readouterr().err) == (report(3), True)


_MARK = """
INSERT INTO hookwire.lake_marks (lake, table_name, version, number, commit_id, digest)
VALUES ($1, 'bronze', 1, 1, '', '')
"""


async def test_a_lake_that_the_database_does_not_know_is_not_noted(
    lake_uri: str, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """GP-14: a typing error in --lake, or a copy of the lake, was the hub's trouble for ever."""
    async with opened(database_url) as (database, sql):
        audits = Audits(database, sql, lake_uri)
        ended = await audits.run(report(3), is_own=False)
        notes, said = [await audits.noted("findings")], capsys.readouterr().err
        await sql.execute(_MARK, audits.lake.uri)
        await audits.run(report(4), is_own=False)
        notes.append(await audits.noted("findings"))
        await sql.execute("DELETE FROM hookwire.lake_marks")
        await audits.run(report(5), is_own=False)
        notes.append(await audits.noted("findings"))
    assert (ended, "is not noted: the database knows nothing of file:///" in said) == (report(3), True)
    assert notes == [[], [4], [5]]


async def test_the_first_audit_that_has_not_ended_is_known_until_one_ends(lake_uri: str, database_url: str) -> None:
    """GP-14: each night an audit was killed, and each night its begin was new."""
    async with opened(database_url) as (database, sql):
        audits = Audits(database, sql, lake_uri)
        await audits.run(RuntimeError("killed"))
        await sql.execute("UPDATE hookwire.lake_audits SET started_at = now() - interval '30 h'")
        before = await audits.noted("started_at")
        await audits.run(RuntimeError("killed"))
        after = await audits.noted("started_at")
        await audits.run(report())
        ended = await audits.noted("started_at")
    assert (before == after, before == [None], ended) == (True, False, [None])


async def test_of_two_audits_at_once_the_one_with_the_later_hours_counts(lake_uri: str, database_url: str) -> None:
    """GP-14: the last one to end won, also with hours that the other one had judged since."""
    async with opened(database_url) as (database, sql):
        audits = Audits(database, sql, lake_uri)
        await audits.run(report(0, NOON))
        await audits.run(report(3, NOON - timedelta(hours=1)))
        noted = await audits.noted("exit_code, until_at")
    assert noted == [0, NOON]


async def test_findings_of_an_audit_of_all_contents_stay_until_another_one(lake_uri: str, database_url: str) -> None:
    """GP-14: the audit of the night does not look at what `--contents` has found, and its 0 replaced the finding."""
    async with opened(database_url) as (database, sql):
        audits = Audits(database, sql, lake_uri)
        notes = []
        for findings, has_contents in ((1, True), (0, False), (0, True), (2, False), (0, False)):
            await audits.run(report(findings), has_contents=has_contents)
            notes += await audits.noted("findings")
    assert notes == [1, 1, 0, 2, 0]


def test_the_command_notes_audits_of_all_hours_by_the_hubs_settings(
    lake_uri: str, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GP-14: an audit of some hours, or by a rule of its own, is not noted; one that fails takes nothing back."""
    monkeypatch.setenv("HOOKWIRE_DATABASE_URL", database_url)
    monkeypatch.setenv("HOOKWIRE_PIPELINE_LAKE", lake_uri)
    ends: list[AuditReport | Exception] = []

    async def judged(*_: object) -> AuditReport:
        if isinstance(end := ends.pop(), Exception):
            raise end
        return end

    async def noted() -> list[Any]:
        async with opened(database_url) as (database, sql):
            return await Audits(database, sql, lake_uri).noted("exit_code, findings, failure_code, failure")

    def run(end: AuditReport | Exception, *words: str) -> tuple[int, list[Any]]:
        ends.append(end)
        done = CliRunner().invoke(application(), ["pipeline", "audit", "--json", *words])
        return done.exit_code, asyncio.run(noted())

    monkeypatch.setattr("app.cli.pipeline.audit._compared", judged)
    ended = [run(report(3)), run(report(), "--since", "2020-01-01"), run(report(), "--late", "1"), run(report()),
             run(CommandFailed("a torn log", 1))]  # fmt: skip
    told = CliRunner().invoke(application(), ["doctor", "--json"])

    assert ended == [
        (1, [1, 3, None, None]), (0, [1, 3, None, None]), (0, [1, 3, None, None]), (0, [0, 0, None, None]),
        (1, [0, 0, 1, "a torn log"]),
    ]  # fmt: skip
    checks = [check for check in json.loads(told.stdout) if check["id"] == "lake"]
    assert [(check["subject"], check["level"]) for check in checks] == [(f"audit of {lake_uri}", "warn")]


@pytest.mark.parametrize(
    ("changes", "count", "code"),
    [
        ({}, 0, 0), ({"cells": 0}, 1, 2), ({"cells": 0, "remembered": 9}, 0, 0),
        ({"findings": (Finding("altered", "orders", NOON, 2, ["evt_k3v7q2ha_9"]),)}, 1, 1),
        ({"findings": (Finding(OTHER_KEY, "orders", NOON, 2, ["evt_k3v7q2ha_9"]),)}, 1, 2),
    ],
    ids=["clean", "nothing compared", "all proved before", "altered", "sealed with another key"],
)  # fmt: skip
def test_what_was_not_compared_is_no_success(changes: dict[str, Any], count: int, code: int) -> None:
    """GP-06: an audit of hours without an event exited 0. Rows of another secret cannot be judged."""
    ended = replace(report(), **changes)
    assert (ended.count, ended.exit_code) == (count, code)


async def test_a_lake_that_is_not_used_any_more_can_be_forgotten(
    lake_uri: str, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GP-14: all that the database knows of it, and nothing of other lakes."""
    monkeypatch.setenv("HOOKWIRE_DATABASE_URL", database_url)
    async with opened(database_url) as (database, sql):
        for uri in (lake_uri, f"{lake_uri}2"):
            audits = Audits(database, sql, uri)
            await audits.run(report(3))
            await sql.execute(_MARK, audits.lake.uri)
            for statement in (
                "lake_bounds (lake, topic, first_day) VALUES ($1, '', '2026-01-15')",
                "lake_seals (lake, sealed_from) VALUES ($1, now())",
                "lake_proofs (lake, day, topic, digest, records, unproved, unsealed) "
                "VALUES ($1, '2026-01-15', 'orders', '', 1, 0, 0)",
            ):
                await sql.execute(f"INSERT INTO hookwire.{statement}", audits.lake.uri)
        rows = [await forgotten(load_settings(), lake_uri) for _ in range(2)]
        left = [
            await sql.fetchval(f"SELECT string_agg(lake, ' ') FROM hookwire.{table}")
            for table in ("lake_marks", "lake_bounds", "lake_seals", "lake_proofs", "lake_audits")
        ]
    assert (rows, left) == ([5, 0], [f"{lake_uri}2"] * 5)


def test_the_command_says_which_lake_it_forgot(
    lake_uri: str, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GP-14."""
    monkeypatch.setenv("HOOKWIRE_DATABASE_URL", database_url)

    async def noted() -> None:
        async with opened(database_url) as (database, sql):
            await Audits(database, sql, lake_uri).run(report(3))

    asyncio.run(noted())
    command = ["pipeline", "forget", "--lake", f"{lake_uri}/", "--json"]
    done = CliRunner().invoke(application("pipeline"), command, catch_exceptions=False)
    assert json.loads(done.stdout) == {"lake": lake_uri, "rows": 1, "done": "forgotten"}

"""Nothing is left out in silence: what the lake says of itself is confirmed by the database, or is named (GP-02)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from app.cli.failure import CommandFailed
from app.cli.main import application
from app.cli.pipeline.auditing.omissions import deleted_days
from app.cli.pipeline.marks import LogMarks
from app.settings.settings import load_settings
from pipeline.audit.selftest import HOUR, SelftestRecord
from pipeline.delta.snapshot import Change
from pipeline.lake import Table, bronze
from pipeline.storage import LakeStorage
from tests.pipeline.foreign import delta, edit
from tests.pipeline.test_audit_command import archived, audit, events
from tests.pipeline.test_tampering import executed

__all__ = ["events"]


def done(lake_uri: str, *words: str) -> Any:
    """What a command prints that ends well."""
    ended = CliRunner().invoke(
        application("pipeline"), ["pipeline", *words, "--lake", lake_uri, "--json"], catch_exceptions=False
    )
    assert ended.exit_code == 0, ended.output
    return json.loads(ended.stdout)


def newest_entry(lake_uri: str) -> Path:
    table = delta(LakeStorage(lake_uri))
    return Path(lake_uri.removeprefix("file://")) / "bronze" / "_delta_log" / f"{table.version():020d}.json"


def forge_offsets(action: dict[str, Any]) -> None:
    if "commitInfo" in action:
        action["commitInfo"]["hookwire"]["state"]["offsets"] = {"orders": {"0": 99}}


def forge_bound(table: Table, day: str) -> None:
    """Remove all files, and say that retention did it."""
    basis = table.snapshot()
    state = replace(basis.state, kept={"orders": day})
    table.commit(basis, Change("retain", "run", removed=tuple(file.path for file in basis.files), state=state))


@pytest.mark.slow
def test_deleted_days_are_printed_and_counted_and_confirmed_by_the_database(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord], database_url: str
) -> None:
    """GP-02: a forged bound of retention and all files gone was a clean lake, with not a word."""
    archived(lake_uri, events)
    forge_bound(bronze(LakeStorage(lake_uri)), "2099-01-01")
    verdicts = [audit(lake_uri)]
    known = "INSERT INTO hookwire.lake_bounds (lake, topic, first_day) VALUES ($1, 'orders', '2026-01-15')"
    asyncio.run(executed(database_url, known, lake_uri))
    verdicts.append(audit(lake_uri))
    confirmed = done(lake_uri, "retain", "--confirm")
    verdicts.append(audit(lake_uri))
    told = [(code, [(days["verdict"], days["known"], days["events"]) for days in r["deleted"]]) for code, r in verdicts]
    assert told == [
        (2, [("unconfirmed", "", 8)]), (1, [("different", "2026-01-15", 8)]), (2, [("confirmed", "2099-01-01", 8)]),
    ]  # fmt: skip
    assert confirmed == {"noted": {"orders": "2099-01-01"}, "confirmed": 1}


def test_retention_notes_its_bound_in_the_database(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord]
) -> None:
    """GP-02: what `hookwire pipeline retain` deletes is no finding; with nothing else to compare it is no success."""
    archived(lake_uri, events)
    done(lake_uri, "retain", "--days", "1")
    code, report = audit(lake_uri)
    assert (code, report["lake"], [days["verdict"] for days in report["deleted"]]) == (2, [], ["confirmed"])


def test_the_bound_that_decides_for_a_topic_is_the_later_one() -> None:
    """GP-02: each event that was left out is counted once."""
    owed = [
        {"topic": topic, "hour": HOUR + timedelta(days=day), "owed": 2}
        for topic in ("orders", "carts") for day in range(3)
    ]  # fmt: skip
    kept = {"": "2026-01-16", "orders": "2026-01-17", "carts": "2026-01-15"}
    found = deleted_days(kept, {"": "2026-01-16", "orders": "2026-01-16"}, owed)
    assert [(one.topic, one.events, one.first, one.last, one.verdict) for one in found] == [
        ("", 2, date(2026, 1, 15), date(2026, 1, 15), "confirmed"),
        ("carts", 0, None, None, "confirmed"),
        ("orders", 4, date(2026, 1, 15), date(2026, 1, 16), "different"),
    ]


@pytest.mark.slow
def test_a_log_that_lost_its_newest_commit_is_named_and_not_written(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord]
) -> None:
    """GP-05: it was accepted, and with one commit the archive began anew. `accept-log` is the way out."""
    for begin, end in ((0, 2), (2, 4), (4, 8)):
        archived(lake_uri, events[begin:end])
    assert audit(lake_uri)[0] == 0
    newest_entry(lake_uri).unlink()
    code, report = audit(lake_uri)
    assert code == 1
    [said] = report["lake"]
    assert "bronze: the log ends with commit 2, and the database knows commit 3" in said
    with pytest.raises(CommandFailed, match="the log ends with commit 2"):
        done(lake_uri, "compact")
    done(lake_uri, "accept-log")
    assert done(lake_uri, "compact")["rows"] == 4


def test_a_commit_that_is_not_the_known_one_is_named(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord]
) -> None:
    """GP-05: offsets that are ahead in the newest commit were seen by the next archive only."""
    lake = LakeStorage(lake_uri)
    archived(lake_uri, events)
    LogMarks(load_settings(), lake, [bronze(lake)]).store()
    edit(lake, 1, forge_offsets)
    code, report = audit(lake_uri)
    [said] = report["lake"]
    assert (code, "bronze: commit 1 (" in said, "which the database knows, was altered" in said) == (1, True, True)


@pytest.mark.slow
def test_a_ledger_whose_beginning_was_moved_is_named(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord], database_url: str
) -> None:
    """GP-06: an audit compared no cell, called 6,040 records "outside", and exited 0."""
    archived(lake_uri, events)
    move = "UPDATE hookwire.ledger_cursor SET since_at = $1"
    said = []
    for since in (HOUR + timedelta(minutes=20), HOUR + timedelta(days=1)):
        asyncio.run(executed(database_url, move, since))
        code, report = audit(lake_uri)
        said.append((code, report["cells"], "4 cells with 8 events from 2026-01-15 09:00" in report["lake"][0]))
    asyncio.run(executed(database_url, move, datetime.now(UTC)))
    with pytest.raises(CommandFailed, match="somebody moved it") as refused:
        audit(lake_uri)
    assert (said, refused.value.code) == ([(1, 0, True)] * 2, 1)


def test_an_audit_that_compared_nothing_is_no_success(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord]
) -> None:
    """GP-06: of hours without an event."""
    archived(lake_uri, events)
    code, report = audit(lake_uri, "--since", "2026-02-01T00:00Z", "--until", "2026-02-02T00:00Z")
    assert (code, report["cells"], report["count"]) == (2, 0, 1)

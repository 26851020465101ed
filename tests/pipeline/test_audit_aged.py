"""A lake that is older than the ledger: what nobody can judge is counted, and what was proved stays watched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

import asyncpg
import pytest
from typer.testing import CliRunner

from app.cli.main import application
from pipeline.audit.proof import plain
from pipeline.audit.selftest import HOUR, SelftestRecord
from tests.pipeline.test_audit_command import audit
from tests.pipeline.test_audit_memory import D, day_of, events, judged, put, stored, taken
from tests.pipeline.test_audit_omissions import done
from tests.pipeline.test_tampering import executed, found_in

__all__ = ["events", "put"]

_KEEP = """
CREATE OR REPLACE FUNCTION hookwire.ledger_kept() RETURNS interval LANGUAGE sql IMMUTABLE RETURN '{} seconds'::interval
"""


async def _aged(url: str, first: date) -> None:
    connection = await asyncpg.connect(url)
    noon_before = datetime.combine(first - timedelta(days=2), time(12), UTC)
    await connection.execute(_KEEP.format(round((datetime.now(UTC) - noon_before).total_seconds())))
    begin = datetime.combine(first, time(), UTC)
    await connection.execute("DELETE FROM hookwire.ledger WHERE hour < $1 AND hour > 'epoch'", begin)
    await connection.close()


def aged(url: str, first: date) -> None:
    """Let the ledger be so old that the audit judges from this day on, and purge what is older."""
    asyncio.run(_aged(url, first))


def test_days_that_the_ledger_has_dropped_are_left_out_and_counted(
    lake_uri: str, events: Sequence[SelftestRecord], put: Callable[..., None], database_url: str
) -> None:
    """Every record of such a day was a phantom, every night. The days after it are proved as before."""
    put(events, [day_of(place) for place in range(len(events))])
    aged(database_url, D[1])
    told = []
    for options in ((), (), ("--again",), ("--contents",)):
        code, report = audit(lake_uri, *options)
        told.append((code, judged(report), report["aged"], found_in(report)))
    assert told == [(0, (5, 0, 0), 3, set()), (0, (0, 5, 0), 3, set()), *[(0, (5, 0, 0), 3, set())] * 2]
    assert asyncio.run(stored(database_url)) == D[1:3]
    done = CliRunner().invoke(
        application("pipeline"), ["pipeline", "audit", "--lake", lake_uri], catch_exceptions=False
    )
    assert "left out: 3 records of days before 2026-01-16, which the ledger does not cover" in " ".join(
        done.stdout.split()
    )


def test_a_day_that_was_proved_in_time_stays_proved_as_long_as_its_files_do(
    lake_uri: str, events: Sequence[SelftestRecord], put: Callable[..., None], database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Its ledger goes, the version is another, seals are accepted. A changed file is named until it is confirmed."""
    put(events, [day_of(place) for place in range(len(events))])
    assert audit(lake_uri)[0] == 0
    aged(database_url, D[1])
    told = [audit(lake_uri)]
    monkeypatch.setattr("app.cli.pipeline.auditing.memory.version", lambda _: "99.0")
    told += [audit(lake_uri), audit(lake_uri, "--again")]
    assert done(lake_uri, "accept-seals")["done"] == "accepted"
    told.append(audit(lake_uri))
    assert [(code, judged(report), report["aged"]) for code, report in told] == [
        (0, (0, 8, 0), 0), *[(0, (5, 3, 0), 0)] * 3,
    ]  # fmt: skip

    put(events[:1], [0], moved=1000)
    for options in ((), ("--again",), ("--contents",)):
        code, report = audit(lake_uri, *options)
        [said] = report["lake"]
        assert (code, "2026-01-15 of orders is older than the ledger, and other than it was proved: " in said) == (
            1,
            True,
        )
        assert "/dt=2026-01-15/topic=orders/part-0.parquet is new" in said
    assert [(code, judged(report)) for code, report in (audit(lake_uri, "--confirm"), audit(lake_uri))] == [
        (0, (0, 9, 0)), (0, (0, 9, 0)),
    ]  # fmt: skip


def test_a_file_of_an_aged_day_that_is_altered_or_gone_is_named(
    lake_uri: str, events: Sequence[SelftestRecord], put: Callable[..., None], database_url: str, tmp_path: Path
) -> None:
    """Also if its whole day is gone, and although the log agrees. What retention deletes is not."""
    put(events, [day_of(place) for place in range(len(events))])
    assert audit(lake_uri)[0] == 0
    aged(database_url, D[2])
    path = next((tmp_path / "lake" / "bronze").glob(f"data/*/dt={D[0]}/topic=orders/*"))
    path.write_bytes(path.read_bytes() + b" ")
    taken(lake_uri, D[1])
    code, report = audit(lake_uri)
    altered, gone = report["lake"]
    assert (code, judged(report), f"/{path.name} was altered" in altered, gone.count(" is gone")) == (
        1,
        (0, 2, 3),
        True,
        3,
    )
    done(lake_uri, "retain", "--days", str((datetime.now(UTC).date() - D[2]).days))
    assert (audit(lake_uri)[0], asyncio.run(stored(database_url))) == (0, [D[2]])


def test_a_proof_of_an_older_version_counts_only_while_the_ledger_covers_its_day(
    lake_uri: str, events: Sequence[SelftestRecord], put: Callable[..., None], database_url: str
) -> None:
    """It has no hashes of files: it must not raise an alarm, and must not be called proved."""
    put(events, [day_of(place) for place in range(len(events))])
    assert audit(lake_uri)[0] == 0
    asyncio.run(executed(database_url, "UPDATE hookwire.lake_proofs SET files = NULL"))
    assert judged(audit(lake_uri)[1]) == (0, 8, 0)
    aged(database_url, D[1])
    code, report = audit(lake_uri)
    assert (code, judged(report), report["aged"]) == (0, (0, 5, 0), 3)


def test_the_words_of_the_log_are_hashed_as_by_every_version() -> None:
    """Another form would call every day that is older than the ledger altered, after an upgrade."""
    at = datetime(2026, 1, 15, 9, 7, tzinfo=UTC)
    words = {
        "path": "dt=2026-01-15/a b",
        "num_records": 3,
        "min.timestamp": at,
        "dt": D[0],
        "min.key": b"a",
        "deleted_rows": False,
    }
    assert plain(words) == (
        '{"deleted_rows": false, "dt": "2026-01-15", "min.key": "b\'a\'", "min.timestamp": '
        '"2026-01-15T09:07:00+00:00", "num_records": 3, "path": "dt=2026-01-15/a b"}'
    )


def test_a_day_within_which_the_ledger_began_is_proved(
    lake_uri: str, events: Sequence[SelftestRecord], put: Callable[..., None], database_url: str
) -> None:
    """Records of its first hour are never judged, so the day was never proved, and each audit read all later days.

    A record that names such an hour in the folder of a later day kept that day from being proved, without a word.
    """
    put(events, [day_of(place) for place in range(len(events))])
    begun = "UPDATE hookwire.ledger_cursor SET since_at = $1"
    asyncio.run(executed(database_url, begun, HOUR + timedelta(minutes=5)))
    assert [judged(audit(lake_uri)[1]) for _ in range(2)] == [(5, 0, 3), (0, 5, 3)]
    put([replace(events[0], number=events[0].number + 900, key="z")], [0], folder=2)
    code, report = audit(lake_uri)
    assert (code, {fault for fault, _ in found_in(report)}) == (1, {"misplaced"})


def test_a_ledger_whose_beginning_was_moved_is_named_beside_aged_days(
    lake_uri: str, events: Sequence[SelftestRecord], put: Callable[..., None], database_url: str
) -> None:
    """Else who can write the database could let any day look aged."""
    put(events, [day_of(place) for place in range(len(events))])
    aged(database_url, D[1])
    asyncio.run(executed(database_url, "UPDATE hookwire.ledger_cursor SET since_at = $1", HOUR + timedelta(days=2)))
    code, report = audit(lake_uri)
    assert (code, "somebody moved it" in report["lake"][0]) == (1, True)

"""A lake that is older than the ledger: what nobody can judge is counted, and what was proved stays watched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

import asyncpg
from typer.testing import CliRunner

from app.cli.main import application
from pipeline.audit.selftest import HOUR, SelftestRecord
from tests.pipeline.test_audit_command import audit
from tests.pipeline.test_audit_memory import D, day_of, events, judged, put, stored
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

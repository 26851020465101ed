"""What a stranger may do to a lake behind everybody's back: the audit names each (FP-01 to FP-06)."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from typer.testing import CliRunner

from app.cli.failure import CommandFailed
from app.cli.main import application
from pipeline.audit.inquiry import Cell, Finding, unexplained
from pipeline.audit.selftest import HOUR, SelftestRecord, bronze_of
from pipeline.lake import Change, bronze
from pipeline.storage import LakeStorage
from tests.pipeline.test_audit_command import archived, audit, events

__all__ = ["events"]

pytestmark = pytest.mark.usefixtures("restored_logging")


def put(lake_uri: str, frame: DataFrame) -> None:
    """Rows as a batch of the archive's."""
    table = bronze(LakeStorage(lake_uri))
    basis = table.snapshot()
    table.commit(basis, Change("archive", "run", table.write(frame.coalesce(1), basis.version + 1)))


def found_in(report: Any) -> set[tuple[str, str]]:
    return {(found["fault"], event_id) for found in report["findings"] for event_id in found["examples"]}


def of(rows: DataFrame, event: SelftestRecord, offset: int = 0, **changes: Column) -> DataFrame:
    """One event's row, changed; with an ``offset`` as a copy that lies there."""
    row = rows.where(F.col("event_number") == event.number)
    if offset:
        row = row.withColumn("offset", F.lit(offset).cast("long"))
    return row.withColumns(changes) if changes else row


def test_whatever_is_moved_in_time_is_named_wherever_it_went(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord]
) -> None:
    """FP-01, FP-03: to another hour, another day, 2099, the day before, another folder; and what came from 2001."""
    rows, after = bronze_of(spark, events), events[-1].number + 1
    hour_later = F.lit(HOUR + timedelta(hours=1))
    next_day = {"accepted_at": F.lit(HOUR + timedelta(days=1)), "dt": F.lit(date(2026, 1, 16))}
    never = {"accepted_at": F.lit(datetime(2099, 1, 1, tzinfo=UTC)), "dt": F.lit(date(2099, 1, 1))}
    midnight = datetime(2026, 1, 14, 23, 59, 59, 999_000, tzinfo=UTC)
    day_before = {"accepted_at": F.lit(midnight), "archived_at": F.lit(midnight), "dt": F.lit(midnight.date())}
    foreign = "evt_elsewhere_1"
    long_ago = {"accepted_at": F.lit(datetime(2001, 1, 1, tzinfo=UTC)), "dt": F.lit(date(2001, 1, 1)),
                "event_id": F.lit(foreign), "event_number": F.lit(1).cast("long")}  # fmt: skip
    moved = [events[0].number, events[4].number]
    for frame in (
        rows.where(~F.col("event_number").isin(moved)),
        of(rows, events[0], accepted_at=hour_later),
        of(rows, events[1], after, **next_day),
        of(rows, events[2], after + 1, **never),
        of(rows, events[3], after + 2, **day_before),
        of(rows, events[4], dt=F.lit(date(2026, 1, 16))),
        of(rows, events[5], after + 3, **long_ago),
    ):
        put(lake_uri, frame)
    code, report = audit(lake_uri)
    ids = [event.event_id for event in events]
    assert (code, report["outside"], found_in(report)) == (
        1, 1, {
            ("misplaced", ids[0]),
            ("misplaced", ids[1]), ("duplicated", ids[1]),
            ("misplaced", ids[2]), ("duplicated", ids[2]),
            ("duplicated", ids[3]),
            ("misplaced", ids[4]),
            ("misplaced", foreign), ("phantom", foreign),
        },
    )  # fmt: skip


def test_a_payload_that_was_emptied_is_altered_and_not_erased(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord]
) -> None:
    """FP-02: null is another content than an empty one, and no mark of an erasure."""
    rows = bronze_of(spark, events)
    put(lake_uri, rows.where(F.col("event_number") != events[0].number))
    put(lake_uri, of(rows, events[0], value=F.lit(None).cast("binary")))
    code, report = audit(lake_uri, "--contents")
    assert (code, found_in(report)) == (1, {("altered", events[0].event_id)})


def test_a_lake_whose_log_is_gone_is_damaged_and_not_empty(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord], tmp_path: Path
) -> None:
    """FP-04: neither a check nor an audit calls it clean."""
    archived(spark, lake_uri, events)
    shutil.rmtree(tmp_path / "lake" / "bronze" / "_delta_log")
    for verb in ("check", "audit"):
        with pytest.raises(CommandFailed, match="bronze has files and no log"):
            CliRunner().invoke(application(), ["pipeline", verb, "--lake", lake_uri], catch_exceptions=False)


def test_what_could_not_be_judged_is_never_a_success(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord], database_url: str
) -> None:
    """FP-04: nothing is wrong as far as it can be told, and it cannot be told of everything."""
    archived(spark, lake_uri, events[1:])

    async def forget() -> None:
        connection = await asyncpg.connect(database_url)
        await connection.execute("DELETE FROM hookwire.events")
        await connection.close()

    asyncio.run(forget())
    code, report = audit(lake_uri)
    assert (code, report["findings"], len(report["unjudged"])) == (2, [], 1)


def test_a_cell_that_differs_without_a_fault_is_a_finding() -> None:
    """FP-01, PL-A09: no difference is passed over; what waits, or is named, explains it."""
    cells = [Cell("orders", HOUR, bucket, 2, 1, 9, bucket, 0, 0, 0, is_equal=False) for bucket in range(3)]
    other = Cell("carts", HOUR, 0, 1, 1, 1, 0, 0, 0, 0, is_equal=False)
    late = Finding("late", "orders", HOUR, 1, ["evt_a_1"])
    lost = Finding("lost", "carts", HOUR, 1, ["evt_a_2"])
    found = unexplained([*cells, other], [late, lost], {("orders", HOUR, 1)})
    assert found == [Finding("unexplained", "orders", HOUR, 2, []), Finding("unexplained", "orders", HOUR, 1, [])]

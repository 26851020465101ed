"""What a stranger may do to a lake behind everybody's back: the audit names each (FP-01 to FP-06)."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import zip_longest
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from typer.testing import CliRunner

from app.cli.failure import CommandFailed
from app.cli.main import application
from pipeline.audit.content import content
from pipeline.audit.inquiry import Cell, Finding, unexplained
from pipeline.audit.selftest import HOUR, SelftestRecord, bronze_of
from pipeline.bronze import to_bronze
from pipeline.delta.snapshot import Change
from pipeline.envelope import unfolded
from pipeline.frame import frame_of
from pipeline.lake import bronze
from pipeline.schema import KAFKA
from pipeline.storage import LakeStorage
from relay.kafka.headers import Headers
from relay.outbox import Outbox
from relay.record import Record
from tests.pipeline.foreign import AT, batch, row_of
from tests.pipeline.test_audit_command import archived, audit, events
from tests.relay.harness import INCARNATION, relay_harness

__all__ = ["events"]


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


async def executed(url: str, statement: str, *values: object) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(statement, *values)
    await connection.close()


def test_whatever_is_moved_in_time_is_named_wherever_it_went(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord]
) -> None:
    """FP-01, FP-03: to another hour, another day, 2099, the day before, another folder; and what came from 2001."""
    rows, after = bronze_of(spark, events), events[-1].number + 1
    hour_later = F.lit(HOUR + timedelta(hours=1))
    tomorrow = F.lit(HOUR + timedelta(days=1))
    next_day = {"accepted_at": tomorrow, "archived_at": tomorrow, "dt": F.lit(date(2026, 1, 16))}
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
    assert (code, report["outside"], report["aged"], found_in(report)) == (
        1, 0, 1, {
            ("misplaced", ids[0]), ("altered", ids[0]),
            ("misplaced", ids[1]), ("duplicated", ids[1]),
            ("misplaced", ids[2]), ("duplicated", ids[2]), ("altered", ids[2]),
            ("duplicated", ids[3]),
            ("misplaced", ids[4]),
            ("misplaced", foreign), ("phantom", foreign),
        },
    )  # fmt: skip


def test_a_lake_whose_log_is_gone_is_damaged_and_not_empty(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord], tmp_path: Path
) -> None:
    """FP-04: neither a check nor an audit calls it clean."""
    archived(lake_uri, events)
    shutil.rmtree(tmp_path / "lake" / "bronze" / "_delta_log")
    for verb in ("check", "audit"):
        with pytest.raises(CommandFailed, match="bronze has files and no log"):
            CliRunner().invoke(application("pipeline"), ["pipeline", verb, "--lake", lake_uri], catch_exceptions=False)


def test_what_could_not_be_judged_is_never_a_success(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord], database_url: str
) -> None:
    """FP-04: nothing is wrong as far as it can be told, and it cannot be told of everything."""
    archived(lake_uri, events[1:])

    asyncio.run(executed(database_url, "DELETE FROM hookwire.events"))
    code, report = audit(lake_uri)
    assert (code, report["findings"], len(report["unjudged"])) == (2, [], 1)


def test_a_cell_that_differs_without_a_fault_is_a_finding() -> None:
    """FP-01, PL-A09: no difference is passed over; what waits, or is named, explains it."""
    cells = [
        Cell("orders", HOUR, bucket, 2, 1, 9, bucket, 0, 0, 0, is_equal=False, has_contents=None) for bucket in range(3)
    ]
    other = Cell("carts", HOUR, 0, 1, 1, 1, 0, 0, 0, 0, is_equal=False, has_contents=None)
    late = Finding("late", "orders", HOUR, 1, ["evt_a_1"])
    lost = Finding("lost", "carts", HOUR, 1, ["evt_a_2"])
    found = unexplained([*cells, other], [late, lost], {("orders", HOUR, 1)})
    assert found == [Finding("unexplained", "orders", HOUR, 2, []), Finding("unexplained", "orders", HOUR, 1, [])]


def test_whatever_a_record_holds_is_proved_by_a_plain_audit(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord]
) -> None:
    """FP-05: payload, header, content type, sequence and key are in the ledger's sums; without --contents.

    FP-02: a payload that was emptied is altered. Null is another content than an empty one, and no mark of an erasure.
    """
    own = [{"key": "hookwire-term", "value": b"7"}] * 5
    changes: list[dict[str, Any]] = [
        {"value": b"y"},
        {"value": None},
        {"headers": [*own, {"key": "x-forged", "value": b"1"}]},
        {"content_type": "text/plain"},
        {"sequence": events[4].number + 1},
        {"accepted_at": AT + timedelta(seconds=1)},
    ]
    altered = events[: len(changes)]
    rows = [row_of(event) | change for event, change in zip_longest(events, changes, fillvalue={})]
    batch(bronze(LakeStorage(lake_uri)), *rows)
    code, report = audit(lake_uri)
    assert (code, report["unproved"], found_in(report)) == (1, 0, {("altered", event.event_id) for event in altered})


def test_json_is_judged_by_the_audit(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord], database_url: str
) -> None:
    """FP-15: by --contents alone, and it is no finding: the event was published so."""
    said = "UPDATE hookwire.events SET content_type = 'application/json'"
    asyncio.run(executed(database_url, said))
    put(lake_uri, bronze_of(spark, events).withColumn("content_type", F.lit("application/json")))
    put(lake_uri, of(bronze_of(spark, events), events[0], 900, content_type=F.lit("Application/x+JSON; a=b")))
    reports = [audit(lake_uri, *options)[1] for options in ((), ("--contents",))]
    named = [{event_id for fault, event_id in found_in(report) if fault == "malformed"} for report in reports]
    assert named == [set(), {event.event_id for event in events}]
    assert reports[0]["count"] == reports[1]["count"]


def test_contents_that_the_ledger_does_not_know_are_counted_as_unproved(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord], database_url: str
) -> None:
    """FP-05: cells of before the ledger had contents."""
    asyncio.run(executed(database_url, "UPDATE hookwire.ledger SET content_count = content_count - 1 WHERE bucket = 1"))
    archived(lake_uri, events)
    code, report = audit(lake_uri)
    assert (code, report["unproved"], found_in(report)) == (0, 1, set())


def test_an_event_that_was_deleted_inserted_or_rewritten_by_hand_is_named(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord], database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """FP-06: the ledger is compared with the events as they are now, for as long as they are kept."""
    monkeypatch.setenv("HOOKWIRE_RETENTION_DAYS", "0")
    archived(lake_uri, events)
    gone, rewritten, new = events[1], events[2], events[-1].number + 1

    async def by_hand() -> None:
        await executed(database_url, "DELETE FROM hookwire.events WHERE id = $1", gone.number)
        await executed(database_url, "UPDATE hookwire.events SET payload = 'forged' WHERE id = $1", rewritten.number)
        copied = "accepted_at, ordered, tenant, topic, key, content_type, headers, sinks, payload"
        await executed(
            database_url,
            f"INSERT INTO hookwire.events (id, {copied}) SELECT $1, {copied} FROM hookwire.events WHERE id = $2",
            new, events[0].number,
        )  # fmt: skip

    asyncio.run(by_hand())
    code, report = audit(lake_uri)
    found = sorted((found["fault"], found["count"], found["examples"]) for found in report["findings"])
    inserted = gone.event_id.rpartition("_")[0] + f"_{new}"
    assert (code, found) == (
        1, [("deleted", 1, [gone.event_id]), ("inserted", 1, [inserted]), ("rewritten", 1, [rewritten.event_id])],
    )  # fmt: skip


CONTENTS = """
SELECT id, lpad(to_hex(hookwire.content_hash(id, accepted_at, ordered, key, content_type, headers, payload)), 16, '0')
    AS hash
FROM hookwire.events ORDER BY id
"""
PUBLISHED = "SELECT hookwire.publish($1, $2::bytea, $3, $4, $5::jsonb)"


def test_the_ledger_and_the_lake_hash_the_same_contents(spark: SparkSession, database_url: str) -> None:
    """FP-05: of events as the relay writes them, with and without key, type, order, payload and headers."""
    own = {"ce-id": "1", "ce-source": "/\u00fc", "x-trace": "a=b", "traceparent": "00-1"}
    headers = json.dumps(own)

    async def written() -> tuple[dict[int, str], list[list[Any]]]:
        async with relay_harness(database_url) as harness:
            for values in (
                ("orders", b"x", "k\u00e9", "application/json", headers), ("orders", b"", None, None, "{}"),
                ("orders", bytes(range(256)), "k=", "text/plain; charset=utf-8", "{}"),
                ("carts", b"y", "k", None, headers),
            ):  # fmt: skip
                await harness.connection.execute(PUBLISHED, *values)
            hashes = {row["id"]: row["hash"] for row in await harness.connection.fetch(CONTENTS)}
            outbox = Outbox(harness.database, harness.sink, INCARNATION, payload=True)
            outbox.begin(range(64))
            records = await outbox.claim(await harness.begin_term(), (), 1000, 1_000_000)
            return hashes, [kafka_row(record) for record in records]

    hashes, rows = asyncio.run(written())
    bronze_rows = to_bronze(unfolded(frame_of(spark, rows, KAFKA)), datetime.now(UTC))
    found = bronze_rows.select("event_number", content().alias("hash")).collect()
    assert (len(found), {row.event_number: row.hash for row in found}) == (4, hashes)


def kafka_row(record: Record) -> list[Any]:
    """As the relay sends it."""
    headers, milliseconds = Headers(1).of(record)
    at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    named = [{"key": name, "value": value} for name, value in headers]
    key = None if record.key is None else record.key.encode()
    return [key, record.payload, record.topic, 0, record.id, at, 0, named]

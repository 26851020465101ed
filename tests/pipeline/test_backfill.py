"""Backfills from a lake: the range, its ids and headers, erasures, dry runs, refusals, and how the lake is read."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from app.cli.failure import CommandFailed
from app.cli.pipeline.backfilling.command import Asked, backfilled
from pipeline.audit.selftest import SelftestRecord, bronze_of
from pipeline.delta.snapshot import Change
from pipeline.erasure import erased_table
from pipeline.lake import bronze
from pipeline.selection import in_slices, numbers
from pipeline.storage import LakeStorage
from tests.app.conftest import Receiver, RunHub, RunningHub, receiver, running_hub
from tests.pipeline.backfill_harness import bodies, is_in_order
from tests.pipeline.foreign import batch, row_of

__all__ = ["receiver", "running_hub"]


async def archived(lake_uri: str, hub: RunningHub, count: int, first: int = 1) -> list[SelftestRecord]:
    """Put events into the lake, as the hub had published them on the topic ``orders``; payloads are the numbers."""
    [(name,)] = await hub.sql("SELECT incarnation FROM hookwire.installation")
    records = [SelftestRecord(n, f"k{n % 4}", b"%d" % n, n, incarnation=name) for n in range(first, first + count)]
    await asyncio.to_thread(added, lake_uri, records)
    await hub.sql("SELECT setval('hookwire.event_id', $1)", first + count - 1)
    return records


def added(lake_uri: str, records: Sequence[SelftestRecord]) -> None:
    """A batch of the archive, without a job of Spark's."""
    batch(bronze(LakeStorage(lake_uri)), *map(row_of, records))


def noted_as_erased(spark: SparkSession, lake_uri: str, record: SelftestRecord) -> None:
    table = erased_table(LakeStorage(lake_uri))
    files = table.write(bronze_of(spark, [record]), table.snapshot().number + 1)
    table.amend(lambda _: Change("erase", "run", files))


async def subscribed(hub: RunningHub, callback: str, **more: Any) -> str:
    return (await hub.subscribe("orders", callback, **more))["id"]


async def ran(hub: RunningHub, lake_uri: str, capsys: pytest.CaptureFixture[str], asked: Asked) -> Any:
    """Run the command; return its exit code and what it printed last: the hub may log beside it."""
    capsys.readouterr()
    code = await backfilled(hub.settings, lake_uri, asked)
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])


async def test_the_receiver_gets_exactly_the_range_under_the_old_ids(
    spark: SparkSession, lake_uri: str, running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """PL-07: once each, in order per key, signed and marked; the ledger counts none of them."""
    async with running_hub() as hub:
        records = await archived(lake_uri, hub, 300)
        await asyncio.to_thread(added, lake_uri, records[:20])  # a record that is there twice is one event
        foreign = [replace(record, incarnation="zzzzzzzz", number=record.number + 500) for record in records[:5]]
        await asyncio.to_thread(added, lake_uri, foreign)
        code, said = await ran(hub, lake_uri, capsys, Asked(await subscribed(hub, receiver.callback)))
        written = await hub.sql(
            "SELECT (SELECT count(*) FROM hookwire.events) + (SELECT count(*) FROM hookwire.attempts)"
            " + (SELECT count(*) FROM hookwire.deliveries) + (SELECT count(*) FROM hookwire.ledger_entries)"
        )
    assert (code, said["state"], said["exact"], said["audit"]["sent"]) == (0, "done", True, 300)
    assert sorted(bodies(receiver)) == list(range(1, 301))
    assert (is_in_order(bodies(receiver)), written) == (True, [(0,)])
    first = next(one for one in receiver.delivered if one.body == b"1")
    assert first.headers["webhook-id"] == records[0].event_id
    assert (first.headers["hookwire-replay"], first.headers["hookwire-key"]) == ("true", "k1")
    assert first.headers["webhook-signature"].startswith("v1,")


async def test_events_under_a_former_name_keep_it_and_erased_ones_are_left_out(
    spark: SparkSession, lake_uri: str, running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """An erasure is known by the number alone, also one of the hub, of which the lake has not heard yet, and one of the
    lake, of which the hub has not, and whose record has come back.
    """
    async with running_hub() as hub:
        records = await archived(lake_uri, hub, 10)
        await hub.sql(
            "WITH gone AS (INSERT INTO hookwire.former_incarnations (through_id, incarnation)"
            " SELECT 10, incarnation FROM hookwire.installation)"
            " UPDATE hookwire.installation SET incarnation = 'newname2'"
        )
        await archived(lake_uri, hub, 5, first=11)
        await archived(lake_uri, hub, 1, first=3)  # no event has this id: the number bears the former name
        await asyncio.to_thread(noted_as_erased, spark, lake_uri, records[4])
        await hub.sql("SELECT setval('hookwire.event_id', 15)")
        await hub.sql(
            "INSERT INTO hookwire.erased_events (event_id, tenant, content, erased_at, lake_at)"
            " VALUES (2, 'default', 1, now(), NULL), (12, 'default', NULL, NULL, now())"
        )
        code, said = await ran(hub, lake_uri, capsys, Asked(await subscribed(hub, receiver.callback)))
    assert sorted(bodies(receiver)) == [1, 3, 4, *range(6, 12), *range(13, 16)]
    names = {int(one.body): one.headers["webhook-id"].split("_")[1] for one in receiver.delivered}
    assert (names[11], names[1] == names[10], names[1] == "newname2") == ("newname2", True, False)
    assert (code, said["erased"], said["audit"]["erased"]) == (0, 2, 3)


async def test_a_dry_run_counts_what_a_run_would_do(
    spark: SparkSession, lake_uri: str, running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """WH-P02: erased ones, and those that the filter does not pass; a run then leaves both out."""
    async with running_hub() as hub:
        records = await archived(lake_uri, hub, 12)
        subscription = await subscribed(hub, receiver.callback, filter={"key": {"$in": ["k1", "k2"]}})
        await hub.sql("INSERT INTO hookwire.erased_events (event_id, tenant, lake_at) VALUES (1, 'default', now())")
        ids = [record.event_id for record in records[:8]]
        _, counts = await ran(hub, lake_uri, capsys, Asked(subscription, events=ids, dry_run=True))
        runs = await hub.sql("SELECT count(*) FROM hookwire.replays")
        code, said = await ran(hub, lake_uri, capsys, Asked(subscription, events=ids))
    wanted = {name: counts[name] for name in ("events", "would_send", "erased", "unwanted")}
    assert (wanted, runs) == ({"events": 8, "would_send": 3, "erased": 1, "unwanted": 4}, [(0,)])
    assert (code, sorted(bodies(receiver))) == (0, [2, 5, 6])
    assert {name: said["audit"][name] for name in ("sent", "erased", "unwanted")} == {
        "sent": 3, "erased": 1, "unwanted": 4,
    }  # fmt: skip


async def test_a_choice_that_cannot_be_is_refused(
    spark: SparkSession, lake_uri: str, running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """A named event that was erased is no missing one."""
    async with running_hub() as hub:
        records = await archived(lake_uri, hub, 2)
        wanted = await subscribed(hub, receiver.callback)
        once = await subscribed(hub, receiver.callback, mode="at_most_once")
        pulled = (await hub.client.post("/subscriptions/pull", json={"topic": "orders"})).json()["id"]
        told = []
        for asked in (
            Asked("sub_none"), Asked(pulled), Asked(once), Asked(wanted, topics=["other"]),
            Asked(wanted, events=["evt_zzzzzzzz_1"]),
        ):  # fmt: skip
            with pytest.raises(CommandFailed) as failed:
                await backfilled(hub.settings, lake_uri, asked)
            told.append((failed.value.code, str(failed.value).partition(":")[0]))
        await hub.sql("INSERT INTO hookwire.erased_events (event_id, tenant, lake_at) VALUES (8, 'default', now())")
        erased, named = (f"{records[0].event_id.rpartition('_')[0]}_{n}" for n in (8, 9))
        code, said = await ran(hub, lake_uri, capsys, Asked(wanted, events=[erased, named]))
        forged = replace(records[0], number=10**12)
        await asyncio.to_thread(added, lake_uri, [forged])
        with pytest.raises(CommandFailed, match=f"the range has {forged.event_id}"):
            await backfilled(hub.settings, lake_uri, Asked(wanted))
        [(runs,)] = await hub.sql("SELECT count(*) FROM hookwire.replays")
    assert (code, said["events"], said["missing"], runs) == (1, 0, [named], 0)
    assert told == [
        (2, "there is no subscription sub_none"),
        (2, f"{pulled} is no webhook"),
        (2, f"{once} gets each event at most once, and a killed backfill repeats some"),
        (2, "--topic other"),
        (2, "--event evt_zzzzzzzz_1"),
    ]


def test_the_range_is_read_in_slices_and_in_order(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """However large it is, a slice is bounded: by the bytes of all, and by the largest event."""
    monkeypatch.setattr("pipeline.selection._SLICE_BYTES", 10_000)
    monkeypatch.setattr("pipeline.selection._SLICE_BYTES_MAX", 20_000)
    records = [SelftestRecord(n, None, b"x" * (2_000 if n > 180 else 10), n) for n in range(200, 0, -1)]
    rows = in_slices(bronze_of(spark, records))
    parts = rows.groupBy(F.spark_partition_id()).agg(F.sum(F.length("value")).alias("bytes")).collect()
    sizes = [part["bytes"] for part in parts]
    assert list(numbers(rows)) == list(range(1, 201))
    assert (max(sizes) < 40_000, len(sizes) > 10) == (True, True)

"""Backfills: events of the lake go to one webhook, under their old ids, in order per key, and are audited."""

import asyncio
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from app.cli.failure import CommandFailed
from app.cli.pipeline.backfilling.batch import batches
from app.cli.pipeline.backfilling.command import Asked, backfilled
from app.cli.pipeline.backfilling.hold import HoldLost, RunHold
from event.event import Event
from pipeline.audit.selftest import SelftestRecord, bronze_of
from pipeline.delta.snapshot import Change
from pipeline.erasure import erased_table
from pipeline.lake import bronze
from pipeline.selection import in_slices, numbers
from pipeline.storage import LakeStorage
from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub, opened, receiver, running_hub

__all__ = ["receiver", "running_hub"]


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.cli.pipeline.backfilling.sending._LOOK_SECONDS", 0.02)


async def incarnation(hub: RunningHub) -> str:
    [(name,)] = await hub.sql("SELECT incarnation FROM hookwire.installation")
    return name


async def archived(
    spark: SparkSession, lake_uri: str, hub: RunningHub, count: int, keys: int = 4, first: int = 1, **changes: Any
) -> list[SelftestRecord]:
    """Put events into the lake, as the hub had published them on the topic ``orders``; payloads are the numbers."""
    name = await incarnation(hub)
    records = [
        replace(SelftestRecord(n, f"k{n % keys}" if keys else None, b"%d" % n, n, incarnation=name), **changes)
        for n in range(first, first + count)
    ]
    await asyncio.to_thread(added, spark, lake_uri, records)
    await hub.sql("SELECT setval('hookwire.event_id', $1)", first + count - 1)
    return records


def added(spark: SparkSession, lake_uri: str, records: Sequence[SelftestRecord]) -> None:
    table = bronze(LakeStorage(lake_uri))
    basis = table.snapshot()
    table.commit(basis, Change("archive", "run", table.write(bronze_of(spark, records), basis.number + 1)))


def noted_as_erased(spark: SparkSession, lake_uri: str, record: SelftestRecord) -> None:
    table = erased_table(LakeStorage(lake_uri))
    files = table.write(bronze_of(spark, [record]), table.snapshot().number + 1)
    table.amend(lambda _: Change("erase", "run", files))


async def subscribed(hub: RunningHub, callback: str, **more: Any) -> str:
    return (await hub.subscribe("orders", callback, **more))["id"]


async def ran(hub: RunningHub, lake_uri: str, capsys: pytest.CaptureFixture[str], *words: Any, **more: Any) -> Any:
    """Run the command; return its exit code and what it printed."""
    capsys.readouterr()
    code = await backfilled(hub.settings, lake_uri, *words, **more)
    return code, json.loads(capsys.readouterr().out)


def bodies(receiver: Receiver) -> list[int]:
    return [int(one.body) for one in receiver.delivered]


def is_in_order(numbers_seen: Iterable[int], keys: int = 4) -> bool:
    """Return whether the first arrivals of each key rise."""
    firsts = list(dict.fromkeys(numbers_seen))
    lanes = [[number for number in firsts if number % keys == key] for key in range(keys)]
    return all(earlier < later for lane in lanes for earlier, later in pairwise(lane))


async def test_the_receiver_gets_exactly_the_range_under_the_old_ids(
    spark: SparkSession, lake_uri: str, running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """PL-07: once each, in order per key, signed and marked; the ledger counts none of them."""
    async with running_hub() as hub:
        records = await archived(spark, lake_uri, hub, 300)
        await asyncio.to_thread(added, spark, lake_uri, records[:20])  # a record that is there twice is one event
        foreign = [replace(record, incarnation="zzzzzzzz", number=record.number + 500) for record in records[:5]]
        await asyncio.to_thread(added, spark, lake_uri, foreign)
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
        records = await archived(spark, lake_uri, hub, 10)
        await hub.sql(
            "WITH gone AS (INSERT INTO hookwire.former_incarnations (through_id, incarnation)"
            " SELECT 10, incarnation FROM hookwire.installation)"
            " UPDATE hookwire.installation SET incarnation = 'newname2'"
        )
        await archived(spark, lake_uri, hub, 5, first=11)
        await archived(spark, lake_uri, hub, 1, first=3)  # no event has this id: the number bears the former name
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


@pytest.mark.parametrize(("has_lake", "kept"), [(True, [(2,)]), (False, [])])
async def test_an_erasure_of_the_hub_is_not_forgotten_where_there_is_a_lake(
    database_url: str, has_lake: bool, kept: list[tuple[int]]
) -> None:
    """Retention removed its event. Its contents may still be in the lake, and then only this row tells a backfill."""
    async with opened(database_url) as (database, sql):
        await sql.execute(
            "INSERT INTO hookwire.erased_events (event_id, tenant, content, erased_at) VALUES (2, 'default', 1, now())"
        )
        if has_lake:
            await sql.execute(
                "INSERT INTO hookwire.lake_marks (lake, table_name, version, number, commit_id, digest)"
                " VALUES ('file:///lake', 'bronze', 1, 1, '', '')"
            )
        await database.fetchrow("erasure.forget", 0, 100, 100, None)
        assert [tuple(row) for row in await sql.fetch("SELECT event_id FROM hookwire.erased_events")] == kept


async def test_a_refused_event_stops_the_run_and_a_resumed_one_sends_the_rest_once(
    spark: SparkSession, lake_uri: str, running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a part of a batch has sent is noted; the events behind the refused one in its key wait."""
    async with running_hub(retry_schedule_seconds=(0, 0, 0)) as hub:
        await archived(spark, lake_uri, hub, 40)
        receiver.status_of = lambda body: 500 if body == b"17" else None
        with pytest.raises(CommandFailed) as stopped:
            await ran(hub, lake_uri, capsys, Asked(await subscribed(hub, receiver.callback)))
        before = bodies(receiver)
        paused = (await hub.client.get("/replays")).json()["items"][0]
        failures = await hub.sql("SELECT event_id, attempts, outcome, status FROM hookwire.backfill_failures")
        receiver.status_of = lambda _: None
        code, said = await ran(hub, lake_uri, capsys, None, "--resume", 1)
    assert "it answered 500. Go on by --resume replay_1" in str(stopped.value)
    assert (paused["state"], paused["source"]) == ("paused", "lake")
    assert (failures, before.count(17)) == ([(17, 3, "server_error", 500)], 3)
    assert not {number for number in before if number % 4 == 1 and number > 17}
    after = bodies(receiver)[len(before) :]
    assert sorted(after + [number for number in before if number != 17]) == list(range(1, 41))
    assert (code, said["exact"], is_in_order(bodies(receiver))) == (0, True, True)


async def test_a_refused_event_is_skipped_and_named_on_demand(
    spark: SparkSession, lake_uri: str, running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_hub(retry_schedule_seconds=()) as hub:
        records = await archived(spark, lake_uri, hub, 20)
        receiver.status_of = lambda body: 413 if body == b"7" else None
        subscription = await subscribed(hub, receiver.callback)
        code, said = await ran(hub, lake_uri, capsys, Asked(subscription, skips=True))
    assert (code, said["state"], said["audit"]["sent"], said["audit"]["refused"]) == (1, "done", 19, 1)
    assert said["audit"]["examples"]["refused"] == [records[6].event_id]


async def test_a_subscription_that_was_disabled_stops_the_run_and_a_new_address_is_followed(
    spark: SparkSession, lake_uri: str, running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is looked at before each batch: here a batch has a single event."""
    async with running_hub() as hub:
        await archived(spark, lake_uri, hub, 3, keys=0)
        subscription = await subscribed(hub, receiver.callback)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("app.cli.pipeline.backfilling.batch.EVENTS_MAX", 1)
            receiver.gate = asyncio.Event()
            running = asyncio.create_task(ran(hub, lake_uri, capsys, Asked(subscription)))
            await receiver.wait_for(1)
            changed = await hub.client.patch(f"/subscriptions/{subscription}", json={"state": "disabled"})
            receiver.gate.set()
            with pytest.raises(CommandFailed, match="the subscription is disabled"):
                await running
            await hub.client.patch(
                f"/subscriptions/{subscription}",
                json={"state": "active", "callback": receiver.callback.replace("/hook", "/new")},
            )
            code, _ = await ran(hub, lake_uri, capsys, None, "--resume", 1)
    assert (changed.status_code, code) == (200, 0)
    assert [(one.path, one.body) for one in receiver.delivered] == [("/hook", b"1"), ("/new", b"2"), ("/new", b"3")]


async def test_410_ends_the_subscription_and_stops_the_run(
    spark: SparkSession, lake_uri: str, running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_hub() as hub:
        await archived(spark, lake_uri, hub, 3)
        receiver.status = 410
        subscription = await subscribed(hub, receiver.callback)
        with pytest.raises(CommandFailed, match="the subscription is gone"):
            await ran(hub, lake_uri, capsys, Asked(subscription))
        [(state,)] = await hub.sql("SELECT state FROM hookwire.subscriptions WHERE public_id = $1", subscription)
    assert state == "gone"


async def test_a_run_is_paused_resumed_and_cancelled_over_the_api(
    spark: SparkSession, lake_uri: str, running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """WH-P03: the process waits while it is paused, and ends when it is cancelled."""
    async with running_hub() as hub:
        await archived(spark, lake_uri, hub, 4, keys=0)
        subscription = await subscribed(hub, receiver.callback)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("app.cli.pipeline.backfilling.batch.EVENTS_MAX", 1)
            receiver.gate = asyncio.Event()
            running = asyncio.create_task(ran(hub, lake_uri, capsys, Asked(subscription)))
            await receiver.wait_for(1)
            paused = (await hub.client.post("/replays/replay_1/pause", json={})).json()
            receiver.gate.set()
            await hub.until("/replays/replay_1", lambda found: found["examined"] == 1)
            seen = len(receiver.delivered)
            receiver.gate.clear()
            resumed = (await hub.client.post("/replays/replay_1/resume", json={})).json()
            await receiver.wait_for(2)
            await hub.client.post("/replays/replay_1/cancel", json={})
            receiver.gate.set()
            with pytest.raises(CommandFailed, match="it was cancelled"):
                await running
        now = (await hub.client.get("/replays/replay_1")).json()
        code, listed = await ran(hub, lake_uri, capsys)
    assert (paused["state"], seen, resumed["state"], now["state"]) == ("paused", 1, "running", "cancelled")
    assert (code, listed[0]["why"], listed[0]["is_held"], len(receiver.delivered)) == (0, "it was cancelled", False, 2)


async def test_another_process_takes_a_run_only_when_its_lease_is_over(
    spark: SparkSession, lake_uri: str, running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """The holder of before writes nothing any more."""
    async with running_hub() as hub, opened(hub.database_url) as (database, _):
        await archived(spark, lake_uri, hub, 2)
        receiver.gate = asyncio.Event()
        running = asyncio.create_task(ran(hub, lake_uri, capsys, Asked(await subscribed(hub, receiver.callback))))
        await receiver.wait_for(1)
        with pytest.raises(CommandFailed, match="is held by"):
            await backfilled(hub.settings, lake_uri, None, "--resume", 1)
        await hub.sql("UPDATE hookwire.backfills SET lease_until = now() - interval '1 second'")
        fence = await database.fetchval("backfill.take", "default", 1, "another", 30.0, "ada")
        receiver.gate.set()
        with pytest.raises(HoldLost):
            await running
        noted = await hub.sql("SELECT count(*) FROM hookwire.backfill_batches")
        await RunHold(database, 1, fence, 0.0).leave("paused", "done with it")
        code, said = await ran(hub, lake_uri, capsys, None, "--resume", 1)
    assert (fence, noted, code, said["exact"]) == (2, [(0,)], 0, True)


async def test_a_dry_run_counts_what_a_run_would_do(
    spark: SparkSession, lake_uri: str, running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """WH-P02: erased ones, and those that the filter does not pass; a run then leaves both out."""
    async with running_hub() as hub:
        records = await archived(spark, lake_uri, hub, 12)
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


async def test_the_audit_names_what_the_receiver_did_not_get_and_what_it_got_beyond(
    spark: SparkSession, lake_uri: str, running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """An event that was archived after the beginning, and one that the lake does not have and nobody erased."""
    async with running_hub() as hub:
        records = await archived(spark, lake_uri, hub, 10)
        await asyncio.to_thread(added, spark, lake_uri, [replace(records[-1], number=30)])
        await hub.sql("SELECT setval('hookwire.event_id', 30)")
        code, _ = await ran(hub, lake_uri, capsys, Asked(await subscribed(hub, receiver.callback)))
        await asyncio.to_thread(added, spark, lake_uri, [replace(records[-1], number=20)])
        await hub.sql("UPDATE hookwire.backfill_batches SET sent = sent || 25::bigint")
        later, said = await ran(hub, lake_uri, capsys, None, "--audit", 1)
    name = records[0].event_id.rpartition("_")[0]
    assert (code, later) == (0, 1)
    assert said["audit"]["examples"] == {"refused": [], "missing": [f"{name}_20"], "extra": [f"{name}_25"]}


async def test_live_deliveries_wait_for_a_backfill_before_them(
    spark: SparkSession, lake_uri: str, running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """--before-live: an event that is published meanwhile comes last; without it live events have their own lanes."""
    async with running_hub(ALL_ROLES) as hub:
        await archived(spark, lake_uri, hub, 3)
        receiver.gate = asyncio.Event()
        subscription = await subscribed(hub, receiver.callback, mode="ordered")
        running = asyncio.create_task(ran(hub, lake_uri, capsys, Asked(subscription, before_live=True)))
        await receiver.wait_for(1)
        event = (await hub.publish("orders", b"99", hookwire_key="k1")).json()["id"]
        await hub.until(f"/events/{event}", lambda found: all(sink["state"] == "sent" for sink in found["sinks"]))
        receiver.gate.set()
        await running
        await receiver.wait_for(4)
        [(until_then,)] = await hub.sql("SELECT paused_until FROM hookwire.subscriptions")
    assert (bodies(receiver)[-1], sorted(bodies(receiver)), until_then) == (99, [1, 2, 3, 99], None)


async def test_no_process_of_the_hub_takes_a_backfill(
    spark: SparkSession, lake_uri: str, running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its due time is far away, and can be subtracted from."""
    async with running_hub() as hub, opened(hub.database_url) as (database, _):
        await archived(spark, lake_uri, hub, 2)
        receiver.gate = asyncio.Event()
        running = asyncio.create_task(ran(hub, lake_uri, capsys, Asked(await subscribed(hub, receiver.callback))))
        await receiver.wait_for(1)
        due = await database.fetchrow("bulk.due")
        receiver.gate.set()
        await running
    assert due is not None
    assert due["seconds"] > 86_400 * 365


async def test_a_choice_that_cannot_be_is_refused(
    spark: SparkSession, lake_uri: str, running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_hub() as hub:
        [record] = await archived(spark, lake_uri, hub, 1)
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
        named = f"{record.event_id.rpartition('_')[0]}_9"
        missing = await ran(hub, lake_uri, capsys, Asked(wanted, events=[named]))
        forged = replace(record, number=10**12)
        await asyncio.to_thread(added, spark, lake_uri, [forged])
        with pytest.raises(CommandFailed, match=f"the range has {forged.event_id}"):
            await backfilled(hub.settings, lake_uri, Asked(wanted))
        [(runs,)] = await hub.sql("SELECT count(*) FROM hookwire.replays")
    assert (missing, runs) == ((1, {"id": None, "events": 0, "missing": [named]}), 0)
    assert told == [
        (2, "there is no subscription sub_none"),
        (2, f"{pulled} is no webhook"),
        (2, f"{once} gets each event at most once, and a killed backfill repeats some"),
        (2, "--topic other"),
        (2, "--event evt_zzzzzzzz_1"),
    ]


async def test_a_killed_run_repeats_at_most_one_batch(
    spark: SparkSession, lake_uri: str, running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """PL-07: SIGKILL amid the third batch: everything arrives, in order per key, and nothing else twice."""
    async with running_hub() as hub, opened(hub.database_url) as (database, _):
        await archived(spark, lake_uri, hub, 700)
        receiver.status = 500
        with pytest.raises(CommandFailed):
            await ran(hub, lake_uri, capsys, Asked(await subscribed(hub, receiver.callback), attempts=1))
        receiver.status, receiver.gate = 204, (gate := asyncio.Event())
        receiver.delivered.clear()
        gate.set()
        # From the 560th event on no answer leaves.
        receiver.status_of = lambda _: gate.clear() if len(receiver.delivered) >= 560 else None
        script = ("-m", "tests.pipeline.backfill_process")
        process = await asyncio.create_subprocess_exec(
            sys.executable, *script, hub.database_url, hub.settings.data_dir, "1", "700", cwd=Path(__file__).parents[2]
        )
        await receiver.wait_for(560)
        await hub.until("/replays/replay_1", lambda found: found["examined"] == 512)
        process.kill()
        await process.wait()
        receiver.status_of = lambda _: None
        gate.set()
        held = await database.fetchval("backfill.take", "default", 1, "another", 30.0, "ada")
        await hub.sql("UPDATE hookwire.backfills SET lease_until = now()")
        code, said = await ran(hub, lake_uri, capsys, None, "--resume", 1)
    seen = bodies(receiver)
    twice = {number for number in seen if seen.count(number) > 1}
    assert (held, code, said["exact"], set(seen)) == (None, 0, True, set(range(1, 701)))
    assert (min(twice, default=513) > 512, len(twice) <= 256, is_in_order(seen)) == (True, True, True)


def test_the_range_is_read_in_slices_and_in_order(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """However large it is, a slice is bounded: by the bytes of all, and by the largest event."""
    monkeypatch.setattr("pipeline.selection._SLICE_BYTES", 10_000)
    monkeypatch.setattr("pipeline.selection._SLICE_BYTES_MAX", 20_000)
    records = [SelftestRecord(n, None, b"x" * (2_000 if n > 180 else 10), n) for n in range(200, 0, -1)]
    rows = in_slices(bronze_of(spark, records))
    sizes = [sum(map(len, part)) for part in rows.rdd.map(lambda row: bytes(row["value"])).glom().collect()]
    assert list(numbers(rows)) == list(range(1, 201))
    assert (max(sizes) < 40_000, len(sizes) > 10) == (True, True)


def test_a_batch_is_bounded_in_events_and_bytes() -> None:
    def event(number: int, size: int) -> Event:
        return Event(number, "abcd2345", "a", None, None, {}, b"x" * size, datetime.now(UTC), None)

    found = [len(part) for part in batches(iter([event(n, 10) for n in range(1, 301)]))]
    large = [len(part) for part in batches(iter([event(n, 5 * 1024 * 1024) for n in range(1, 4)]))]
    assert (found, large) == ([256, 44], [1, 1, 1])

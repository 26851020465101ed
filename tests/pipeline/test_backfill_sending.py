"""What a backfill sends and when: erasures, refusals, pauses, rate, address and keys, beside live deliveries."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.cli.failure import CommandFailed
from app.cli.pipeline.backfilling.batch import Portion, batches
from app.cli.pipeline.backfilling.command import backfilled
from app.cli.pipeline.backfilling.hold import HoldLost, RunHold
from event.event import Event
from tests.app.conftest import ALL_ROLES, Receiver, RunHub, opened, receiver, running_hub
from tests.pipeline.backfill_harness import Backfill, bodies, is_in_order, quick_looks

__all__ = ["quick_looks", "receiver", "running_hub"]

pytestmark = pytest.mark.usefixtures("quick_looks")


def event(number: int, topic: str = "a", key: str | None = None, size: int = 0) -> Event:
    return Event(number, "abcd2345", topic, key, None, {}, b"x" * size, datetime.now(UTC), None)


@pytest.mark.parametrize(("erased", "status", "sent"), [(2, 204, [1, 3]), (1, 500, [1, 2, 3])])
async def test_an_event_that_is_erased_during_the_batch_is_not_sent(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str], erased: int, status: int,
    sent: list[int],
) -> None:  # fmt: skip
    """Neither for the first time nor, after a failed attempt, again."""
    async with running_hub(retry_schedule_seconds=(0, 0, 0)) as hub:
        run = Backfill(hub, capsys, keys=1)
        await run.begin(receiver.callback, [1, 2, 3])
        receiver.gate, receiver.status = asyncio.Event(), status
        running = asyncio.create_task(run.act())
        await receiver.wait_for(1)
        await hub.sql(
            "INSERT INTO hookwire.erased_events (event_id, tenant, content, erased_at)"
            " VALUES ($1, 'default', 1, now())",
            erased,
        )
        receiver.status_of = lambda body: None if body == b"1" else 204
        receiver.gate.set()
        code, said = await running
    assert (bodies(receiver), code, said["audit"]["erased"]) == (sent, 0, 1)


async def test_a_refused_event_stops_the_run_and_a_resumed_one_sends_the_rest_once(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a part of a batch has sent is noted; the events behind the refused one in its key wait."""
    async with running_hub(retry_schedule_seconds=(0, 0, 0)) as hub:
        run = Backfill(hub, capsys, keys=4)
        await run.begin(receiver.callback, range(1, 41))
        receiver.status_of = lambda body: 500 if body == b"17" else None
        with pytest.raises(CommandFailed) as stopped:
            await run.act()
        before = bodies(receiver)
        paused = (await hub.client.get("/replays")).json()["items"][0]
        failures = await hub.sql("SELECT event_id, attempts, outcome, status FROM hookwire.backfill_failures")
        receiver.status_of = lambda _: None
        code, said = await run.act()
    assert "it answered 500. Go on by --resume replay_1" in str(stopped.value)
    assert (paused["state"], paused["source"]) == ("paused", "lake")
    assert (failures, before.count(17)) == ([(17, 3, "server_error", 500)], 3)
    assert not {number for number in before if number % 4 == 1 and number > 17}
    after = bodies(receiver)[len(before) :]
    assert sorted(after + [number for number in before if number != 17]) == list(range(1, 41))
    assert (code, said["exact"], is_in_order(bodies(receiver))) == (0, True, True)


async def test_an_outage_skips_nothing_and_each_refused_event_is_named(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """--skip-refused is for answers about an event."""
    async with running_hub(retry_schedule_seconds=()) as hub:
        run = Backfill(hub, capsys)
        await run.begin(receiver.callback, range(1, 31), skips=True)
        receiver.status = 500
        with pytest.raises(CommandFailed, match="it answered 500"):
            await run.act()
        skipped = await hub.sql("SELECT count(*) FROM hookwire.backfill_batches")
        receiver.status = 413
        code, said = await run.act()
    assert (skipped, code, said["refused"], len(said["audit"]["examples"]["refused"])) == ([(0,)], 1, 30, 30)


async def test_after_429_the_rest_of_the_batch_waits_and_no_attempt_is_used_up(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """WH-R06: the subscription rests as long as its receiver asked for."""
    monkeypatch.setattr("webhooks.retry.THROTTLE_SECONDS_MIN", 1.5)
    arrived: list[float] = []

    def answer(_: bytes) -> int:
        arrived.append(time.monotonic())
        return 204 if len(arrived) > 1 else 429

    async with running_hub(delivery_slots_per_subscription=1) as hub:
        run = Backfill(hub, capsys)
        await run.begin(receiver.callback, [1, 2, 3], attempts=1)
        receiver.status_of = answer
        code, said = await run.act()
    assert (code, said["exact"], sorted(bodies(receiver))) == (0, True, [1, 1, 2, 3])
    assert arrived[1] - arrived[0] >= 1.5


async def test_a_process_that_was_stopped_since_it_looked_at_its_lease_sends_nothing(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may have taken the run."""
    monkeypatch.setattr(RunHold, "check", lambda *_: None)
    monkeypatch.setattr(RunHold, "latest", lambda *_: time.monotonic() - 1.0)
    async with running_hub() as hub:
        run = Backfill(hub, capsys)
        await run.begin(receiver.callback, [1, 2])
        with pytest.raises(HoldLost):
            await run.act()
    assert bodies(receiver) == []


async def test_410_ends_the_subscription_and_stops_the_run(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_hub() as hub:
        run = Backfill(hub, capsys)
        await run.begin(receiver.callback, [1, 2, 3], skips=True)
        receiver.status = 410
        with pytest.raises(CommandFailed, match="the subscription is gone"):
            await run.act()
        [(state, refused)] = await hub.sql(
            "SELECT s.state, (SELECT count(*) FROM hookwire.backfill_batches) FROM hookwire.subscriptions s"
        )
    assert (state, refused) == ("gone", 0)


async def test_a_disabled_subscription_stops_the_run_and_a_new_address_is_followed(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both within a batch."""
    async with running_hub() as hub:
        run = Backfill(hub, capsys, keys=1)
        subscription = await run.begin(receiver.callback, [1, 2, 3])
        receiver.gate = (gate := asyncio.Event())
        running = asyncio.create_task(run.act())
        await receiver.wait_for(1)
        moved = {"callback": receiver.callback.replace("/hook", "/new")}
        answers = [await hub.client.patch(f"/subscriptions/{subscription}", json=moved)]
        receiver.status_of = lambda _: gate.clear()  # the first answer leaves, and no other
        gate.set()
        await receiver.wait_for(2)
        answers.append(await hub.client.patch(f"/subscriptions/{subscription}", json={"state": "disabled"}))
        gate.set()
        with pytest.raises(CommandFailed, match="the subscription is disabled"):
            await running
        await hub.client.patch(f"/subscriptions/{subscription}", json={"state": "active"})
        receiver.status_of = lambda _: None
        gate.set()
        code, said = await run.act()
    assert ([answer.status_code for answer in answers], code, said["exact"]) == ([200, 200], 0, True)
    assert [(one.path, one.body) for one in receiver.delivered] == [("/hook", b"1"), ("/new", b"2"), ("/new", b"3")]


async def test_nothing_is_sent_without_the_keys_of_the_hub(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """No new keys are made, under which no stored secret opens."""
    elsewhere = tmp_path / "elsewhere"
    async with running_hub() as hub:
        await Backfill(hub, capsys).begin(receiver.callback, [1])
        settings = hub.settings.model_copy(update={"data_dir": elsewhere})
        with pytest.raises(CommandFailed, match="the hub's secret keys are not here"):
            await backfilled(settings, None, None, "--resume", 1)
    assert (receiver.delivered, elsewhere.exists()) == ([], False)


async def test_the_subscription_s_own_rate_counts(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four a second, of which a fifth of a second may be made up for."""
    async with running_hub() as hub:
        run = Backfill(hub, capsys)
        await run.begin(receiver.callback, range(1, 9), rate_per_second=4)
        began = time.monotonic()
        code, _ = await run.act()
    assert (code, len(receiver.delivered)) == (0, 8)
    assert time.monotonic() - began >= 1.75


async def test_live_deliveries_wait_for_a_backfill_before_them(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """--before-live: an event that is published meanwhile comes last; without it live events have their own lanes."""
    async with running_hub(ALL_ROLES) as hub:
        receiver.gate = asyncio.Event()
        run = Backfill(hub, capsys, keys=4)
        await run.begin(receiver.callback, [1, 2, 3], before_live=True, mode="ordered")
        running = asyncio.create_task(run.act())
        await receiver.wait_for(1)
        published = (await hub.publish("orders", b"99", hookwire_key="k1")).json()["id"]
        await hub.until(f"/events/{published}", lambda found: all(sink["state"] == "sent" for sink in found["sinks"]))
        receiver.gate.set()
        await running
        await receiver.wait_for(4)
        [(until_then,)] = await hub.sql("SELECT paused_until FROM hookwire.subscriptions")
    assert (bodies(receiver)[-1], sorted(bodies(receiver)), until_then) == (99, [1, 2, 3, 99], None)


async def test_before_live_a_pause_that_the_receiver_asked_for_counts(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that ends with the lease is the run's own."""
    async with running_hub() as hub, opened(hub.database_url) as (database, _):
        await Backfill(hub, capsys).begin(receiver.callback, [1], before_live=True)
        fence = await database.fetchval("backfill.take", "default", 1, "me", 60.0, "ada")
        await database.fetchrow("backfill.renew", 1, fence, 60.0)
        own = await database.fetchrow("backfill.look", 1, fence)
        await hub.sql("UPDATE hookwire.subscriptions SET paused_until = now() + interval '1 hour'")
        asked = await database.fetchrow("backfill.look", 1, fence)
    assert own is not None
    assert asked is not None
    assert own["paused_seconds"] is None
    assert timedelta(seconds=asked["paused_seconds"]) > timedelta(minutes=50)


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


def test_events_of_a_key_are_one_lane_whatever_their_topic() -> None:
    """As for live deliveries, whose lanes are those of subscription and key."""
    lanes = Portion([event(1, "a", "k"), event(2, "b", "k"), event(3), event(4)]).lanes()
    assert [[one.id for one in lane] for lane in lanes] == [[1, 2], [3], [4]]


def test_a_batch_is_bounded_in_events_and_bytes() -> None:
    found = [len(part) for part in batches(iter([event(n, size=10) for n in range(1, 301)]))]
    large = [len(part) for part in batches(iter([event(n, size=5 * 1024 * 1024) for n in range(1, 4)]))]
    assert (found, large) == ([256, 44], [1, 1, 1])

"""Backfills without a lake: what is sent and when, who holds the run, and what the comparison says."""

import asyncio
import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.cli.failure import CommandFailed
from app.cli.pipeline.backfilling import command
from app.cli.pipeline.backfilling.batch import Portion
from app.cli.pipeline.backfilling.command import backfilled
from app.cli.pipeline.backfilling.hold import LEASE_SECONDS, HoldLost, RunHold
from app.cli.pipeline.backfilling.lake_range import topics_of
from event.event import Event
from tests.app.conftest import Receiver, RunHub, RunningHub, opened, receiver, running_hub
from tests.pipeline.backfill_process import RangeInMemory

__all__ = ["receiver", "running_hub"]

_LOOK_SECONDS = 0.02


class Backfill:
    """A run on the topic ``orders``. The lake is in memory, so that a test changes it at will."""

    def __init__(self, hub: RunningHub, capsys: pytest.CaptureFixture[str]) -> None:
        self._hub = hub
        self._capsys = capsys
        self.there: Sequence[int] = ()
        self.erased: Sequence[int] = ()
        self.keys = 0

    async def begin(self, callback: str, there: Sequence[int], counted: int | None = None, **more: Any) -> None:
        """Make the run 1, held by nobody."""
        self.there = there
        await self._hub.sql("SELECT setval('hookwire.event_id', $1)", there[-1])  # the hub has given these ids
        named, skips, attempts = more.pop("named", None), more.pop("skips", False), more.pop("attempts", 3)
        before_live = more.pop("before_live", False)
        subscription = (await self._hub.subscribe("orders", callback, **more))["id"]
        async with opened(self._hub.database_url) as (database, _):
            found = await database.fetchrow("subscription.get", "default", subscription)
            assert found is not None
            await database.fetchval(
                "backfill.create", "default", found["id"], ["orders"], named, None, None, None, "ada", None, there[0],
                there[-1], "file:///nowhere", len(there) if counted is None else counted, before_live, "nobody", -1.0,
                skips, attempts, ["orders"], len(self.erased),
            )  # fmt: skip

    async def act(self, act: str = "--resume") -> Any:
        """Do the act with the run; return its exit code and what it printed."""
        self._capsys.readouterr()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(
                command,
                "_range_of",
                lambda place, _: RangeInMemory(self.there, place.incarnation, self.keys, self.erased),
            )
            code = await backfilled(self._hub.settings, None, None, act, 1)
        return code, json.loads(self._capsys.readouterr().out.splitlines()[-1])


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known for longer than a moment: each attempt looks."""
    monkeypatch.setattr("app.cli.pipeline.backfilling.sending._LOOK_SECONDS", _LOOK_SECONDS)
    monkeypatch.setattr("app.cli.pipeline.backfilling.sending._FRESH_SECONDS", 0.0)


def bodies(receiver: Receiver) -> list[int]:
    return [int(one.body) for one in receiver.delivered]


@pytest.mark.parametrize(("erased", "status", "sent"), [(2, 204, [1, 3]), (1, 500, [1, 2, 3])])
async def test_an_event_that_is_erased_during_the_batch_is_not_sent(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str], erased: int, status: int,
    sent: list[int],
) -> None:  # fmt: skip
    """Neither for the first time nor, after a failed attempt, again."""
    async with running_hub(retry_schedule_seconds=(0, 0, 0)) as hub:
        run = Backfill(hub, capsys)
        run.keys = 1
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


async def test_after_429_the_rest_of_the_batch_waits_and_no_attempt_is_used_up(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """WH-R06: the subscription rests as long as its receiver asked for."""
    monkeypatch.setattr("webhooks.retry.THROTTLE_SECONDS_MIN", 1.5)
    asked_at: list[float] = []
    arrived: list[float] = []

    def answer(_: bytes) -> int:
        arrived.append(time.monotonic())
        if asked_at:
            return 204
        asked_at.append(time.monotonic())
        return 429

    async with running_hub(delivery_slots_per_subscription=1) as hub:
        run = Backfill(hub, capsys)
        await run.begin(receiver.callback, [1, 2, 3], attempts=1)
        receiver.status_of = answer
        code, said = await run.act()
    assert (code, said["exact"], sorted(bodies(receiver))) == (0, True, [1, 1, 2, 3])
    assert arrived[1] - asked_at[0] >= 1.5


def test_events_of_a_key_are_one_lane_whatever_their_topic() -> None:
    """As for live deliveries, whose lanes are those of subscription and key."""
    events = [
        Event(n, "abcd2345", topic, "k", None, {}, b"", datetime.now(UTC), n) for n, topic in ((1, "a"), (2, "b"))
    ]
    assert [[event.id for event in lane] for lane in Portion(events).lanes()] == [[1, 2]]


async def test_a_new_address_counts_within_the_batch(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_hub() as hub:
        run = Backfill(hub, capsys)
        run.keys = 1
        await run.begin(receiver.callback, [1, 2])
        receiver.gate = asyncio.Event()
        running = asyncio.create_task(run.act())
        await receiver.wait_for(1)
        [(subscription,)] = await hub.sql("SELECT public_id FROM hookwire.subscriptions")
        new = {"callback": receiver.callback.replace("/hook", "/new")}
        changed = await hub.client.patch(f"/subscriptions/{subscription}", json=new)
        receiver.gate.set()
        code, _ = await running
    assert (changed.status_code, code) == (200, 0)
    assert [one.path for one in receiver.delivered] == ["/hook", "/new"]


async def test_a_cancellation_is_seen_during_the_pause_before_another_attempt(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pause lasts an hour. What was cancelled cannot be gone on with, so nobody is told to."""
    async with running_hub(retry_schedule_seconds=(3600, 3600)) as hub:
        run = Backfill(hub, capsys)
        await run.begin(receiver.callback, [1])
        receiver.status = 500
        running = asyncio.create_task(run.act())
        await receiver.wait_for(1)
        await hub.client.post("/replays/replay_1/cancel", json={})
        with pytest.raises(CommandFailed, match=r"^it was cancelled$"):
            await asyncio.wait_for(running, 30)


async def test_the_subscription_s_own_rate_counts(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four a second: the eighth comes more than a second after the first."""
    arrived: list[float] = []
    async with running_hub() as hub:
        run = Backfill(hub, capsys)
        await run.begin(receiver.callback, range(1, 9), rate_per_second=4)
        receiver.status_of = lambda _: arrived.append(time.monotonic())
        code, _ = await run.act()
    assert (code, len(arrived)) == (0, 8)
    assert arrived[-1] - arrived[0] > 1.0


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


async def test_an_attempt_begins_only_if_the_lease_outlasts_it(database_url: str) -> None:
    async with opened(database_url) as (database, _):
        hold = RunHold(database, 1, 1, time.monotonic() - LEASE_SECONDS + 20)
        hold.check()
        with pytest.raises(HoldLost):
            hold.check(30.0)


async def test_a_run_that_its_process_waits_in_is_resumed(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """--pause and then --resume, as the page says; the process that holds the run goes on with it."""
    async with running_hub() as hub:
        run = Backfill(hub, capsys)
        run.keys = 1
        await run.begin(receiver.callback, [1, 2])
        receiver.gate = asyncio.Event()
        running = asyncio.create_task(run.act())
        await receiver.wait_for(1)
        paused, _ = await backfilled(hub.settings, None, None, "--pause", 1), receiver.gate.set()
        await hub.until("/replays/replay_1", lambda found: found["state"] == "paused")
        resumed = await backfilled(hub.settings, None, None, "--resume", 1)
        await asyncio.wait_for(running, 30)
        state = (await hub.client.get("/replays/replay_1")).json()["state"]
    assert (paused, resumed, state, bodies(receiver)) == (0, 0, "done", [1, 2])


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


async def test_events_that_vanished_before_they_were_sent_are_counted(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where nothing is left to send: what a run that stopped has sent of its batch is judged all the same."""
    async with running_hub(retry_schedule_seconds=()) as hub:
        run = Backfill(hub, capsys)
        await run.begin(receiver.callback, [1, 2, 3, 4])
        receiver.status_of = lambda body: 500 if body == b"3" else None
        with pytest.raises(CommandFailed):
            await run.act()
        sent = sorted({*bodies(receiver)} - {3})
        run.there, run.erased = (), (4,)
        code, said = await run.act()
    counts = {name: said["audit"][name] for name in ("sent", "vanished", "extra", "erased")}
    assert 3 not in sent
    left = len({1, 2, 4} & {*sent})
    assert (code, counts["sent"], counts["extra"]) == (1, left, len({1, 2} & {*sent}))
    assert counts["vanished"] == 4 - left - (4 not in sent)


async def test_an_erasure_that_hub_and_lake_note_counts_once(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that the lake made before the beginning explains no event that vanished since."""
    async with running_hub() as hub:
        run = Backfill(hub, capsys)
        run.erased = (9,)
        await run.begin(receiver.callback, [1, 2, 3])
        await hub.sql("INSERT INTO hookwire.erased_events (event_id, tenant, lake_at) VALUES (2, 'default', now())")
        code, said = await run.act()
        run.there, run.erased = (1, 3), (2, 9)
        later, told = await run.act("--audit")
    assert [(code, said["audit"]["erased"]), (later, told["audit"]["erased"])] == [(0, 2), (0, 2)]
    assert (told["audit"]["sent"], told["audit"]["vanished"]) == (2, 0)


async def test_a_named_event_that_the_lake_does_not_have_is_missing(
    running_hub: RunHub, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_hub() as hub:
        run = Backfill(hub, capsys)
        run.erased = (4,)
        await run.begin(receiver.callback, [1, 2], named=[1, 2, 4, 7])
        code, said = await run.act()
    assert (code, said["audit"]["sent"], said["audit"]["missing"]) == (1, 2, 1)
    assert [name.rpartition("_")[2] for name in said["audit"]["examples"]["missing"]] == ["7"]


async def test_a_pattern_chooses_topics_that_the_hub_has_forgotten(
    running_hub: RunHub, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lake still has them. What cannot be told apart, or belongs to no topic, is said."""
    there = ["x-orders.old", "x-orders.b", "x-other", "elsewhere"]
    async with running_hub() as hub, opened(hub.database_url) as (database, _):
        await hub.subscribe("orders.*", "http://127.0.0.1:9000/hook")
        await hub.sql(
            "INSERT INTO hookwire.topics (tenant, name, kafka_topic)"
            " VALUES ('default', 'orders.a', NULL), ('default', 'orders.c', 'x-orders.b')"
        )
        [(number,)] = await hub.sql("SELECT id FROM hookwire.subscriptions")
        capsys.readouterr()
        chosen = await topics_of(database, number, "x-", None, there)
        told = capsys.readouterr().err
    assert chosen == {"x-orders.a": "orders.a", "x-orders.b": "orders.c", "x-orders.old": "orders.old"}
    assert "left out, of no topic of the hub: elsewhere" in told
    assert "orders.c has the Kafka topic x-orders.b: events that a topic orders.b has put there" in told

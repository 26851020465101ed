"""Deliveries that the standby fence holds back: no worker and no receiver gets them, and they stay due."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from db.errors import HeldBack
from db.migrate import migrate
from db.pool import Database
from db.replication.standby_fence import FenceMark, Required, StandbyFence
from tests.pair import Pair
from tests.waiting import WAIT_SECONDS
from tests.webhooks.harness import INCARNATION, POLICY, PUBLIC, delivery_harness
from webhooks.claim import Claimer
from webhooks.contents import Contents
from webhooks.pull import Pull
from webhooks.subscriber import Subscribers
from webhooks.worker_options import WorkerOptions


def without_standbys(database: Database) -> Database:
    """The same pool, with a fence that no standby passes."""
    fence = StandbyFence(Required(count=1), wait_seconds=0)
    return Database(database._pool, replace(database.options, fence=fence))


_OF_A_DEAD_WORKER = "UPDATE hookwire.deliveries SET fence = 7, attempts = 1, due_at = now() - interval '1 second'"


@pytest.mark.parametrize(
    ("before", "after"), [("SELECT", (0, False)), (_OF_A_DEAD_WORKER, (2, True))], ids=["new", "of a dead worker"]
)
async def test_a_claim_that_is_held_back_is_released(database_url: str, before: str, after: tuple[int, bool]) -> None:
    """HA-11: retries and replays are claimed by the same statement. What a dead worker may have sent stays known."""
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe("https://a.example/")
        [event] = await harness.deliver(b"x")
        await harness.sql.execute(before)
        database = without_standbys(harness.database)
        subscribers, contents = Subscribers(database, harness.box, POLICY), Contents(database, INCARNATION)
        claimer = Claimer(database, subscribers, contents, WorkerOptions("w", PUBLIC, schedule_seconds=(1,)))
        with pytest.raises(HeldBack):
            await claimer.claim({subscription: 10}, 1 << 20)
        assert await harness.deliveries() == [(event, subscription, *after)]


async def test_a_fetch_that_is_held_back_leaves_its_deliveries_due(database_url: str) -> None:
    """HA-11."""
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe("https://a.example/")
        [event] = await harness.deliver(b"x")
        await harness.change(subscription, protocol="pull", callback="")
        database = without_standbys(harness.database)
        with pytest.raises(HeldBack):
            await Pull(database, Contents(database, INCARNATION), "p").dequeue(subscription, 10, 30.0, 1 << 20)
        assert await harness.deliveries() == [(event, subscription, 0, False)]


async def test_while_a_standby_is_missing_nothing_is_claimed_and_released_again_and_again(database_url: str) -> None:
    """HA-12: each claim would write two versions of its rows."""
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe("https://a.example/")
        await harness.deliver(b"x")
        database = without_standbys(harness.database)
        subscribers, contents = Subscribers(database, harness.box, POLICY), Contents(database, INCARNATION)
        claimer = Claimer(database, subscribers, contents, WorkerOptions("w", PUBLIC, schedule_seconds=(1,)))
        drawn = []
        for _ in range(2):
            with pytest.raises(HeldBack):
                await claimer.claim({subscription: 10}, 1 << 20)
            drawn.append(await harness.sql.fetchval("SELECT last_value FROM hookwire.delivery_fence"))
        assert drawn[0] == drawn[1]


class Entered(StandbyFence):
    """A fence that tells when somebody begins to wait for a standby, which may take as long as it likes."""

    def __init__(self) -> None:
        super().__init__(Required(names=("one", "two")), WAIT_SECONDS)
        self.is_entered = asyncio.Event()

    @override
    async def wait(self, session: Any, mark: FenceMark) -> None:
        self.is_entered.set()
        await super().wait(session, mark)


@pytest.mark.parametrize("way", ["worker", "pull"])
async def test_a_claim_that_is_cancelled_while_it_waits_for_a_standby_is_given_back(way: str, pair: Pair) -> None:
    """HA-11: a process that stops. Else nobody would have the delivery until its lease ends."""
    await migrate(pair.primary.url)
    async with delivery_harness(pair.primary.url) as harness:
        subscription = await harness.subscribe("https://a.example/")
        [event] = await harness.deliver(b"x")
        if way == "pull":
            await harness.change(subscription, protocol="pull", callback="")
        await asyncio.to_thread(pair.standby.stop)
        fence = Entered()
        database = Database(harness.database._pool, replace(harness.database.options, fence=fence))
        subscribers, contents = Subscribers(database, harness.box, POLICY), Contents(database, INCARNATION)
        claimer = Claimer(database, subscribers, contents, WorkerOptions("w", PUBLIC, schedule_seconds=(1,)))
        claiming = asyncio.ensure_future(
            Pull(database, contents, "p").dequeue(subscription, 10, 3600.0, 1 << 20)
            if way == "pull"
            else claimer.claim({subscription: 10}, 1 << 20)
        )
        async with asyncio.timeout(WAIT_SECONDS):
            await fence.is_entered.wait()
        claiming.cancel()
        [ended] = await asyncio.gather(claiming, return_exceptions=True)
        assert (type(ended), await harness.deliveries()) == (
            asyncio.CancelledError, [(event, subscription, 0, False)]
        )  # fmt: skip

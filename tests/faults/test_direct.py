"""Order per key across both ways, under a nemesis: direct commits, the outbox, foreign transactions, kills (ADR 47)."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import asyncpg
import pytest

from app.chaos.checker import VIOLATIONS, Promise, Report
from hub.publish_error import KeyBusy
from tests.hostile.server import Conversation, HostileServer, answer, hostile_server
from tests.rolled_up import miscounted
from tests.waiting import lasts, until
from tests.webhooks.direct_harness import Hub, Relay, close_ledger, judge, relaying
from tests.webhooks.harness import Harness, delivery_harness

_KEYS = 40
_PUBLISH_SECONDS = 3_600.0
"""The test's own deadline, which depends on the number of events, comes first."""
_WRITERS = 6
_FAILING_SHARE = 0.02
_LEASES = {"timeout_seconds": 2.0, "lease_margin_seconds": 1.0, "schedule_seconds": (0,) * 30, "poll_seconds": 0.2}


@dataclass
class Late:
    """A subscription that was made under load: what was begun after its answer has to reach it."""

    server: HostileServer
    after: int


@dataclass
class Scenario:
    """One run. ``left``: events that writers have still to publish."""

    harness: Harness
    relay: Relay
    hubs: list[Hub]
    chance: random.Random
    sql: asyncpg.Connection
    left: int
    begun: int = 0
    accepted: list[tuple[int, int]] = field(default_factory=list)
    """The number of the event among all that were begun, and its id."""

    def take(self) -> int | None:
        """The number of the next event, None after the last."""
        if self.left == 0:
            return None
        self.left -= 1
        self.begun += 1
        return self.begun


async def sometimes_failing(conversation: Conversation) -> None:
    chance = random.Random(conversation.number)
    while True:
        await conversation.read_request()
        await conversation.send(answer(503 if chance.random() < _FAILING_SHARE else 204))


async def write(scenario: Scenario, database_url: str) -> None:
    """Publish by one hub or the other, or in a transaction of its own that stays open for a moment."""
    connection = await asyncpg.connect(database_url)
    try:
        while (number := scenario.take()) is not None:
            key = f"k{scenario.chance.randrange(_KEYS)}"
            if scenario.chance.random() < 0.15:
                async with connection.transaction():
                    text = await connection.fetchval(
                        "SELECT hookwire.publish('t', $1::text, key => $2)", str(number), key
                    )
                    await lasts(scenario.chance.random() / 200)
                scenario.accepted.append((number, int(text.rpartition("_")[2])))
                continue
            while True:
                try:
                    identity = await scenario.chance.choice(scenario.hubs).publish(str(number), key)
                except KeyBusy:  # nothing is stored
                    continue
                scenario.accepted.append((number, identity))
                break
            await lasts(scenario.chance.random() / 50)
    finally:
        await connection.close()


# --- what the nemesis does ---------------------------------------------------------------------------------------


async def stop_the_relay(scenario: Scenario) -> None:
    scenario.relay.is_paused = True
    await lasts(0.1 + scenario.chance.random() / 5)
    scenario.relay.is_paused = False


async def change_a_subscription(scenario: Scenario) -> None:
    await scenario.sql.execute("UPDATE hookwire.subscriptions SET version = version + 1 WHERE topic = 't'")


async def pause_a_subscription(scenario: Scenario) -> None:
    await scenario.sql.execute(
        "UPDATE hookwire.subscriptions SET paused_until = now() + interval '50 milliseconds' WHERE topic = 't'"
    )


_HARMS: tuple[Callable[[Scenario], Awaitable[None]], ...] = (
    stop_the_relay,
    change_a_subscription,
    pause_a_subscription,
)


async def harm(scenario: Scenario) -> None:
    while scenario.left:
        await scenario.chance.choice(_HARMS)(scenario)
        await lasts(scenario.chance.random() / 4)


async def kill_the_worker(scenario: Scenario, hub: Hub, events: int) -> None:
    """Again and again, each time after so many events."""
    while scenario.left:
        async with hub.working():
            goal = scenario.begun + events
            await until(lambda goal=goal: not scenario.left or scenario.begun >= goal, _PUBLISH_SECONDS)


@asynccontextmanager
async def subscribed_late(scenario: Scenario, share: float) -> AsyncIterator[Late]:
    """A subscription that is made when this share of the events was begun."""
    async with hostile_server(sometimes_failing) as server:
        late = Late(server, 0)

        async def subscribe() -> None:
            total = scenario.left
            await until(lambda: scenario.begun >= share * total, _PUBLISH_SECONDS)
            await scenario.harness.subscribe(server.url())
            late.after = scenario.begun

        making = asyncio.ensure_future(subscribe())
        yield late
        await making


def broken(report: Report) -> dict[str, int]:
    """What breaks a promise; repeats after a failure or a kill do not."""
    return {kind: count for kind in VIOLATIONS if (count := report.total(kind))}


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(1_000, id="1,000 events"),
        pytest.param(100_000, id="100,000 events", marks=[pytest.mark.slow, pytest.mark.timeout(3_600)]),
    ],
)
async def test_a_keys_events_arrive_in_order_whichever_way_each_takes(
    database_url: str, seed: int, events: int
) -> None:
    """I1, I3, RR-01, RR-10, RR-13, PL-A01: nothing is lost, nothing overtakes, both sides of the ledger agree."""
    async with (
        delivery_harness(database_url) as harness,
        hostile_server(sometimes_failing) as server,
        relaying(harness) as relay,
        asyncio.timeout(120 + events / 25),
    ):
        await harness.subscribe(server.url(), ordered=True, on_exhausted="park")
        hubs = [Hub(relay, name=f"w{number}", **_LEASES) for number in (1, 2)]
        scenario = Scenario(harness, relay, hubs, random.Random(seed), await asyncpg.connect(database_url), events)
        async with (
            hubs[0].publishing(),
            hubs[1].publishing(),
            hubs[1].working(),
            subscribed_late(scenario, 0.3) as late,
        ):
            async with asyncio.TaskGroup() as tasks:
                carrying = tasks.create_task(relay.run())
                others = [tasks.create_task(kill_the_worker(scenario, hubs[0], 300)), tasks.create_task(harm(scenario))]
                writers = [tasks.create_task(write(scenario, database_url)) for _ in range(_WRITERS)]
                await asyncio.wait([*writers, *others])
                await relay.carried()
                carrying.cancel()
            await harness.drained()
        await scenario.sql.close()
        ordered = await judge(harness, server.requests)
        wanted = {identity for number, identity in scenario.accepted if number > late.after}
        plain = await judge(harness, late.server.requests, Promise.UNORDERED, wanted=wanted)
        direct = hubs[0].direct + hubs[1].direct
        ledger = await close_ledger(harness)
        assert await miscounted(database_url) == {}
        print(f"{direct} deliveries made directly, {relay.events} events by the outbox")
        assert (broken(ordered), ordered.accepted, broken(plain)) == ({}, events, {})
        assert (ledger.findings, ledger.owed, ledger.sent) == (0, events, events)
        assert (direct > events // 20, relay.events > events // 20) == (True, True), (direct, relay.events)

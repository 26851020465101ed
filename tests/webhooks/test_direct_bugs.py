"""The checker notices each bug that the direct path could have, in a scenario that holds without the bug (ADR 47)."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import asyncpg
import pytest

from app.chaos.checker import Promise
from tests.hostile.server import HostileServer, answer, answering, hostile_server
from tests.waiting import until
from tests.webhooks.direct_harness import (
    Hub,
    Relay,
    close_ledger,
    judge,
    relaying,
    rewrite,
    violations,
    working_hub,
)
from tests.webhooks.harness import WAIT_SECONDS_MAX, Gated, Harness, delivery_harness
from tests.webhooks.test_worker import held

OK = answering(answer(204))
_LAZY = 3_600.0
"""Seconds between two polls of a worker that is to find nothing by itself."""


@dataclass
class Parts:
    """The harness, relay and receiver that a scenario uses. Without a ``key`` its direct commit is a common one."""

    harness: Harness
    relay: Relay
    server: HostileServer
    key: str | None

    async def arrived(self, count: int) -> None:
        await self.server.until(lambda server: len(server.requests) >= count)


Found = dict[str, int]
Scenario = Callable[[Parts], Awaitable[Found]]


async def an_earlier_event_is_in_the_outbox(parts: Parts) -> Found:
    await parts.harness.subscribe(parts.server.url(), ordered=True)
    async with working_hub(parts.relay, poll_seconds=_LAZY) as hub:
        await parts.harness.publish(b"first", key="k")
        await hub.publish("second")
        if hub.direct:
            await parts.arrived(1)
        await parts.relay.carry()
        await parts.arrived(2)
        await parts.harness.drained()
    return violations(await judge(parts.harness, parts.server.requests))


async def an_earlier_delivery_is_open(parts: Parts) -> Found:
    subscription = await parts.harness.subscribe(parts.server.url(), ordered=True)
    async with working_hub(parts.relay, poll_seconds=_LAZY) as hub:
        await parts.harness.publish(b"first", key="k")
        await parts.harness.fan_out()  # which tells the worker nothing
        await hub.publish("second")
        if hub.direct:
            await parts.arrived(1)
        await parts.relay.carry()
        assert hub.worker is not None
        hub.worker.mark_due([subscription])
        await parts.arrived(2)
        await parts.harness.drained()
    return violations(await judge(parts.harness, parts.server.requests))


async def another_transaction_holds_the_key(parts: Parts) -> Found:
    """RR-13: it commits while the direct commit waits for the lock."""
    await parts.harness.subscribe(parts.server.url(), ordered=True)
    foreign = await asyncpg.connect(parts.harness.database_url)
    async with working_hub(parts.relay, poll_seconds=_LAZY) as hub:
        transaction = foreign.transaction()
        await transaction.start()
        await foreign.execute("SELECT hookwire.publish('t', 'first', key => 'k')")
        assert hub.worker is not None
        offer = hub.worker.offers.make()
        assert offer is not None
        committing = asyncio.ensure_future(hub.commit_directly("second", wait=True))
        await until(lambda: _waits_for_a_lock(parts.harness))
        await transaction.commit()
        claims = [row for row in await committing if row["subscription_id"] is not None]
        offer.take(claims)
        await parts.arrived(len(claims))
        await parts.relay.carry()
        await parts.arrived(2)
        await parts.harness.drained()
    await foreign.close()
    return violations(await judge(parts.harness, parts.server.requests))


async def _waits_for_a_lock(harness: Harness) -> bool:
    return bool(
        await harness.sql.fetchval(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event = 'advisory'"
            " AND datname = current_database())"
        )
    )


async def another_worker_looks_while_it_is_sent(parts: Parts) -> Found:
    received: list[bytes] = []
    release = asyncio.Event()
    async with hostile_server(held(received, release)) as slow:
        await parts.harness.subscribe(slow.url())
        watched = Gated(parts.harness.database)
        async with working_hub(parts.relay, poll_seconds=_LAZY) as hub:
            await hub.publish("once", parts.key)
            await slow.until(lambda server: len(server.requests) == 1)
            async with parts.harness.working(database=watched, name="w2", poll_seconds=0.01):
                await until(lambda: _passed(watched, "delivery.due_subscriptions", 3))
                if watched.passed["delivery.claim"]:
                    await slow.until(lambda server: len(server.requests) == 2)
                release.set()
                await parts.harness.drained()
        return violations(await judge(parts.harness, slow.requests, Promise.UNORDERED))


async def _passed(database: Gated, name: str, times: int) -> bool:
    return database.passed[name] >= times


async def its_process_dies_between_commit_and_send(parts: Parts) -> Found:
    """Another worker delivers it when the lease has ended."""
    await parts.harness.subscribe(parts.server.url(), timeout_seconds=0.2)
    hub = Hub(parts.relay, timeout_seconds=0.2, lease_margin_seconds=0.2)
    await hub.commit_directly("first", parts.key)  # and nobody takes what it has claimed
    over = "SELECT bool_and(created_at + interval '1 second' < clock_timestamp()) FROM hookwire.deliveries"
    await until(lambda: parts.harness.sql.fetchval(over))
    watched = Gated(parts.harness.database)
    async with parts.harness.working(database=watched, name="w2", poll_seconds=0.01):
        await until(lambda: _passed(watched, "delivery.due_subscriptions", 3))
        if watched.passed["delivery.claim"]:
            await parts.harness.drained()
    return violations(await judge(parts.harness, parts.server.requests, Promise.UNORDERED))


async def a_subscription_is_activated_before_commit(parts: Parts) -> Found:
    """RR-10: what is accepted after its activation was answered is for it."""
    hub = Hub(parts.relay)
    async with parts.harness.database.transaction() as transaction:
        hub._database = transaction  # type: ignore[assignment] # the same statement, with COMMIT at the test's will
        rows = await hub.commit_directly("first", parts.key)
        answer_of = asyncio.ensure_future(parts.harness.subscribe(parts.server.url()))
        await until(lambda: _is_done_or_waits(parts.harness, answer_of))
        is_answered = answer_of.done()
    await answer_of
    async with parts.harness.working(poll_seconds=0.01):
        await parts.harness.drained()
    wanted = {row["event_id"] for row in rows} if is_answered else set()
    return violations(await judge(parts.harness, parts.server.requests, Promise.UNORDERED, wanted=wanted))


async def _is_done_or_waits(harness: Harness, task: asyncio.Future[int]) -> bool:
    return task.done() or await _waits_for_a_lock(harness)


async def the_ledger_is_closed(parts: Parts) -> Found:
    """PL-A01: both sides agree about events of both ways."""
    await parts.harness.subscribe(parts.server.url())
    async with working_hub(parts.relay, poll_seconds=_LAZY) as hub:
        await hub.publish("first", parts.key)
        await parts.harness.publish(b"second", key="k")
        await parts.relay.carry()
        await parts.harness.drained()
    report = await close_ledger(parts.harness)
    return {"ledger": report.findings} if report.findings else {}


_OUTBOX = "AND o.id >= terms.low"
_LANE = "WHERE x.subscription_id = s.id AND x.lane = s.lane"
_LEASE = "clock_timestamp() + make_interval(secs => d.lease_seconds)"
_LEDGER = "array_agg(DISTINCT d.id) FROM delivery d HAVING count(*) > 0"
_COMMON_LEASE = "clock_timestamp() + make_interval(secs => a.lease_seconds)"
_COMMON_LEDGER = "array_agg(d.id) FROM draft d"
_COMMON_LOCKS = "    IF is_common THEN\n"
_NO_LOCKS = "    is_audience_kept := is_common;\n    IF false THEN\n"


async def _read_before_the_lock(harness: Harness) -> None:
    """As if the conditions stood in the statement that takes the lock: its snapshot is older than the wait."""
    text = await harness.sql.fetchval("SELECT pg_get_functiondef('hookwire.publish_batch'::regproc)")
    lock = text.index("    IF prefix THEN\n")
    conditions = text.index("    IF direct IS NOT NULL AND is_common IS NOT TRUE THEN\n")
    end = text.rindex("    moment := clock_timestamp();\n")
    await harness.sql.execute(text[:lock] + text[conditions:end] + text[lock:conditions] + text[end:])


BUGS: dict[str, tuple[Callable[[Harness], Awaitable[object]], Scenario, Found]] = {
    "the outbox is not looked at": (
        lambda harness: rewrite(harness, "direct_audience", (_OUTBOX, "AND o.id < 0")),
        an_earlier_event_is_in_the_outbox,
        {"inverted": 1},
    ),
    "the lane is not looked at": (
        lambda harness: rewrite(harness, "direct_audience", (_LANE, _LANE + " AND x.event_id < 0")),
        an_earlier_delivery_is_open,
        {"inverted": 1},
    ),
    "the conditions are read before the lock": (
        _read_before_the_lock,
        another_transaction_holds_the_key,
        {"inverted": 1},
    ),
    "no lease is set": (
        lambda harness: rewrite(harness, "publish_batch", (_LEASE, "clock_timestamp()")),
        another_worker_looks_while_it_is_sent,
        {"duplicate_adjacent": 1},
    ),
    "the lease never ends": (
        lambda harness: rewrite(harness, "publish_batch", (_LEASE, "'infinity'")),
        its_process_dies_between_commit_and_send,
        {"lost": 1},
    ),
    "the ledger entry is left out": (
        lambda harness: rewrite(harness, "publish_batch", (_LEDGER, _LEDGER.replace("> 0", "< 0"))),
        the_ledger_is_closed,
        {"ledger": 1},
    ),
    "an activation does not wait": (
        lambda harness: harness.sql.execute("DROP TRIGGER await_direct_commits_made ON hookwire.subscriptions"),
        a_subscription_is_activated_before_commit,
        {"lost": 1},
    ),
}
COMMON_BUGS: dict[str, tuple[Callable[[Harness], Awaitable[object]], Scenario, Found]] = {
    "no lease is set": (
        lambda harness: rewrite(harness, "publish_batch", (_COMMON_LEASE, "clock_timestamp()")),
        another_worker_looks_while_it_is_sent,
        {"duplicate_adjacent": 1},
    ),
    "the lease never ends": (
        lambda harness: rewrite(harness, "publish_batch", (_COMMON_LEASE, "'infinity'")),
        its_process_dies_between_commit_and_send,
        {"lost": 1},
    ),
    "the ledger entry is left out": (
        lambda harness: rewrite(harness, "publish_batch", (_COMMON_LEDGER, f"{_COMMON_LEDGER} HAVING count(*) < 0")),
        the_ledger_is_closed,
        {"ledger": 1},
    ),
    "an activation does not wait": (
        lambda harness: harness.sql.execute("DROP TRIGGER await_direct_commits_made ON hookwire.subscriptions"),
        a_subscription_is_activated_before_commit,
        {"lost": 1},
    ),
    "the locks are not taken": (
        lambda harness: rewrite(harness, "publish_batch", (_COMMON_LOCKS, _NO_LOCKS)),
        a_subscription_is_activated_before_commit,
        {"lost": 1},
    ),
}
_SCENARIOS = {
    (scenario.__name__, key): scenario
    for bugs, key in ((BUGS, "k"), (COMMON_BUGS, None))
    for _, scenario, _ in bugs.values()
}


async def play(
    database_url: str, scenario: Scenario, bug: Callable[[Harness], Awaitable[object]] | None, key: str | None = "k"
) -> Found:
    async with (
        asyncio.timeout(2 * WAIT_SECONDS_MAX),
        delivery_harness(database_url) as harness,
        hostile_server(OK) as server,
        relaying(harness) as relay,
    ):
        if bug is not None:
            await bug(harness)
        return await scenario(Parts(harness, relay, server, key))


@pytest.mark.parametrize("name", BUGS)
async def test_the_checker_finds_it_when(name: str, database_url: str) -> None:
    """OR-03, RR-10, RR-13, PL-A01."""
    bug, scenario, expected = BUGS[name]
    assert await play(database_url, scenario, bug) == expected


@pytest.mark.parametrize("name", COMMON_BUGS)
async def test_the_checker_finds_it_in_common_commits_when(name: str, database_url: str) -> None:
    """RR-10, PL-A01, GR-04."""
    bug, scenario, expected = COMMON_BUGS[name]
    assert await play(database_url, scenario, bug, key=None) == expected


@pytest.mark.parametrize(("name", "key"), _SCENARIOS)
async def test_it_finds_nothing_when(name: str, key: str | None, database_url: str) -> None:
    """OR-03: the same scenario holds without the bug."""
    assert await play(database_url, _SCENARIOS[name, key], None, key) == {}

"""RabbitHub's queues on a real database: who gets which message, whatever happens at the same time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg
import pytest

from db.pool import Database
from db.statements import STATEMENTS
from hub.rabbithub.binding import bind
from hub.rabbithub.queues import RabbitHubQueues
from hub.rabbithub.resource import Place, create, delete, find
from tests.hub.harness import hub_harness


@dataclass
class Queue:
    """A queue with messages 1 and 2; its deliveries are those of the subscription ``source``."""

    database: Database
    sql: asyncpg.Connection
    resource: int
    source: int

    async def consumer(self) -> int:
        number: int = await self.sql.fetchval(
            "INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state, lease_until)"
            " VALUES ('sub_' || gen_random_uuid(), 'rabbithub', 'c', 'http://127.0.0.1:1/', 'active',"
            " now() + interval '1 day')"
            " RETURNING id"
        )
        await self.sql.execute(
            "INSERT INTO hookwire.rabbithub_subscriptions VALUES ($1, $2, 't', 86400)", number, self.resource
        )
        return number

    async def end(self, consumer: int, state: str = "disabled") -> None:
        await self.sql.execute("UPDATE hookwire.subscriptions SET state = $2 WHERE id = $1", consumer, state)

    async def step(self) -> None:
        await RabbitHubQueues(self.database, lambda _: None)._step()

    async def held(self, subscription: int) -> list[int]:
        rows = await self.sql.fetch(
            "SELECT event_id FROM hookwire.deliveries WHERE subscription_id = $1 ORDER BY event_id", subscription
        )
        return [row["event_id"] for row in rows]


@asynccontextmanager
async def queue(database_url: str) -> AsyncIterator[Queue]:
    async with hub_harness(database_url) as harness:
        await create(harness.hub, Place("/", "q", "q"), "fanout")
        row = await harness.sql.fetchrow("SELECT id, source FROM hookwire.rabbithub_resources WHERE kind = 'q'")
        await harness.sql.execute(
            "INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant)"
            " SELECT n, $1, now() - interval '9 days', now() - interval '9 days', 'default' FROM generate_series(1, 2)"
            " AS n",
            row["source"],
        )
        yield Queue(harness.hub.database, harness.sql, row["id"], row["source"])


async def test_what_an_exchange_has_routed_stays_in_the_queue_when_the_exchange_is_deleted(database_url: str) -> None:
    """RH-05, RH-18: it was accepted, so it is nobody's dead letter."""
    async with hub_harness(database_url) as harness:
        for kind in "xq":
            await create(harness.hub, Place("/", kind, kind), "fanout")
        exchange, bound = [await find(harness.hub, Place("/", kind, kind)) for kind in "xq"]
        await bind(harness.hub, exchange, bound, "#")
        await harness.sql.execute(
            "INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant)"
            " SELECT 1, subscription_id, now(), now(), 'default' FROM hookwire.rabbithub_subscriptions"
        )
        await delete(harness.hub, exchange.place, if_empty=False)
        rows = await harness.sql.fetch("SELECT subscription_id FROM hookwire.deliveries")
        assert [row["subscription_id"] for row in rows] == [bound.source]


async def test_a_consumer_holds_one_message_though_two_processes_hand_out(database_url_both: str) -> None:
    """RH-27: what another process is handing out just now counts."""
    async with queue(database_url_both) as on:
        consumer = await on.consumer()
        async with on.sql.transaction():
            await on.sql.fetchval(STATEMENTS["rabbithub.dispatch_lock"])
            await on.sql.fetch(STATEMENTS["rabbithub.dispatch"])
            await on.step()
        await on.step()

        assert (await on.held(consumer), await on.held(on.source)) == ([1], [2])


@pytest.mark.parametrize("state", ["disabled", "expired", "deleted", "gone"])
async def test_what_an_ended_consumer_held_is_first_in_its_queue_again(database_url: str, state: str) -> None:
    """RH-29, RH-41: whoever cleans up after ended subscriptions leaves it to the queue."""
    async with queue(database_url) as on:
        first = await on.consumer()
        await on.step()
        await on.end(first, state)
        cancelled = await on.database.fetchval("delivery.cancel_ended", [first], 100)
        second = await on.consumer()
        await on.step()

        assert (cancelled, await on.held(first), await on.held(second), await on.held(on.source)) == (0, [], [1], [2])


async def test_the_attempts_of_a_consumer_that_gets_a_message_again_go_on_counting(database_url: str) -> None:
    """RH-29: each attempt has a number of its own, else its outcome could not be written down; the schedule begins."""
    async with queue(database_url) as on:
        consumer = await on.consumer()
        await on.step()
        await on.sql.execute(
            "INSERT INTO hookwire.attempts (event_id, subscription_id, started_at, number, total_seconds, tenant,"
            " outcome, decision, trigger, worker)"
            " VALUES (1, $1, now(), 3, 0.1, 'default', 'timeout', 'retry', 'retry', 'w')",
            consumer,
        )
        await on.end(consumer)
        await on.step()
        await on.end(consumer, "active")
        await on.step()

        row = await on.sql.fetchrow(
            "SELECT attempts, free_attempts, now() - created_at < interval '1 hour' FROM hookwire.deliveries"
            " WHERE subscription_id = $1",
            consumer,
        )
        assert tuple(row) == (3, 3, True)


async def test_a_message_that_was_put_back_meanwhile_is_there_once_and_holds_nobody_up(database_url: str) -> None:
    """WH-P01: somebody replays the queue while a consumer has its first message."""
    async with queue(database_url) as on:
        consumer = await on.consumer()
        await on.step()
        await on.sql.execute(
            "INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant)"
            " VALUES (1, $1, now(), now(), 'default')",
            on.source,
        )
        await on.end(consumer)
        await on.step()

        assert (await on.held(consumer), await on.held(on.source)) == ([], [1, 2])

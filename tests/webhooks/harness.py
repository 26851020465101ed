"""A delivery harness: a real database, a worker that runs where a test wants it, and what became of the deliveries."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network
from types import SimpleNamespace
from typing import Any

import asyncpg
from prometheus_client import CollectorRegistry

from db.errors import DatabaseError
from db.pool import Database, PoolOptions, Row, open_database
from db.secret_box import SecretBox
from egress.client import Client, Outbound
from egress.guard import GuardPolicy
from egress.resolver import ThreadResolver
from hub.subscriptions import NewSubscription, Subscriptions
from tests.waiting import until
from webhooks.breaker import BreakerOptions
from webhooks.contents import Contents
from webhooks.fanout import FanOut
from webhooks.metrics import DeliveryMetrics
from webhooks.subscriber import Subscribers, secret_context
from webhooks.worker import Worker
from webhooks.worker_options import SlotOptions, WorkerOptions

PUBLIC = "http://hub.example"
INCARNATION = "abcd2345"
POLICY = GuardPolicy(allow_cidrs=(ip_network("127.0.0.0/8"),), allow_high_ports=True)
WAIT_SECONDS_MAX = 60.0
TERM = 1
OFF = BreakerOptions(failure_share=0)


class Gated(Database):
    """A database whose statements wait at ``gates`` and fail while they are in ``failing``; ``passed`` counts them."""

    def __init__(self, inner: Database) -> None:
        self._inner = inner
        self.options = inner.options
        self.gates: dict[str, asyncio.Event] = {}
        self.failing: dict[str, DatabaseError] = {}
        self.passed: Counter[str] = Counter()

    async def _pass(self, name: str) -> None:
        self.passed[name] += 1
        if name in self.gates:
            await self.gates[name].wait()
        if name in self.failing:
            raise self.failing[name]

    async def fetch(self, name: str, *args: object) -> Sequence[Row]:
        await self._pass(name)
        return await self._inner.fetch(name, *args)

    async def fetchrow(self, name: str, *args: object) -> Row | None:
        await self._pass(name)
        return await self._inner.fetchrow(name, *args)

    async def fetchval(self, name: str, *args: object) -> Any:
        await self._pass(name)
        return await self._inner.fetchval(name, *args)

    async def execute(self, name: str, *args: object) -> int:
        await self._pass(name)
        return await self._inner.execute(name, *args)


@dataclass
class Harness:
    """``sql`` is a connection of the test's own. Subscriptions are known by their number."""

    database_url: str
    database: Database
    sql: asyncpg.Connection
    box: SecretBox
    secrets: dict[int, str] = field(default_factory=dict)

    # --- what a test starts from ---

    async def subscribe(self, callback: str, topic: str = "t", **columns: Any) -> int:
        """An API subscription; ``columns`` overwrite its row."""
        row, secret = await Subscriptions(self.database, self.box).create(NewSubscription(topic, callback))
        self.secrets[row["id"]] = secret
        await self.change(row["id"], **columns)
        return int(row["id"])

    async def subscribe_websub(self, callback: str, secret: str | None = None, **columns: Any) -> int:
        """A WebSub subscription as a verified intent makes it."""
        identity: int = await self.sql.fetchval(
            "INSERT INTO hookwire.subscriptions"
            " (public_id, protocol, topic, topic_url, callback, state, ordered, lease_until)"
            " VALUES ('sub_' || gen_random_uuid(), 'websub', 't', $1, $2, 'active', true, now() + interval '1 day')"
            " RETURNING id",
            f"{PUBLIC}/topics/t",
            callback,
        )
        if secret is not None:
            await self.keep_secret(identity, 1, secret)
        await self.change(identity, **columns)
        return identity

    async def keep_secret(self, subscription: int, number: int, secret: str) -> None:
        key_id, sealed = self.box.seal(secret.encode(), secret_context(subscription, number))
        await self.sql.execute(
            "INSERT INTO hookwire.subscription_secrets (subscription_id, number, key_id, sealed)"
            " VALUES ($1, $2, $3, $4)",
            subscription,
            number,
            key_id,
            sealed,
        )

    async def change(self, subscription: int, **columns: Any) -> None:
        """Overwrites columns as the API does: the version rises with them."""
        for name, value in columns.items():
            await self.sql.execute(f"UPDATE hookwire.subscriptions SET {name} = $2 WHERE id = $1", subscription, value)
        if columns:
            await self.sql.execute(
                "UPDATE hookwire.subscriptions SET version = version + 1 WHERE id = $1", subscription
            )

    async def publish(self, *payloads: bytes, topic: str = "t", key: str | None = None, **more: Any) -> list[int]:
        """Accepted events, not yet fanned out."""
        ids = []
        for payload in payloads:
            text = await self.sql.fetchval(
                "SELECT hookwire.publish($1, $2::bytea, key => $3, content_type => $4, headers => $5::jsonb)",
                topic, payload, key, more.get("content_type"), more.get("headers", "{}"),
            )  # fmt: skip
            ids.append(int(text.rpartition("_")[2]))
        return ids

    async def fan_out(
        self, *, deliveries_max: int = 20_000, due: Callable[[Sequence[int]], None] | None = None
    ) -> None:
        """Fans out all that waits, as the harvester in power does."""
        await self.begin_term(TERM)
        fan_out = FanOut(self.database, due or (lambda _: None), deliveries_max)
        while records := await self.outbox():
            await fan_out.send(0, TERM, records)

    async def begin_term(self, term: int) -> None:
        await self.sql.execute(
            "INSERT INTO hookwire.relay_terms (sink, grp, term) VALUES ('webhooks', 0, $1)"
            " ON CONFLICT (sink, grp) DO UPDATE SET term = $1",
            term,
        )

    async def outbox(self) -> list[SimpleNamespace]:
        rows = await self.sql.fetch(
            "SELECT o.id, o.shard, e.tenant, e.topic, e.key FROM hookwire.outbox o JOIN hookwire.events e USING (id)"
            " WHERE o.sink = 'webhooks' ORDER BY o.id LIMIT 500"
        )
        return [SimpleNamespace(**dict(row)) for row in rows]

    async def deliver(self, *payloads: bytes, **more: Any) -> list[int]:
        """Publishes and fans out; gives the events' numbers."""
        events = await self.publish(*payloads, **more)
        await self.fan_out()
        return events

    # --- the worker ---

    def worker(self, outbound: Outbound, database: Database | None = None, **options: Any) -> Worker:
        chance = options.pop("chance", lambda: 0.5)
        member = options.pop("member", lambda: None)
        metrics = options.pop("metrics", None) or DeliveryMetrics(CollectorRegistry())
        options = {
            "name": "w1",
            "public_url": PUBLIC,
            "schedule_seconds": (0, 0),
            "poll_seconds": 0.05,
            "breaker": OFF,
        } | options
        if isinstance(slots := options.get("slots"), dict):
            options["slots"] = SlotOptions(**slots)
        database = database or self.database
        return Worker(
            database, outbound, Subscribers(database, self.box, POLICY), Contents(database, INCARNATION),
            metrics, WorkerOptions(**options), chance, member=member,
        )  # fmt: skip

    @asynccontextmanager
    async def working(
        self, outbound: Outbound | None = None, *, die: bool = False, **options: Any
    ) -> AsyncIterator[Worker]:
        """Runs a worker; it is stopped softly afterwards, or dies in the middle of whatever it does."""
        client = outbound or Client(POLICY, ThreadResolver())
        worker = self.worker(client, **options)
        running = asyncio.ensure_future(worker.run())
        try:
            yield worker
            if not die:
                worker.stop()
                async with asyncio.timeout(WAIT_SECONDS_MAX):
                    await asyncio.shield(running)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await client.aclose()

    # --- what became of it ---

    async def deliveries(self, subscription: int | None = None) -> list[tuple[int, int, int, bool]]:
        """Open ones: event, subscription, attempts, whether somebody holds a claim."""
        rows = await self.sql.fetch(
            "SELECT event_id, subscription_id, attempts, fence IS NOT NULL FROM hookwire.deliveries"
            " WHERE $1::bigint IS NULL OR subscription_id = $1 ORDER BY 1, 2",
            subscription,
        )
        return [tuple(row) for row in rows]

    async def attempts(self, *columns: str, subscription: int | None = None) -> list[tuple[Any, ...]]:
        rows = await self.sql.fetch(
            f"SELECT {', '.join(columns)} FROM hookwire.attempts WHERE $1::bigint IS NULL OR subscription_id = $1"
            " ORDER BY event_id, subscription_id, number",
            subscription,
        )
        return [tuple(row) for row in rows]

    async def dead_letters(self) -> list[tuple[int, str, int, int | None]]:
        """Event, kind, attempts, last status."""
        rows = await self.sql.fetch(
            "SELECT event_id, kind, attempts, last_status FROM hookwire.dead_letters ORDER BY 1"
        )
        return [tuple(row) for row in rows]

    async def subscription(self, subscription: int) -> tuple[str, str | None]:
        """State and its reason."""
        row = await self.sql.fetchrow(
            "SELECT state, state_reason FROM hookwire.subscriptions WHERE id = $1", subscription
        )
        return tuple(row)

    async def settled(self, attempts: int = 1, seconds: float = WAIT_SECONDS_MAX) -> None:
        """Waits until so many attempts are on record."""

        async def enough() -> bool:
            return bool(await self.sql.fetchval("SELECT count(*) >= $1 FROM hookwire.attempts", attempts))

        await until(enough, seconds)

    async def drained(self) -> None:
        """Waits until nothing is owed any more."""

        async def empty() -> bool:
            return not await self.sql.fetchval("SELECT EXISTS (SELECT FROM hookwire.deliveries)")

        await until(empty)


@asynccontextmanager
async def delivery_harness(database_url: str) -> AsyncIterator[Harness]:
    database = await open_database(PoolOptions(database_url, connections_max=8))
    sql = await asyncpg.connect(database_url)
    try:
        yield Harness(database_url, database, sql, SecretBox({"k": os.urandom(32)}, "k"))
    finally:
        await sql.close()
        await database.aclose()

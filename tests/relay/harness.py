"""A migrated database with one configured sink, and what the relay's tests do to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from prometheus_client import CollectorRegistry

from db.errors import Unavailable
from db.pool import Database, PoolOptions, Row, open_database
from relay.election.port import Election
from relay.harvester import Harvester, HarvesterOptions
from relay.holds.hold import Holds
from relay.metrics import RelayMetrics
from relay.outbox import Outbox
from relay.sink import Sink, Term
from relay.sink_relay import SinkRelay
from runtime.wake import Wake
from tests.relay.memory import MemoryElection
from tests.waiting import until

INCARNATION = "abcd2345"
DEADLINE_SECONDS = 60.0


class Harness:
    """``connection`` is the tests' own, for plain SQL; ``database`` is what the relay is given."""

    def __init__(self, url: str, database: Database, connection: asyncpg.Connection, sink: str) -> None:
        self.url = url
        self.database = database
        self.connection = connection
        self.sink = sink

    async def publish(self, *keys: str | None, topic: str = "orders", payload: bytes = b"x") -> list[int]:
        """One event for each key, in this order, all in one transaction; returns their ids."""
        return await publish(self.connection, keys, topic, payload)

    async def begin_term(self) -> Term:
        """Raise the term, whoever rules."""
        await self.database.execute("term.ensure", [self.sink])
        row = await raise_term(self.database, self.sink)
        return Term(self.sink, 0, row["term"], row["layout"], row["batch_no"])

    async def owed(self) -> list[int]:
        """The ids in the outbox."""
        return [row["id"] for row in await self.connection.fetch("SELECT id FROM hookwire.outbox ORDER BY id")]

    async def held(self) -> list[tuple[str, str, int]]:
        """Topic, key and id of what waits behind holds; '' as key is the whole topic's hold."""
        rows = await self.connection.fetch("SELECT topic, key, id FROM hookwire.held ORDER BY id")
        return [tuple(row) for row in rows]

    async def holds(self) -> list[tuple[str, str]]:
        """Topic and key of the standing holds."""
        rows = await self.connection.fetch("SELECT topic, key FROM hookwire.holds ORDER BY topic, key")
        return [tuple(row) for row in rows]

    async def probe_now(self) -> None:
        """Make every hold's probe due, but for those that the leader is about to change."""
        free = "SELECT ctid FROM hookwire.holds FOR UPDATE SKIP LOCKED"
        await self.connection.execute(
            f"UPDATE hookwire.holds SET probe_at = clock_timestamp() WHERE ctid = ANY (ARRAY({free}))"
        )

    async def manifests(self) -> list[int]:
        """The numbers of the batches that are written down."""
        rows = await self.connection.fetch("SELECT batch_no FROM hookwire.relay_batches ORDER BY batch_no")
        return [row["batch_no"] for row in rows]


async def raise_term(
    database: Database, sink: str, group: int = 0, owner: str = "test", lease_seconds: float = 60.0,
    member: int | None = None,
) -> Row:  # fmt: skip
    """Take a lease, whoever rules; again while a statement of the ruler's holds its row."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            present = await database.fetchrow("term.current", sink, group)
            assert present is not None
            row = await database.fetchrow("term.take", sink, group, owner, lease_seconds, present["term"], member)
            if row is not None:
                return row


async def publish(
    connection: asyncpg.Connection, keys: Sequence[str | None], topic: str = "orders", payload: bytes = b"x"
) -> list[int]:
    """Publish in the connection's transaction; returns the events' numbers."""
    rows = await connection.fetch(
        "SELECT hookwire.publish($1, $2::bytea, key => key) AS event_id FROM unnest($3::text[]) AS key",
        topic, payload, keys,
    )  # fmt: skip
    return [int(row["event_id"].rpartition("_")[2]) for row in rows]


@asynccontextmanager
async def relay_harness(url: str, sink: str = "kafka", groups: int = 1) -> AsyncIterator[Harness]:
    connection = await asyncpg.connect(url, timeout=10, command_timeout=60)
    try:
        await connection.execute("UPDATE hookwire.sinks SET configured = (name = $1)", sink)
        layout = "UPDATE hookwire.layouts SET groups = jsonb_build_object($1::text, $2::int)"
        await connection.execute(layout, sink, groups)
        database = await open_database(PoolOptions(url, connections_min=1, connections_max=6))
        try:
            yield Harness(url, database, connection, sink)
        finally:
            await database.aclose()
    finally:
        await connection.close(timeout=60)


def relay_of(
    harness: Harness, sink: Sink | Callable[[], Sink], *, database: Database | None = None,
    election: Election | None = None, metrics: RelayMetrics | None = None, outbox: Outbox | None = None,
) -> SinkRelay:  # fmt: skip
    """A relay that polls and backs off quickly. Several groups need a sink each, so something that makes them."""
    database, metrics = database or harness.database, metrics or RelayMetrics(CollectorRegistry())

    def harvester_of(_: int) -> Harvester:
        return Harvester(
            sink() if callable(sink) else sink,
            outbox or Outbox(database, harness.sink, INCARNATION, payload=True, horizon_seconds=0.05),
            Holds(database, harness.sink, INCARNATION),
            Wake(poll_seconds_min=0.01, poll_seconds_max=0.02), metrics,
            HarvesterOptions(backoff_seconds_first=0.02, backoff_seconds_max=0.05),
        )  # fmt: skip

    return SinkRelay(harness.sink, election or MemoryElection(harness.begin_term), harvester_of)


async def all_carried(harness: Harness) -> None:
    """Wait until nothing is owed, nothing held, and no hold stands."""

    async def carried() -> bool:
        return not (await harness.owed() or await harness.held() or await harness.holds())

    await until(carried)


class FaultyDatabase(Database):
    """Refuses the named statements as many times as ``faults`` says, before they reach the server."""

    def __init__(self, database: Database) -> None:
        super().__init__(database._pool, database.options)
        self.faults: dict[str, int] = {}

    def _pass(self, name: str) -> None:
        if self.faults.get(name, 0) > 0:
            self.faults[name] -= 1
            raise Unavailable(f"{name} does not reach the database")

    async def execute(self, name: str, *args: object) -> int:
        self._pass(name)
        return await super().execute(name, *args)

    async def fetchval(self, name: str, *args: object) -> Any:
        self._pass(name)
        return await super().fetchval(name, *args)

    async def fetchrow(self, name: str, *args: object) -> Row | None:
        self._pass(name)
        return await super().fetchrow(name, *args)

    async def fetch(self, name: str, *args: object) -> Sequence[Row]:
        self._pass(name)
        return await super().fetch(name, *args)


@asynccontextmanager
async def running(relay: SinkRelay) -> AsyncIterator[asyncio.Task[None]]:
    """Run a relay; at the end it is stopped softly and must come to an end by itself."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(relay.run())
        try:
            yield task
        finally:
            relay.stop()
            async with asyncio.timeout(DEADLINE_SECONDS):
                await asyncio.wait([task])

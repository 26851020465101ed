"""The sinks in the database itself at the harness: the webhook fan-out "keeps" deliveries, the sink of jobs keeps jobs.

Their records are rows before they are sent, so the harness stores each one when it is first sent; and their fence
is the term in the database, which an election raises before a sink is opened.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import asyncpg
import pytest

from app.bridges.fanout_sink import FanOutSink
from app.bridges.job_sink import JobSink
from db.pool import Database, PoolOptions, open_database
from jobs.jobs.event_jobs import EventJobs
from relay.record import Record
from relay.sink import Batch, Receipt, Sink, Term
from tests.contract.sinks.harness import Kept, SinkAdapter
from webhooks.fanout import FanOut


class Harness:
    refused_bytes = 0
    sink_name = "webhooks"

    def __init__(self, database: Database, sql: asyncpg.Connection) -> None:
        self.database = database
        self.sql = sql
        self._stored: set[int] = set()
        self.terms: dict[int, int] = {}

    def sink(self) -> ElectedSink:
        return ElectedSink(FanOutSink(FanOut(self.database, lambda _: None)), self)

    def unreachable(self) -> ElectedSink:
        raise NotImplementedError

    def homeless(self, record: Record) -> Record:
        raise NotImplementedError

    async def kept(self, topic: str) -> list[Kept]:
        rows = await self.sql.fetch(
            "SELECT e.id, e.key, e.payload, e.ordered FROM hookwire.deliveries d"
            " JOIN hookwire.events e ON e.id = d.event_id WHERE e.topic = $1 ORDER BY e.id",
            topic,
        )
        return [
            Kept(
                r["key"],
                r["payload"],
                f"evt_abcd2345_{r['id']}",
                r["id"] if r["ordered"] else None,
                self.terms[r["id"]],
            )
            for r in rows
        ]

    async def elect(self, term: Term) -> None:
        await self.sql.execute(
            "INSERT INTO hookwire.relay_terms (sink, grp, term) VALUES ($3, $1, $2)"
            " ON CONFLICT (sink, grp) DO UPDATE SET term = $2",
            term.group,
            term.number,
            self.sink_name,
        )

    async def store(self, record: Record) -> None:
        if record.id in self._stored:
            return
        await self.sql.execute(  # a cancelled call may have stored it or not
            "WITH event AS ("
            "  INSERT INTO hookwire.events (id, accepted_at, ordered, tenant, topic, key, headers, sinks, payload)"
            "  VALUES ($1, now(), $2, $3, $4, $5, '{}', ARRAY[$8::text], $6) ON CONFLICT DO NOTHING)"
            " INSERT INTO hookwire.outbox (id, layout, shard, sink) VALUES ($1, 1, $7, $8) ON CONFLICT DO NOTHING",
            record.id, record.sequence is not None, record.tenant, record.topic, record.key, record.payload,
            record.shard, self.sink_name,
        )  # fmt: skip
        self._stored.add(record.id)


class JobHarness(Harness):
    sink_name = "jobs"

    def sink(self) -> ElectedSink:
        return ElectedSink(JobSink(EventJobs(self.database, "abcd2345", lambda: None)), self)

    async def kept(self, topic: str) -> list[Kept]:
        rows = await self.sql.fetch(
            "SELECT e.id, e.ordered, nullif(j.key, '') AS key, convert_to(j.args->>'payload', 'UTF8') AS payload,"
            " j.args->>'event_id' AS event_id FROM hookwire.jobs j"
            " JOIN hookwire.events e ON j.args->>'event_id' = 'evt_abcd2345_' || e.id"
            " WHERE j.args->>'topic' = $1 ORDER BY j.seq",
            topic,
        )
        return [
            Kept(r["key"], r["payload"], r["event_id"], r["id"] if r["ordered"] else None, self.terms[r["id"]])
            for r in rows
        ]

    async def store(self, record: Record) -> None:
        await self.sql.execute(
            """INSERT INTO hookwire.topics (tenant, name, sinks, job) VALUES ($1, $2, '{jobs}', '{"kind": "k"}')"""
            " ON CONFLICT DO NOTHING",
            record.tenant, record.topic,
        )  # fmt: skip
        await super().store(record)


class ElectedSink:
    def __init__(self, inner: Sink, harness: Harness) -> None:
        self.name = inner.name
        self.features = inner.features
        self._inner = inner
        self._harness = harness

    async def open(self, term: Term) -> None:
        await self._harness.elect(term)
        await self._inner.open(term)

    async def send(self, batch: Batch) -> Receipt:
        for record in batch.records:
            await self._harness.store(record)
        receipt = await self._inner.send(batch)
        for record in receipt.acknowledged:
            self._harness.terms.setdefault(record.id, batch.term.number)
        return receipt

    async def close(self) -> None:
        await self._inner.close()


def _open(make: type[Harness]) -> Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[Harness]]:
    @asynccontextmanager
    async def opened(request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
        url = request.getfixturevalue("database_url")
        database = await open_database(PoolOptions(url))
        sql = await asyncpg.connect(url)
        await sql.execute(
            "INSERT INTO hookwire.subscriptions (public_id, protocol, topic, topic_regex, callback, state)"
            " VALUES ('sub_1', 'webhook', '#', '', 'https://a.example/', 'active')"
        )
        try:
            yield make(database, sql)
        finally:
            await sql.close()
            await database.aclose()

    return opened


ADAPTERS = [
    SinkAdapter(
        name, _open(make), fence="last", overlaps=False, manifests=False, refuses_large=False, connects=False,
        has_destinations=False,
    )
    for name, make in (("fan-out", Harness), ("jobs", JobHarness))
]  # fmt: skip

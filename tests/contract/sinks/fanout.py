"""The webhook fan-out at the harness, on a real database: what it "keeps" are deliveries.

Its records are rows before they are sent, so the harness's sink stores each one when it is first sent; and its fence is
the term in the database, which an election raises before a sink is opened.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from app.fanout_sink import FanOutSink
from db.pool import Database, PoolOptions, open_database
from relay.record import Record
from relay.sink import Batch, Receipt, Term
from tests.contract.sinks.harness import Kept, SinkAdapter
from webhooks.fanout import FanOut


class Harness:
    refused_bytes = 0

    def __init__(self, database: Database, sql: asyncpg.Connection) -> None:
        self.database = database
        self.sql = sql
        self._stored: set[int] = set()
        self.terms: dict[int, int] = {}

    def sink(self) -> StagedSink:
        return StagedSink(self)

    def unreachable(self) -> StagedSink:
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
            "INSERT INTO hookwire.relay_terms (sink, grp, term) VALUES ('webhooks', $1, $2)"
            " ON CONFLICT (sink, grp) DO UPDATE SET term = $2",
            term.group,
            term.number,
        )

    async def store(self, record: Record) -> None:
        if record.id in self._stored:
            return
        self._stored.add(record.id)
        await self.sql.execute(
            "WITH event AS ("
            "  INSERT INTO hookwire.events (id, accepted_at, ordered, tenant, topic, key, headers, sinks, payload)"
            "  VALUES ($1, now(), $2, $3, $4, $5, '{}', '{webhooks}', $6))"
            " INSERT INTO hookwire.outbox (id, layout, shard, sink) VALUES ($1, 1, $7, 'webhooks')",
            record.id, record.sequence is not None, record.tenant, record.topic, record.key, record.payload,
            record.shard,
        )  # fmt: skip


class StagedSink(FanOutSink):
    def __init__(self, harness: Harness) -> None:
        super().__init__(FanOut(harness.database, lambda _: None))
        self._harness = harness

    async def open(self, term: Term) -> None:
        await self._harness.elect(term)
        await super().open(term)

    async def send(self, batch: Batch) -> Receipt:
        for record in batch.records:
            await self._harness.store(record)
        receipt = await super().send(batch)
        for record in receipt.acknowledged:
            self._harness.terms.setdefault(record.id, batch.term.number)
        return receipt


@asynccontextmanager
async def _harness(request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    url = request.getfixturevalue("database_url")
    database = await open_database(PoolOptions(url))
    sql = await asyncpg.connect(url)
    await sql.execute(
        "INSERT INTO hookwire.subscriptions (public_id, protocol, topic, topic_regex, callback, state)"
        " VALUES ('sub_1', 'webhook', '#', '', 'https://a.example/', 'active')"
    )
    try:
        yield Harness(database, sql)
    finally:
        await sql.close()
        await database.aclose()


ADAPTERS = [
    SinkAdapter(
        "fan-out", _harness, fence="last", overlaps=False, manifests=False, refuses_large=False, connects=False,
        has_destinations=False,
    )
]  # fmt: skip

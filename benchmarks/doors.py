"""Events of others: the processor time of a signed webhook at a door, and the rate of a relay of anybody's table.

Each pair is measured in turns, the webhooks in both orders.

* A webhook as GitHub signs it, beside a publish of the same body, with and without an ``Idempotency-Key``. The figures
  are the processor time of the service, and of service and database.
* An outbox table that is mapped, beside goharvest's with the same rows. The broker is in memory, so that the tables are
  all that differs.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import logging
import os
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

import asyncpg
import httpx
import structlog

from benchmarks.clock import Clock
from benchmarks.harness import Harness, cpu_seconds, postgres_cpu_seconds, running_harness
from benchmarks.load import drive
from db.pool import PoolOptions, open_database
from db.statements import for_outbox
from relay.embeddable import Relay
from relay.goharvest.compat import CompatHarvester, CompatOptions
from relay.goharvest.compat_table import CompatTable
from relay.goharvest.mapped_table import MappedTable
from relay.goharvest.mapping import OutboxMapping
from relay.goharvest.outbox_table import OutboxTable
from relay.observer import Observer
from relay.sink import Features, Term
from tests.relay.memory import MemoryBroker, MemoryElection, MemorySink

__all__ = ["run"]

_SECRET = "a secret of this benchmark"
_BODY = b'{"ref":"refs/heads/main","text":"%s"}' % (b"x" * 560)
_CLIENTS = 16
_REQUESTS = 12_000
_NUMBERS = itertools.count()
_MAPPED = """CREATE TABLE public.mapped (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype varchar(255) NOT NULL,
    aggregateid varchar(255) NOT NULL, payload text, place bigserial);
CREATE INDEX ON public.mapped (place)"""
_FILL = {
    "public.mapped": "INSERT INTO public.mapped (aggregatetype, aggregateid, payload)"
    " SELECT 'pump', 'key-' || n % 1000, repeat('x', 200) FROM generate_series(1, $1::bigint) n",
    "public.compat": "INSERT INTO public.compat (create_time, kafka_topic, kafka_key, kafka_value, kafka_header_keys,"
    " kafka_header_values) SELECT now(), 'pump', 'key-' || n % 1000, repeat('x', 200), ARRAY['id'], ARRAY[n::text]"
    " FROM generate_series(1, $1::bigint) n",
}


@dataclass(frozen=True)
class _Spent:
    """Milliseconds of processor time for one request: of the service, and of service and database."""

    service: float
    both: float


async def run(seconds: float = 2.0, webhook_rounds: int = 12, relay_rounds: int = 5, rows: int = 60_000) -> list[str]:
    """Run both; return the lines to print."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    async with running_harness() as harness:
        lines = [f"load average {os.getloadavg()[0]:.1f}", *await _webhooks(harness, seconds, webhook_rounds)]
        return lines + await _relays(harness, relay_rounds, rows)


async def _webhooks(harness: Harness, seconds: float, rounds: int) -> list[str]:
    async with httpx.AsyncClient(base_url=harness.url, trust_env=False) as client:
        made = await client.put("/in/github", json={"preset": "github", "secret": _SECRET, "topic": "of-others"})
        made.raise_for_status()
    kinds = {"publish": _plain, "publish with an Idempotency-Key": _keyed, "signed webhook": _signed}
    found: dict[str, list[_Spent]] = {name: [] for name in kinds}
    for number in range(rounds):
        for name in list(kinds)[:: 1 if number % 2 else -1]:  # in both orders: a machine gets busier, or less busy
            requests = list(itertools.islice(kinds[name](harness.port), _REQUESTS))
            found[name].append(await _spent(harness, requests, seconds))
    service = {name: statistics.median(one.service for one in all_of) for name, all_of in found.items()}
    both = {name: statistics.median(one.both for one in all_of) for name, all_of in found.items()}
    lines = [
        f"{name:<32} {service[name]:.3f} ms of the service, {both[name]:.3f} ms with the database" for name in kinds
    ]
    for other in ("publish", "publish with an Idempotency-Key"):
        ratios = [part["signed webhook"] / part[other] for part in (service, both)]
        bar = " (bar 1.2)" if other == "publish" else ""
        lines.append(f"webhook beside {other}: {ratios[0]:.2f} of the service, {ratios[1]:.2f} with the database{bar}")
    return lines


async def _spent(harness: Harness, requests: list[bytes], seconds: float) -> _Spent:
    await drive("127.0.0.1", harness.port, requests[:500], _CLIENTS, 0.3)
    before = cpu_seconds(harness.pid), postgres_cpu_seconds(harness.postmaster)
    load = await drive("127.0.0.1", harness.port, requests[500:], _CLIENTS, seconds)
    after = cpu_seconds(harness.pid), postgres_cpu_seconds(harness.postmaster)
    done = len(load.latencies)
    if load.refused or done > len(requests) - 500:
        raise SystemExit(f"{load.refused} of {done} requests were refused, or some were sent twice")
    service, database = (1000 * (late - early) / done for early, late in zip(before, after, strict=True))
    return _Spent(service, service + database)


def _plain(port: int) -> Iterator[bytes]:
    while True:
        yield _request(port, "/topics/of-others/events", "")


def _keyed(port: int) -> Iterator[bytes]:
    while True:
        yield _request(port, "/topics/of-others/events", f"idempotency-key: {next(_NUMBERS):036d}\r\n")


def _signed(port: int) -> Iterator[bytes]:
    digest = hmac.new(_SECRET.encode(), _BODY, hashlib.sha256).hexdigest()
    while True:
        headers = f"x-github-event: push\r\nx-github-delivery: {next(_NUMBERS):036d}\r\n"
        yield _request(port, "/in/github", f"{headers}x-hub-signature-256: sha256={digest}\r\n")


def _request(port: int, path: str, headers: str) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n{headers}"
    return head.encode() + b"content-length: %d\r\n\r\n" % len(_BODY) + _BODY


async def _relays(harness: Harness, rounds: int, rows: int) -> list[str]:
    sql = await asyncpg.connect(harness.database_url)
    try:
        await sql.execute(_MAPPED)
        await sql.execute(for_outbox("public.compat")["compat.create_table"])
        rates: dict[str, list[float]] = {name: [] for name in _FILL}
        for _ in range(rounds):
            for name, fill in _FILL.items():
                await sql.execute(fill, rows)
                await sql.execute(f"VACUUM ANALYZE {name}")
                rates[name].append(await _drained(harness, name, rows))
    finally:
        await sql.close()
    mapped, compat = (statistics.median(rates[name]) for name in _FILL)
    return [
        f"mapped table                     {mapped:,.0f} rows/s, median of {rounds}",
        f"goharvest's table (compat mode)  {compat:,.0f} rows/s",
        f"mapped beside compat: {mapped / compat:.2f} (bar 0.9)",
    ]


async def _drained(harness: Harness, name: str, rows: int) -> float:
    database = await open_database(PoolOptions(harness.database_url))
    table: OutboxTable = CompatTable(database, name)
    if name == "public.mapped":
        mapping = OutboxMapping(
            table=name, id="id", topic="aggregatetype", key="aggregateid", payload="payload",
            headers="jsonb_build_object('id', id)", order="place",
        )  # fmt: skip
        mapped = table = MappedTable(database, mapping)
        await mapped.look_at()
    clock = Clock(rows)

    async def begin_term() -> Term:
        await database.execute("term.ensure", [table.name])
        row = await database.fetchrow("term.raise", table.name, 0, "bench", 60.0)
        assert row is not None, "the lease is free"
        return Term(table.name, 0, row["term"], row["layout"], row["batch_no"])

    observer = _ClockedObserver(table.name, clock)
    sink = MemorySink(MemoryBroker(), Features(window="batch", batch_records_max=2_000, overlap=1))
    harvester = CompatHarvester(table, sink, MemoryElection(begin_term), observer, CompatOptions())
    async with Relay([(harvester, observer)]) as relay:
        await clock.done.wait()
        rate = clock.rate()
        relay.stop()
        await relay.wait()
    await database.aclose()
    return rate


class _ClockedObserver(Observer):
    """An observer that also notifies the clock."""

    def __init__(self, name: str, clock: Clock) -> None:
        super().__init__(name)
        self._clock = clock

    def acknowledged(self, records: int) -> None:
        """Count confirmed records."""
        super().acknowledged(records)
        self._clock.acknowledged(records)

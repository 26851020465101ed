"""The relay against a goharvest-shaped drain, on the same PostgreSQL and the same Kafka, in one run (RB-14, RB-15).

    python -m benchmarks.relay --events 100000 --rounds 3

The yardstick works as goharvest does by default, on a table of goharvest's shape. It marks 100 rows at a time with its
leader id. It passes each record by its key to one of eight cells, each with a producer. A cell sends one record at a
time for each key, and deletes each row alone. All statements share two connections. The yardstick drains a twentieth of
the events. Ours is the harvester with its real outbox, manifests and Kafka sink, in both modes.

A second row runs the yardstick with one producer for all cells, so that records of different cells may share the
client's batches. Different machines favour different rows, so both ratios are printed.

Two more rows measure the halves of our relay alone. The database's side has a sink that confirms at once and stores
nothing. The producer's side has records in memory. A last part compares one `hookwire relay` process with two, on a
backlog of one commit. Its clock runs from that commit to the empty outbox. Every bar is printed beside its ratio.

Events have 100 bytes and no headers of their own; our relay adds four, the yardstick one. Tables are filled in bulk and
written to disk before the clock starts. The clock runs from the first acknowledged batch to the last purge. Contenders
alternate. The output has each median rate. For each event it has the processor time of the relay's process and of
PostgreSQL, and the bytes of write-ahead log.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import uuid
import zlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
from aiokafka import AIOKafkaProducer

from benchmarks.clock import Clock
from benchmarks.drain import PAYLOAD, Bench, Costs, Mode, drain, line, on_servers, opened, to_kafka
from benchmarks.halves import nowhere, producing
from benchmarks.pair import by_processes

MARK_ROWS = 100
IN_FLIGHT_MAX = 1_000
CELLS = 8
YARDSTICK = "goharvest-shaped"
MODES: tuple[Mode, ...] = ("idempotent", "transactional")
BARS = {1_000: 30, 10: 90}
"""By number of keys: the smallest ratio of the idempotent mode's rate to the yardstick's rate."""

YARDSTICK_TABLE = """
CREATE TABLE outbox (
    id bigserial PRIMARY KEY, create_time timestamptz NOT NULL DEFAULT now(), kafka_topic varchar(249) NOT NULL,
    kafka_key varchar(100) NOT NULL, kafka_value varchar(10000), kafka_header_keys text[] NOT NULL,
    kafka_header_values text[] NOT NULL, leader_id uuid
)
"""
YARDSTICK_FILL = """
INSERT INTO outbox (kafka_topic, kafka_key, kafka_value, kafka_header_keys, kafka_header_values)
SELECT $1, 'key ' || n % $2, $4, '{Seq}', ARRAY[n::text] FROM generate_series(1, $3::integer) AS n
"""
YARDSTICK_MARK = """
UPDATE outbox SET leader_id = $1 WHERE id IN (
    SELECT id FROM outbox WHERE leader_id IS NULL OR leader_id <> $1 ORDER BY id LIMIT $2
) RETURNING id, kafka_topic, kafka_key, kafka_value, kafka_header_keys, kafka_header_values
"""


class Yardstick:
    """goharvest's loop: mark rows, send each record alone with one in flight per key, delete each row alone."""

    def __init__(self, pool: asyncpg.Pool, producers: Sequence[AIOKafkaProducer], clock: Clock) -> None:
        self._pool = pool
        self._producers = producers
        self._clock = clock
        self._leader = uuid.uuid4()
        self._slots = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._busy: dict[str, asyncio.Event] = {}

    async def run(self) -> None:
        """Drain until the clock is done."""
        async with asyncio.TaskGroup() as sends:
            while not self._clock.done.is_set():
                marked = await self._pool.fetch(YARDSTICK_MARK, self._leader, MARK_ROWS)
                if not marked:
                    await asyncio.sleep(0.01)
                for row in sorted(marked, key=lambda row: row["id"]):
                    while (busy := self._busy.get(row["kafka_key"])) is not None:
                        await busy.wait()
                    await self._slots.acquire()
                    self._busy[row["kafka_key"]] = asyncio.Event()
                    sends.create_task(self._carry(row))

    async def _carry(self, row: Any) -> None:
        key = row["kafka_key"].encode()
        headers = [(k, v.encode()) for k, v in zip(row["kafka_header_keys"], row["kafka_header_values"], strict=True)]
        cell = self._producers[zlib.crc32(key) % len(self._producers)]
        await cell.send_and_wait(row["kafka_topic"], row["kafka_value"].encode(), key, headers=headers)
        await self._pool.execute("DELETE FROM outbox WHERE id = $1", row["id"])
        self._busy.pop(row["kafka_key"]).set()
        self._slots.release()
        self._clock.acknowledged(1)


async def goharvest_shaped(bench: Bench, events: int, keys: int, producers_count: int = CELLS) -> Costs:
    """Drain once with the yardstick; return the costs."""
    topic = await bench.topic()
    await bench.connection.execute("TRUNCATE outbox")
    await bench.connection.execute(YARDSTICK_FILL, topic, keys, events, PAYLOAD.decode())
    await bench.settle("outbox")
    clock = bench.clock(events)
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(asyncpg.create_pool(bench.url, min_size=2, max_size=2))
        producers = [
            await stack.enter_async_context(
                AIOKafkaProducer(bootstrap_servers=bench.bootstrap, enable_idempotence=True)
            )
            for _ in range(producers_count)
        ]
        await clock.start()
        await Yardstick(pool, producers, clock).run()
        return await clock.stopped()


# --- the run ----------------------------------------------------------------------------------------------------


async def compare(bench: Bench, events: int, rounds: int, keys: int) -> None:
    """Measure ours, the yardstick and our halves in turns."""
    contenders: dict[str, Callable[[], Awaitable[Costs]]] = {
        YARDSTICK: lambda: goharvest_shaped(bench, max(events // 20, 100), keys),
        "same, one producer": lambda: goharvest_shaped(bench, max(events // 20, 100), keys, 1),
        "idempotent": lambda: drain(bench, to_kafka(bench, "idempotent"), events, keys),
        "transactional": lambda: drain(bench, to_kafka(bench, "transactional"), events, keys),
        "database alone": lambda: drain(bench, nowhere, events, keys),
        "producer alone": lambda: producing(bench, "idempotent", events, keys),
    }
    figures: dict[str, list[Costs]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, contender in contenders.items():
            figures[name].append(await contender())
    print(f"{events} events of {len(PAYLOAD)} bytes, {keys} keys, {rounds} rounds")
    rates = {name: statistics.median(costs.rate for costs in rows) for name, rows in figures.items()}
    for name, rows in figures.items():
        print(line(name, rows, f"{rates[name] / rates[YARDSTICK]:6.1f} x"), flush=True)
    bar("idempotent / goharvest-shaped", rates["idempotent"] / rates[YARDSTICK], BARS[keys])
    bar("transactional / idempotent", rates["transactional"] / rates["idempotent"], 0.7)
    slower_half = min(rates["database alone"], rates["producer alone"])
    bar("idempotent / the slower half alone", rates["idempotent"] / slower_half, 0.6)


async def share(bench: Bench, events: int, rounds: int) -> None:
    """Measure one relay process and two, in turns."""
    for mode in MODES:
        rates: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(rounds):
            for count, found in rates.items():
                found.append(await by_processes(bench, mode, count, events))
        one, two = (statistics.median(found) for found in rates.values())
        print(f"{mode}, one process {one:,.0f} events/s, two {two:,.0f} events/s")
        bar("two relays / one", two / one, 1)


def bar(name: str, ratio: float, least: float) -> None:
    """Print a ratio beside its bar."""
    print(f"  {name:36} {ratio:6.2f} (bar {least:g}: {'met' if ratio >= least else 'missed'})", flush=True)


async def run(options: argparse.Namespace, server_url: str, bootstrap: str, postmaster: int | None) -> None:
    """Run all comparisons on these servers."""
    async with opened(server_url, bootstrap, postmaster) as bench:
        await bench.connection.execute(YARDSTICK_TABLE)
        for keys in BARS:
            await compare(bench, options.events, options.rounds, keys)
        await share(bench, options.events * 2, options.rounds)


def main() -> None:
    """Run on own servers, or on those that the environment names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    on_servers(lambda *servers: run(options, *servers))


if __name__ == "__main__":
    main()

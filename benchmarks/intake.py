"""Records of a Kafka topic that become events, beside ndjson publishing of 500 events a request, in one run.

    python -m benchmarks.intake --events 60000 --rounds 3

Events have 1 KB and 1,000 keys. There are no subscriptions, and no sink but the webhooks. A hub with all roles runs all
the time, so its relay carries the events of both contenders. The yardstick posts over two connections, which keep the
two writers of the hub busy. An ndjson batch has one key, so each request has the next of the 1,000 keys. Our contender
is two processes that only read sources. They share a topic of four partitions that was filled before.

The yardstick's clock runs from the first request to the last answer. Ours runs from the moment when both processes have
partitions to the last offset. What was taken before that moment does not count. Contenders alternate, and each begins
with an empty outbox. The output has the median of the rates and their ratio.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import asyncpg
import uvloop
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from benchmarks.harness import Harness, running_harness
from benchmarks.load import drive
from scripts.servers.fleet import take_server

_KEYS = 1_000
_BATCH = 500
_PARTITIONS = 4
_CONNECTIONS = 2
_PROCESSES = 2
_SLOWEST = 500
"""Records a second at which a benchmark gives up."""
_BAR = 0.8
_LINE = b'{"x":"%b"}' % (b"x" * 1_015)
_TAKEN = """
SELECT sum(taken)::bigint AS taken, count(DISTINCT reader) AS readers FROM hookwire.source_offsets WHERE source = $1
"""


async def run(kafka: str, events: int, rounds: int) -> None:
    """Run both contenders in turns and print their rates."""
    yardstick, ours = [], []
    async with running_harness(kafka_source_servers=kafka) as harness:
        for number in range(rounds):
            yardstick.append(await _by_http(harness, events))
            await _drained(harness)
            ours.append(await _by_kafka(harness, kafka, f"bench-{number}", events))
            await _drained(harness)
    ratio = statistics.median(ours) / statistics.median(yardstick)
    print(f"ndjson, {_BATCH} a request, two writers {_line(yardstick)}")
    print(f"Kafka source, two processes         {_line(ours)}")
    print(f"  {ratio:.2f} of ndjson publishing (bar {_BAR})", flush=True)


def _line(rates: list[float]) -> str:
    return f"{statistics.median(rates):8,.0f} events/s ({min(rates):,.0f}-{max(rates):,.0f})"


async def _by_http(harness: Harness, events: int) -> float:
    """Return events per second of ndjson requests."""
    body = b"\n".join([_LINE] * _BATCH)
    requests = [
        b"POST /topics/bench/events?key=k%d HTTP/1.1\r\nhost: 127.0.0.1:%d\r\ncontent-type: application/x-ndjson\r\n"
        b"content-length: %d\r\n\r\n" % (number, harness.port, len(body)) + body
        for number in range(_KEYS)
    ]  # fmt: skip
    began = time.perf_counter()
    seconds, done = 2.0, 0
    while done < events:
        load = await drive("127.0.0.1", harness.port, requests, _CONNECTIONS, seconds)
        assert load.refused == 0, "every publish of the benchmark is acknowledged"
        done += _BATCH * len(load.latencies)
    return done / (time.perf_counter() - began)


async def _by_kafka(harness: Harness, kafka: str, topic: str, events: int) -> float:
    """Return records per second that two processes take."""
    await fill(kafka, topic, events)
    connection = await asyncpg.connect(harness.database_url)
    harness.environment["HOOKWIRE_KAFKA_SOURCES"] = f"{topic}?topic=bench&start=earliest"
    try:
        with ExitStack() as stack:
            for _ in range(_PROCESSES):
                stack.enter_context(harness.process("serve", "--role", "source"))
            first, began = await _until(connection, topic, lambda _, readers: readers == _PROCESSES)
            last, ended = await _until(connection, topic, lambda taken, _: taken == events, events)
    finally:
        await connection.close()
    return (last - first) / (ended - began)


async def _until(
    connection: asyncpg.Connection[asyncpg.Record], topic: str, holds: Callable[[int, int], bool], records: int = 0
) -> tuple[int, float]:
    async with asyncio.timeout(300 + records / _SLOWEST):
        while True:
            row = await connection.fetchrow(_TAKEN, topic)
            assert row is not None, "an aggregate has a row"
            if holds(row["taken"] or 0, row["readers"]):
                return row["taken"], time.perf_counter()
            await asyncio.sleep(0.05)


async def _drained(harness: Harness) -> None:
    """Wait until the relay has carried all events."""
    connection = await asyncpg.connect(harness.database_url)
    try:
        async with asyncio.timeout(300):
            while await connection.fetchval("SELECT count(*) FROM hookwire.outbox"):  # noqa: ASYNC110 - the database
                await asyncio.sleep(0.1)
    finally:
        await connection.close()


async def until_taken(harness: Harness, topic: str, count: int) -> None:
    """Wait until so many records of a Kafka topic are taken."""
    connection = await asyncpg.connect(harness.database_url)
    try:
        await _until(connection, topic, lambda taken, _: taken >= count, count)
    finally:
        await connection.close()


async def fill(kafka: str, topic: str, events: int) -> None:
    """Make a Kafka topic with so many records."""
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, num_partitions=_PARTITIONS, replication_factor=1)])
    finally:
        await admin.close()
    async with AIOKafkaProducer(bootstrap_servers=kafka, linger_ms=20, max_batch_size=262_144) as producer:
        for number in range(events):
            await producer.send(topic, _LINE, b"k%d" % (number % _KEYS))
        await producer.flush()


def main() -> None:
    """Run with the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.intake", description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=60_000, help="events of a contender in a round")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of both contenders")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hookwire-bench-") as folder:
        kafka = take_server("kafka", Path(folder), os.environ, lasting=True)
        try:
            uvloop.run(run(kafka.address, wanted.events, wanted.rounds))
        finally:
            kafka.discard()


if __name__ == "__main__":
    main()

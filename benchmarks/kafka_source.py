"""A Kafka source: from the append to the webhook, the gap of a rebalance, and the memory that a lag takes.

    python -m benchmarks.kafka_source --seconds 20 --lag 1000000

Records have 1 KB, and 200 of them are appended a second. For the first figure, one subscriber takes them. For the
second, another process joins, and then leaves; the gap is the longest time that a record waited in Kafka. For the
third, one process takes a short lag and another a long one. Each starts while the source is paused, and its memory is
read then. It grows from there to its peak. The slope of the growth is printed for 10^6 records.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from pathlib import Path

import asyncpg
import httpx
import uvloop
from aiokafka import AIOKafkaProducer

from benchmarks.harness import Harness, Sink, peak_bytes, running_harness, running_sink
from benchmarks.intake import fill, until_taken
from scripts.servers.fleet import take_server

_RATE = 200
_KEYS = 1_000
_BYTES = 1_024
_SHORT_LAG = 100_000
_PAUSED = "SELECT count(*) FROM hookwire.process_states WHERE kind = 'source' AND name = $1 AND state = 'paused'"
_SERVE_SOURCE = ("serve", "--role", "source")


async def run(kafka: str, seconds: float, lag: int) -> None:
    """Measure all three, and print them."""
    async with running_sink() as sink, running_harness(kafka_source_servers=kafka) as harness:
        p50, p99 = await _latency(harness, kafka, sink, seconds)
        print(f"append to received at {_RATE}/s   p50 {p50:.1f} ms, p99 {p99:.1f} ms (bar 100)", flush=True)
        joined, left = await _gaps(harness, kafka, seconds)
        print(f"longest wait of a record       {joined:.2f} s at a join, {left:.2f} s at a leave (bar 3)", flush=True)
        short, long = await _growth(harness, kafka, _SHORT_LAG), await _growth(harness, kafka, lag)
        slope = (long[1] - short[1]) / (lag - _SHORT_LAG)  # bytes a record, which is MB for 10^6 records
        print(f"memory for 10^6 records of lag {slope:.1f} MB (bar 10)", flush=True)
        for count, (start, growth) in ((_SHORT_LAG, short), (lag, long)):
            print(f"  lag {count:9,}: {start / 1e6:.1f} MB at the start, and {growth / 1e6:.1f} MB more", flush=True)


async def _latency(harness: Harness, kafka: str, sink: Sink, seconds: float) -> tuple[float, float]:
    async with httpx.AsyncClient(base_url=harness.url, trust_env=False) as client:
        wanted = {"topic": "timed", "callback": f"http://127.0.0.1:{sink.port}/", "ordered": True}
        (await client.post("/subscriptions", json=wanted)).raise_for_status()
    await fill(kafka, "timed", 0)
    harness.environment["HOOKWIRE_KAFKA_SOURCES"] = "timed?start=earliest"
    with harness.process(*_SERVE_SOURCE):
        await _append(kafka, "timed", 3)
        await sink.until(3 * _RATE, 120)  # all parts are warm
        await sink.clear()
        await _append(kafka, "timed", seconds)
        counted = await sink.until(int(seconds * _RATE), 120)
    return counted.p50, counted.p99


async def _gaps(harness: Harness, kafka: str, seconds: float) -> tuple[float, float]:
    """Return the longest wait of a record while a process joins, and while it leaves."""
    await fill(kafka, "moved", 0)
    harness.environment["HOOKWIRE_KAFKA_SOURCES"] = "moved?start=earliest"
    with harness.process(*_SERVE_SOURCE):
        await _append(kafka, "moved", 1)
        await until_taken(harness, "moved", _RATE)
        append = asyncio.create_task(_append(kafka, "moved", 2 * seconds))
        began = time.time()
        with harness.process(*_SERVE_SOURCE):
            await asyncio.sleep(seconds)
            ended = time.time()
        await append
        await until_taken(harness, "moved", _RATE + int(2 * seconds * _RATE))
    connection = await asyncpg.connect(harness.database_url)
    try:
        rows = await connection.fetch(
            "SELECT extract(epoch FROM (headers ->> 'x-kafka-timestamp')::timestamptz)::float AS appended,"
            " extract(epoch FROM accepted_at)::float AS taken FROM hookwire.events WHERE topic = 'moved'"
        )
    finally:
        await connection.close()
    waits = [(row["appended"], row["taken"] - row["appended"]) for row in rows if row["appended"] > began]
    return max(wait for at, wait in waits if at <= ended), max(wait for at, wait in waits if at > ended)


async def _growth(harness: Harness, kafka: str, lag: int) -> tuple[int, int]:
    """Return the memory of a process before it reads, and how much more it takes for a lag, in bytes."""
    topic = f"lag-{lag}"
    await fill(kafka, topic, lag)
    harness.environment["HOOKWIRE_KAFKA_SOURCES"] = f"{topic}?start=earliest"
    harness.environment["HOOKWIRE_KAFKA_SOURCE_BACKLOG_MAX"] = "10000000"
    connection = await asyncpg.connect(harness.database_url)
    try:
        await connection.execute("INSERT INTO hookwire.sources (name, is_paused) VALUES ($1, true)", topic)
        with harness.process(*_SERVE_SOURCE) as child:
            async with asyncio.timeout(120):
                while not await connection.fetchval(_PAUSED, topic):  # noqa: ASYNC110 - the database
                    await asyncio.sleep(0.1)
            start = peak_bytes(child.pid)
            await connection.execute("UPDATE hookwire.sources SET is_paused = false WHERE name = $1", topic)
            await until_taken(harness, topic, lag)
            return start, peak_bytes(child.pid) - start
    finally:
        await connection.close()


async def _append(kafka: str, topic: str, seconds: float) -> None:
    """Append at the fixed rate; each value begins with its time, which the sink subtracts."""
    async with AIOKafkaProducer(bootstrap_servers=kafka) as producer:
        began, sent = time.perf_counter(), 0
        while sent < int(seconds * _RATE):
            due = min(int((time.perf_counter() - began) * _RATE) + 1, int(seconds * _RATE))
            for number in range(sent, due):
                value = f"t={time.time():018.7f} ".encode().ljust(_BYTES, b"x")
                await producer.send(topic, value, b"k%d" % (number % _KEYS))
            sent = due
            await asyncio.sleep(0.002)
        await producer.flush()


def main() -> None:
    """Run with the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kafka_source", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20, help="seconds of each measured load")
    parser.add_argument("--lag", type=int, default=1_000_000, help="records of the long lag, more than 100,000")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hookwire-bench-") as folder:
        kafka = take_server("kafka", Path(folder), os.environ, lasting=True)
        try:
            uvloop.run(run(kafka.address, wanted.seconds, wanted.lag))
        finally:
            kafka.discard()


if __name__ == "__main__":
    main()

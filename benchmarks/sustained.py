"""Insert and relay for a long time with autovacuum on, and the time from an event's COMMIT to Kafka's acknowledgement.

    python -m benchmarks.sustained --minutes 30
    python -m benchmarks.sustained --minutes 5 --rate 10000
    python -m benchmarks.sustained --minutes 0              # the times to Kafka alone

First the relay alone drains a backlog; this gives the drain rate. Then publishers in a process of their own store 0.7
of that rate (or ``--rate``) by `hookwire.publish_batch`. A `hookwire relay` with its clean-up carries the events to
Kafka. Every half minute a line shows the backlog, the size of the tables and the work of autovacuum. Publishers and
relay share the machine. If the publishers cannot reach their rate, the line of results shows the rate they reached.

The second part publishes one event per commit, 600 per second, on a warm broker. Each mode runs for a while before it
is measured, because a JVM that compiles its code takes up to twice the processor time. The relay runs in this
process, so that the time of Kafka's acknowledgement is known; in transactional mode it is that of the transaction's
end. A read-committed consumer in a process of its own notes when it has each record. The measured time begins with
the answer to COMMIT. The best published figures of a rival, on two cores: 13 and 87 ms, 1,200 to 1,400/s sustained,
3,440 to 3,656/s drain. A line shows the processor time of the relay and of the publishers' server, and the number of
batches of the sink.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar, NamedTuple

from benchmarks.drain import (
    Bench,
    ClockedMetrics,
    Mode,
    SinkOf,
    drain,
    on_servers,
    opened,
    own_cpu_seconds,
    relaying,
    to_kafka,
)
from benchmarks.harness import postgres_cpu_seconds
from benchmarks.pair import led_by, relay_process
from db.direct import connect_direct
from db.pool import PoolOptions
from relay.election.port import Election
from relay.kafka.sink import KafkaOptions, KafkaSink
from relay.sink import Batch, Receipt, Sink

_DRAINED = 200_000
_KEYS = 1_000
_SHARE = 0.7
_LATENCY_RATE = 600
_SETTLING_SECONDS = 3.0
_WARMING_SECONDS = 30.0
_CONSUMED_SECONDS = 2.0
"""So long a consumer may be behind the last acknowledgement."""
_LINES_BYTES_MAX = 2**26
_COUNTED_MAX = 5_000_000
_TO_KAFKA_ALONE = "INSERT INTO hookwire.topics (tenant, name, sinks) VALUES ('default', $1, '{kafka}')"
_LOOK = f"""
SELECT (SELECT count(*) FROM (SELECT FROM hookwire.outbox LIMIT {_COUNTED_MAX}) AS few) AS backlog,
       pg_total_relation_size('hookwire.outbox') / 1e6 AS outbox,
       (SELECT sum(pg_total_relation_size(i.inhrelid)) / 1e6 FROM pg_inherits i
        WHERE i.inhparent = 'hookwire.events'::regclass) AS events,
       (pg_total_relation_size('hookwire.ledger_entries') + pg_total_relation_size('hookwire.relay_batches')
        + pg_total_relation_size('hookwire.relay_terms')) / 1e6 AS notes,
       s.n_dead_tup AS dead, s.autovacuum_count AS vacuums
FROM pg_stat_user_tables s WHERE s.relid = 'hookwire.outbox'::regclass
"""


# --- sustained ----------------------------------------------------------------------------------------------------


async def sustain(bench: Bench, rate: float, seconds: float, mode: Mode) -> None:
    """Insert and relay; prints a line for each look and one for all."""
    await bench.connection.execute("TRUNCATE hookwire.outbox, hookwire.events, hookwire.ledger_entries")
    topic = await bench.topic(**{"retention.bytes": "200000000", "segment.bytes": "50000000"})
    await bench.connection.execute(_TO_KAFKA_ALONE, topic)
    with relay_process(bench, mode) as relay:
        await led_by(bench, 1)
        began = time.monotonic()
        writer = await _writer(bench, topic, "bulk", rate, seconds)
        backlogs = await _watch(bench, relay.pid, began, seconds)
        stored = int((await writer.communicate())[0])
        await bench.emptied()
        seconds_needed = time.monotonic() - began - seconds
    third = max(len(backlogs) // 3, 1)
    print(
        f"  {mode}: {stored / seconds:,.0f} events/s of {rate:,.0f} wanted, for {seconds / 60:g} minutes; the largest"
        f" backlog was {max(backlogs[:third]):,} in the first third and {max(backlogs[-third:]):,} in the last;"
        f" carried to the last event {max(seconds_needed, 0):.1f} s after the last commit",
        flush=True,
    )


async def _watch(bench: Bench, relay: int, began: float, seconds: float) -> list[int]:
    """Look at the tables until the time is over; the backlogs that were seen."""
    backlogs: list[int] = []
    every = min(30.0, seconds / 10)
    print("  minute  backlog  outbox MB  dead rows  autovacuums  events MB  notes MB  relay MB")
    while (left := began + seconds - time.monotonic()) > 0:
        await asyncio.sleep(min(every, left))
        [row] = await bench.connection.fetch(_LOOK)
        backlogs.append(row["backlog"])
        print(
            f"  {(time.monotonic() - began) / 60:6.1f} {row['backlog']:8,} {row['outbox']:10,.0f} {row['dead']:10,}"
            f" {row['vacuums']:12} {row['events']:10,.0f} {row['notes']:9,.0f} {_resident_megabytes(relay):9,.0f}",
            flush=True,
        )
    return backlogs


def _resident_megabytes(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(status.partition("VmRSS:")[2].split()[0]) / 1e6


async def _writer(bench: Bench, topic: str, kind: str, rate: float, seconds: float) -> asyncio.subprocess.Process:
    command = (sys.executable, "-m", "benchmarks.writer", bench.url, topic, kind, str(rate), str(seconds))
    return await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)


# --- from COMMIT to Kafka ---------------------------------------------------------------------------------------------


class TimedSink(KafkaSink):
    """A sink that notes when each record was acknowledged. ``sent`` counts the batches of all groups."""

    sent: ClassVar[int] = 0

    def __init__(self, acknowledged: dict[int, float], options: KafkaOptions, election: Election, group: int) -> None:
        super().__init__(options, lambda: election.trusted(group))
        self._acknowledged = acknowledged

    async def send(self, batch: Batch) -> Receipt:
        """Send the batch, and note the time of its acknowledgements."""
        receipt = await super().send(batch)
        TimedSink.sent += 1
        now = time.time()
        self._acknowledged.update((record.id, now) for record in receipt.acknowledged)
        return receipt


def timed(bench: Bench, mode: Mode, acknowledged: dict[int, float]) -> SinkOf:
    """Build the Kafka sink with the notes of time."""
    incarnation = f"timed{mode[:2]}"

    def made(election: Election, group: int) -> Sink:
        return TimedSink(acknowledged, KafkaOptions(bench.bootstrap, incarnation, mode), election, group)

    return made


class Delays(NamedTuple):
    """The milliseconds from COMMIT, of each event without those of the first seconds."""

    to_acknowledgement: list[float]
    to_consumer: list[float]


async def delays(bench: Bench, mode: Mode, seconds: float) -> Delays:
    """Publish with one relay and one consumer, and return the times of each event."""
    await bench.connection.execute("TRUNCATE hookwire.outbox, hookwire.events, hookwire.ledger_entries")
    await bench.connection.execute("UPDATE hookwire.sinks SET configured = (name = 'kafka')")
    topic = await bench.topic()
    acknowledged: dict[int, float] = {}
    metrics = ClockedMetrics(bench.clock(0))
    consumer = await _consumer(bench, topic)
    async with relaying(bench, timed(bench, mode, acknowledged), metrics) as ours:
        listener = await connect_direct(PoolOptions(bench.url))
        await listener.listen("hookwire_outbox", lambda _: ours.notify())
        writer = await _writer(bench, topic, "single", _LATENCY_RATE, seconds + _SETTLING_SECONDS)
        committed = _times((await writer.communicate())[0])
        await bench.emptied()
        await asyncio.sleep(_CONSUMED_SECONDS)
        consumed = _times((await consumer.communicate(b""))[0])
        await listener.aclose()
    began = min(committed.values()) + _SETTLING_SECONDS
    measured = {number: moment for number, moment in committed.items() if moment >= began}
    return Delays(*([1000 * (ends[number] - moment) for number, moment in measured.items()]
                    for ends in (acknowledged, consumed)))  # fmt: skip


async def _consumer(bench: Bench, topic: str) -> asyncio.subprocess.Process:
    """Start a consumer; return it once it reads."""
    command = (sys.executable, "-m", "benchmarks.consumer", bench.bootstrap, topic)
    pipe = subprocess.PIPE
    consumer = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=_LINES_BYTES_MAX)
    assert consumer.stdout is not None
    await consumer.stdout.readline()
    return consumer


def _times(lines: bytes) -> dict[int, float]:
    """Return the time of each event, in lines with its number and its time."""
    return {int(number): float(moment) for number, moment in (line.split() for line in lines.decode().splitlines())}


async def latency(bench: Bench, seconds: float) -> None:
    """Measure both modes at 600 events per second."""
    all_bars: dict[Mode, tuple[str, str]] = {
        "idempotent": ("bars 10 and 40", "no bar"), "transactional": ("bar of the p99 60", "bars 18 and 57"),
    }  # fmt: skip
    for mode, (bars, consumer_bars) in all_bars.items():
        await delays(bench, mode, _WARMING_SECONDS)
        sent, relay, server = TimedSink.sent, own_cpu_seconds(), _server_seconds(bench)
        found = await delays(bench, mode, seconds)
        count = len(found.to_acknowledgement)
        each = 1000 / (count * (seconds + _SETTLING_SECONDS) / seconds)
        print(
            f"COMMIT to Kafka's acknowledgement, {mode}, {count / seconds:.0f}/s for {seconds:.0f} s:"
            f" {_shown(found.to_acknowledgement)} ({bars}); to a read-committed consumer {_shown(found.to_consumer)}"
            f" ({consumer_bars});"
            f" {each / 1000 * (TimedSink.sent - sent):.2f} batches, {each * (own_cpu_seconds() - relay):.2f} ms of the"
            f" relay and {each * (_server_seconds(bench) - server):.2f} of PostgreSQL for an event",
            flush=True,
        )


def _shown(milliseconds: list[float]) -> str:
    cuts = statistics.quantiles(milliseconds, n=100, method="inclusive")
    return f"p50 {cuts[49]:.1f} ms, p99 {cuts[98]:.1f} ms"


def _server_seconds(bench: Bench) -> float:
    return postgres_cpu_seconds(bench.postmaster) if bench.postmaster is not None else 0.0


# --- the run ------------------------------------------------------------------------------------------------------


async def run(options: argparse.Namespace, server_url: str, bootstrap: str, postmaster: int | None) -> None:
    """Run both parts on these servers."""
    async with opened(server_url, bootstrap, postmaster) as bench:
        assert await bench.connection.fetchval("SHOW autovacuum") == "on"
        for mode in options.modes if options.minutes else ():
            rates = [(await drain(bench, to_kafka(bench, mode), _DRAINED, _KEYS)).rate for _ in range(3)]
            drained = statistics.median(rates)
            rate = options.rate or _SHARE * drained
            print(f"{mode}: drain {drained:,.0f} events/s, wanted {rate:,.0f} ({rate / drained:.2f})", flush=True)
            await sustain(bench, rate, 60 * options.minutes, mode)
        await latency(bench, options.latency_seconds)


def main() -> None:
    """Run on own servers, or on those that the environment names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=1.0, help="minutes for each mode; 0: only the times to Kafka")
    parser.add_argument("--rate", type=float, help="events a second, instead of 0.7 of the drain rate")
    parser.add_argument("--modes", nargs="+", choices=["idempotent", "transactional"], default=["idempotent"])
    parser.add_argument("--latency-seconds", type=float, default=30.0)
    options = parser.parse_args()
    on_servers(lambda *servers: run(options, *servers))


if __name__ == "__main__":
    main()

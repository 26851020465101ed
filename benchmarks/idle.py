"""The statements that an idle one-process service sends to its database, and the delay of the first event after that.

The server's log notes every statement for a minute. The first run has webhooks only, as `make run` has. The second run
also has a Kafka with four partition groups and an AMQP broker. `--seconds 600` watches for ten minutes, the idle time
of the bar for the first event.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import asyncpg
import httpx

from benchmarks.harness import Harness, Sink, running_harness, running_sink
from db.statements import STATEMENTS
from scripts.servers.fleet import take_server

_BAR = 2.0
_FIRST_EVENT_BAR = 20
_OURS = "/* watching */"
_SETTLING_SECONDS = 10.0
_ENTRY = re.compile(r"^\S+ \S+ \S+ \[\d+\] LOG:  duration: [\d.]+ ms  (?:execute|statement)\b[^:]*: (.*)", re.DOTALL)
_NAMES = {" ".join(text.split()): name for name, text in STATEMENTS.items()}


async def measure(harness: Harness, sink: Sink, seconds: float) -> list[str]:
    """Let the service settle after one event, watch it, then publish another; return the lines to print."""
    await _first_event(harness, sink)
    await asyncio.sleep(_SETTLING_SECONDS)
    url = re.sub("hookwire[?]", "postgres?", harness.database_url)  # our own queries count for another database
    connection = await asyncpg.connect(url)
    try:
        await log_statements(connection, "0")
        began, before = time.monotonic(), await _commits(connection)
        await asyncio.sleep(seconds)
        commits, watched = await _commits(connection) - before, time.monotonic() - began
        await log_statements(connection, "-1")
    finally:
        await connection.close()
    counts = logged_statements(harness.data_dir / "postgres" / "log")
    late = await _first_event(harness, sink)
    total = sum(counts.values()) / watched
    return [
        *(f"    {count / watched:6.2f}/s  {name}" for name, count in counts.most_common()),
        f"  {total:.2f} statements/s (bar {_BAR:g}), {commits / watched:.2f} transactions/s with autovacuum's and each "
        "preparation counted; "
        f"first event after {watched:.0f} idle seconds {late:.1f} ms (bar {_FIRST_EVENT_BAR})",
    ]


async def _first_event(harness: Harness, sink: Sink) -> float:
    """Publish an event and wait for it; return the milliseconds until its arrival."""
    await sink.clear()
    async with httpx.AsyncClient(base_url=harness.url, trust_env=False) as client:
        await client.get("/healthz")  # opens the connection before the measurement
        body = f"t={time.time():018.7f} ".encode()
        (await client.post("/topics/idle/events", content=body)).raise_for_status()
    return (await sink.until(1, 60)).p50


async def log_statements(connection: asyncpg.Connection, milliseconds: str) -> None:
    await connection.execute(f"{_OURS} ALTER SYSTEM SET log_min_duration_statement = {milliseconds}")
    await connection.fetchval(f"{_OURS} SELECT pg_reload_conf()")


async def _commits(connection: asyncpg.Connection) -> int:
    count: int = await connection.fetchval(
        f"{_OURS} SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'hookwire'"
    )
    return count


def logged_statements(folder: Path) -> Counter[str]:
    """Return how often each statement was run, by its name in our files, or by its first words."""
    counts: Counter[str] = Counter()
    text = "".join(path.read_text() for path in sorted(folder.glob("*.log")))
    for entry in re.split(r"\n(?!\t)", text):
        if found := _ENTRY.match(entry):
            statement = " ".join(found.group(1).split())
            if not statement.startswith(_OURS):
                counts[_NAMES.get(statement) or statement[:60]] += 1
    return counts


async def run(seconds: float, brokers: Mapping[str, str] | None = None) -> list[str]:
    """Run a service with these further settings; return the lines to print."""
    async with running_sink() as sink, running_harness(**(brokers or {})) as harness:
        async with httpx.AsyncClient(base_url=harness.url, trust_env=False) as client:
            subscription = {"topic": "idle", "callback": f"http://127.0.0.1:{sink.port}/"}
            (await client.post("/subscriptions", json=subscription)).raise_for_status()
            # The event goes to webhooks only, because the creation of topics at brokers is not measured.
            (await client.put("/topics/idle/settings", json={"sinks": ["webhooks"]})).raise_for_status()
        return await measure(harness, sink, seconds)


def main() -> None:
    """Measure both runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=60.0)
    seconds: float = parser.parse_args().seconds
    print("webhooks only", *asyncio.run(run(seconds)), sep="\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="hookwire-bench-") as folder:
        Path(folder).chmod(0o711)
        kafka = take_server("kafka", Path(folder), os.environ)
        rabbit = take_server("rabbitmq", Path(folder), os.environ)
        try:
            brokers = {"kafka_bootstrap_servers": kafka.address, "amqp_url": rabbit.address}
            print("webhooks, Kafka, AMQP", *asyncio.run(run(seconds, brokers)), sep="\n", flush=True)
        finally:
            kafka.discard()
            rabbit.discard()


if __name__ == "__main__":
    main()

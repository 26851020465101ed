"""Relay processes that share the groups of the Kafka sink and drain a backlog of one commit (RO-05)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.drain import FILL, PAYLOAD, Bench, Mode

__all__ = ["by_processes", "led_by", "relay_process"]

_KEYS = 1_000
_WAIT_SECONDS_MAX = 120.0
_LOOK_SECONDS = 0.02


@contextmanager
def relay_process(bench: Bench, mode: Mode) -> Iterator[subprocess.Popen[bytes]]:
    """Run a `hookwire relay` on the benchmark's database and broker; end it on exit."""
    with tempfile.TemporaryDirectory(prefix="hookwire-bench-") as folder:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HOOKWIRE_")}
        environment |= {
            "HOOKWIRE_DATABASE_URL": bench.url,
            "HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS": bench.bootstrap,
            "HOOKWIRE_KAFKA_MODE": mode,
            "HOOKWIRE_DATA_DIR": folder,
            "HOOKWIRE_LOG_LEVEL": "warning",
        }
        with (Path(folder) / "relay.log").open("wb") as log:
            command = [str(Path(sys.executable).parent / "hookwire"), "relay"]
            child = subprocess.Popen(command, env=environment, stderr=log)
            try:
                yield child
            finally:
                child.terminate()
                child.wait(60)


async def by_processes(bench: Bench, mode: Mode, count: int, events: int) -> float:
    """Return the events per second that ``count`` relay processes carry, from the commit to the empty outbox."""
    sql = bench.connection
    await sql.execute("TRUNCATE hookwire.outbox, hookwire.events, hookwire.ledger_entries")
    topic = await bench.topic()
    with ExitStack() as processes:
        for _ in range(count):
            processes.enter_context(relay_process(bench, mode))
        await led_by(bench, count)
        async with sql.transaction():
            await sql.execute(FILL, topic, _KEYS, events, PAYLOAD)
            await sql.execute("NOTIFY hookwire_outbox")
        began = time.perf_counter()
        await bench.emptied()
        return events / (time.perf_counter() - began)


async def led_by(bench: Bench, count: int) -> None:
    """Wait until ``count`` relays lead all groups. Raise TimeoutError otherwise."""
    deadline = time.monotonic() + _WAIT_SECONDS_MAX
    while True:
        [(led, owners, groups)] = await bench.connection.fetch(
            "SELECT count(*) FILTER (WHERE owner IS NOT NULL AND lease_until > now()), count(DISTINCT owner), count(*)"
            " FROM hookwire.relay_terms WHERE sink = 'kafka'"
        )
        if led == groups and owners == count:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"{led} of {groups} groups are led, by {owners} of {count} relays")
        await asyncio.sleep(_LOOK_SECONDS)

"""Publishers in a process of their own, by SQL, at a given rate: the load of benchmarks/sustained.py.

``python -m benchmarks.writer URL TOPIC single RATE SECONDS`` commits each event alone, on a few connections. At the end
it prints a line for each event: its id and the time at which its COMMIT was answered.

``python -m benchmarks.writer URL TOPIC bulk RATE SECONDS`` commits a few hundred events at a time and prints the number
of stored events. If it falls behind the rate, it does not catch up later.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import Awaitable, Callable

import asyncpg
import uvloop

_CONNECTIONS = 4
_KEYS = 1_000
_BULK = 250
_PUBLISH = "SELECT hookwire.publish($1, $2::bytea, key => $3)"
_PUBLISH_BATCH = "SELECT count(*) FROM hookwire.publish_batch('default', $1, $2, $3, $4, $4, $5, $4, $6, true)"
_PAYLOAD = b"x" * 100


async def single(url: str, topic: str, rate: float, seconds: float) -> list[str]:
    """Publish one event per commit; return the lines to print."""
    lines: list[str] = []

    async def publish(connection: asyncpg.Connection, first: int) -> None:
        began = time.monotonic()
        for number in itertools.count(first, _CONNECTIONS):
            ahead = began + number / rate - time.monotonic()
            if ahead > 0:
                await asyncio.sleep(ahead)
            if time.monotonic() > began + seconds:
                return
            event = await connection.fetchval(_PUBLISH, topic, _PAYLOAD, f"key {number % _KEYS}")
            lines.append(f"{event.rpartition('_')[2]} {time.time():.6f}")

    await _on_connections(url, publish)
    return lines


async def bulk(url: str, topic: str, rate: float, seconds: float) -> list[str]:
    """Publish several hundred events per commit; return the lines to print.

    Each connection has its own keys, so that none waits for another.
    """
    stored = 0

    async def publish(connection: asyncpg.Connection, first: int) -> None:
        nonlocal stored
        own = _KEYS // _CONNECTIONS
        keys = [f"key {first * own + n % own}" for n in range(_BULK)]
        nothing = [None] * _BULK
        arguments = (list(range(_BULK)), [topic] * _BULK, keys, nothing, [_PAYLOAD] * _BULK, nothing)
        began = due = time.monotonic()
        while time.monotonic() < began + seconds:
            found = await connection.fetchval(_PUBLISH_BATCH, *arguments)
            stored += found
            due = max(due + _BULK * _CONNECTIONS / rate, time.monotonic())
            await asyncio.sleep(due - time.monotonic())

    await _on_connections(url, publish)
    return [str(stored)]


async def _on_connections(url: str, publish: Callable[[asyncpg.Connection, int], Awaitable[None]]) -> None:
    connections = [await asyncpg.connect(url) for _ in range(_CONNECTIONS)]
    await asyncio.gather(*(publish(connection, number) for number, connection in enumerate(connections)))
    for connection in connections:
        await connection.close()


def main() -> None:
    """Run the command line."""
    url, topic, kind, rate, seconds = sys.argv[1:]
    publish = {"single": single, "bulk": bulk}[kind]
    print("\n".join(uvloop.run(publish(url, topic, float(rate), float(seconds)))))


if __name__ == "__main__":
    main()

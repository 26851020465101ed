"""How long accepted events wait after the kill of a hub.

In the first part there are two hubs that share nothing but the database: each has a data folder of its own. A figure is
the time from the kill of one until the last arrival of an event that was accepted before it. In the second part a hub
is alone. It is started again with the same folder, and a figure is the time from its first answer, before its
readiness.

Up to 200 events a second are published while a hub gets SIGKILL. The subscriber needs some milliseconds for each
answer, so that requests are in flight. An arrival whose answer died with the hub comes again, and counts too. In each
part the subscription first keeps no order, then it does. Repeats are arrivals of an event that had arrived before.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import signal
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import httpx

from app.chaos.child import Child
from scripts.servers.fleet import take_server

__all__ = ["main"]

_BAR_SECONDS = {1: 1.5, 2: 3.5}
"""By the number of hubs, for a subscription without order."""
_CLIENTS = 4
_PAUSE_SECONDS = 0.04
_ANSWER_SECONDS = 0.02
_CALM_SECONDS = 2.0
_WAIT_SECONDS_MAX = 60.0
_KEY = "k1:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="


@dataclass
class Scene:
    """The hubs and their subscriber. ``arrived`` has the time of the last arrival of each event."""

    hubs: list[Child]
    sql: asyncpg.Connection
    client: httpx.AsyncClient
    arrived: dict[str, float] = field(default_factory=dict)
    arrivals: Counter[str] = field(default_factory=Counter)
    accepted: dict[str, float] = field(default_factory=dict)
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    async def receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
                event = (await reader.readexactly(length)).decode()
                self.arrivals[event] += 1
                self.arrived[event] = time.monotonic()
                await asyncio.sleep(_ANSWER_SECONDS)
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    async def publish(self, hub: Child) -> None:
        """Publish to one hub by some clients, until cancelled or until it is gone."""
        with suppress(httpx.HTTPError):
            while True:
                event, url = f"{next(self.numbers)}", f"http://127.0.0.1:{hub.port}/topics/t/events"
                answer = await self.client.post(url, content=event, headers={"Hookwire-Key": event})
                answer.raise_for_status()
                self.accepted[event] = time.monotonic()
                await asyncio.sleep(_PAUSE_SECONDS)

    @property
    def is_alone(self) -> bool:
        """Return whether there is one hub only."""
        return len(self.hubs) == 1

    async def are_members(self) -> None:
        """Wait until the hubs are members, and two of them know of each other."""
        wanted = "SELECT count(*) = $1 AND ($1 = 1 OR bool_and(trust_seconds = 1)) FROM hookwire.delivery_members"
        await self._until(wanted, len(self.hubs))

    async def _until(self, query: str, *arguments: object) -> None:
        deadline = time.monotonic() + _WAIT_SECONDS_MAX
        while not await self.sql.fetchval(query, *arguments):
            if time.monotonic() > deadline:
                raise TimeoutError(f"this did not become true: {query}")
            await asyncio.sleep(0.05)

    async def kill(self, victim: Child) -> tuple[float, int]:
        """Kill one hub under load; return the seconds until the last event had arrived, and the repeats.

        The seconds count from the kill, or from the first answer of a hub that is alone.
        """
        await self.are_members()
        began_at, before = time.monotonic(), sum(self.arrivals.values()) - len(self.arrivals)
        load = [asyncio.create_task(self.publish(hub)) for hub in self.hubs for _ in range(_CLIENTS)]
        await asyncio.sleep(_CALM_SECONDS)
        os.kill(victim.pid, signal.SIGKILL)
        killed_at = time.monotonic()
        owed = [event for event, at in self.accepted.items() if began_at <= at <= killed_at]
        for task in load:
            task.cancel()
        await asyncio.gather(*load, return_exceptions=True)
        since = await self._started_again(victim) if self.is_alone else killed_at
        await self._until("SELECT NOT EXISTS (SELECT FROM hookwire.deliveries)")
        assert not self.accepted.keys() - self.arrived.keys(), "no accepted event is lost"
        if not self.is_alone:
            await self._started_again(victim)
        repeats = sum(self.arrivals.values()) - len(self.arrivals) - before
        return max(self.arrived[event] for event in owed) - since, repeats

    @staticmethod
    async def _started_again(victim: Child) -> float:
        """Start a hub that was killed; return the time of its first answer."""
        await victim.ended(10)
        await victim.start()
        return time.monotonic()


@asynccontextmanager
async def staged(address: str, folder: Path, hubs_wanted: int, *, is_ordered: bool) -> AsyncIterator[Scene]:
    """Yield so many hubs on a new database, with one subscription."""
    name = f"take_over_{hubs_wanted}_{'lanes' if is_ordered else 'free'}"
    url = urlunsplit(urlsplit(address)._replace(path=f"/{name}"))
    async with AsyncExitStack() as stack:
        admin = await asyncpg.connect(address)
        await admin.execute(f"CREATE DATABASE {name}")
        await admin.close()
        hubs = []
        for hub in ("a", "b")[:hubs_wanted]:
            settings = {"DATABASE_URL": url, "DATA_DIR": str(folder / f"{name}-{hub}"), "SECRET_KEYS": _KEY}
            hubs.append(Child(f"{name}-{hub}", folder, {**settings, "LOG_LEVEL": "warning"}))
            stack.push_async_callback(hubs[-1].end)
            await hubs[-1].start()
        sql = await asyncpg.connect(url)
        stack.push_async_callback(sql.close)
        client = await stack.enter_async_context(httpx.AsyncClient(trust_env=False))
        scene = Scene(hubs, sql, client)
        server = await stack.enter_async_context(await asyncio.start_server(scene.receive, "127.0.0.1", 0))
        subscription = {
            "topic": "t", "ordered": is_ordered, "callback": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        }  # fmt: skip
        made = await client.post(f"http://127.0.0.1:{hubs[0].port}/subscriptions", json=subscription)
        made.raise_for_status()
        yield scene


async def measure(address: str, folder: Path, hubs: int, rounds: int, *, is_ordered: bool) -> str:
    """Return a line of so many kills, of each hub in turn."""
    async with staged(address, folder, hubs, is_ordered=is_ordered) as scene:
        found = [await scene.kill(scene.hubs[number % hubs]) for number in range(rounds)]
    seconds, repeats = sorted(one for one, _ in found), [one for _, one in found]
    p95 = seconds[min(int(0.95 * len(seconds)), len(seconds) - 1)]
    print(
        json.dumps(
            {"hubs": hubs, "ordered": is_ordered, "seconds": [round(one, 2) for one in seconds], "repeats": repeats}
        )
    )
    bar = "" if is_ordered else f" (bar {_BAR_SECONDS[hubs]:g})"
    part = f"{'one hub' if hubs == 1 else 'two hubs'}, {'ordered lanes' if is_ordered else 'no order'}"
    since = "its first answer" if hubs == 1 else "the kill"
    return (
        f"{part}: the last event {statistics.median(seconds):.2f} s after {since}, "
        f"p95 {p95:.2f}{bar}, {max(repeats)} repeats at most, {len(scene.accepted)} events in {rounds} rounds"
    )


def main() -> None:
    """Kill one of two hubs, then one that is alone, with both kinds of subscriptions."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--lane-rounds", type=int, default=3)
    parser.add_argument("--hubs", type=int, choices=(1, 2), help="only one of the two parts")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hookwire-bench-") as folder:
        Path(folder).chmod(0o711)  # PostgreSQL runs under another account
        server = take_server("postgres18", Path(folder), os.environ)
        try:
            for hubs in (2, 1) if arguments.hubs is None else (arguments.hubs,):
                for rounds, is_ordered in ((arguments.rounds, False), (arguments.lane_rounds, True)):
                    if rounds:
                        measured = measure(server.address, Path(folder), hubs, rounds, is_ordered=is_ordered)
                        print(asyncio.run(measured), flush=True)
        finally:
            server.discard()


if __name__ == "__main__":
    main()

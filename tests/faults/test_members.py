"""Two hubs with a data folder each on one database: what becomes of the claims of one that dies or is cut off."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from app.chaos.child import Child
from app.chaos.client import ChaosClient
from scripts.servers.postgres import PostgresServer
from tests.faults.proxy import Proxy, proxied
from tests.hostile.server import Conversation, HostileServer, answer, hostile_server
from tests.waiting import lasts, until

_ARRIVAL_SECONDS_MAX = 60.0
_LONGER_THAN_TRUST_SECONDS = 2.0
_KEY = "k1:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="


class Answering:
    """A subscriber that notes each request at once, and answers when it may."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()

    async def __call__(self, conversation: Conversation) -> None:
        while True:
            await conversation.read_request()
            await self.may_answer.wait()
            await conversation.send(answer(204))


class Pair:
    """The hubs ``a`` and ``b``, by a proxy each, and their subscriber."""

    def __init__(self, hubs: tuple[Child, Child], to_a: Proxy, database_url: str) -> None:
        self.a, self.b = hubs
        self.to_a = to_a
        self.database_url = database_url
        self.sink = Answering()
        self.server: HostileServer

    async def subscribe(self, path: str = "/", **more: object) -> None:
        """Subscribe to the topic t."""
        body = json.dumps({"topic": "t", "callback": self.server.url(path), **more}).encode()
        assert await self.post(self.a, "/subscriptions", body, {"Content-Type": "application/json"}) == 201

    async def publish(self, hub: Child, *bodies: bytes) -> None:
        """Publish with a key."""
        for body in bodies:
            assert await self.post(hub, "/topics/t/events", body, {"Hookwire-Key": body.decode()}) == 202

    async def post(self, hub: Child, path: str, body: bytes, headers: dict[str, str]) -> int:
        client = ChaosClient(hub.port, _ARRIVAL_SECONDS_MAX)
        try:
            return (await client.request("POST", path, body, headers)).status
        finally:
            client.close()

    async def rows(self, statement: str) -> list[tuple[object, ...]]:
        connection = await asyncpg.connect(self.database_url)
        try:
            return [tuple(row) for row in await connection.fetch(statement)]
        finally:
            await connection.close()

    async def are_members(self, count: int) -> None:
        """Wait until there are so many, and each of them has stored that it is alone, or for how long it trusts."""

        async def holds() -> bool:
            rows = await self.rows("SELECT trust_seconds IS NULL FROM hookwire.delivery_members")
            return rows == [(count == 1,)] * count

        await until(holds, _ARRIVAL_SECONDS_MAX)

    async def arrived(self, requests: int) -> None:
        await self.server.until(lambda server: len(server.requests) >= requests, _ARRIVAL_SECONDS_MAX)

    async def keep_leases(self) -> None:
        """Make each lease longer than the test, so that only a take-over ends it."""
        await self.rows("UPDATE hookwire.deliveries SET due_at = now() + interval '1 hour' WHERE fence IS NOT NULL")

    async def settled(self) -> None:
        """Answer everything, and wait until nothing is owed."""
        self.sink.may_answer.set()

        async def holds() -> bool:
            return await self.rows("SELECT FROM hookwire.deliveries LIMIT 1") == []

        await until(holds, _ARRIVAL_SECONDS_MAX)

    @property
    def arrivals(self) -> Counter[bytes]:
        """How often each event has arrived."""
        return Counter(request.body for request in self.server.requests)

    @property
    def aborted(self) -> int:
        """How many requests the hubs have aborted."""
        lines = [line for hub in (self.a, self.b) for line in hub.log_path.read_text().splitlines()]
        return sum(json.loads(line)["requests"] for line in lines if '"requests_aborted"' in line)


@asynccontextmanager
async def open_pair(database_url: str, folder: Path, *, is_alone: bool = False) -> AsyncIterator[Pair]:
    """Start a, then b, and wait until each knows of the other. Only a has a proxy. ``is_alone``: b is not started."""
    place = urlsplit(database_url)
    assert place.hostname is not None
    assert place.port is not None
    async with AsyncExitStack() as stack:
        to_a = await stack.enter_async_context(proxied(place.hostname, place.port))
        through = place._replace(netloc=f"postgres@127.0.0.1:{to_a.port}").geturl()
        hubs = []
        for name, url in (("a", through), ("b", database_url)):
            settings = {
                "DATABASE_URL": url, "DATA_DIR": str(folder / f"data-{name}"), "LEASE_SECONDS": "3",
                "SECRET_KEYS": _KEY, "LOG_FORMAT": "json", "DELIVERY_TIMEOUT_SECONDS": "30",
            }  # fmt: skip
            hubs.append(Child(name, folder, settings))
            stack.push_async_callback(hubs[-1].end)
        pair = Pair((hubs[0], hubs[1]), to_a, database_url)
        pair.server = await stack.enter_async_context(hostile_server(pair.sink))
        await pair.a.start()
        await pair.are_members(1)
        if not is_alone:
            await pair.b.start()
            await pair.are_members(2)
        yield pair


async def test_what_a_killed_hub_held_is_sent_by_one_with_another_data_folder_but_lanes(
    database_url: str, tmp_path: Path
) -> None:
    """TO-01, TO-03: the leases are made longer than the test."""
    async with open_pair(database_url, tmp_path) as pair:
        await pair.subscribe()
        await pair.subscribe("/lane", ordered=True)
        await pair.publish(pair.a, b"1")
        await pair.arrived(2)
        await pair.keep_leases()
        os.kill(pair.a.pid, signal.SIGKILL)
        await pair.arrived(3)
        lane = await pair.rows(
            "SELECT due_at > now() + interval '50 minutes', attempts FROM hookwire.deliveries WHERE lane IS NOT NULL"
        )
        assert (Counter(request.target for request in pair.server.requests), lane) == (
            {b"/": 2, b"/lane": 1}, [(True, 1)],
        )  # fmt: skip


async def test_a_hub_that_is_cut_off_aborts_its_request_before_another_sends_it(
    database_url: str, tmp_path: Path
) -> None:
    """TO-01: it lives, and its lock is free."""
    async with open_pair(database_url, tmp_path) as pair:
        await pair.subscribe()
        await pair.publish(pair.a, b"1")
        await pair.arrived(1)
        await pair.keep_leases()
        await pair.to_a.refuse()
        await pair.arrived(2)
        assert pair.aborted == 1
        await pair.to_a.listen()
        await pair.are_members(2)
        await pair.settled()
        assert pair.arrivals == {b"1": 2}


async def test_a_hub_that_was_stopped_stores_nothing_of_before(database_url: str, tmp_path: Path) -> None:
    """TO-04: its request is answered while it is stopped, and another hub has taken the claim over."""
    async with open_pair(database_url, tmp_path) as pair:
        await pair.subscribe()
        await pair.publish(pair.a, b"1")
        await pair.arrived(1)
        await pair.keep_leases()
        pair.a.pause()
        pair.to_a.reset()
        await pair.arrived(2)
        await pair.settled()
        pair.a.resume()
        await pair.are_members(2)
        attempts = await pair.rows(f"SELECT number, outcome, worker LIKE '%-{pair.b.pid}' FROM hookwire.attempts")
        assert (pair.arrivals, attempts) == ({b"1": 2}, [(2, "delivered", True)])


async def restart(server: PostgresServer) -> None:
    """Let the database be away for longer than a member beside others trusts its membership."""
    await asyncio.to_thread(server.kill)
    await lasts(_LONGER_THAN_TRUST_SECONDS)
    await asyncio.to_thread(server.start)


async def test_a_hub_that_is_alone_keeps_its_requests_through_a_restart_of_the_database(
    postgres18: PostgresServer, database_url: str, tmp_path: Path
) -> None:
    """TO-05: it repeats nothing."""
    async with open_pair(database_url, tmp_path, is_alone=True) as pair:
        await pair.subscribe()
        await pair.publish(pair.a, *(b"%d" % number for number in range(10)))
        await pair.arrived(10)
        await restart(postgres18)
        await pair.settled()
        await pair.are_members(1)
        assert (max(pair.arrivals.values()), len(pair.arrivals)) == (1, 10)


async def test_of_two_hubs_only_what_was_aborted_is_repeated_after_a_restart_of_the_database(
    postgres18: PostgresServer, database_url: str, tmp_path: Path
) -> None:
    """TO-05: the locks of both are free, and nobody has died."""
    async with open_pair(database_url, tmp_path) as pair:
        await pair.subscribe()
        await pair.publish(pair.a, *(b"%d" % number for number in range(10)))
        await pair.arrived(10)
        await pair.keep_leases()
        await restart(postgres18)
        await pair.settled()
        await pair.are_members(2)
        assert len(pair.arrivals) == 10
        assert 0 < pair.arrivals.total() - 10 == pair.aborted

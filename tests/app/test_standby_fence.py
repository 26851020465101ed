"""A hub with a standby fence: nothing leaves that a failover takes back, and it says what it waits for."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import asyncpg
import httpx
import pytest

from app.checks.standby_fence import standby_fence_check
from db.replication.standby_fence import Required, Standbys
from scripts.servers.postgres import PostgresStandby, embedded_bin_dir, system_bin_dir
from tests.app.callback_server import LOOPBACK
from tests.app.conftest import ALL_ROLES, WAIT_SECONDS, Receiver, RunHub, RunningHub
from tests.app.web.test_incidents import failed, incidents
from tests.pair import Pair
from tests.waiting import until


async def held_back(hub: RunningHub, receiver: Receiver, deliveries: int) -> None:
    """Wait until the hub says what it waits for, or until so many deliveries have come all the same."""

    async def is_decided() -> bool:
        status = json.dumps((await hub.client.get("/status")).json())
        return "the standby two is not connected" in status or len(receiver.delivered) >= deliveries

    await until(is_decided, WAIT_SECONDS)


async def tells(hub: RunningHub, line: str) -> bool:
    """Return whether the hub's metrics have this line."""
    return line in (await hub.client.get("/metrics")).text


EACH = [
    pytest.param(embedded_bin_dir, id="postgres18"),
    pytest.param(system_bin_dir, id="postgres15", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("pair", EACH, indirect=True)
async def test_after_a_failover_nobody_knows_an_event_that_the_new_primary_does_not(
    running_hub: RunHub, receiver: Receiver, pair: Pair, servers_folder: Path
) -> None:
    """HA-11, HA-12, HA-13: by one unchanged setting, for events by HTTP and by SQL."""
    url = f"postgresql://postgres@127.0.0.1:{pair.primary.port},127.0.0.1:{pair.standby.port}/postgres"
    names = {"standby_fence": "names:one,two", "database_url": url, "database_connections_max": 8}
    again = PostgresStandby("one", servers_folder / f"again-{pair.standby.port}", pair.standby)
    async with running_hub(ALL_ROLES, **names, **LOOPBACK) as hub:
        await hub.subscribe("t", receiver.callback)
        answers = [(await hub.publish("t", b"first")).status_code]
        await receiver.wait_for(1)

        await asyncio.to_thread(pair.standby.stop)
        refused = await hub.publish("t", b"held back")
        await held_back(hub, receiver, 2)
        kept_back = [one.body for one in receiver.delivered]
        await until(lambda: tells(hub, "hookwire_standby_fence_holds 1.0"), WAIT_SECONDS)
        await asyncio.to_thread(pair.standby.start)
        await receiver.wait_for(2)

        await asyncio.to_thread(pair.standby.stop)
        answers.append((await hub.publish("t", b"lost")).status_code)
        sql = await asyncpg.connect(pair.primary.url)
        await sql.execute("SELECT hookwire.publish('t', 'lost, by SQL'::text)")
        await sql.close()
        await held_back(hub, receiver, 3)
        await asyncio.to_thread(pair.primary.kill)
        await asyncio.to_thread(pair.standby.start)
        await asyncio.to_thread(pair.standby.promote)
        await asyncio.to_thread(again.start)
        try:
            numbers = count()

            async def accepted() -> bool:
                return (await hub.publish("t", b"after %d" % next(numbers))).status_code == 202

            await until(accepted, WAIT_SECONDS)
            await until(lambda: any(one.body.startswith(b"after") for one in receiver.delivered), WAIT_SECONDS)
            sql = await asyncpg.connect(pair.standby.url)
            known = {row["payload"] for row in await sql.fetch("SELECT payload FROM hookwire.events")}
            await sql.close()
        finally:
            await asyncio.to_thread(again.discard)
        ghosts = {one.body for one in receiver.delivered} - known
        assert (answers, "outcome-unknown" in refused.text, kept_back, ghosts) == (
            [202, 503], True, [b"first"], set()
        )  # fmt: skip


async def test_a_probe_sends_nothing_that_no_standby_has(running_hub: RunHub, receiver: Receiver) -> None:
    """HA-11: a person sends a dead letter by hand. The server has no standby."""
    async with running_hub(ALL_ROLES, **LOOPBACK) as hub:
        await hub.subscribe("a", receiver.callback, retry_schedule_seconds=[])
        await failed(hub, receiver, 1, b"down")
        [incident] = await incidents(hub)
    async with running_hub(("api",), standby_fence="any:1", **LOOPBACK) as hub:
        answer = await hub.client.post(f"/incidents/{incident['id']}/probe")
    assert (answer.status_code, [one.body for one in receiver.delivered]) == (503, [b"1"])


@pytest.mark.parametrize(
    ("required", "names", "own_name", "sees_all", "is_managed", "level"),
    [
        ("names:one,two", ("two",), "one", True, False, "ok"),
        ("names:one,two", (), "one", True, False, "warn"),
        ("names:one,two", ("two",), "", True, False, "warn"),
        ("names:one,two", ("two",), "one", False, False, "refuse"),
        ("any:1", (), "", True, True, "refuse"),
        ("any:1", ("replica",), "", True, True, "ok"),
    ],
)
def test_the_doctor_says_what_the_fence_cannot_wait_for(
    required: str, names: tuple[str, ...], own_name: str, sees_all: bool, is_managed: bool, level: str
) -> None:
    """HA-12: a managed server that copies its storage shows no standby."""
    found = Standbys(1, 1, "1", own_name, sees_all, names, (1,) * len(names), is_managed)
    assert standby_fence_check(Required.parse(required), found).level == level


def request_of(method: str, url: str, body: dict[str, int]) -> bytes:
    """Return a request as it goes over the wire."""
    request = httpx.Request(method, url, json=body)
    lines = [f"{method} {request.url.raw_path.decode()} HTTP/1.1", *(f"{k}: {v}" for k, v in request.headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + request.content


@contextmanager
def held(process: int) -> Iterator[None]:
    """Stop a process of the server while the block runs."""
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


@pytest.mark.parametrize("pair", EACH, indirect=True)
async def test_what_a_client_that_has_gone_fetched_waits_for_the_next_one(running_hub: RunHub, pair: Pair) -> None:
    """HA-11: it went while the fetch waited for the standby. Else nobody would have the event until the lease ends."""
    names = {"standby_fence": "names:one,two", "database_url": pair.primary.url, "database_connections_max": 8}
    async with running_hub(ALL_ROLES, **names, **LOOPBACK) as hub:
        made = await hub.client.post("/subscriptions/pull", json={"topic": "t"})
        path = f"/subscriptions/{made.json()['id']}/dequeue"
        sql = await asyncpg.connect(pair.primary.url)
        follower = await asyncpg.connect(pair.standby.url)
        receiving = await follower.fetchval("SELECT pid FROM pg_stat_wal_receiver")
        await follower.close()
        try:
            await hub.publish("t", b"first")
            await until(lambda: sql.fetchval("SELECT count(*) = 1 FROM hookwire.deliveries"), WAIT_SECONDS)
            with held(receiving):
                _, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(hub.url).port)
                writer.write(request_of("POST", hub.url + path, {"lease_seconds": 3600}))
                await until(lambda: sql.fetchval("SELECT bool_and(fence > 0) FROM hookwire.deliveries"), WAIT_SECONDS)
                writer.close()
                await hub.client.get("/healthz")  # the hub has seen the end of the connection before it answers
            found = (await hub.client.post(path, json={"wait_seconds": 20})).json()["items"]
        finally:
            await sql.close()
        assert [(one["event"]["payload"], one["attempts"]) for one in found] == [("first", 1)]

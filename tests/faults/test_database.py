"""A database that restarts, hangs, loses connections or answers, or is held up by somebody (F04, F11-F13, F51, F60)."""

import asyncio
import json
import os
import random
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from app.chaos.client import ChaosClient, ClientAnswer
from app.chaos.history import Attempt, PublishOutcome
from app.chaos.mark import Mark
from app.chaos.scenario import TOPIC
from scripts.servers.postgres import PostgresServer
from tests.defaults import make_hostile
from tests.faults.harness import CALM, CLEAN, Harness, open_harness
from tests.faults.proxy import Proxy, proxied
from tests.waiting import lasts, until

# Attempts in flight of two processes whose settlement has to be repeated.
DUPLICATES_MAX = 300


@asynccontextmanager
async def connected(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url)
    try:
        yield connection
    finally:
        if not connection.is_closed():  # its server may have been killed
            await connection.close()


@asynccontextmanager
async def database_behind_proxy(database_url: str) -> AsyncIterator[tuple[Proxy, dict[str, str]]]:
    """The proxy, and the children's setting that leads them through it."""
    parts = urlsplit(database_url)
    assert parts.hostname is not None
    assert parts.port is not None
    async with proxied(parts.hostname, parts.port) as proxy:
        through = urlunsplit(parts._replace(netloc=f"postgres@127.0.0.1:{proxy.port}"))
        yield proxy, {"DATABASE_URL": through}


async def publish(
    harness: Harness, key: str | None, payload: bytes, seconds: float = 60, name: str = ""
) -> ClientAnswer:
    client = ChaosClient(harness.scenario.children[0].port, seconds)
    headers = {"Hookwire-Key": key} if key is not None else {}
    if name:
        headers["Idempotency-Key"] = name
    try:
        return await client.request("POST", f"/topics/{TOPIC}/events", payload, headers)
    finally:
        client.close()


@pytest.mark.parametrize("way", ["fast", "kill", pytest.param("crash loop", marks=pytest.mark.slow)])
async def test_a_restart_of_the_database_costs_nothing_that_was_acknowledged(
    way: str, postgres18: PostgresServer, database_url: str, tmp_path: Path, seed: int
) -> None:
    """F11: I1 I3 I6, T6: nobody has to restart the service."""

    def restart() -> None:
        if way == "kill":
            postgres18.kill()
            postgres18.start()
        else:
            postgres18.restart("fast" if way == "fast" else "immediate")

    async with open_harness(database_url, tmp_path, seed) as harness:
        pids = [child.pid for child in harness.scenario.children]
        async with harness.scenario.load():
            for _ in range(10 if way == "crash loop" else 1):
                await harness.accepts(100)
                await asyncio.to_thread(restart)
                await print_recovery(harness, f"seed {seed}, {way}")
            await harness.accepts(100)
            await harness.receives("ordered", 100)
        assert await harness.concluded(duplicates_max=DUPLICATES_MAX) == CLEAN
        assert [child.pid for child in harness.scenario.children if child.is_running] == pids


async def test_no_default_of_the_database_is_in_the_way(database_url: str, tmp_path: Path, seed: int) -> None:
    """GB-07: serializable transactions refused each other, and relays backed off. No name is looked up by a path."""
    await make_hostile(database_url)
    async with connected(database_url) as connection:
        await connection.execute(f"ALTER DATABASE {database_url.rpartition('/')[2]} SET search_path = ''")
    async with open_harness(database_url, tmp_path, seed, **CALM) as harness:
        async with harness.scenario.load():
            await harness.accepts(300)
            await harness.receives("ordered", 100)
        assert await harness.concluded(duplicates_max=0) == CLEAN
    logs = "".join(path.read_text() for path in tmp_path.glob("child-*.log"))
    assert [event for event in ("publishing_fails", "relay_backs_off", "claim_failed") if event in logs] == []


async def print_recovery(harness: Harness, what: str) -> None:
    """How long after the server is back the first publish is answered, and the first event arrives."""
    began = asyncio.get_running_loop().time()
    await harness.accepts(1)
    accepted = asyncio.get_running_loop().time()
    await harness.receives("plain", 1)
    print(
        f"{what}: 2xx after {accepted - began:.2f} s, delivered after {asyncio.get_running_loop().time() - began:.2f} s"
    )


async def test_connections_that_are_killed_in_mid_transaction_cost_nothing(
    database_url: str, tmp_path: Path, seed: int
) -> None:
    """F12, F60: I1 I3 I8; the last one kills LISTEN too, and an SQL publish is found all the same."""
    chance = random.Random(seed)
    async with connected(database_url) as killer, open_harness(database_url, tmp_path, seed) as harness:
        async with harness.scenario.load():
            for _ in range(20):
                await kill_backends(killer, 1)
                await lasts(chance.uniform(0.05, 0.35))
            await harness.accepts(50)
        await kill_backends(killer, 100)
        async with harness.scenario.load():
            await harness.receives("plain", 100)
            # Two processes, each with a pool of eight, a lease's connection and a listener's.
            assert await killer.fetchval(f"SELECT count(*) {BACKENDS}") <= 2 * (8 + 2)
        assert await harness.concluded(duplicates_max=DUPLICATES_MAX) == CLEAN


BACKENDS = "FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'hookwire%'"


async def kill_backends(killer: asyncpg.Connection, count: int) -> None:
    await killer.execute(
        f"SELECT pg_terminate_backend(pid) FROM (SELECT pid {BACKENDS} ORDER BY random() LIMIT $1) AS victim", count
    )


async def test_a_database_that_never_answers_is_a_503_within_the_time_out_and_heals_by_itself(
    database_url: str, tmp_path: Path, seed: int
) -> None:
    """F13: I8 I1"""
    async with (
        database_behind_proxy(database_url) as (proxy, settings),
        open_harness(database_url, tmp_path, seed, processes=1, settings=settings) as harness,
    ):
        async with harness.scenario.load():
            await harness.accepts(50)
        await harness.scenario.quiet(60)
        proxy.hold()
        payloads = [Mark("silent", TOPIC, None, n).to_payload(0) for n in range(5)]
        async with asyncio.timeout(60):  # ten seconds are promised
            answers = await asyncio.gather(*(publish(harness, None, payload) for payload in payloads))
        proxy.heal()
        assert {answer.status for answer in answers} == {503}
        assert all(int(answer.headers["retry-after"]) > 0 for answer in answers)
        async with harness.scenario.load():
            await harness.accepts(50)


async def test_an_answer_of_the_database_that_is_lost_makes_no_second_event(
    database_url: str, tmp_path: Path, seed: int
) -> None:
    """F04: I1 I2 I3: the writers repeat with their Idempotency-Keys."""
    async with (
        database_behind_proxy(database_url) as (proxy, settings),
        open_harness(database_url, tmp_path, seed, settings=settings) as harness,
    ):
        async with harness.scenario.load():
            for _ in range(3):
                await harness.accepts(50)
                proxy.lose("down")
                await lasts(1.0)
                proxy.heal()
            await harness.accepts(50)
        assert await harness.concluded(duplicates_max=DUPLICATES_MAX) == CLEAN


async def test_an_idle_foreign_transaction_on_a_key_holds_up_that_key_alone(
    database_url: str, tmp_path: Path, seed: int
) -> None:
    """RR-03: I7; whoever wants the key is told 503 and when to come again."""
    async with connected(database_url) as foreign, open_harness(database_url, tmp_path, seed, **CALM) as harness:
        async with harness.scenario.load():
            await harness.accepts(50)
            transaction = foreign.transaction()
            await transaction.start()
            await foreign.execute("SELECT hookwire.publish($1, 'never'::text, key => 'key 0')", TOPIC)
            refused = await publish(harness, "key 0", Mark("foreign", TOPIC, "key 0", 1).to_payload(0))
            await harness.accepts(200)
            await transaction.rollback()
            await harness.accepts(50)
        assert (refused.status, json.loads(refused.body)["type"].rpartition("/")[2]) == (503, "busy")
        assert int(refused.headers["retry-after"]) > 0
        assert await harness.concluded(duplicates_max=0) == CLEAN


async def test_an_event_that_commits_late_is_found_behind_higher_ids(
    database_url: str, tmp_path: Path, seed: int
) -> None:
    """RU-04, F51, RR-07: I1; its id was drawn first, and the relay has long passed it."""
    late = Mark("late", TOPIC, None, 1)
    async with (
        connected(database_url) as foreign,
        open_harness(database_url, tmp_path, seed, refused_share=0.0) as harness,
    ):
        plain = harness.scenario.receivers["plain"]
        transaction = foreign.transaction()
        await transaction.start()
        await foreign.execute("SELECT hookwire.publish($1, $2::bytea)", TOPIC, late.to_payload(0))
        async with harness.scenario.load():
            await harness.receives("plain", 100)
        await harness.scenario.quiet(60)
        arrived = plain.arrived
        await transaction.commit()
        await until(lambda: plain.arrived == arrived + 1, 60)


async def test_overlapping_transactions_of_many_services_keep_each_keys_commit_order(
    database_url: str, tmp_path: Path, seed: int
) -> None:
    """RL-03, F51, RO-02: I3 I2 with rolled-back transactions among them."""
    async with open_harness(database_url, tmp_path, seed, keys=4, transactors=6, **CALM) as harness:
        async with harness.scenario.load():
            await harness.accepts(400)
        assert await harness.concluded(duplicates_max=0) == CLEAN


@pytest.mark.slow
@pytest.mark.parametrize("crashed", ["server", "backend"])
async def test_ids_that_a_crash_takes_back_hide_nothing_that_is_accepted_later(
    crashed: str, postgres18: PostgresServer, database_url: str, tmp_path: Path, seed: int
) -> None:
    """FC-01: I1 I3, 32 times: ids are drawn and rolled back, the relay passes them by, and their WAL is lost.

    The WAL writer is told to leave to commits what they flush; else it is done before the relay in most crashes.
    """
    accepted, chance = 0, random.Random(seed)
    async with connected(database_url) as client:
        await client.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
        await client.execute("SELECT pg_reload_conf()")
    async with open_harness(database_url, tmp_path, seed, processes=1, **CALM) as harness:
        for _ in range(32):
            async with connected(database_url) as client:
                accepted = await accept(harness, client, accepted, 1)
                await harness.scenario.quiet(60)
                pid = await drawn_and_rolled_back(client, 70)
                await lasts(chance.choice((0.12, chance.uniform(0.5, 2.0))))  # the relay looks once a second
                if crashed == "backend":
                    os.kill(pid, signal.SIGKILL)
                else:
                    await asyncio.to_thread(postgres18.kill)
            await asyncio.to_thread(postgres18.start)
            async with connected(database_url) as client:
                accepted = await accept(harness, client, accepted, 80)
        async with connected(database_url) as client:
            await client.execute("ALTER SYSTEM RESET wal_writer_delay")
        assert await harness.concluded(duplicates_max=DUPLICATES_MAX) == CLEAN


async def accept(harness: Harness, client: asyncpg.Connection, accepted: int, count: int) -> int:
    """So many events of one key, each in its transaction; how many there are now."""
    for number in range(accepted + 1, accepted + count + 1):
        mark, at = Mark("crash", TOPIC, "key", number), time.time()
        text = await client.fetchval("SELECT hookwire.publish($1, $2::bytea, key => 'key')", TOPIC, mark.to_payload(at))
        harness.scenario._history.record(Attempt(mark, PublishOutcome.OK, text, client_time=at))
    return accepted + count


async def drawn_and_rolled_back(client: asyncpg.Connection, count: int) -> int:
    """Draw so many ids for nothing; the backend's process."""
    transaction = client.transaction()
    await transaction.start()
    await client.fetch("SELECT hookwire.publish($1, 'never'::text) FROM generate_series(1, $2::integer)", TOPIC, count)
    await transaction.rollback()
    return int(await client.fetchval("SELECT pg_backend_pid()"))

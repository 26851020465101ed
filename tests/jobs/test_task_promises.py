"""The five promises of transactional tasks, one by one (JB-20..JB-39, JT-04); over RabbitMQ in tests/app."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import asyncpg
import pytest

from app.bridges.task_notifications import from_notify
from db.direct import connect_direct
from db.pool import Database, PoolOptions, open_database
from jobs.tasks.cleaner import Cleaner
from relay.amqp.notifications import AmqpNotifications
from relay.amqp.options import AmqpOptions
from tests.jobs.harness import INSERT, WAIT_SECONDS, Ran, Transport, drained, working
from tests.waiting import poll, until


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = await open_database(PoolOptions(database_url))
    yield opened
    await opened.aclose()


@pytest.fixture
async def sql(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close(timeout=60)


async def test_promise_1_every_committed_task_runs_eventually_though_its_notification_is_lost(
    database: Database, sql: asyncpg.Connection
) -> None:
    """(1) JT-05, JB-30, JT-04, JS-12: nobody polls and the first notification is lost; the cleaner's is heard."""
    ran = Ran()
    await sql.execute(
        "INSERT INTO hookwire.task_kinds (kind, notify, cleanup_seconds) VALUES ('mytask', 'notify', 0.1)"
    )
    await sql.execute(INSERT, "1")
    cleaner = Cleaner(database)
    hears = partial(from_notify, lambda: connect_direct(database.options))
    async with working(database, ran, hears):
        async with asyncio.timeout(WAIT_SECONDS):
            while not ran.tasks:
                await cleaner.clean()
                await poll()
        await drained(sql)

    assert [task.id for task in ran.tasks] == ["1"]


async def test_promise_2_a_task_is_runnable_shortly_after_commit(database: Database, sql: asyncpg.Connection) -> None:
    """(2) JT-04: the notification overtakes the commit, the worker looks again, without slot or connection (JB-26)."""
    ran, transport = Ran(), Transport()
    async with working(database, ran, transport, slots=1):
        transaction = sql.transaction()
        await transaction.start()
        await sql.execute(INSERT, "1")
        for task_id in ("1", "1", "2"):
            transport.send(task_id)
        await sql.execute("SELECT pg_sleep(0.4)")
        before = [*ran.tasks]
        await transaction.commit()
        await ran.until(1)

    assert (before, [task.id for task in ran.tasks]) == ([], ["1"])


async def test_promise_3_a_rolled_back_task_never_runs(database: Database, sql: asyncpg.Connection) -> None:
    """(3) JT-04: though it was notified of; the notification is given up, and the next one is served (JB-26)."""
    await sql.execute("UPDATE hookwire.task_kinds SET giveup_seconds = 0.2, lookup_seconds = 0.05")
    ran, transport = Ran(), Transport()
    async with working(database, ran, transport) as worker:
        transaction = sql.transaction()
        await transaction.start()
        await sql.execute(INSERT, "1")
        transport.send("1")
        await transaction.rollback()
        await until(lambda: worker.dropped)
        await sql.execute(INSERT, "2")
        transport.send("2")
        await ran.until(1)

    assert ([task.id for task in ran.tasks], sorted(transport.acknowledged)) == (["2"], ["1", "2"])


async def test_a_notification_is_acknowledged_while_its_task_runs(database: Database, sql: asyncpg.Connection) -> None:
    """JB-28: after the claim's commit, from which on the row is the truth."""
    ran, transport = Ran(), Transport()
    ran.hold = asyncio.Event()
    async with working(database, ran, transport):
        await sql.execute(INSERT, "1")
        transport.send("1")
        await ran.until(1)
        await until(lambda: transport.acknowledged)
        is_started = await sql.fetchval("SELECT start_time IS NOT NULL FROM hookwire.task_rows")
        ran.hold.set()
        await drained(sql)

    assert (transport.acknowledged, is_started) == (["1"], True)


async def test_promise_4_notifications_may_come_doubled_tripled_late_or_for_nothing(
    database: Database, sql: asyncpg.Connection
) -> None:
    """(4) JT-05, JB-27, JT-04."""
    await sql.execute("UPDATE hookwire.task_kinds SET giveup_seconds = 0.1")
    ran, transport = Ran(), Transport()
    ids = [str(number) for number in range(30)]
    async with working(database, ran, transport):
        for task_id in ids:
            await sql.execute(INSERT, task_id)
        for task_id in ids * 3:
            transport.send(task_id)
        await ran.until(30)
        await drained(sql)
        for task_id in ids:
            transport.send(task_id)
        await until(lambda: len(transport.acknowledged) == 120)

    assert sorted(task.id for task in ran.tasks) == sorted(ids)


async def test_promise_5_a_task_is_claimed_once_by_many_workers(database: Database, sql: asyncpg.Connection) -> None:
    """(5) JB-24, JB-39, JT-04."""
    ran = Ran()
    await sql.execute("SELECT hookwire.enqueue_task('k', to_jsonb(n)) FROM generate_series(1, 300) n")
    async with (
        working(database, ran, name="a", poll_seconds=0.01),
        working(database, ran, name="b", poll_seconds=0.01),
        working(database, ran, name="c", poll_seconds=0.01),
    ):
        await ran.until(300)
        await drained(sql)

    assert (len(ran.tasks), len({task.id for task in ran.tasks}), {task.attempt for task in ran.tasks}) == (
        300,
        300,
        {1},
    )


async def test_a_broker_that_is_away_delays_nothing_for_ever(
    database: Database, sql: asyncpg.Connection, free_port: int
) -> None:
    """JB-65: polling finds what no notification tells of."""
    ran = Ran()
    source = AmqpNotifications(AmqpOptions(f"amqp://127.0.0.1:{free_port}/", "abcdefgh"))
    async with working(database, ran, source.listen, poll_seconds=0.05):
        await sql.execute(INSERT, "1")
        await ran.until(1)
        await drained(sql)

    assert [task.id for task in ran.tasks] == ["1"]


async def test_a_worker_that_stops_finishes_what_it_can_and_gives_the_rest_back(
    database: Database, sql: asyncpg.Connection
) -> None:
    """JT-16, JB-78, JB-09: the attempt is not counted."""
    ran = Ran()
    ran.hold = asyncio.Event()
    await sql.execute(INSERT, "1")
    async with working(database, ran, poll_seconds=0.01, grace_seconds=0.1) as worker:
        await ran.until(1)
        worker.stop()
    row = await sql.fetchrow("SELECT start_time, attempts, claim, worker FROM hookwire.task_rows")
    present = await sql.fetchval("SELECT count(*) FROM hookwire.task_workers")

    assert (tuple(row), worker.tally.released, present) == ((None, 0, None, None), 1, 0)


async def test_a_task_that_fails_is_tried_again_and_dies_in_the_end(
    database: Database, sql: asyncpg.Connection
) -> None:
    """JB-38."""
    ran = Ran()
    await sql.execute("UPDATE hookwire.task_kinds SET attempts_max = 2, backoff_seconds_min = 0")
    await sql.execute("INSERT INTO hookwire.tasks (id, description, start_time) VALUES ('1', 'fails', NULL)")
    cleaner = Cleaner(database)
    async with working(database, ran, poll_seconds=0.01), asyncio.timeout(WAIT_SECONDS):
        while not await sql.fetchval("SELECT count(*) FROM hookwire.dead_tasks"):
            await cleaner.clean()
            await poll()
    dead = await sql.fetchrow("SELECT id, reason, attempts FROM hookwire.dead_tasks")

    assert (tuple(dead), [task.attempt for task in ran.tasks]) == (("1", "told to", 2), [1, 2])

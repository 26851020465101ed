"""app/bridges/listener.py: a NOTIFY of a transaction wakes the relays; a lost connection is made again (RR-15, F60)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import asyncpg
from structlog.testing import capture_logs

from app.bridges.listener import Listener
from db.direct import Direct, connect_direct
from db.errors import Unavailable
from db.pool import PoolOptions
from tests.waiting import until

WAIT_SECONDS_MAX = 60.0


class CountedSignal:
    """Counts the notifications and lets a test wait for the next."""

    def __init__(self) -> None:
        self.notifications = 0
        self._notified = asyncio.Event()

    def __call__(self, _text: str) -> None:
        self.notifications += 1
        self._notified.set()

    async def next(self) -> None:
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            await self._notified.wait()
        self._notified.clear()


@asynccontextmanager
async def listening(
    database_url: str, connect: Callable[[], "asyncio.Future[Direct]"] | None = None
) -> AsyncIterator[tuple[Listener, CountedSignal, asyncpg.Connection]]:
    signal = CountedSignal()
    options = PoolOptions(database_url, application_name="hookwire listener")
    listener = Listener(connect or (lambda: connect_direct(options)), {"hookwire_outbox": signal})
    sql = await asyncpg.connect(database_url)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(listener.run())
        try:
            yield listener, signal, sql
        finally:
            listener.stop()
            await sql.close()


async def publish(sql: asyncpg.Connection) -> None:
    await sql.execute("SELECT hookwire.publish('t', 'x'::text)")


async def test_the_start_rings_for_what_was_committed_before_and_then_each_publish_does(database_url: str) -> None:
    """RU-13, RR-15."""
    async with listening(database_url) as (_, signal, sql):
        await signal.next()
        for _ in range(3):
            await publish(sql)
            await signal.next()
        assert signal.notifications == 4


async def test_a_transaction_that_is_rolled_back_rings_nothing(database_url: str) -> None:
    async with listening(database_url) as (_, signal, sql):
        await signal.next()
        await sql.execute("BEGIN; SELECT hookwire.publish('t', 'x'::text); ROLLBACK")
        await publish(sql)
        await signal.next()
        assert signal.notifications == 2


async def test_a_lost_connection_is_made_again_and_rings_for_what_was_missed(database_url: str) -> None:
    """RO-09, F60."""
    async with listening(database_url) as (_, signal, sql):
        await signal.next()
        ended = await sql.fetchval(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'hookwire listener'"
        )
        await signal.next()
        await publish(sql)
        await signal.next()
        assert (ended, signal.notifications) == (1, 3)


async def test_a_database_that_cannot_be_reached_is_tried_again_and_told_once(database_url: str) -> None:
    options = PoolOptions(database_url)
    refusals = [Unavailable("away")] * 2

    async def connect() -> Direct:
        if refusals:
            raise refusals.pop()
        return await connect_direct(options)

    with capture_logs() as lines:
        async with listening(database_url, connect) as (_, signal, _sql):
            await signal.next()
            assert refusals == []
    assert [line["event"] for line in lines if line["log_level"] != "debug"] == ["listener_lost", "listener_back"]


async def test_a_stop_ends_it_at_once_and_closes_its_connection(database_url: str) -> None:
    async with listening(database_url) as (listener, signal, sql):
        await signal.next()
        listener.stop()
        await until(lambda: sql.fetchval(_GONE))


_GONE = "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'hookwire listener'"

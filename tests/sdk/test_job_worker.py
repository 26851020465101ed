"""The SDK's worker of jobs, over SQL and HTTP (JB-39, JB-60, JB-62, JB-64, JB-67, JB-74, JB-75, JB-78)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from hookwire.jobs import Failed, Handlers, HttpJobs, Job, JobWorker, Snoozed, SqlJobs, enqueue
from tests.waiting import until

WAIT_SECONDS = 60.0


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Any]:
    async with asyncpg.create_pool(database_url, min_size=1, max_size=6) as opened:
        yield opened


@asynccontextmanager
async def working(jobs: Any, handlers: Handlers, **options: Any) -> AsyncIterator[JobWorker]:
    worker = JobWorker(jobs, handlers, name="w", **{"idle_seconds": 0.02, **options})
    async with asyncio.TaskGroup() as group:
        running = group.create_task(worker.run())
        yield worker
        worker.stop()
        await running


async def ended(pool: Any, count: int) -> list[tuple[Any, ...]]:
    """Kind, state and result of ended jobs, once there are so many."""

    async def holds() -> object:
        return await pool.fetchval("SELECT count(*) FROM hookwire.job_archive") >= count

    await until(holds)
    rows = await pool.fetch("SELECT kind, state, result::text FROM hookwire.job_archive ORDER BY seq")
    return [tuple(row) for row in rows]


async def add(pool: Any, kind: str, args: Any = None, **options: Any) -> str:
    async with pool.acquire() as connection, connection.transaction():
        return str(await enqueue(connection, kind, args, **options))


def registered() -> Handlers:
    handlers = Handlers()

    @handlers.job("double")
    async def double(job: Job) -> int:
        job.publish("doubled", {"n": job.args["n"]}, key="k")
        job.enqueue("thread", {"n": job.args["n"]})
        return int(job.args["n"]) * 2

    @handlers.job("thread")
    def thread(_job: Job) -> bool:
        return threading.current_thread() is not threading.main_thread()

    @handlers.job("fails")
    async def fails(job: Job) -> None:
        raise Failed("no", dead=job.attempt == 2, retry_seconds=0)

    @handlers.job("later")
    async def later(job: Job) -> int:
        if job.resumed is None:
            raise Snoozed(3600, token="token-of-16-bytes")
        return job.attempt

    return handlers


async def test_coroutines_and_threads_complete_with_events_and_follow_ups(pool: Any) -> None:
    """JB-51, JB-64: 30 jobs through 10 slots, over SQL."""
    for n in range(30):
        await add(pool, "double", {"n": n})
    async with working(SqlJobs(pool), registered()) as worker:
        found = await ended(pool, 60)
    events = await pool.fetchval("SELECT count(*) FROM hookwire.events WHERE topic = 'doubled' AND key = 'k'")

    assert sorted(found) == sorted(
        [("double", "completed", str(2 * n)) for n in range(30)] + [("thread", "completed", "true")] * 30
    )
    assert (worker.completed, events) == (60, 30)


async def test_a_handlers_rows_commit_with_the_result_or_not_at_all(pool: Any) -> None:
    """JB-39, JB-67: the claim is lost while the second handler runs, so its row is rolled back."""
    handlers, lost = Handlers(), list[int]()

    @handlers.job("pay", in_transaction=True)
    async def pay(job: Job, connection: Any) -> str:
        await connection.execute("INSERT INTO paid VALUES ($1)", job.args["n"])
        lost.append(job.args["n"])
        if lost == [1, 2]:
            await pool.execute(
                "SELECT hookwire.release_jobs(ARRAY[$1::text::uuid], ARRAY[$2::bigint])", job.id, job.claim
            )
        return f"attempt {job.attempt}"

    await pool.execute("CREATE TABLE paid (n integer)")
    await add(pool, "pay", {"n": 1})
    await add(pool, "pay", {"n": 2})
    async with working(SqlJobs(pool), handlers, slots=1):
        await ended(pool, 2)
    rows = await pool.fetch("SELECT n FROM paid ORDER BY n")

    assert [row["n"] for row in rows] == [1, 2]


async def test_a_job_that_is_cancelled_is_stopped_by_the_heartbeat(pool: Any) -> None:
    """JB-74."""
    handlers, begun = Handlers(), asyncio.Event()

    @handlers.job("long")
    async def long(_job: Job) -> None:
        begun.set()
        await asyncio.Event().wait()

    job = await add(pool, "long")
    async with working(SqlJobs(pool), handlers, lease_seconds=0.5):
        async with asyncio.timeout(WAIT_SECONDS):
            await begun.wait()
        await pool.execute("SELECT hookwire.cancel_job($1::text::uuid, 'ada')", job)
        found = await ended(pool, 1)

    assert found == [("long", "cancelled", None)]


async def test_a_worker_that_stops_gives_back_what_it_cannot_finish(pool: Any) -> None:
    """JB-78, JT-16: without costing an attempt."""
    handlers, begun = Handlers(), asyncio.Event()

    @handlers.job("long")
    async def long(_job: Job) -> None:
        begun.set()
        await asyncio.Event().wait()

    await add(pool, "long")
    async with asyncio.TaskGroup() as group:
        worker = JobWorker(SqlJobs(pool), handlers, grace_seconds=0.1)
        running = group.create_task(worker.run())
        async with asyncio.timeout(WAIT_SECONDS):
            await begun.wait()
            worker.stop()
            await running
    left = await pool.fetchrow("SELECT state, attempts, claim FROM hookwire.jobs")

    assert tuple(left) == ("available", 0, None)


async def test_an_idle_worker_is_woken_by_a_notification(pool: Any) -> None:
    """JB-65, JF-42: it polls once in an hour; its listening session ends once, and is opened anew."""
    listening = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"
    async with working(SqlJobs(pool), registered(), idle_seconds=3600):
        await until(lambda: pool.fetchval(listening))
        await add(pool, "thread")
        await ended(pool, 1)
        await pool.execute(f"SELECT pg_terminate_backend(l.pid) FROM ({listening}) AS l")
        await add(pool, "thread")
        found = await ended(pool, 2)

    assert found == [("thread", "completed", "true")] * 2


async def test_a_worker_does_not_listen_on_a_small_pool(database_url: str) -> None:
    """JB-65: two connections are for the work; polling finds the job."""
    async with (
        asyncpg.create_pool(database_url, min_size=1, max_size=2) as small,
        working(SqlJobs(small), registered()),
    ):
        await add(small, "thread")
        found = await ended(small, 1)

    assert found == [("thread", "completed", "true")]


async def test_what_ends_makes_room_for_others_of_its_key_at_once(pool: Any) -> None:
    """JB-70: no poll comes to help."""
    await pool.execute("INSERT INTO hookwire.job_kinds (kind, key_running_max) VALUES ('thread', 1)")
    for _ in range(3):
        await add(pool, "thread", key="k")
    async with working(SqlJobs(pool), registered(), idle_seconds=3600):
        found = await ended(pool, 3)

    assert found == [("thread", "completed", "true")] * 3


class HeldJobs(SqlJobs):
    """Settles when it may."""

    def __init__(self, pool: Any) -> None:
        super().__init__(pool)
        self.begun, self.may = asyncio.Event(), asyncio.Event()

    async def complete(self, done: Any, connection: Any = None) -> set[str]:
        self.begun.set()
        await self.may.wait()
        return await super().complete(done, connection)


async def test_a_worker_that_stops_settles_what_its_handlers_returned(pool: Any) -> None:
    """JB-78: it is stopped while a settlement is on its way."""
    jobs = HeldJobs(pool)
    await add(pool, "thread")
    async with asyncio.TaskGroup() as group:
        worker = JobWorker(jobs, registered())
        running = group.create_task(worker.run())
        async with asyncio.timeout(WAIT_SECONDS):
            await jobs.begun.wait()
            worker.stop()
            for _ in range(20):  # the worker stops as far as it can
                await asyncio.sleep(0)
            jobs.may.set()
            await running
        found = await pool.fetch("SELECT state, attempts FROM hookwire.all_jobs")

    assert [tuple(row) for row in found] == [("completed", 1)]


def test_a_transaction_over_http_is_refused() -> None:
    handlers = Handlers()
    handlers.job("pay", in_transaction=True)(lambda job, connection: None)
    with pytest.raises(ValueError, match="needs SqlJobs"):
        JobWorker(HttpJobs("http://127.0.0.1:1"), handlers)


async def test_a_worker_outlives_sessions_that_take_no_writes(database_url: str) -> None:
    """GB-01, HA-02: the server had become a standby, or its name leads to another one now."""
    name = database_url.rpartition("/")[2]
    operator = await asyncpg.connect(database_url)
    await operator.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    async with asyncpg.create_pool(database_url, min_size=3, max_size=6) as pool:
        await operator.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        async with operator.transaction():
            await enqueue(operator, "double", {"n": 1})
        async with working(SqlJobs(pool), registered()):
            found = await ended(operator, 2)
    await operator.close()
    assert found == [("double", "completed", "2"), ("thread", "completed", "true")]

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
    worker = JobWorker(jobs, handlers, idle_seconds=0.02, name="w", **options)
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


def test_a_transaction_over_http_is_refused() -> None:
    handlers = Handlers()
    handlers.job("pay", in_transaction=True)(lambda job, connection: None)
    with pytest.raises(ValueError, match="needs SqlJobs"):
        JobWorker(HttpJobs("http://127.0.0.1:1"), handlers)

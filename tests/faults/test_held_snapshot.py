"""Workers of queues and jobs beside an old snapshot: nothing is lost or doubled, and the rate is kept (JF-43)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from hookwire.jobs import Handlers, Job, JobWorker, Message, SqlJobs, Worker
from tests.waiting import lasts, until

_BATCH = 80
_BATCHES_PER_SECOND = 10


@dataclass(frozen=True, slots=True)
class Work:
    """What to set, how so many are added ($1), and how many have ended."""

    settings: str
    add: str
    ended: str
    worker: Callable[[Any], tuple[Any, Callable[[], int]]]


def _message_worker(pool: Any) -> tuple[Any, Callable[[], int]]:
    async def accept(_: Message) -> None:
        return

    worker = Worker(pool, "q", accept)
    return worker, lambda: worker.accepted


def _job_worker(pool: Any) -> tuple[Any, Callable[[], int]]:
    handlers = Handlers()

    @handlers.job("k")
    async def finish(_: Job) -> None:
        return

    worker = JobWorker(SqlJobs(pool), handlers, slots=100)
    return worker, lambda: worker.completed


_WORK = {
    "messages": Work(
        "INSERT INTO hookwire.queues (name, history) VALUES ('q', true)",
        "SELECT count(*) FROM hookwire.submit_batch('q', array_fill('x'::bytea, ARRAY[$1::int]))",
        "SELECT count(*) FROM hookwire.message_archive",
        _message_worker,
    ),
    "jobs": Work(
        "SELECT hookwire.put_job_kind('k', '{}', 'test')",
        "SELECT count(hookwire.enqueue('k')) FROM generate_series(1, $1::int)",
        "SELECT count(*) FROM hookwire.job_archive",
        _job_worker,
    ),
}


@asynccontextmanager
async def _old_snapshot(database_url: str) -> AsyncIterator[None]:
    connection = await asyncpg.connect(database_url)
    try:
        async with connection.transaction(isolation="repeatable_read"):
            await connection.fetchval("SELECT count(*) FROM hookwire.queues")
            yield
    finally:
        await connection.close()


async def _rate(pool: Any, add: str, ended: Callable[[], int], seconds: float) -> float:
    """Add at a fixed rate, or slower where the database is; return how many ended in each second."""
    before, began = ended(), time.monotonic()
    batches = int(seconds * _BATCHES_PER_SECOND)
    for number in range(batches):
        await lasts(max(0.0, began + number / _BATCHES_PER_SECOND - time.monotonic()))
        await pool.execute(add, _BATCH)
    await until(lambda: ended() - before >= batches * _BATCH, seconds=60 + seconds)
    return batches * _BATCH / (time.monotonic() - began)


async def _clean_and_held(database_url: str, work: Work, seconds: float) -> tuple[float, float, int]:
    """The rate without and with an old snapshot, and how many ended."""
    async with asyncpg.create_pool(database_url, min_size=1, max_size=8) as pool:
        await pool.execute(work.settings)
        worker, ended = work.worker(pool)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(worker.run())
            clean = await _rate(pool, work.add, ended, seconds / 3)
            async with _old_snapshot(database_url):
                held = await _rate(pool, work.add, ended, seconds)
            worker.stop()
            await running
        return clean, held, await pool.fetchval(work.ended)


@pytest.mark.parametrize("work", _WORK)
async def test_nothing_is_lost_beside_an_old_snapshot(database_url: str, work: str) -> None:
    """JF-43: each one that was added ends once."""
    *_, ended = await _clean_and_held(database_url, _WORK[work], 3)

    assert ended == 4 * _BATCHES_PER_SECOND * _BATCH


@pytest.mark.soak
@pytest.mark.parametrize("work", _WORK)
async def test_three_minutes_of_an_old_snapshot_keep_nine_tenths_of_the_rate(database_url: str, work: str) -> None:
    """JF-43, JS-02: 800 in each second, as long as the database follows."""
    clean, held, ended = await _clean_and_held(database_url, _WORK[work], 180)
    print(f"{work}: {clean:.0f}/s without, {held:.0f}/s with an old snapshot")

    assert (held >= 0.9 * clean, ended) == (True, 240 * _BATCHES_PER_SECOND * _BATCH), (clean, held)

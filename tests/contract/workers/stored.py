"""Workers of jobs, messages and tasks: the work is in a database."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from app.bridges.work_log import report_of
from db.pool import PoolOptions, open_database
from db.sdk_pool import SdkPool
from hookwire.jobs import Handlers, Job, JobWorker, Message, Queue, SqlJobs, Worker, enqueue, enqueue_task
from hookwire.jobs.leased_jobs import LeasedJobs
from hookwire.jobs.leasing.leasing import LeaseOptions, Leasing
from hookwire.jobs.messages.leased_messages import LeasedMessages
from hookwire.jobs.sql_tasks import SqlTasks, Task
from hookwire.jobs.task_worker import TaskOptions, TaskWorker
from tests.contract.workers.harness import GOOD, Hands, Place, Seen, WorkerKind
from tests.waiting import until

__all__ = ["KINDS", "opened"]

GRACE_SECONDS = 0.2
LEASE_SECONDS = 3_000.0
OPTIONS: dict[str, Any] = {"grace_seconds": GRACE_SECONDS, "lease_seconds": LEASE_SECONDS, "idle_seconds": 0.02}
_JOB = """SELECT state, attempts, errors -> -1 ->> 'error', due_at IS NOT NULL FROM hookwire.jobs
          WHERE kind = $1 AND args = '"bad"'
          UNION ALL SELECT state, attempts, NULL, false FROM hookwire.job_archive WHERE kind = $1 AND args = '"bad"'"""
_MESSAGE = """SELECT CASE WHEN claim IS NULL THEN 'failed' ELSE 'held' END, deliveries, last_reason, due_at IS NOT NULL
              FROM hookwire.messages WHERE queue = $1 AND payload = 'bad'"""
_TASK = """SELECT CASE WHEN claim IS NULL THEN 'failed' ELSE 'held' END, attempts, last_error, due_at IS NOT NULL
           FROM hookwire.task_rows WHERE kind = $1 AND description::jsonb = '"bad"'"""
_STATES = {"retryable": "failed", "completed": "done", "running": "held", "available": "returned"}


class StoredHarness:
    """A worker on a database. ``kind`` is the kind or queue of this test alone."""

    def __init__(self, pool: Any, kind: str, hands: Hands, query: str, add: Callable[[Any, str], Any]) -> None:
        self.stop: Callable[[], None] = lambda: None
        self._pool = pool
        self._kind = kind
        self._hands = hands
        self._query = query
        self._add = add
        self._running: asyncio.Task[None] | None = None

    async def add(self, work: str) -> None:
        async with self._pool.acquire() as connection, connection.transaction():
            await self._add(connection, work)

    def begin(self, worker: Any) -> None:
        self.stop = worker.stop
        self._running = asyncio.ensure_future(worker.run())

    async def ended(self) -> None:
        assert self._running is not None
        await asyncio.wait([self._running])
        await self._running

    async def lives(self) -> bool:
        assert self._running is not None
        done = len(self._hands.good)
        await self.add("more")
        await until(lambda: len(self._hands.good) > done or self._running.done())
        return not self._running.done()

    async def bad(self) -> Seen:
        row = await self._pool.fetchrow(self._query, self._kind)
        if row is None:
            return Seen("done", 1, None, False)
        state, attempts, reason, is_delayed = row
        if state == "failed" and not is_delayed:
            state = "returned"
        return Seen(_STATES.get(state, state), attempts, reason, is_delayed)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Place]:
    """A database with its pools, which many tests may use: new sessions would read its catalog each time."""
    async with asyncpg.create_pool(url, min_size=1, max_size=2) as pool:
        database = await open_database(PoolOptions(url))
        yield Place(pool, SdkPool(database))
        await database.aclose()


async def harness_of(
    place: Place, hands: Hands, query: str, add: Callable[[str], Callable[[Any, str], Any]]
) -> tuple[StoredHarness, str]:
    kind = f"kind-{secrets.token_hex(6)}"
    harness = StoredHarness(place.pool, kind, hands, query, add(kind))
    for work in ("bad", *(f"good-{number}" for number in range(GOOD))):
        await harness.add(work)
    return harness, kind


def add_job(kind: str) -> Callable[[Any, str], Any]:
    return lambda connection, work: enqueue(connection, kind, work)


def add_message(queue: str) -> Callable[[Any, str], Any]:
    return lambda connection, work: Queue(queue).submit(connection, work.encode())


def add_task(kind: str) -> Callable[[Any, str], Any]:
    return lambda connection, work: enqueue_task(connection, kind, work)


# --- the SDK ----------------------------------------------------------------------------------------------------


def sdk_jobs(register: Callable[[Handlers, str, Hands], None]) -> Callable[[Place, Hands], Any]:
    @asynccontextmanager
    async def working(place: Place, hands: Hands) -> AsyncIterator[StoredHarness]:
        harness, kind = await harness_of(place, hands, _JOB, add_job)
        handlers, jobs = Handlers(), SqlJobs(place.pool)
        register(handlers, kind, hands)
        harness.begin(JobWorker(jobs, handlers, **OPTIONS))
        yield harness

    return working


def on_loop(handlers: Handlers, kind: str, hands: Hands) -> None:
    @handlers.job(kind)
    async def handle(job: Job) -> Any:
        return await hands.coroutine(job.args)


def in_thread(handlers: Handlers, kind: str, hands: Hands) -> None:
    @handlers.job(kind)
    def handle(job: Job) -> Any:
        return hands.plain(job.args)


def in_transaction(handlers: Handlers, kind: str, hands: Hands) -> None:
    @handlers.job(kind, in_transaction=True)
    async def handle(job: Job, _connection: Any) -> Any:
        return await hands.coroutine(job.args)


@asynccontextmanager
async def sdk_messages(place: Place, hands: Hands) -> AsyncIterator[StoredHarness]:
    harness, queue = await harness_of(place, hands, _MESSAGE, add_message)

    async def handle(message: Message) -> Any:
        return await hands.coroutine(message.payload.decode())

    harness.begin(Worker(place.pool, queue, handle, **OPTIONS))
    yield harness


# --- hookwire work ----------------------------------------------------------------------------------------------


@asynccontextmanager
async def work_on(noun: str, worker_of: Callable[[Any, str, Any], Any], *harness: Any) -> AsyncIterator[StoredHarness]:
    """A worker of the command, on the command's own pool and with its log."""
    place, hands, query, add = harness
    made, kind = await harness_of(place, hands, query, add)
    made.begin(worker_of(place.sdk_pool, kind, report_of(noun)))
    yield made


def work_jobs(place: Place, hands: Hands) -> Any:
    async def handle(job: Job) -> Any:
        return await hands.coroutine(job.args)

    def worker_of(pool: Any, kind: str, report: Any) -> Any:
        options = LeaseOptions(8, LEASE_SECONDS, 0.2, GRACE_SECONDS, held_max=8)
        return Leasing(LeasedJobs(SqlJobs(pool), lambda: [kind], "w", LEASE_SECONDS), handle, options, report)

    return work_on("job", worker_of, place, hands, _JOB, add_job)


def work_messages(place: Place, hands: Hands) -> Any:
    async def handle(message: Message) -> Any:
        return await hands.coroutine(message.payload.decode())

    def worker_of(pool: Any, queue: str, report: Any) -> Any:
        options = LeaseOptions(8, LEASE_SECONDS, 0.2, GRACE_SECONDS, held_max=8)
        return Leasing(LeasedMessages(pool, queue, LEASE_SECONDS, "w"), handle, options, report)

    return work_on("message", worker_of, place, hands, _MESSAGE, add_message)


def work_tasks(place: Place, hands: Hands) -> Any:
    async def handle(task: Task) -> None:
        await hands.coroutine(json.loads(task.description))

    def worker_of(pool: Any, kind: str, report: Any) -> Any:
        options = TaskOptions(f"worker of {kind}", [kind], grace_seconds=GRACE_SECONDS, poll_seconds=0.05)
        return TaskWorker(SqlTasks(pool), handle, options, report)

    return work_on("task", worker_of, place, hands, _TASK, add_task)


KINDS = [
    WorkerKind("sdk_job_worker_on_loop", "kept", True, sdk_jobs(on_loop)),
    WorkerKind("sdk_job_worker_in_thread", "kept", False, sdk_jobs(in_thread)),
    WorkerKind("sdk_job_worker_in_transaction", "kept", True, sdk_jobs(in_transaction)),
    WorkerKind("sdk_message_worker", "nothing", True, sdk_messages),
    WorkerKind("job_worker", "kept", True, work_jobs),
    WorkerKind("message_worker", "nothing", True, work_messages),
    WorkerKind("task_worker", "nothing", True, work_tasks),
]

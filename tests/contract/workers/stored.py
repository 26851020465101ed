"""Workers of jobs, messages and tasks: the work is in a database."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from db.pool import PoolOptions, open_database
from hookwire.jobs import Handlers, Job, Message, Queue, SqlJobs, Worker, enqueue, enqueue_task
from hookwire.jobs import JobWorker as SdkJobWorker
from jobs.job_worker import JobOutcome, JobWorker, JobWorkerOptions
from jobs.jobs.job import ClaimedJob
from jobs.jobs.job_queue import JobQueue
from jobs.message_worker import MessageWorker, MessageWorkerOptions
from jobs.queues.message import Received
from jobs.queues.queues import Queues
from jobs.queues.waiting import Waiting
from jobs.task_worker import TaskWorker, TaskWorkerOptions
from jobs.tasks.task import Task
from jobs.tasks.tasks import Tasks
from tests.contract.workers.harness import GOOD, Hands, Seen, WorkerKind
from tests.waiting import until

__all__ = ["KINDS"]

GRACE_SECONDS = 0.2
LEASE_SECONDS = 3_000.0
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
async def harness_of(
    url: str, hands: Hands, query: str, add: Callable[[str], Callable[[Any, str], Any]]
) -> AsyncIterator[tuple[StoredHarness, Any, str]]:
    kind = f"kind-{secrets.token_hex(6)}"
    async with asyncpg.create_pool(url, min_size=1, max_size=2) as pool:
        harness = StoredHarness(pool, kind, hands, query, add(kind))
        for work in ("bad", *(f"good-{number}" for number in range(GOOD))):
            await harness.add(work)
        yield harness, pool, kind


def add_job(kind: str) -> Callable[[Any, str], Any]:
    return lambda connection, work: enqueue(connection, kind, work)


def add_message(queue: str) -> Callable[[Any, str], Any]:
    return lambda connection, work: Queue(queue).submit(connection, work.encode())


def add_task(kind: str) -> Callable[[Any, str], Any]:
    return lambda connection, work: enqueue_task(connection, kind, work)


# --- the SDK ----------------------------------------------------------------------------------------------------


def sdk_jobs(register: Callable[[Handlers, str, Hands], None]) -> Callable[[str, Hands], Any]:
    @asynccontextmanager
    async def opened(url: str, hands: Hands) -> AsyncIterator[StoredHarness]:
        async with harness_of(url, hands, _JOB, add_job) as (harness, pool, kind):
            handlers = Handlers()
            register(handlers, kind, hands)
            harness.begin(
                SdkJobWorker(SqlJobs(pool), handlers, grace_seconds=GRACE_SECONDS, lease_seconds=LEASE_SECONDS)
            )
            yield harness

    return opened


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
async def sdk_messages(url: str, hands: Hands) -> AsyncIterator[StoredHarness]:
    async with harness_of(url, hands, _MESSAGE, add_message) as (harness, pool, queue):

        async def handle(message: Message) -> Any:
            return await hands.coroutine(message.payload.decode())

        harness.begin(Worker(pool, queue, handle, grace_seconds=GRACE_SECONDS, lease_seconds=LEASE_SECONDS))
        yield harness


# --- the service's own ------------------------------------------------------------------------------------------


@asynccontextmanager
async def own_jobs(url: str, hands: Hands) -> AsyncIterator[StoredHarness]:
    database = await open_database(PoolOptions(url))
    async with harness_of(url, hands, _JOB, add_job) as (harness, _, kind):

        async def handle(job: ClaimedJob) -> JobOutcome:
            return JobOutcome(await hands.coroutine(job.args))

        options = JobWorkerOptions("w", [kind], lease_seconds=LEASE_SECONDS, grace_seconds=GRACE_SECONDS)
        harness.begin(JobWorker(JobQueue(database), handle, options))
        yield harness
    await database.aclose()


@asynccontextmanager
async def own_messages(url: str, hands: Hands) -> AsyncIterator[StoredHarness]:
    database = await open_database(PoolOptions(url))
    async with harness_of(url, hands, _MESSAGE, add_message) as (harness, _, queue):

        async def handle(received: Received) -> None:
            await hands.coroutine(received.message.payload.decode())

        options = MessageWorkerOptions(queue, "w", lease_seconds=LEASE_SECONDS, grace_seconds=GRACE_SECONDS)
        harness.begin(MessageWorker(Queues(database), Waiting(database), handle, options))
        yield harness
    await database.aclose()


@asynccontextmanager
async def own_tasks(url: str, hands: Hands) -> AsyncIterator[StoredHarness]:
    database = await open_database(PoolOptions(url))
    async with harness_of(url, hands, _TASK, add_task) as (harness, _, kind):

        async def handle(task: Task) -> None:
            await hands.coroutine(json.loads(task.description))

        options = TaskWorkerOptions(f"worker of {kind}", [kind], grace_seconds=GRACE_SECONDS, poll_seconds=0.05)
        harness.begin(TaskWorker(Tasks(database), handle, options))
        yield harness
    await database.aclose()


KINDS = [
    WorkerKind("sdk_job_worker_on_loop", "kept", True, sdk_jobs(on_loop)),
    WorkerKind("sdk_job_worker_in_thread", "kept", False, sdk_jobs(in_thread)),
    WorkerKind("sdk_job_worker_in_transaction", "kept", True, sdk_jobs(in_transaction)),
    WorkerKind("sdk_message_worker", "nothing", True, sdk_messages),
    WorkerKind("job_worker", "json", True, own_jobs),
    WorkerKind("message_worker", "nothing", True, own_messages),
    WorkerKind("task_worker", "nothing", True, own_tasks),
]

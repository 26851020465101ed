"""Job worker: claims jobs of its handlers' kinds, over SQL or HTTP, runs and settles them (JB-62, JB-64, JB-67, JB-78).

Coroutines run on the event loop, plain functions in threads of the worker, one for each slot. Results of the same few
milliseconds share a statement. A job whose handler runs in a transaction is completed in that transaction, so its rows
commit with the result. If the claim has ended by then, the transaction is rolled back. A heartbeat extends the leases
of running jobs. It stops the handlers of jobs that were cancelled or are no longer held. A thread cannot be stopped, so
its job is released only when it ends. An idle worker polls. NOTIFY wakes it earlier if its pool has a connection to
spare (JB-65).
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

from hookwire.jobs.handlers import Handler, Handlers
from hookwire.jobs.http_jobs import HttpJobs
from hookwire.jobs.job import Job
from hookwire.jobs.leased_jobs import LeasedJobs
from hookwire.jobs.leasing.leasing import SETTLED, LeaseOptions, Leasing
from hookwire.jobs.leasing.source import log_of
from hookwire.jobs.sql_jobs import SqlJobs
from hookwire.slots import ending_of
from hookwire.threads import Threads

__all__ = ["JobWorker", "worker_name"]


class _Undone(Exception):
    """Rolls back the transaction of a handler. ``error`` is its exception, or None if the claim ended meanwhile."""

    def __init__(self, error: BaseException | None) -> None:
        super().__init__()
        self.error = error


def worker_name() -> str:
    """Return a new name: the host, the process and a random part."""
    return f"{socket.gethostname()}-{os.getpid()}-{os.urandom(3).hex()}"


class JobWorker:
    """Claims and runs jobs, at most ``slots`` at once. ``jobs`` is :class:`SqlJobs` or :class:`HttpJobs`.

    An exception of a handler fails the attempt, and so does a result that is refused. A handler raises :class:`Failed`
    to control the retry, or :class:`Snoozed` to postpone the job.
    """

    def __init__(
        self, jobs: SqlJobs | HttpJobs, handlers: Handlers, *, slots: int = 10, lease_seconds: float = 30.0,
        idle_seconds: float = 0.2, flush_seconds: float = 0.002, grace_seconds: float = 10.0, queue: str = "default",
        name: str | None = None,
    ) -> None:  # fmt: skip
        if handlers.need_transactions and not isinstance(jobs, SqlJobs):
            raise ValueError("a handler in a transaction needs SqlJobs: HttpJobs has no database connection")
        self.name = name or worker_name()
        self._jobs = jobs
        self._handlers = handlers
        self._threads = Threads("hookwire-job", slots)
        source = LeasedJobs(jobs, lambda: handlers.kinds, self.name, lease_seconds, queue)
        options = LeaseOptions(slots, lease_seconds, idle_seconds, grace_seconds, flush_seconds)
        report = log_of(lambda job: f"the job {job.id} of kind {job.kind}")
        self._leasing = Leasing(source, self._attempt, options, report)

    @property
    def completed(self) -> int:
        """Return the number of completed jobs."""
        return self._leasing.tally.done

    def run_blocking(self) -> None:
        """Run the worker in this thread until :meth:`stop`, for programs without an event loop.

        It has an event loop of its own, so ``jobs`` is :class:`HttpJobs`: a pool of asyncpg belongs to another loop.
        """
        asyncio.run(self.run())

    def stop(self) -> None:
        """Stop claiming. ``run`` returns when all running jobs are settled; it cancels them after ``grace_seconds``.

        A handler that does not end even then, such as a plain function, is named in the log and left. Its lease ends
        by itself. Safe in other threads and in signal handlers.
        """
        self._leasing.stop()

    async def run(self) -> None:
        """Claim and run jobs until stopped. Retry after errors of the connection."""
        await self._leasing.run()
        self._threads.close()

    async def _attempt(self, job: Job) -> Any:
        handler = self._handlers.of(job.kind)
        if handler.in_transaction:
            return await self._in_transaction(handler, job)
        return await handler.call(job, threads=self._threads)

    async def _in_transaction(self, handler: Handler, job: Job) -> Any:
        assert isinstance(self._jobs, SqlJobs), "the constructor checks this"
        try:
            async with self._jobs.transaction() as connection:
                ending = await ending_of(handler.call(job, connection, threads=self._threads))
                if ending.error is not None or not await self._jobs.complete([(job, ending.result)], connection):
                    raise _Undone(ending.error)
        except _Undone as undone:
            if undone.error is not None:
                raise undone.error from None
            return SETTLED
        self._leasing.tally.done += 1
        return SETTLED

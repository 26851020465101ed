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
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

from hookwire.jobs.failure import is_refusal, passes, reason_of
from hookwire.jobs.handlers import Handler, Handlers
from hookwire.jobs.http_jobs import HttpJobs
from hookwire.jobs.job import Failed, Job, Snoozed
from hookwire.jobs.sql_jobs import SqlJobs

__all__ = ["JobWorker"]

_RETRY_SECONDS: Final = 0.5
_STALE: Final = "HW001"


class _Stale(Exception):
    """The claim ended during the handler's transaction, which must be rolled back."""


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
        self.completed = 0
        self.name = name or f"{socket.gethostname()}-{os.getpid()}-{os.urandom(3).hex()}"
        self._jobs = jobs
        self._handlers = handlers
        self._slots = slots
        self._threads = ThreadPoolExecutor(slots, thread_name_prefix="hookwire-job")
        self._lease_seconds = lease_seconds
        self._idle_seconds = idle_seconds
        self._flush_seconds = flush_seconds
        self._grace_seconds = grace_seconds
        self._queue = queue
        self._running: dict[asyncio.Task[None], Job] = {}
        self._done: list[tuple[Job, Any]] = []
        self._cancelled: set[str] = set()
        self._woken = asyncio.Event()
        self._freed = asyncio.Event()
        self._flush = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = False
        self._drained = False

    def run_blocking(self) -> None:
        """Run the worker in this thread until :meth:`stop`, for programs without an event loop.

        It has an event loop of its own, so ``jobs`` is :class:`HttpJobs`: a pool of asyncpg belongs to another loop.
        """
        asyncio.run(self.run())

    def stop(self) -> None:
        """Stop claiming. ``run`` returns when all running jobs are settled; it cancels them after ``grace_seconds``.

        A plain function cannot be cancelled: its job is released when it returns, and ``run`` waits for this. Safe in
        other threads and in signal handlers.
        """
        self._stopping = True
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: the worker has ended
                self._loop.call_soon_threadsafe(self._wake)

    async def run(self) -> None:
        """Claim and run jobs until stopped. Retry after errors of the connection."""
        self._loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            settling = group.create_task(self._settle())
            helpers = [group.create_task(one) for one in (self._hold(), self._jobs.listen(self._woken.set))]
            while not self._stopping:
                self._woken.clear()
                self._freed.clear()
                if not (room := self._slots - len(self._running)):
                    await self._freed.wait()
                    continue
                found = await self._claim(room)
                for job in found:
                    self._running[group.create_task(self._run(job))] = job
                if len(found) < room:
                    await self._idle()
            await self._drain()
            await asyncio.wait([settling], timeout=self._grace_seconds)
            for helper in (settling, *helpers):
                helper.cancel()

    def _wake(self) -> None:
        for event in (self._woken, self._freed, self._flush):
            event.set()

    async def _claim(self, room: int) -> list[Job]:
        try:
            return await self._jobs.claim(self._handlers.kinds, room, self.name, self._lease_seconds, self._queue)
        except Exception as error:
            if not passes(error):
                raise
            await asyncio.sleep(_RETRY_SECONDS)
            return []

    async def _run(self, job: Job) -> None:
        try:
            handler = self._handlers.of(job.kind)
            if handler.in_transaction:
                await self._run_in_transaction(handler, job)
            else:
                result = await handler.call(job, threads=self._threads)  # before the list is read: a flush replaces it
                self._done.append((job, result))
                self._flush.set()
        except Snoozed as snoozed:
            pause = snoozed
            await self._settle_or_fail(job, lambda: self._jobs.snooze(job, pause))
        except asyncio.CancelledError:
            await asyncio.shield(self._patiently(lambda: self._jobs.release([job])))
            if job.id not in self._cancelled:
                raise
        except Exception as error:  # noqa: BLE001 - no exception of a handler may lose its job
            failed = error if isinstance(error, Failed) else Failed(reason_of(error))
            await self._settle_or_fail(job, lambda: self._jobs.fail(job, failed))
        finally:
            self._cancelled.discard(job.id)
            del self._running[asyncio.current_task()]  # type: ignore[arg-type]  # this runs in a task
            self._freed.set()

    async def _run_in_transaction(self, handler: Handler, job: Job) -> None:
        assert isinstance(self._jobs, SqlJobs), "the constructor checks this"
        try:
            async with self._jobs.transaction() as connection:
                result = await handler.call(job, connection, threads=self._threads)
                if not await self._jobs.complete([(job, result)], connection):
                    raise _Stale
        except _Stale:
            return
        self.completed += 1
        self._woken.set()

    async def _settle(self) -> None:
        while True:
            await self._flush.wait()
            if self._running and len(self._done) < self._slots:
                await asyncio.sleep(self._flush_seconds)
            self._flush.clear()
            await self._complete_done()
            if self._drained and not self._done:
                return

    async def _complete_done(self) -> None:
        done, self._done = self._done, []
        if not done:
            return
        try:
            await self._complete(done)
        except Exception as error:
            if not passes(error):
                raise
            self._done = done + self._done
            await asyncio.sleep(_RETRY_SECONDS)
            self._flush.set()

    async def _complete(self, done: list[tuple[Job, Any]]) -> None:
        """Complete jobs. A job whose result is refused fails alone; a batch is then completed job by job."""
        try:
            self.completed += len(await self._jobs.complete(done))
            self._woken.set()  # a job that ended may have held back others of its key
        except Exception as error:
            if not is_refusal(error):
                raise
            if len(done) > 1:
                for one in done:
                    await self._complete([one])
                return
            await self._fail_refused(done[0][0], error)

    async def _settle_or_fail(self, job: Job, settle: Callable[[], Awaitable[object]]) -> None:
        """Settle a job as its handler asked. Fail the attempt if that is refused, for example by a negative delay."""
        try:
            await self._patiently(settle)
        except Exception as error:
            if not is_refusal(error):
                raise
            await self._fail_refused(job, error)

    async def _fail_refused(self, job: Job, error: Exception) -> None:
        failed = Failed(f"refused: {reason_of(error)}")
        await self._patiently(lambda: self._jobs.fail(job, failed))

    async def _patiently(self, settle: Callable[[], Awaitable[object]]) -> None:
        """Settle a job. Retry after errors of the connection, for about the time of the lease."""
        for _ in range(max(1, int(self._lease_seconds / _RETRY_SECONDS))):
            try:
                await settle()
                self._woken.set()
                return
            except Exception as error:
                if getattr(error, "sqlstate", None) == _STALE:
                    return
                if not passes(error):
                    raise
            await asyncio.sleep(_RETRY_SECONDS)

    async def _hold(self) -> None:
        while True:
            await asyncio.sleep(self._lease_seconds / 3)
            if not (held := dict(self._running)):
                continue
            try:
                beat = await self._jobs.extend([*held.values()], self._lease_seconds)
            except Exception as error:
                if not passes(error):
                    raise
                continue
            for task, job in held.items():
                if beat.get(job.id, True) and task in self._running:  # not held any more, or cancelled
                    self._cancelled.add(job.id)
                    task.cancel()

    async def _idle(self) -> None:
        """Wait for a notification, a settlement or the next poll."""
        try:
            async with asyncio.timeout(self._idle_seconds):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _drain(self) -> None:
        if self._running:
            await asyncio.wait([*self._running], timeout=self._grace_seconds)
        for running in [*self._running]:
            running.cancel()
        if self._running:
            await asyncio.wait([*self._running])
        self._drained = True
        self._flush.set()

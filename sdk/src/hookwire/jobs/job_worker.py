"""Job worker: claims jobs of its handlers' kinds, over SQL or HTTP, runs and settles them (JB-62, JB-64, JB-67, JB-78).

Coroutines run on the event loop, plain functions in threads of the worker, one for each slot. Results of the same few
milliseconds share a statement. A job whose handler runs in a transaction is completed in that transaction, so its rows
commit with the result. If the claim has ended by then, the transaction is rolled back. A heartbeat extends the leases
of running jobs. It stops the handlers of jobs that were cancelled or are no longer held. A thread cannot be stopped, so
its job is released only when it ends. An idle worker polls. NOTIFY wakes it earlier if its pool has a connection to
spare (JB-65).

However a handler ends, its attempt ends, and the worker goes on. A CancelledError that the worker did not cause is a
failed attempt, and so is SystemExit. After a KeyboardInterrupt the worker stops softly.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from hookwire.jobs.failure import is_refusal, passes, reason_of
from hookwire.jobs.handlers import Handler, Handlers
from hookwire.jobs.http_jobs import HttpJobs
from hookwire.jobs.job import Failed, Job, Snoozed
from hookwire.jobs.sql_jobs import SqlJobs
from hookwire.slots import Ending, Slots, ending_of
from hookwire.threads import Threads

__all__ = ["JobWorker"]

_RETRY_SECONDS: Final = 0.5
_STALE: Final = "HW001"
_SETTLED: Final = object()
"""The result of a handler whose transaction has settled its job."""
_LOG = logging.getLogger("hookwire.jobs")


class _Undone(Exception):
    """Rolls back the transaction of a handler. ``error`` is its exception, or None if the claim ended meanwhile."""

    def __init__(self, error: BaseException | None) -> None:
        super().__init__()
        self.error = error


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
        self._threads = Threads("hookwire-job", slots)
        self._lease_seconds = lease_seconds
        self._idle_seconds = idle_seconds
        self._flush_seconds = flush_seconds
        self._grace_seconds = grace_seconds
        self._queue = queue
        self._running: Slots[Job] = Slots(self._ended, _LOG, lambda job: f"the job {job.id} of kind {job.kind}")
        self._settling: dict[asyncio.Task[None], Job] = {}
        self._done: list[tuple[Job, Any]] = []
        self._left: list[Job] = []
        self._woken = asyncio.Event()
        self._freed = asyncio.Event()
        self._flush = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._group: asyncio.TaskGroup | None = None
        self._stopping = False
        self._drained = False

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
        self._stopping = True
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: the worker has ended
                self._loop.call_soon_threadsafe(self._wake)

    async def run(self) -> None:
        """Claim and run jobs until stopped. Retry after errors of the connection."""
        self._loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            self._group = group
            settling = group.create_task(self._settle())
            helpers = [group.create_task(one) for one in (self._hold(), self._jobs.listen(self._woken.set))]
            try:
                await self._work()
                await self._drain()
            except asyncio.CancelledError:
                await self._give_up()
                raise
            await asyncio.wait([settling], timeout=self._grace_seconds)
            for helper in (settling, *helpers):
                helper.cancel()
        self._threads.close()

    async def _work(self) -> None:
        while not self._stopping:
            self._woken.clear()
            self._freed.clear()
            if not (room := self._slots - len(self._running) - len(self._settling)):
                await self._freed.wait()
                continue
            found = await self._claim(room)
            for job in found:
                self._running.begin(job, self._attempt(job))
            if len(found) < room:
                await self._idle()

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
            return _SETTLED
        self.completed += 1
        return _SETTLED

    def _ended(self, job: Job, ending: Ending) -> None:
        """Settle the job of a handler that has ended."""
        if ending.error is not None:
            self._begin_settling(job, ending)
        elif ending.result is _SETTLED:
            self._woken.set()
        else:
            self._done.append((job, ending.result))
            self._flush.set()
        self._freed.set()

    def _begin_settling(self, job: Job, ending: Ending) -> None:
        if isinstance(ending.error, KeyboardInterrupt):
            self.stop()
        if self._group is None:  # the worker is being cancelled
            self._left.append(job)
            return
        task = self._group.create_task(self._settle_ending(job, ending))
        self._settling[task] = job
        task.add_done_callback(self._settled)

    def _settled(self, task: asyncio.Task[None]) -> None:
        del self._settling[task]
        self._freed.set()

    async def _settle_ending(self, job: Job, ending: Ending) -> None:
        """Settle a job whose handler has raised."""
        error = ending.error
        assert error is not None, "a result is settled with others"
        if ending.was_cancelled:
            await self._patiently(lambda: self._jobs.release([job]))
        elif isinstance(error, Snoozed):
            await self._settle_or_fail(job, lambda: self._jobs.snooze(job, error))
        else:
            failed = error if isinstance(error, Failed) else Failed(reason_of(error))
            await self._settle_or_fail(job, lambda: self._jobs.fail(job, failed))

    async def _settle(self) -> None:
        while True:
            await self._flush.wait()
            if len(self._running) and len(self._done) < self._slots:
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
        try:
            await self._patiently(lambda: self._jobs.fail(job, failed))
        except Exception as again:
            if not is_refusal(again):
                raise
            _LOG.warning("the job %s cannot be settled; its claim ends with its lease: %s", job.id, reason_of(again))

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
            if not (held := [*self._running.work, *self._settling.values()]):
                continue
            try:
                beat = await self._jobs.extend(held, self._lease_seconds)
            except Exception as error:
                if not passes(error):
                    raise
                continue
            # They are cancelled, or not held any more.
            self._running.cancel([job for job in held if beat.get(job.id, True)])

    async def _idle(self) -> None:
        """Wait for a notification, a settlement or the next poll."""
        try:
            async with asyncio.timeout(self._idle_seconds):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _drain(self) -> None:
        await self._running.drain(self._grace_seconds)
        if self._settling:
            await asyncio.wait([*self._settling])
        self._drained = True
        self._flush.set()

    async def _give_up(self) -> None:
        """Cancel the handlers and release their jobs, because this worker is cancelled."""
        self._group = None
        await self._running.drain(0)
        if self._left:
            await asyncio.shield(self._patiently(lambda: self._jobs.release(self._left)))

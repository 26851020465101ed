"""Job worker: claims jobs of some kinds, runs a handler for each, settles it (JB-62, JB-64, JB-74, JB-78).

A heartbeat extends the leases of running jobs after each third of the lease. Its answer names the jobs to cancel. The
maintainer takes back a job that exceeds its run limit, even while heartbeats go on. A soft stop claims nothing and lets
handlers finish within ``grace_seconds``. It releases the other jobs without counting the attempt. However a handler
ends, its attempt ends, and the worker goes on; after a KeyboardInterrupt it stops softly.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from db.errors import DatabaseError, Refused
from jobs.ending import Ending, ending_of, reason_of
from jobs.jobs.job import ClaimedJob
from jobs.jobs.job_queue import JobQueue
from runtime.drain import finish_or_cancel
from runtime.pause import pause

__all__ = ["JobFailed", "JobOutcome", "JobWorker", "JobWorkerOptions"]

_log = structlog.get_logger(__name__)
_RETRY_SECONDS = 0.5
_STALE = "HW001"


class JobFailed(Exception):
    """Raised by a handler: the attempt failed. ``dead``: no further attempt."""

    dead: bool = False

    def __init__(self, reason: str, *, dead: bool = False) -> None:
        super().__init__(reason)
        self.dead = dead


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """The result of a job, and the events and jobs that commit with it."""

    result: Any = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobWorkerOptions:
    """Options of a worker. ``kinds`` None: all kinds. ``count``: stop after this number of jobs."""

    name: str
    kinds: Sequence[str] | None = None
    queue: str = "default"
    slots: int = 8
    lease_seconds: float = 30.0
    poll_seconds: float = 0.2
    grace_seconds: float = 10.0
    count: int | None = None


class JobWorker:
    """A service. ``handler`` runs one job; it raises :class:`JobFailed` if the attempt failed."""

    name = "job_worker"

    def __init__(
        self, queue: JobQueue, handler: Callable[[ClaimedJob], Awaitable[JobOutcome]], options: JobWorkerOptions
    ) -> None:
        self.completed = 0
        self.failed = 0
        self.released = 0
        self._queue = queue
        self._handler = handler
        self._options = options
        self._running: dict[asyncio.Task[None], ClaimedJob] = {}
        self._wake = asyncio.Event()
        self._stopping = False

    def stop(self) -> None:
        """Claim nothing more; ``run`` returns when the running jobs are done or ``grace_seconds`` are over."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Work until stopped."""
        async with asyncio.TaskGroup() as group:
            holding = group.create_task(self._hold())
            while not self._stopping:
                self._wake.clear()
                claimed = await self._claim()
                for job in claimed:
                    self._running[group.create_task(self._run(job))] = job
                if not claimed:
                    await pause(self._wake, self._options.poll_seconds)
            await finish_or_cancel(self._running.keys(), self._options.grace_seconds)
            holding.cancel()

    async def _claim(self) -> list[ClaimedJob]:
        options = self._options
        if not (most := self._room()):
            return []
        try:
            return await self._queue.claim(options.kinds, most, options.name, options.lease_seconds, options.queue)
        except DatabaseError as error:
            _log.warning("job_claim_failed", error=str(error))
            return []

    def _room(self) -> int:
        free = self._options.slots - len(self._running)
        if self._options.count is None:
            return free
        left = self._options.count - self.completed - self.failed - len(self._running)
        if left <= 0 and not self._running:
            self.stop()
        return max(min(free, left), 0)

    async def _run(self, job: ClaimedJob) -> None:
        try:
            ending = await ending_of(self._handled(job))
            await asyncio.shield(self._settle(job, ending))
        finally:
            del self._running[asyncio.current_task()]  # type: ignore[arg-type]  # this runs in a task
            self._wake.set()

    async def _handled(self, job: ClaimedJob) -> JobOutcome:
        """Run the handler. Raise TypeError or ValueError for a result that is not JSON."""
        outcome = await self._handler(job)
        if not isinstance(outcome, JobOutcome):
            raise TypeError(f"a handler returns a JobOutcome, not {type(outcome).__name__}")
        json.dumps([outcome.result, outcome.extra or None])
        return outcome

    async def _settle(self, job: ClaimedJob, ending: Ending) -> None:
        error = ending.error
        if ending.is_left:
            _log.warning("job_handler_left", job=str(job.receipt.job_id), hint="it does not end; its lease does")
        elif ending.was_cancelled:
            await self._patiently(lambda: self._give_up(job))
        elif error is None:
            await self._patiently(lambda: self._complete(job, ending.result))
        else:
            if isinstance(error, KeyboardInterrupt):
                self.stop()
            dead = isinstance(error, JobFailed) and bool(error.dead)
            await self._patiently(lambda: self._fail(job, reason_of(error), dead=dead))

    async def _complete(self, job: ClaimedJob, outcome: JobOutcome) -> None:
        try:
            done = await self._queue.complete([job.receipt], [outcome.result], [outcome.extra or None])
        except Refused as error:
            if error.sqlstate == _STALE:
                raise
            await self._fail(job, f"refused: {error.message}", dead=False)
            return
        self.completed += len(done)
        if not done:
            _log.warning("job_settled_late", job=str(job.receipt.job_id))

    async def _fail(self, job: ClaimedJob, reason: str, *, dead: bool) -> None:
        _log.info("job_failed", job=str(job.receipt.job_id), kind=job.kind, attempt=job.attempt, reason=reason[:200])
        await self._queue.fail(job.receipt, reason, dead=dead)
        self.failed += 1

    async def _give_up(self, job: ClaimedJob) -> None:
        """Release the job: a job that must be cancelled ends, any other is available again."""
        self.released += 1
        await self._queue.release([job.receipt], "stop")

    async def _patiently(self, settle: Callable[[], Awaitable[object]]) -> None:
        """Settle; try again while the database does not answer, for at most the length of the lease."""
        try:
            async with asyncio.timeout(self._options.lease_seconds):
                while True:
                    try:
                        await settle()
                        return
                    except Refused as error:  # the receipt is stale or the result invalid: the maintainer returns it
                        _log.warning("job_settle_refused", error=str(error))
                        return
                    except DatabaseError as error:
                        _log.warning("job_settle_failed", error=str(error))
                    await asyncio.sleep(_RETRY_SECONDS)
        except TimeoutError:
            _log.warning("job_outcome_lost", hint="the lease is over; the maintainer returns the job")

    async def _hold(self) -> None:
        while True:
            await asyncio.sleep(self._options.lease_seconds / 3)
            if not (held := dict(self._running)):
                continue
            try:
                beat = await self._queue.extend([job.receipt for job in held.values()], self._options.lease_seconds)
            except DatabaseError as error:
                _log.warning("job_extend_failed", error=str(error))
                continue
            for task, job in held.items():
                if job.receipt not in beat.held or job.receipt in beat.cancelled:
                    task.cancel()

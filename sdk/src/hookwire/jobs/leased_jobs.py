"""Jobs as the source of a leasing worker, over SQL or HTTP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hookwire.jobs.failure import reason_of
from hookwire.jobs.http_jobs import HttpJobs
from hookwire.jobs.job import Failed, Job, Snoozed
from hookwire.jobs.sql_jobs import SqlJobs

__all__ = ["LeasedJobs"]


@dataclass(frozen=True, slots=True)
class LeasedJobs:
    """Jobs of some kinds in a queue. ``kinds`` returns None for all kinds. ``worker`` is the worker's name."""

    jobs: SqlJobs | HttpJobs
    kinds: Callable[[], Sequence[str] | None]
    worker: str
    lease_seconds: float
    queue: str = "default"

    async def claim(self, most: int) -> list[Job]:
        """Claim and return at most ``most`` jobs."""
        return await self.jobs.claim(self.kinds(), most, self.worker, self.lease_seconds, self.queue)

    async def succeed(self, done: Sequence[tuple[Job, Any]]) -> list[Job]:
        """Complete jobs. Return the jobs that were not held any more."""
        held = await self.jobs.complete(done)
        return [job for job, _ in done if job.id not in held]

    async def fail(self, job: Job, error: BaseException) -> bool:
        """Fail the attempt, or postpone the job after :class:`Snoozed`. A claim that is over is an error, HW001."""
        if isinstance(error, Snoozed):
            await self.jobs.snooze(job, error)
        else:
            await self.jobs.fail(job, error if isinstance(error, Failed) else Failed(reason_of(error)))
        return True

    async def release(self, held: Sequence[Job]) -> None:
        """Release jobs without costing an attempt. A job that must be cancelled ends."""
        await self.jobs.release(held)

    async def extend(self, held: Sequence[Job]) -> list[Job]:
        """Extend leases. Return the jobs that are cancelled, or not held any more."""
        beat = await self.jobs.extend(held, self.lease_seconds) if held else {}
        return [job for job in held if beat.get(job.id, True)]

    async def listen(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` when jobs were enqueued, as far as the database says so; until cancelled."""
        await self.jobs.listen(wake)

"""Jobs over SQL: a worker's statements, on an asyncpg pool."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from hookwire.jobs import wake_up
from hookwire.jobs.failure import reason_of
from hookwire.jobs.job import Failed, Job, Snoozed, encode
from hookwire.jobs.primary import following
from hookwire.jobs.result import stored_result

__all__ = ["SqlJobs"]

_CLAIM: Final = (
    "SELECT id::text AS id, claim, kind, args::text AS args, key, attempts, attempts_max, run_until,"
    " resumed::text AS resumed FROM hookwire.claim_jobs($1, $2, $3, $4, $5)"
)
_COMPLETE: Final = (
    "SELECT c::text FROM hookwire.complete_jobs($1::text[]::uuid[], $2::bigint[], $3::text[]::jsonb[],"
    " $4::text[]::jsonb[]) AS c"
)
_FAIL: Final = "SELECT hookwire.fail_job($1::text::uuid, $2, $3, $4, $5)"
_SNOOZE: Final = "SELECT hookwire.snooze_job($1::text::uuid, $2, $3, $4)"
_EXTEND: Final = "SELECT id::text AS id, is_cancelled FROM hookwire.extend_jobs($1::text[]::uuid[], $2::bigint[], $3)"
_RELEASE: Final = "SELECT hookwire.release_jobs($1::text[]::uuid[], $2::bigint[], reason => 'stop')"


class SqlJobs:
    """Claims and settles jobs on a pool of asyncpg. Its database role needs EXECUTE on the functions of jobs."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    async def claim(
        self, kinds: Sequence[str] | None, most: int, worker: str, lease_seconds: float, queue: str
    ) -> list[Job]:
        """Claim and return at most ``most`` jobs of these kinds; None: of all kinds."""
        asked = (list(kinds) if kinds is not None else None, most, worker, lease_seconds, queue)
        return [_job_of(row) for row in await self._fetch(_CLAIM, *asked)]

    async def complete(self, done: Sequence[tuple[Job, Any]], connection: Any = None) -> set[str]:
        """Complete jobs by one statement. Return the ids of the jobs that were still held."""
        results = [stored_result(result) for _, result in done]
        extras = [
            encode(extra) if (extra := job.extra(note)) else None  # noqa: S610 - no Django
            for (job, _), (_, note) in zip(done, results, strict=True)
        ]
        fetch = self._fetch if connection is None else connection.fetch
        rows = await fetch(
            _COMPLETE, [job.id for job, _ in done], [job.claim for job, _ in done], [text for text, _ in results],
            extras if any(extras) else None,
        )  # fmt: skip
        return {row[0] for row in rows}

    async def fail(self, job: Job, failed: Failed) -> None:
        """Fail the attempt."""
        await self._fetch(_FAIL, job.id, job.claim, reason_of(failed), failed.dead, failed.retry_seconds)

    async def snooze(self, job: Job, snoozed: Snoozed) -> None:
        """Postpone the job without costing an attempt."""
        await self._fetch(_SNOOZE, job.id, job.claim, snoozed.seconds, snoozed.token)

    async def extend(self, held: Sequence[Job], lease_seconds: float) -> dict[str, bool]:
        """Extend leases. Return, for each job that is still held, its id and whether to cancel it."""
        rows = await self._fetch(_EXTEND, [job.id for job in held], [job.claim for job in held], lease_seconds)
        return {row["id"]: row["is_cancelled"] for row in rows}

    async def release(self, held: Sequence[Job]) -> None:
        """Release jobs of a worker that stops, without costing an attempt."""
        await self._fetch(_RELEASE, [job.id for job in held], [job.claim for job in held])

    async def listen(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` when jobs were enqueued, as far as the database says so; until cancelled."""
        await wake_up.listen(self._pool, "", wake)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """Yield a connection in a transaction. Commit on exit, or roll back after an exception."""
        async with self._pool.acquire() as connection, connection.transaction():
            yield connection

    async def _fetch(self, statement: str, *arguments: Any) -> Any:
        async with following(self._pool), self._pool.acquire() as connection:
            return await connection.fetch(statement, *arguments)


def _job_of(row: Any) -> Job:
    job_id, claim, kind, args, key, attempts, attempts_max, run_until, resumed = row
    found = json.loads(resumed) if resumed is not None else None
    return Job(job_id, claim, kind, json.loads(args), key or None, attempts, attempts_max, run_until, found)

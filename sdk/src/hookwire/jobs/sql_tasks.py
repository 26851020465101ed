"""Tasks over SQL: a worker's statements, on an asyncpg pool. Its role writes the table of workers.

::

                        notification: only the id; it may come early, late, twice or never
                              |
    enqueue + COMMIT --> waiting --claim--> started --finish--> gone, or archived
                          ^   ^                |  '--fail: retry after the backoff, or dead
                          |   |                '--crash: retry | compensate | abandon, by the kind's policy
                          |   '----------------'
                          '-- cleaner: notify again
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from hookwire.jobs.primary import following

__all__ = ["RecoveryPolicy", "SqlTasks", "Task"]

_CLAIM: Final = (
    "SELECT outcome, id, kind, description, attempts, claim, created_at, lease_until"
    " FROM hookwire.claim_task($1, $2, $3)"
)
_CLAIM_BATCH: Final = (
    "SELECT id, kind, description, attempts, claim, created_at, lease_until FROM hookwire.claim_tasks($1, $2, $3)"
)
_FINISH: Final = "SELECT f FROM hookwire.finish_tasks($1, $2) AS f"
_FAIL: Final = "SELECT hookwire.fail_task($1, $2, $3, $4)"
_RELEASE: Final = "SELECT hookwire.release_tasks($1, $2, 'stop')"
_POLICY: Final = "SELECT lookup_seconds, giveup_seconds FROM hookwire.task_policy($1)"
_BEAT: Final = (
    "INSERT INTO hookwire.task_workers AS w (name, kinds, slots, seen_until, completed, failed)"
    " VALUES ($1, $2, $3, clock_timestamp() + make_interval(secs => $4), $5, $6)"
    " ON CONFLICT (name) DO UPDATE SET seen_until = excluded.seen_until, completed = excluded.completed,"
    " failed = excluded.failed"
)
_LEAVE: Final = (
    "DELETE FROM hookwire.task_workers w WHERE w.name = $1"
    " AND NOT EXISTS (SELECT FROM hookwire.task_rows t WHERE t.worker = w.name)"
)


@dataclass(frozen=True, slots=True)
class Task:
    """A task that a worker has claimed. ``id`` and ``attempt`` are its idempotency key (JB-39)."""

    id: str
    kind: str
    description: str
    attempt: int
    claim: int
    created_at: datetime
    lease_until: datetime


@dataclass(frozen=True, slots=True)
class RecoveryPolicy:
    """Look for the task of a notification every ``lookup_seconds``, for at most ``giveup_seconds`` (JB-26)."""

    lookup_seconds: float
    giveup_seconds: float


class SqlTasks:
    """Claims and settles tasks on a pool of asyncpg."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    async def claim(self, task_id: str, worker: str, kinds: Sequence[str] | None) -> tuple[str, list[Task]]:
        """Claim the task of a notification; return the outcome, and the task if it was claimed.

        The outcome is ``claimed``, ``taken`` (by another worker, or its kind is not among ``kinds``), ``waiting`` or
        ``absent``.
        """
        [(outcome, *columns)] = await self._fetch(_CLAIM, task_id, worker, kinds)
        return outcome, [Task(*columns)] if outcome == "claimed" else []

    async def claim_batch(self, kinds: Sequence[str] | None, most: int, worker: str) -> list[Task]:
        """Claim waiting tasks of these kinds, oldest first. ``kinds`` None: of all kinds."""
        return [Task(*row) for row in await self._fetch(_CLAIM_BATCH, kinds, most, worker)]

    async def finish(self, tasks: Sequence[Task]) -> set[str]:
        """Finish tasks; return the ids that were still held."""
        rows = await self._fetch(_FINISH, [task.id for task in tasks], [task.claim for task in tasks])
        return {row[0] for row in rows}

    async def fail(self, task: Task, reason: str, *, dead: bool) -> str:
        """Fail the attempt of a task; return the task's next state, or ``stale`` if the claim is over."""
        [(outcome,)] = await self._fetch(_FAIL, task.id, task.claim, reason, dead)
        return str(outcome)

    async def release(self, tasks: Sequence[Task]) -> None:
        """Release tasks of a worker that stops; the attempt does not count."""
        await self._fetch(_RELEASE, [task.id for task in tasks], [task.claim for task in tasks])

    async def policy(self, kind: str) -> RecoveryPolicy:
        """Return how notifications of this kind are followed."""
        [row] = await self._fetch(_POLICY, kind)
        return RecoveryPolicy(*row)

    async def beat(
        self, worker: str, kinds: Sequence[str], slots: int, seconds: float, completed: int, failed: int
    ) -> None:
        """Send a heartbeat: the worker counts as alive for ``seconds`` (JB-35)."""
        await self._fetch(_BEAT, worker, list(kinds), slots, seconds, completed, failed)

    async def leave(self, worker: str) -> None:
        """Remove this worker after it has released its tasks."""
        await self._fetch(_LEAVE, worker)

    async def _fetch(self, statement: str, *arguments: Any) -> Any:
        async with following(self._pool), self._pool.acquire() as connection:
            return await connection.fetch(statement, *arguments)

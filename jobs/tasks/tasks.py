"""Tasks: enqueue, claim, finish, fail, release (JB-20..JB-39).

::

                        notification: only the id; it may come early, late, twice or never
                              |
    enqueue + COMMIT --> waiting --claim--> started --finish--> gone, or archived
                          ^   ^                |  '--fail: retry after the backoff, or dead
                          |   |                '--crash: retry | compensate | abandon, by the kind's policy
                          |   '----------------'
                          '-- cleaner: notify again

The rules are SQL functions (``db/functions/task.sql``), so that any language can enqueue or work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from db.pool import Database, Row
from jobs.tasks.task import RecoveryPolicy, Task

__all__ = ["Tasks"]

Outcome = Literal["claimed", "taken", "waiting", "absent"]
_ALL: Final = "*"


class Tasks:
    """Claim and settle tasks. All methods raise ``db.errors.DatabaseError``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, task_id: str, worker: str, kinds: Sequence[str] | None = None) -> tuple[Outcome, Task | None]:
        """Claim the task of a notification; return the outcome, and the task if it was claimed.

        ``taken`` means that another worker has the task, or that its kind is not among ``kinds``.
        """
        row = await self._database.fetchrow("task.claim", task_id, worker, kinds)
        assert row is not None, "the function returns one row"
        return row["outcome"], Task.of(row) if row["outcome"] == "claimed" else None

    async def claim_batch(self, kinds: Sequence[str] | None, most: int, worker: str) -> list[Task]:
        """Claim waiting tasks of these kinds, oldest first. ``kinds`` None: of all kinds."""
        return [Task.of(row) for row in await self._database.fetch("task.claim_batch", kinds, most, worker)]

    async def finish(self, tasks: Sequence[Task]) -> set[str]:
        """Finish tasks; return the ids that were still held."""
        rows = await self._database.fetch("task.finish", [task.id for task in tasks], [task.claim for task in tasks])
        return {row["id"] for row in rows}

    async def fail(self, task: Task, reason: str, *, dead: bool = False) -> Literal["retry", "dead", "stale"]:
        """Fail the attempt of a task; return the task's next state, or ``stale`` if the claim is over."""
        outcome: Literal["retry", "dead", "stale"] = await self._database.fetchval(
            "task.fail", task.id, task.claim, reason, dead
        )
        return outcome

    async def release(self, tasks: Sequence[Task]) -> None:
        """Release tasks of a worker that stops; the attempt does not count."""
        await self._database.fetch("task.release", [task.id for task in tasks], [task.claim for task in tasks])

    async def policy(self, kind: str = _ALL) -> RecoveryPolicy:
        """Return how notifications of this kind are followed."""
        row = await self._database.fetchrow("task.policy", kind)
        assert row is not None, "the migration writes the row of all kinds"
        return RecoveryPolicy(row["lookup_seconds"], row["giveup_seconds"])

    async def beat(
        self, worker: str, kinds: Sequence[str], slots: int, seconds: float, completed: int, failed: int
    ) -> None:
        """Send a heartbeat: the worker counts as alive for ``seconds`` (JB-35)."""
        await self._database.fetchrow("task.beat", worker, list(kinds), slots, seconds, completed, failed)

    async def leave(self, worker: str) -> None:
        """Remove this worker after it has released its tasks."""
        await self._database.execute("task.leave", worker)

    async def rates(self) -> Row:
        """Return the counts that a scaler compares: ``arrived``, ``completed``, ``waiting``."""
        row = await self._database.fetchrow("task.rates")
        assert row is not None, "a sequence has one row"
        return row

"""Tasks as the source of a leasing worker. The heartbeats of the worker are the lease of all its tasks (JB-35, JB-64).

When the heartbeats stop, the cleaner recovers the worker's tasks. A task that runs longer than the crash interval of
its kind is recovered even while heartbeats are sent. A later report of a recovered claim is stale and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hookwire.jobs.failure import reason_of
from hookwire.jobs.job import Failed
from hookwire.jobs.leasing.settlement import Tally
from hookwire.jobs.sql_tasks import RecoveryPolicy, SqlTasks, Task

__all__ = ["LeasedTasks"]


class LeasedTasks:
    """Tasks of some kinds; None: of all kinds. ``listen`` passes the worker's wake-ups on."""

    def __init__(
        self, tasks: SqlTasks, worker: str, kinds: Sequence[str] | None, slots: int, presence_seconds: float,
        listen: Callable[[Callable[[], None]], Any],
    ) -> None:  # fmt: skip
        self.policy = RecoveryPolicy(2.0, 6.0)
        self.tally = Tally()
        self.listen = listen
        self._tasks = tasks
        self._worker = worker
        self._kinds = kinds
        self._slots = slots
        self._presence_seconds = presence_seconds

    async def claim(self, most: int) -> list[Task]:
        """Claim and return at most ``most`` tasks."""
        return await self._tasks.claim_batch(self._kinds, most, self._worker)

    async def succeed(self, done: Sequence[tuple[Task, Any]]) -> list[Task]:
        """Finish tasks by one statement. Return the tasks that were not held any more."""
        held = await self._tasks.finish([task for task, _ in done])
        return [task for task, _ in done if task.id not in held]

    async def fail(self, task: Task, error: BaseException) -> bool:
        """Fail the attempt. Return whether the task was still held."""
        dead = isinstance(error, Failed) and bool(error.dead)
        return await self._tasks.fail(task, reason_of(error), dead=dead) != "stale"

    async def release(self, held: Sequence[Task]) -> None:
        """Release tasks without costing an attempt."""
        await self._tasks.release(held)

    async def extend(self, held: Sequence[Task]) -> list[Task]:
        """Send a heartbeat, and look how notifications are followed. No task is over by it."""
        counts = self.tally.done, self.tally.failed
        await self._tasks.beat(self._worker, self._kinds or (), self._slots, self._presence_seconds, *counts)
        self.policy = await self._tasks.policy(self._kinds[0] if self._kinds and len(self._kinds) == 1 else "*")
        return []

"""Task worker: claims tasks, runs them, settles them (JB-23..JB-29, JB-35, JB-64, JB-78).

::

    notification --> look for the row --claimed--> acknowledge --> run --> finish | fail
                       |  absent: its transaction has not committed yet
                       '--> wait and look again, without a slot or a connection; after ``giveup_seconds`` drop it
    poll ----------> claim a batch, as many as there are free slots -----> run ...
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from hookwire.jobs.failure import passes, reason_of
from hookwire.jobs.leased_tasks import LeasedTasks
from hookwire.jobs.leasing.leasing import LeaseOptions, Leasing
from hookwire.jobs.leasing.settlement import Tally
from hookwire.jobs.leasing.source import Report
from hookwire.jobs.sql_tasks import SqlTasks, Task

__all__ = ["TaskOptions", "TaskWorker", "WakeUps"]

Acknowledge: TypeAlias = Callable[[], Any]
WakeUps: TypeAlias = Callable[[Callable[[str, Acknowledge], None]], Awaitable[None]]
"""A transport of notifications. It passes on ids of tasks, each with a coroutine that acknowledges it, until cancelled.

An empty id means that any task may be due. The transport reconnects by itself.
"""
_FIRST_LOOKS: Final = (0.05, 0.25, 1.0)


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """Options of a worker; ``kinds`` None means all kinds.

    A worker without a heartbeat for ``presence_seconds`` is dead. ``follow_max`` limits the notifications that are
    followed at the same time.
    """

    name: str
    kinds: Sequence[str] | None = None
    slots: int = 8
    poll_seconds: float = 0.2
    presence_seconds: float = 15.0
    grace_seconds: float = 10.0
    follow_max: int = 1_000
    count: int | None = None


class TaskWorker:
    """Runs tasks, and tells by heartbeats that it lives. Losing a notification is harmless, because it also polls."""

    def __init__(
        self, tasks: SqlTasks, handler: Callable[[Task], Awaitable[None]], options: TaskOptions, report: Report,
        wake_ups: Sequence[WakeUps] = (),
    ) -> None:  # fmt: skip
        self.taken = 0
        self.dropped = 0
        self._tasks = tasks
        self._options = options
        self._report = report
        self._wake_ups = wake_ups
        self._followed: set[asyncio.Task[None]] = set()
        presence = options.presence_seconds
        self._source = LeasedTasks(tasks, options.name, options.kinds, options.slots, presence, self._listen)
        lease = LeaseOptions(options.slots, presence, options.poll_seconds, options.grace_seconds, count=options.count)
        self._leasing = Leasing(self._source, handler, lease, report)
        self._source.tally = self._leasing.tally

    @property
    def tally(self) -> Tally:
        """Return the counts so far."""
        return self._leasing.tally

    def stop(self) -> None:
        """Claim nothing more; ``run`` returns when the running tasks are done or ``grace_seconds`` are over."""
        self._leasing.stop()

    async def run(self) -> None:
        """Work until stopped."""
        await self._tried("extend_failed", self._source.extend([]))
        await self._leasing.run()
        await self._tried("settle_failed", self._tasks.leave(self._options.name))

    async def _tried(self, event: str, work: Awaitable[object]) -> None:
        try:
            await work
        except Exception as error:
            if not passes(error):
                raise
            self._report(event, None, reason_of(error))

    async def _listen(self, _wake: Callable[[], None]) -> None:
        async with asyncio.TaskGroup() as group:
            for wake_up in self._wake_ups:
                group.create_task(_awaited(wake_up(partial(self._notified, group))))

    def _notified(self, group: asyncio.TaskGroup, task_id: str, acknowledge: Acknowledge) -> None:
        if not task_id or self._leasing.is_stopping or len(self._followed) >= self._options.follow_max:
            self._leasing.wake()
            task_id = ""
        following = group.create_task(self._follow(task_id, acknowledge))
        self._followed.add(following)
        following.add_done_callback(self._followed.discard)

    async def _follow(self, task_id: str, acknowledge: Acknowledge) -> None:
        """Look for the notified task until it is claimed, absent for too long, or taken. Then acknowledge (JB-26)."""
        began, looks = time.monotonic(), 0
        while task_id and not self._leasing.is_stopping:
            outcome = await self._claim(task_id)
            policy = self._source.policy
            if outcome == "absent" and time.monotonic() - began < policy.giveup_seconds:
                await asyncio.sleep(_FIRST_LOOKS[looks] if looks < len(_FIRST_LOOKS) else policy.lookup_seconds)
                looks += 1
                continue
            self.taken += outcome in ("taken", "waiting")
            self.dropped += outcome == "absent"
            task_id = ""
        if not task_id:
            await acknowledge()

    async def _claim(self, task_id: str) -> str:
        """Claim a task by its id, when there is room. Return the outcome, or ``failed``."""
        outcome = "failed"

        async def claim() -> list[Task]:
            nonlocal outcome
            outcome, found = await self._tasks.claim(task_id, self._options.name, self._options.kinds)
            return found

        try:
            await self._leasing.take(claim)
        except Exception as error:
            if not passes(error):
                raise
            self._report("claim_failed", None, reason_of(error))
            self._leasing.wake()
        return outcome


async def _awaited(work: Awaitable[None]) -> None:
    await work

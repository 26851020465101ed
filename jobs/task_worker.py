"""Task worker: claims tasks, runs them, settles them (JB-23..JB-29, JB-35, JB-64, JB-78).

::

    notification --> look for the row --claimed--> acknowledge --> run --> finish | fail
                       |  absent: its transaction has not committed yet
                       '--> wait and look again, without a slot or a connection; after ``giveup_seconds`` drop it
    poll ----------> claim a batch, as many as there are free slots -----> run ...

The worker sends a heartbeat every few seconds. When the heartbeats stop, the cleaner recovers the worker's tasks. A
task that runs longer than the crash interval of its kind is recovered even while heartbeats go on. A later report of a
recovered claim is stale and changes nothing.

A soft stop claims nothing more and lets the running tasks finish within ``grace_seconds``. It cancels the others and
releases them without counting the attempt. However a handler ends, its attempt ends, and the worker goes on; after a
KeyboardInterrupt it stops softly.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from db.errors import DatabaseError
from jobs.ending import Ending, ending_of, reason_of
from jobs.tasks.notification import Notification, Notifications
from jobs.tasks.task import RecoveryPolicy, Task, TaskFailed
from jobs.tasks.tasks import Tasks
from runtime.drain import finish_or_cancel
from runtime.pause import pause

__all__ = ["Tally", "TaskWorker", "TaskWorkerOptions"]

_log = structlog.get_logger(__name__)
Handler = Callable[[Task], Awaitable[None]]
_FIRST_LOOKS = (0.05, 0.25, 1.0)
_RETRY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class TaskWorkerOptions:
    """Options of a worker; ``kinds`` None means all kinds.

    A worker without a heartbeat for ``presence_seconds`` is dead. ``follow_max`` limits the notifications that are
    followed at the same time.
    """

    name: str
    kinds: Sequence[str] | None = None
    slots: int = 8
    poll_seconds: float = 0.2
    beat_seconds: float = 5.0
    presence_seconds: float = 15.0
    grace_seconds: float = 10.0
    flush_seconds: float = 0.002
    flush_rows: int = 100
    follow_max: int = 1_000
    count: int | None = None


@dataclass(slots=True)
class Tally:
    """Counts of a worker so far."""

    finished: int = 0
    failed: int = 0
    stale: int = 0
    taken: int = 0
    dropped: int = 0
    released: int = 0


@dataclass(slots=True)
class _Slots:
    """The number of tasks that may still begin."""

    free: int
    freed: asyncio.Event = field(default_factory=asyncio.Event)

    async def one(self) -> None:
        while not self.free:
            self.freed.clear()
            await self.freed.wait()
        self.free -= 1

    def give_back(self, count: int = 1) -> None:
        self.free += count
        self.freed.set()


class TaskWorker:
    """A service. ``handler`` runs one task; it raises :class:`TaskFailed` if the attempt failed."""

    name = "task_worker"

    def __init__(
        self, tasks: Tasks, handler: Handler, options: TaskWorkerOptions, transports: Sequence[Notifications] = ()
    ) -> None:
        self.tally = Tally()
        self._tasks = tasks
        self._handler = handler
        self._options = options
        self._transports = transports
        self._slots = _Slots(options.slots)
        self._running: dict[asyncio.Task[None], Task] = {}
        self._followed: set[asyncio.Task[None]] = set()
        self._finished: list[Task] = []
        self._look = asyncio.Event()
        self._flush = asyncio.Event()
        self._stopping = asyncio.Event()
        self._policy = RecoveryPolicy(2.0, 6.0)

    def stop(self) -> None:
        """Claim nothing more; ``run`` returns when the running tasks are done or ``grace_seconds`` are over."""
        self._stopping.set()
        self._look.set()
        self._slots.freed.set()

    async def run(self) -> None:
        """Work until stopped."""
        await self._beat_once()
        async with asyncio.TaskGroup() as group:
            helpers = [group.create_task(self._beat()), group.create_task(self._settle())]
            helpers += [
                group.create_task(transport.run(partial(self._notified, group))) for transport in self._transports
            ]
            await self._poll(group)
            for following in [*self._followed]:
                following.cancel()
            await finish_or_cancel(self._running.keys(), self._options.grace_seconds)
            for helper in helpers:
                helper.cancel()
        await self._flush_finished()
        await self._patiently(lambda: self._tasks.leave(self._options.name))

    # --- finding work ---

    async def _poll(self, group: asyncio.TaskGroup) -> None:
        while not self._stopping.is_set():
            self._look.clear()
            claimed: list[Task] = []
            if self._slots.free and (most := self._room()):
                self._slots.free -= most
                try:
                    claimed = await self._tasks.claim_batch(self._options.kinds, most, self._options.name)
                except DatabaseError as error:
                    _log.warning("task_claim_failed", error=str(error))
                finally:
                    self._slots.give_back(most - len(claimed))
                for task in claimed:
                    self._begin(group, task)
            if not claimed:
                await pause(self._look, self._options.poll_seconds)
            elif not self._slots.free:
                self._slots.freed.clear()
                await pause(self._slots.freed, self._options.beat_seconds)

    def _room(self) -> int:
        """Return how many tasks may begin: the free slots, but no more than are left of ``count``."""
        if self._options.count is None:
            return self._slots.free
        begun = self.tally.finished + self.tally.failed + self.tally.stale + len(self._running) + len(self._finished)
        return min(self._slots.free, max(self._options.count - begun, 0))

    def _notified(self, group: asyncio.TaskGroup, notification: Notification) -> None:
        if not notification.task_id or self._stopping.is_set() or len(self._followed) >= self._options.follow_max:
            self._look.set()
            self._keep(group, notification.acknowledge())
            return
        self._keep(group, self._follow(group, notification))

    def _keep(self, group: asyncio.TaskGroup, work: Awaitable[None]) -> None:
        async def done() -> None:
            await work

        following = group.create_task(done())
        self._followed.add(following)
        following.add_done_callback(self._followed.discard)

    async def _follow(self, group: asyncio.TaskGroup, notification: Notification) -> None:
        """Look for the notified task until it is claimed, absent for too long, or taken (JB-26)."""
        began, looks = time.monotonic(), 0
        while not self._stopping.is_set():
            outcome = await self._claim(group, notification.task_id)
            if outcome == "absent" and time.monotonic() - began < self._policy.giveup_seconds:
                step = _FIRST_LOOKS[looks] if looks < len(_FIRST_LOOKS) else self._policy.lookup_seconds
                looks += 1
                await pause(self._stopping, step)
                continue
            if outcome in ("taken", "waiting"):
                self.tally.taken += 1
            elif outcome == "absent":
                self.tally.dropped += 1
            await notification.acknowledge()
            return

    async def _claim(self, group: asyncio.TaskGroup, task_id: str) -> str:
        await self._slots.one()
        outcome: str = "failed"
        try:
            if not self._stopping.is_set():
                outcome, task = await self._tasks.claim(task_id, self._options.name, self._options.kinds)
                if task is not None:
                    self._begin(group, task)
                    return outcome
        except DatabaseError as error:
            _log.warning("task_claim_failed", error=str(error))
            self._look.set()
        self._slots.give_back()
        return outcome

    # --- running ---

    def _begin(self, group: asyncio.TaskGroup, task: Task) -> None:
        running = group.create_task(self._run(task))
        self._running[running] = task

    async def _run(self, task: Task) -> None:
        try:
            ending = await ending_of(self._handled(task))
            await asyncio.shield(self._end(task, ending))
        finally:
            del self._running[asyncio.current_task()]  # type: ignore[arg-type]  # this runs in a task
            self._slots.give_back()
            self._look.set()

    async def _handled(self, task: Task) -> None:
        await self._handler(task)

    async def _end(self, task: Task, ending: Ending) -> None:
        error = ending.error
        if ending.is_left:
            _log.warning("task_handler_left", task=task.id, hint="it does not end; the cleaner recovers the task")
        elif ending.was_cancelled:
            await self._release(task)
        elif error is None:
            self._finished.append(task)
            self._flush.set()
        else:
            if isinstance(error, KeyboardInterrupt):
                self.stop()
            await self._fail(task, reason_of(error), dead=isinstance(error, TaskFailed) and bool(error.dead))

    async def _fail(self, task: Task, reason: str, *, dead: bool) -> None:
        _log.info("task_failed", task=task.id, kind=task.kind, attempt=task.attempt, reason=reason[:200])

        async def told() -> None:
            outcome = await self._tasks.fail(task, reason, dead=dead)
            self.tally.stale += outcome == "stale"
            self.tally.failed += outcome != "stale"
            self._leave_when_enough()

        await self._patiently(told)

    async def _release(self, task: Task) -> None:
        self.tally.released += 1
        await self._patiently(lambda: self._tasks.release([task]))

    # --- settling ---

    async def _settle(self) -> None:
        while True:
            await self._flush.wait()
            if len(self._finished) < self._options.flush_rows:
                await asyncio.sleep(self._options.flush_seconds)
            self._flush.clear()
            await self._flush_finished()

    async def _flush_finished(self) -> None:
        """Store all finished tasks in one statement. If the database fails, keep them for the next try (FC-06)."""
        batch, self._finished = self._finished, []
        if not batch:
            return
        try:
            done = await self._tasks.finish(batch)
        except DatabaseError as error:
            _log.warning("task_finish_failed", error=str(error), tasks=len(batch))
            self._finished = batch + self._finished
            await asyncio.sleep(_RETRY_SECONDS)
            self._flush.set()
            return
        self.tally.finished += len(done)
        self.tally.stale += len(batch) - len(done)
        self._leave_when_enough()

    def _leave_when_enough(self) -> None:
        done = self.tally.finished + self.tally.failed + self.tally.stale
        if self._options.count is not None and done >= self._options.count:
            self.stop()

    async def _patiently(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run a statement; try again while the database does not answer, for at most ``presence_seconds``."""
        until = time.monotonic() + self._options.presence_seconds
        while True:
            try:
                return await work()
            except DatabaseError as error:
                if time.monotonic() >= until:
                    _log.warning("task_outcome_lost", error=str(error), hint="the cleaner recovers the task")
                    return None
            await asyncio.sleep(_RETRY_SECONDS)

    # --- being there ---

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._options.beat_seconds)
            await self._beat_once()

    async def _beat_once(self) -> None:
        options = self._options
        try:
            await self._tasks.beat(
                options.name, options.kinds or (), options.slots, options.presence_seconds, self.tally.finished,
                self.tally.failed,
            )  # fmt: skip
            self._policy = await self._tasks.policy(
                options.kinds[0] if options.kinds and len(options.kinds) == 1 else "*"
            )
        except DatabaseError as error:
            _log.warning("task_beat_failed", error=str(error))

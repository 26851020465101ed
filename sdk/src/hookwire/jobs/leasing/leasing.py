"""Leasing: the loop of each worker that leases work: claim, run, settle, extend, release, drain.

::

    claim ----> a slot, where the handler runs --result-----> settled with other results
      ^                                        '-exception--> settled alone
      '--- room for more; a poll, a wake-up, a settlement

However a handler ends, its attempt ends, and the worker stays. A CancelledError that the worker did not cause is a
failed attempt, and so is SystemExit. After a KeyboardInterrupt the worker stops softly. A soft stop claims nothing more
and lets handlers finish within the grace. Then it cancels them and releases their work without costing an attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from hookwire.jobs.failure import passes, reason_of
from hookwire.jobs.leasing.settlement import Batching, Settlement, Tally
from hookwire.jobs.leasing.source import Report, Source
from hookwire.slots import Ending, Slots

__all__ = ["SETTLED", "LeaseOptions", "Leasing", "pause"]

W = TypeVar("W")
SETTLED: Final = object()
"""The result of a handler whose own transaction has settled its work."""
_RETRY_SECONDS: Final = 0.5
_SETTLE_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    """Options of a worker. It extends leases after each third of ``lease_seconds``.

    ``idle_seconds``: between polls of an idle worker. ``held_max``: limit of the work that is held, which includes
    results that wait for their settlement. ``count``: stop after this number of attempts.
    """

    slots: int
    lease_seconds: float
    idle_seconds: float
    grace_seconds: float = 10.0
    flush_seconds: float = 0.002
    held_max: int | None = None
    count: int | None = None


class Leasing(Generic[W]):
    """Claims work of a source and runs a handler for each piece, at most ``slots`` at once."""

    def __init__(
        self, source: Source[W], handler: Callable[[W], Awaitable[Any]], options: LeaseOptions, report: Report
    ) -> None:
        self.is_stopping = False
        self._source = source
        self._handler = handler
        self._options = options
        self._report = report
        self._running: Slots[W] = Slots(self._ended, lambda event, work: report(event, work, ""))
        self._settlement = Settlement(source, options.lease_seconds, report, self._settled)
        self._settling: set[asyncio.Task[None]] = set()
        self._claiming = 0
        self._left: list[W] = []
        self._woken = asyncio.Event()
        self._freed = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._group: asyncio.TaskGroup | None = None

    @property
    def tally(self) -> Tally:
        """Return the counts so far."""
        return self._settlement.tally

    def stop(self) -> None:
        """Stop claiming. ``run`` returns when all work is settled; it cancels handlers after the grace.

        A handler that does not end even then is reported and left. Its lease ends by itself. Safe in other threads and
        in signal handlers.
        """
        self.is_stopping = True
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: the worker has ended
                self._loop.call_soon_threadsafe(self._settled)

    def wake(self) -> None:
        """Claim at once, because there may be work."""
        self._woken.set()

    async def run(self) -> None:
        """Work until stopped. Retry after errors of the connection."""
        self._loop = asyncio.get_running_loop()
        batching = Batching(self._options.flush_seconds, self._options.slots)
        async with asyncio.TaskGroup() as group:
            self._group = group
            settling = self._settlement.run(batching, lambda: bool(len(self._running)))
            helpers = [group.create_task(one) for one in (settling, self._hold(), self._source.listen(self.wake))]
            try:
                await self._work()
                await self._drain()
            except asyncio.CancelledError:
                await self._give_up()
                raise
            for helper in (*helpers, *self._settling):
                helper.cancel()

    async def take(self, claim: Callable[[], Awaitable[list[W]]]) -> None:
        """Wait for room, claim one piece of work in another way, and begin it. Return at once if the worker stops."""
        while not self.is_stopping and self._room() <= 0:
            self._freed.clear()
            await self._freed.wait()
        if not self.is_stopping:
            await self._begin(1, claim)

    async def _work(self) -> None:
        while not self.is_stopping:
            self._woken.clear()
            self._freed.clear()
            if (room := self._room()) <= 0:
                await self._freed.wait()
            elif await self._claim(room) < room:
                await pause(self._woken, self._options.idle_seconds)

    def _room(self) -> int:
        """Return how many pieces of work may begin."""
        options, held = self._options, len(self._settlement.held) + self._claiming
        rooms = [options.slots - len(self._running) - len(self._settling) - self._claiming]
        if options.held_max is not None:
            rooms.append(options.held_max - held)
        if options.count is not None:
            rooms.append(options.count - self.tally.ended - held)
        return min(rooms)

    async def _claim(self, room: int) -> int:
        try:
            return await self._begin(room, lambda: self._source.claim(room))
        except Exception as error:
            if not passes(error):
                raise
            self._report("claim_failed", None, reason_of(error))
            self._freed.clear()
            await pause(self._freed, _RETRY_SECONDS)
            return 0

    async def _begin(self, room: int, claim: Callable[[], Awaitable[list[W]]]) -> int:
        """Claim work and run a handler for each piece; return how many."""
        self._claiming += room
        try:
            found = await claim()
        finally:
            self._claiming -= room
            self._freed.set()
        for work in found:
            self._settlement.held[id(work)] = work
            self._running.begin(work, self._handler)
        return len(found)

    def _ended(self, work: W, ending: Ending) -> None:
        """Settle the work of a handler that has ended."""
        if ending.error is not None:
            self._begin_settling(work, ending)
        elif ending.result is SETTLED:
            self._settlement.forget(work)
        else:
            self._settlement.add(work, ending.result)
        self._freed.set()

    def _begin_settling(self, work: W, ending: Ending) -> None:
        if isinstance(ending.error, KeyboardInterrupt):
            self.stop()
        if self._group is None:  # the worker is being cancelled
            self._left.append(work)
            return
        task = self._group.create_task(self._settlement.settle(work, ending))
        self._settling.add(task)
        task.add_done_callback(self._settled_alone)

    def _settled_alone(self, task: asyncio.Task[None]) -> None:
        self._settling.discard(task)
        self._freed.set()

    def _settled(self) -> None:
        """Look for room and for work: work that has ended may have held back other work."""
        count = self._options.count
        self.is_stopping |= count is not None and self.tally.ended >= count
        self._woken.set()
        self._freed.set()

    async def _hold(self) -> None:
        while True:
            await asyncio.sleep(self._options.lease_seconds / 3)
            try:
                self._running.cancel(await self._source.extend([*self._settlement.held.values()]))
            except Exception as error:
                if not passes(error):
                    raise
                self._report("extend_failed", None, reason_of(error))

    async def _drain(self) -> None:
        for work in await self._running.drain(self._options.grace_seconds):
            self._settlement.forget(work)
        most_seconds = max(self._options.grace_seconds, min(self._options.lease_seconds, _SETTLE_SECONDS))
        with suppress(TimeoutError):
            async with asyncio.timeout(most_seconds):
                while self._settlement.held:
                    self._freed.clear()
                    await self._freed.wait()
        for work in self._settlement.held.values():
            self._report("outcome_lost", work, "")

    async def _give_up(self) -> None:
        """Cancel the handlers and release their work, because this worker is cancelled."""
        self._group = None
        await self._running.drain(0)
        if self._left:
            await asyncio.shield(self._settlement.release(self._left))


async def pause(until: asyncio.Event, seconds: float) -> None:
    """Wait for so many seconds, or until the event is set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await until.wait()

"""Message worker: receives messages of one queue, runs a handler for each, accepts or rejects it (JB-09, JB-62, JB-64).

The worker extends the leases of running messages after each third of the lease. A soft stop receives nothing more and
lets the handlers finish within ``grace_seconds``. It returns the other messages without counting the delivery. However
a handler ends, its delivery ends, and the worker goes on; after a KeyboardInterrupt it stops softly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from db.errors import DatabaseError, Refused
from jobs.ending import Ending, ending_of, reason_of
from jobs.queues.message import Received
from jobs.queues.queues import Queues
from jobs.queues.receipt import ClaimReceipt
from jobs.queues.waiting import Waiting
from runtime.drain import finish_or_cancel

__all__ = ["MessageRefused", "MessageWorker", "MessageWorkerOptions"]

_log = structlog.get_logger(__name__)
_RETRY_SECONDS = 0.5
_WAIT_SECONDS = 20.0
_DELAY_SECONDS_MAX = 300.0


class MessageRefused(Exception):
    """Raised by a handler that did not handle its message. The message is delivered again; ``dead``: dead letter."""

    dead: bool = False

    def __init__(self, reason: str, *, dead: bool = False) -> None:
        super().__init__(reason)
        self.dead = dead


@dataclass(frozen=True, slots=True)
class MessageWorkerOptions:
    """Options of a worker. ``count``: the worker stops after this number of messages."""

    queue: str
    name: str
    slots: int = 8
    lease_seconds: float = 60.0
    grace_seconds: float = 10.0
    count: int | None = None


class MessageWorker:
    """A service. ``handler`` handles one message, or raises :class:`MessageRefused`."""

    name = "message_worker"

    def __init__(
        self,
        queues: Queues,
        waiting: Waiting,
        handler: Callable[[Received], Awaitable[None]],
        options: MessageWorkerOptions,
    ) -> None:
        self.accepted = 0
        self.rejected = 0
        self._queues = queues
        self._waiting = waiting
        self._handler = handler
        self._options = options
        self._running: dict[asyncio.Task[None], ClaimReceipt] = {}
        self._freed = asyncio.Event()
        self._stopping = False

    def stop(self) -> None:
        """Receive nothing more; ``run`` returns when the handlers are done or ``grace_seconds`` are over."""
        self._stopping = True
        self._waiting.stop()
        self._freed.set()

    async def run(self) -> None:
        """Work until stopped."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._waiting.run())
            holding = group.create_task(self._hold())
            await self._receive(group)
            self._waiting.stop()
            await finish_or_cancel(self._running.keys(), self._options.grace_seconds)
            holding.cancel()

    async def _receive(self, group: asyncio.TaskGroup) -> None:
        options = self._options
        while not self._stopping:
            self._freed.clear()
            if not (most := self._room()):
                await self._freed.wait()
                continue
            try:
                found = await self._queues.receive(options.queue, most, options.lease_seconds, receiver=options.name)
            except DatabaseError as error:
                _log.warning("receive_failed", error=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            for received in found:
                self._running[group.create_task(self._handle(received))] = received.receipt
            if not found:
                await self._waiting.wait(options.queue, _WAIT_SECONDS)

    def _room(self) -> int:
        free = self._options.slots - len(self._running)
        if self._options.count is None:
            return free
        left = self._options.count - self.accepted - self.rejected - len(self._running)
        if left <= 0 and not self._running:
            self.stop()
        return min(free, max(left, 0))

    async def _handle(self, received: Received) -> None:
        try:
            ending = await ending_of(self._handled(received))
            await asyncio.shield(self._settle(received, ending))
        finally:
            del self._running[asyncio.current_task()]  # type: ignore[arg-type]  # this runs in a task
            self._freed.set()

    async def _handled(self, received: Received) -> None:
        await self._handler(received)

    async def _settle(self, received: Received, ending: Ending) -> None:
        queue, receipts, error = self._options.queue, [received.receipt], ending.error
        if ending.is_left:
            _log.warning("message_handler_left", message=received.message.id, hint="it does not end; its lease does")
        elif ending.was_cancelled:
            await self._patiently(lambda: self._queues.reject(queue, receipts, reason="stop", counts=False))
        elif error is None:
            self.accepted += await self._patiently(lambda: self._queues.accept(queue, receipts))
        else:
            if isinstance(error, KeyboardInterrupt):
                self.stop()
            self.rejected += await self._reject(received, error)

    async def _reject(self, received: Received, error: BaseException) -> bool:
        dead = isinstance(error, MessageRefused) and bool(error.dead)
        delay = min(2.0 ** min(received.attempts - 1, 30), _DELAY_SECONDS_MAX)
        return await self._patiently(
            lambda: self._queues.reject(
                self._options.queue, [received.receipt], delay_seconds=delay, reason=reason_of(error), dead=dead
            )
        )

    async def _patiently(self, settle: Callable[[], Awaitable[object]]) -> bool:
        """Settle; try again while the database does not answer, for at most the length of the lease.

        Return whether the message is settled. Otherwise the reaper returns it to the queue after its lease.
        """
        try:
            async with asyncio.timeout(self._options.lease_seconds):
                while True:
                    try:
                        await settle()
                        return True
                    except Refused as error:
                        _log.warning("settle_refused", error=str(error))
                        return False
                    except DatabaseError as error:
                        _log.warning("settle_failed", error=str(error))
                    await asyncio.sleep(_RETRY_SECONDS)
        except TimeoutError:
            _log.warning("message_outcome_lost", hint="the lease is over; the reaper returns the message")
            return False

    async def _hold(self) -> None:
        while True:
            await asyncio.sleep(self._options.lease_seconds / 3)
            try:
                if held := [*self._running.values()]:
                    await self._queues.extend(self._options.queue, held, self._options.lease_seconds)
            except DatabaseError as error:
                _log.warning("extend_failed", error=str(error))

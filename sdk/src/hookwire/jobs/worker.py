"""A worker for messages of a queue, on an asyncpg pool: it runs a coroutine for each message (JB-64, JB-78).

It claims a batch at a time. A message is accepted as soon as its handler returns; acceptances within the same few
milliseconds share a statement. After :meth:`Worker.stop` the worker stops claiming and finishes the messages it holds.
However a handler ends, its delivery ends, and the worker goes on; after a KeyboardInterrupt it stops softly.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from hookwire.jobs.failure import passes, reason_of
from hookwire.jobs.message_queue import Message, Queue
from hookwire.jobs.primary import following
from hookwire.jobs.wake_up import listen
from hookwire.slots import Ending, Slots

__all__ = ["Refused", "Worker"]

Handler = Callable[[Message], Awaitable[None]]
_RESET_SECONDS: Final = 0.5
_RETRY_SECONDS: Final = 0.5
_DELAY_SECONDS_MAX: Final = 300.0
_LOG = logging.getLogger("hookwire.jobs")


class Refused(Exception):
    """Raised by a handler that refuses its message. It is delivered again, or becomes a dead letter if ``dead``."""

    dead: bool = False

    def __init__(self, reason: str, *, dead: bool = False) -> None:
        super().__init__(reason)
        self.dead = dead


class Worker:
    """Handles at most ``batch`` messages at once; as many more may wait for their settlement.

    ``idle_seconds`` is the pause after an empty claim. An exception of a handler returns its message to the queue, with
    a delay that doubles.
    """

    def __init__(
        self, pool: Any, queue: str, handler: Handler, *, batch: int = 100, lease_seconds: float = 30.0,
        idle_seconds: float = 0.05, flush_seconds: float = 0.002, grace_seconds: float = 10.0,
    ) -> None:  # fmt: skip
        self.accepted = 0
        self._pool = pool
        self._queue = Queue(queue)
        self._handler = handler
        self._batch = batch
        self._lease_seconds = lease_seconds
        self._idle_seconds = idle_seconds
        self._flush_seconds = flush_seconds
        self._grace_seconds = grace_seconds
        self._held: dict[int, Message] = {}
        self._running: Slots[Message] = Slots(self._ended, _LOG, lambda message: f"the message {message.id} of {queue}")
        self._group: asyncio.TaskGroup | None = None
        self._left: list[Message] = []
        self._done: list[Message] = []
        self._changed = asyncio.Event()
        self._flush = asyncio.Event()
        self._stopping = False
        self._after = (0, 0.0)

    def stop(self) -> None:
        """Stop claiming. ``run`` returns when all held messages are settled; it cancels them after ``grace_seconds``.

        A handler that does not end even then is named in the log and left. Its lease ends by itself.
        """
        self._stopping = True
        self._changed.set()
        self._flush.set()

    async def run(self) -> None:
        """Claim and handle messages until stopped. Retry after errors of the connection."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            helping = [group.create_task(one) for one in (self._settle(), self._hold(), self._listen())]
            try:
                await self._work()
                await self._drain()
            except asyncio.CancelledError:
                await self._give_up()
                raise
            for helper in helping:
                helper.cancel()

    async def _work(self) -> None:
        while not self._stopping:
            self._changed.clear()
            room = min(self._batch - len(self._running), 2 * self._batch - len(self._held))
            found = await self._receive(room) if room else []
            for message in found:
                self._held[message.id] = message
                self._running.begin(message, self._handle(message))
            if not room:
                await self._changed.wait()
            elif not found:
                await self._idle()

    async def _drain(self) -> None:
        for message in await self._running.drain(self._grace_seconds):
            self._forget(message)
        until = time.monotonic() + max(self._grace_seconds, self._lease_seconds)
        while self._held and time.monotonic() < until:
            self._changed.clear()
            await self._idle()

    async def _give_up(self) -> None:
        """Cancel the handlers and return their messages, because this worker is cancelled."""
        self._group = None
        await self._running.drain(0)
        if self._left:
            await asyncio.shield(self._return(self._left))

    async def _receive(self, room: int) -> list[Message]:
        after, until = self._after
        if time.monotonic() >= until:
            after, until = 0, time.monotonic() + _RESET_SECONDS
        try:
            async with following(self._pool):
                found: list[Message] = await self._queue.receive(
                    self._pool, room, lease_seconds=self._lease_seconds, after_id=after
                )
        except Exception as error:
            if not passes(error):
                raise
            await asyncio.sleep(_RETRY_SECONDS)
            return []
        self._after = (found[-1].id, until) if found else (0, 0.0)
        return found

    async def _handle(self, message: Message) -> None:
        await self._handler(message)

    def _ended(self, message: Message, ending: Ending) -> None:
        """Settle the message of a handler that has ended."""
        if ending.error is None:
            self._done.append(message)
            self._flush.set()
        elif self._group is None:  # the worker is being cancelled
            self._left.append(message)
        else:
            self._group.create_task(self._settle_ending(message, ending))
        self._changed.set()

    async def _settle_ending(self, message: Message, ending: Ending) -> None:
        """Settle a message whose handler has raised."""
        error = ending.error
        assert error is not None, "acceptances are settled together"
        if isinstance(error, KeyboardInterrupt):
            self.stop()
        if ending.was_cancelled:
            await self._return([message])
        else:
            await self._reject(message, reason_of(error), dead=isinstance(error, Refused) and bool(error.dead))
        self._forget(message)

    async def _return(self, messages: list[Message]) -> None:
        """Return messages without counting the delivery."""
        try:
            await self._queue.reject(self._pool, messages, reason="stop", counts=False)
        except Exception as error:
            if not passes(error):
                raise  # Otherwise do nothing: the message is free again after its lease.

    async def _reject(self, message: Message, reason: str, *, dead: bool) -> None:
        delay = min(float(2 ** min(message.attempts - 1, 30)), _DELAY_SECONDS_MAX)
        try:
            await self._queue.reject(self._pool, [message], delay_seconds=delay, reason=reason, dead=dead)
        except Exception as error:
            if not passes(error):
                raise  # Otherwise do nothing: the message is free again after its lease.

    async def _settle(self) -> None:
        while True:
            await self._flush.wait()
            if len(self._running) and len(self._done) < self._batch:
                await asyncio.sleep(self._flush_seconds)
            self._flush.clear()
            if batch := self._done:
                self._done = []
                await self._accept(batch)

    async def _accept(self, batch: list[Message]) -> None:
        try:
            accepted = await self._queue.accept(self._pool, batch)
        except Exception as error:
            if not passes(error):
                raise
            self._done = batch + self._done
            await asyncio.sleep(_RETRY_SECONDS)
            self._flush.set()
            return
        self.accepted += len(accepted)
        for message in batch:
            self._forget(message)

    async def _hold(self) -> None:
        while True:
            await asyncio.sleep(self._lease_seconds / 3)
            if not (asked := [*self._held.values()]):
                continue
            try:
                held = set(await self._queue.extend(self._pool, asked, self._lease_seconds))
            except Exception as error:
                if not passes(error):
                    raise
                continue
            lost = {message.id for message in asked} - held
            self._running.cancel([message for message in asked if message.id in lost])

    async def _listen(self) -> None:
        await listen(self._pool, self._queue.name, self._changed.set)

    async def _idle(self) -> None:
        try:
            async with asyncio.timeout(self._idle_seconds):
                await self._changed.wait()
        except TimeoutError:
            return

    def _forget(self, message: Message) -> None:
        self._held.pop(message.id, None)
        self._changed.set()

"""A worker for messages of a queue, on an asyncpg pool: it runs a coroutine for each message (JB-64, JB-78).

It claims a batch at a time. A message is accepted as soon as its handler returns; acceptances within the same few
milliseconds share a statement. After :meth:`Worker.stop` the worker stops claiming and finishes the messages it holds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from hookwire.jobs.failure import passes, reason_of
from hookwire.jobs.message_queue import Message, Queue
from hookwire.jobs.primary import following
from hookwire.jobs.wake_up import listen

__all__ = ["Refused", "Worker"]

Handler = Callable[[Message], Awaitable[None]]
_RESET_SECONDS: Final = 0.5
_RETRY_SECONDS: Final = 0.5
_DELAY_SECONDS_MAX: Final = 300.0


class Refused(Exception):
    """Raised by a handler that refuses its message. It is delivered again, or becomes a dead letter if ``dead``."""

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
        idle_seconds: float = 0.05, flush_seconds: float = 0.002,
    ) -> None:  # fmt: skip
        self.accepted = 0
        self._pool = pool
        self._queue = Queue(queue)
        self._handler = handler
        self._batch = batch
        self._lease_seconds = lease_seconds
        self._idle_seconds = idle_seconds
        self._flush_seconds = flush_seconds
        self._held: dict[int, Message] = {}
        self._running = 0
        self._done: list[Message] = []
        self._changed = asyncio.Event()
        self._flush = asyncio.Event()
        self._stopping = False
        self._after = (0, 0.0)

    def stop(self) -> None:
        """Stop claiming. ``run`` returns when all held messages are settled."""
        self._stopping = True
        self._changed.set()
        self._flush.set()

    async def run(self) -> None:
        """Claim and handle messages until stopped. Retry after errors of the connection."""
        async with asyncio.TaskGroup() as group:
            helping = [group.create_task(one) for one in (self._settle(), self._hold(), self._listen())]
            while not self._stopping:
                self._changed.clear()
                room = min(self._batch - self._running, 2 * self._batch - len(self._held))
                found = await self._receive(room) if room else []
                self._running += len(found)
                for message in found:
                    self._held[message.id] = message
                    group.create_task(self._handle(message))
                if not room:
                    await self._changed.wait()
                elif not found:
                    await self._idle()
            while self._held:
                self._changed.clear()
                await self._changed.wait()
            for helper in helping:
                helper.cancel()

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
        try:
            await self._handler(message)
        except Exception as error:  # noqa: BLE001 - no exception of a handler may lose its message
            dead = isinstance(error, Refused) and error.dead
            await self._reject(message, reason_of(error), dead=dead)
            self._forget(message)
        else:
            self._done.append(message)
            self._flush.set()
        finally:
            self._running -= 1
            self._changed.set()

    async def _reject(self, message: Message, reason: str, *, dead: bool) -> None:
        delay = min(float(2 ** (message.attempts - 1)), _DELAY_SECONDS_MAX)
        try:
            await self._queue.reject(self._pool, [message], delay_seconds=delay, reason=reason, dead=dead)
        except Exception as error:
            if not passes(error):
                raise  # Otherwise do nothing: the message is free again after its lease.

    async def _settle(self) -> None:
        while True:
            await self._flush.wait()
            if self._running and len(self._done) < self._batch:
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
            if self._held:
                try:
                    await self._queue.extend(self._pool, [*self._held.values()], self._lease_seconds)
                except Exception as error:
                    if not passes(error):
                        raise

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

"""Messages of a queue as the source of a leasing worker, on a pool of asyncpg or aiomysql."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from hookwire.jobs.failure import reason_of
from hookwire.jobs.messages.message import Message
from hookwire.jobs.messages.message_queue import Queue
from hookwire.jobs.primary import following
from hookwire.jobs.wake_up import listen

__all__ = ["LeasedMessages", "Refused"]

_RESET_SECONDS: Final = 0.5
_DELAY_SECONDS_MAX: Final = 300.0


class Refused(Exception):
    """Raised by a handler that refuses its message. It is delivered again, or becomes a dead letter if ``dead``."""

    dead: bool = False

    def __init__(self, reason: str, *, dead: bool = False) -> None:
        super().__init__(reason)
        self.dead = dead


class LeasedMessages:
    """Messages of a queue. A claim begins after the last message of the claim before, and at the first twice a second.

    So it does not read claimed messages again.
    """

    def __init__(self, pool: Any, queue: str, lease_seconds: float, receiver: str | None = None) -> None:
        self._pool = pool
        self._queue = Queue(queue)
        self._lease_seconds = lease_seconds
        self._receiver = receiver
        self._after = (0, 0.0)

    async def claim(self, most: int) -> list[Message]:
        """Claim and return at most ``most`` messages, the oldest first."""
        after, until = self._after
        if time.monotonic() >= until:
            after, until = 0, time.monotonic() + _RESET_SECONDS
        asked = {"lease_seconds": self._lease_seconds, "after_id": after, "receiver": self._receiver, "in_order": False}
        found: list[Message] = await self._run(self._queue.receive, most, **asked)
        self._after = (found[-1].id, until) if len(found) == most else (0, 0.0)
        return found

    async def succeed(self, done: Sequence[tuple[Message, Any]]) -> list[Message]:
        """Accept messages. Return the messages that were not held any more."""
        held = set(await self._run(self._queue.accept, [message for message, _ in done]))
        return [message for message, _ in done if message.id not in held]

    async def fail(self, message: Message, error: BaseException) -> bool:
        """Return a message to the queue, with a delay that doubles, or make it a dead letter."""
        delay = min(2.0 ** min(message.attempts - 1, 30), _DELAY_SECONDS_MAX)
        dead = isinstance(error, Refused) and bool(error.dead)
        told = {"delay_seconds": delay, "reason": reason_of(error), "dead": dead}
        return bool(await self._run(self._queue.reject, [message], **told))

    async def release(self, held: Sequence[Message]) -> None:
        """Return messages without counting the delivery."""
        await self._run(self._queue.reject, held, reason="stop", counts=False)

    async def extend(self, held: Sequence[Message]) -> list[Message]:
        """Extend leases. Return the messages that are not held any more."""
        found = set(await self._run(self._queue.extend, held, self._lease_seconds)) if held else set()
        return [message for message in held if message.id not in found]

    async def listen(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` when messages were submitted, as far as the database says so; until cancelled."""
        await listen(self._pool, self._queue.name, wake)

    async def _run(self, statement: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        async with following(self._pool), self._pool.acquire() as connection:
            return await statement(connection, *arguments, **options)

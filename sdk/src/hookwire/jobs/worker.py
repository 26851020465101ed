"""A worker for messages of a queue, on a pool of asyncpg or aiomysql: it runs a coroutine for each message.

It claims a batch at a time. A message is accepted as soon as its handler returns; acceptances within the same few
milliseconds share a statement. After :meth:`Worker.stop` the worker stops claiming and finishes the messages it holds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from hookwire.jobs.leasing.leasing import LeaseOptions, Leasing
from hookwire.jobs.leasing.source import log_of
from hookwire.jobs.messages.leased_messages import LeasedMessages, Refused
from hookwire.jobs.messages.message import Message

__all__ = ["Refused", "Worker"]

Handler = Callable[[Message], Awaitable[None]]


class Worker:
    """Handles at most ``batch`` messages at once; as many more may wait for their settlement.

    ``idle_seconds`` is the pause after an empty claim. An exception of a handler returns its message to the queue, with
    a delay that doubles.
    """

    def __init__(
        self, pool: Any, queue: str, handler: Handler, *, batch: int = 100, lease_seconds: float = 30.0,
        idle_seconds: float = 0.05, flush_seconds: float = 0.002, grace_seconds: float = 10.0,
    ) -> None:  # fmt: skip
        options = LeaseOptions(batch, lease_seconds, idle_seconds, grace_seconds, flush_seconds, 2 * batch)
        report = log_of(lambda message: f"the message {message.id} of {queue}")
        self._leasing = Leasing(LeasedMessages(pool, queue, lease_seconds), handler, options, report)

    @property
    def accepted(self) -> int:
        """Return the number of accepted messages."""
        return self._leasing.tally.done

    def stop(self) -> None:
        """Stop claiming. ``run`` returns when all held messages are settled; it cancels them after ``grace_seconds``.

        A handler that does not end even then is named in the log and left. Its lease ends by itself.
        """
        self._leasing.stop()

    async def run(self) -> None:
        """Claim and handle messages until stopped. Retry after errors of the connection."""
        await self._leasing.run()

"""Notification: a wake-up that carries a task's id and nothing else (JB-22).

The port that a worker is woken through. Adapters: AMQP's in ``relay``, PostgreSQL's NOTIFY in ``app``. Losing a
notification is harmless, because workers also look for themselves; so is getting it twice, early or late.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Notification", "Notifications"]


async def _nothing() -> None:
    """Acknowledge nothing: the transport has no acknowledgements."""


@dataclass(frozen=True, slots=True)
class Notification:
    """``task_id`` '': any task may be due. ``acknowledge`` is called once the claim is committed or given up."""

    task_id: str
    acknowledge: Callable[[], Awaitable[None]] = _nothing


class Notifications(Protocol):
    """A transport. It reconnects by itself and hands out no more than its limit."""

    async def run(self, notified: Callable[[Notification], None]) -> None:
        """Pass notifications on until cancelled. Connection errors are handled inside."""
        ...

"""Notification: a wake that carries a task's id and nothing else (JB-22).

This is the port through which a task worker is notified. Its adapters are AMQP in ``relay`` and PostgreSQL's NOTIFY in
``app``. A lost notification is harmless, because workers also poll. A duplicate, early or late one is harmless too.
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
    """An empty ``task_id`` means that any task may be due. Call ``acknowledge`` after the claim, or when it fails."""

    task_id: str
    acknowledge: Callable[[], Awaitable[None]] = _nothing


class Notifications(Protocol):
    """A transport. It reconnects by itself and passes on no more unacknowledged notifications than its limit."""

    async def run(self, notified: Callable[[Notification], None]) -> None:
        """Pass each notification to ``notified`` until cancelled. Handle connection errors inside."""
        ...

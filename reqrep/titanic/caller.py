"""The port by which Titanic calls services: through a broker in this process, or any Majordomo broker (TI-01)."""

from __future__ import annotations

from typing import Protocol

from reqrep.frames import Frames
from reqrep.titanic.store import AcceptedRequest

__all__ = ["NotAnswered", "ServiceCaller"]


class NotAnswered(Exception):
    """A call ended without a reply: its worker was lost, or it waited too long. The message is the reason."""


class ServiceCaller(Protocol):
    """Calls services by name. Both methods may be called concurrently."""

    async def is_live(self, service: str) -> bool:
        """Return whether a worker of the service is registered, busy or idle, as in ``mmi.service`` (TI-10)."""

    async def call(self, request: AcceptedRequest) -> Frames:
        """Return the reply to a request. Raise :class:`NotAnswered`. The reply to a cancelled call is dropped."""

"""A registered worker, as the broker sees it."""

from __future__ import annotations

from dataclasses import dataclass

from reqrep.frames import Event, printable
from reqrep.majordomo.budget import Budget
from reqrep.majordomo.options import ServicePolicy
from reqrep.majordomo.request import ServiceRequest
from reqrep.majordomo.wire import Dialect
from reqrep.origin import NOWHERE, Origin

__all__ = ["Worker"]

_BEATS_THAT_PROVE = 2


@dataclass(slots=True, eq=False)
class Worker:
    """A worker of the service with this name. It is idle while ``request`` is None.

    Each message from the worker moves ``expires_at``, and each message to it moves ``heartbeat_at``. ``armed_at`` is
    when the broker checks the worker next.

    ``origin`` is the connection of its READY, and ``user`` the authenticated user of it, or empty.

    ``refused_at`` is when the socket last refused a heartbeat because the connection is gone.

    ``busy_beats`` counts the heartbeats since the present request. The first may have been sent before the request
    arrived; two prove that this worker sends heartbeats while it works.
    """

    address: bytes
    dialect: Dialect
    service: bytes
    policy: ServicePolicy
    expires_at: float
    heartbeat_at: float
    origin: Origin = NOWHERE
    user: str = ""
    armed_at: float | None = None
    request: ServiceRequest | None = None
    busy_since: float = 0.0
    busy_beats: int = 0
    refused_at: float | None = None

    def end(self, budget: Budget) -> None:
        """Take its request off the worker."""
        request, self.request = self.request, None
        if request is not None and request.held:
            budget.release(request)

    def has_left(self) -> bool:
        """Return whether the connection of an authenticated worker is gone."""
        return self.user != "" and self.origin is not NOWHERE and not self.origin.is_open()

    def taken_by(self, newer: Origin) -> Event:
        """Return what is reported when another connection has taken its identity. ZeroMQ leaves no way to tell it."""
        detail = f"{newer.address} took the identity of {self.origin.address}; give each worker its own"
        return Event("identity-taken", printable(self.service), printable(self.address), detail)

    def lost_at(self) -> float:
        """Return when the worker counts as lost, unless a message arrives first."""
        if self.request is None:
            return self.expires_at
        limit = self.busy_since + self.policy.busy_seconds_max
        return min(limit, self.expires_at) if self.busy_beats >= _BEATS_THAT_PROVE else limit

    def is_cut_off(self, seconds: float) -> bool:
        """Return whether its host has acknowledged nothing for so long while it holds a request, or it has left."""
        return self.has_left() or (self.request is not None and self.origin.is_silent(seconds))

    def was_refused_since(self, then: float) -> bool:
        """Return whether the socket has refused a heartbeat since a time."""
        return self.refused_at is not None and self.refused_at >= then

    def check_at(self) -> float:
        """Return when the broker must check the worker next: for its loss, or for the next heartbeat to it."""
        return min(self.lost_at(), self.heartbeat_at)

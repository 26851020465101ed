"""A registered worker, as the broker sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reqrep.majordomo.wire import Dialect

if TYPE_CHECKING:
    from reqrep.majordomo.request import ServiceRequest
    from reqrep.majordomo.service import Service

__all__ = ["Worker"]

_BEATS_THAT_PROVE = 2


@dataclass(slots=True, eq=False)
class Worker:
    """A worker of one service; it is idle when ``request`` is None.

    ``expires_at`` moves with each message of the worker, ``heartbeat_at`` with each message to it. ``busy_beats``
    counts heartbeats of the present request: the first may have crossed the request on its way, two show that this
    worker sends them while it works. ``armed_at``: the time at which the broker looks at this worker again.
    """

    address: bytes
    dialect: Dialect
    service: Service
    expires_at: float
    heartbeat_at: float
    armed_at: float | None = None
    request: ServiceRequest | None = None
    busy_since: float = 0.0
    busy_beats: int = 0

    def lost_at(self) -> float:
        """Return when this worker counts as gone, unless a message comes first (MD-21)."""
        if self.request is None:
            return self.expires_at
        limit = self.busy_since + self.service.policy.busy_seconds_max
        return min(limit, self.expires_at) if self.busy_beats >= _BEATS_THAT_PROVE else limit

    def check_at(self, now: float, heartbeat_seconds: float) -> float:
        """Return when the broker must look at this worker again; a busy one is looked at each interval."""
        return min(self.lost_at(), self.heartbeat_at if self.request is None else now + heartbeat_seconds)

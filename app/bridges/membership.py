"""Membership: whether others may take over the claims of this process by now, and the abort of its requests then."""

from __future__ import annotations

import asyncio
import math

import structlog

from relay.election.port import boot_seconds

__all__ = ["DeliveryMembership"]

_log = structlog.get_logger(__name__)


class DeliveryMembership:
    """One membership, from one session. Without a limit nobody takes over from it. It begins so.

    The clock also runs while the process or the machine is stopped. So what comes after waking sees that the time is
    over, before the timer does.
    """

    def __init__(self, id_: int) -> None:
        self.id = id_
        self._until = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._in_flight: set[asyncio.Timeout] = set()

    def holds(self) -> bool:
        """Return whether nobody else may have taken over its claims. Ask it before a request is sent."""
        return boot_seconds() < self._until

    def limit(self, until: float) -> None:
        """Trust it until then at most, because others may know a limit from now on."""
        if self._until == math.inf:
            self.trust(until)

    def trust(self, until: float) -> None:
        """Trust it until then, by an answer."""
        self._until = until
        self._watch()

    def keep(self) -> None:
        """Trust it for ever: its row is gone, and nobody has taken over from it."""
        self.trust(math.inf)

    def end(self) -> None:
        """End it now, unless nobody takes over from it."""
        if self._until != math.inf:
            self.trust(-math.inf)

    def begin(self, request: asyncio.Timeout) -> None:
        """Abort this request when the membership ends."""
        self._in_flight.add(request)

    def finish(self, request: asyncio.Timeout) -> None:
        """Leave the request alone from now on."""
        self._in_flight.discard(request)

    def _watch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.holds():
            self._abort()
        elif self._until != math.inf:
            seconds = self._until - boot_seconds()
            self._timer = asyncio.get_running_loop().call_later(max(seconds, 0.0), self._watch)

    def _abort(self) -> None:
        requests, self._in_flight = self._in_flight, set()
        if requests:
            _log.warning("requests_aborted", requests=len(requests), reason="others may take over by now")
        for request in requests:
            request.reschedule(-math.inf)

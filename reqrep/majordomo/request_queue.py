"""The waiting requests of one service: a line for each client, and the lines are served in turn.

So a client with many requests delays another client's request by one request at most.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from reqrep.majordomo.budget import LINE_BYTES, Budget, weight_of
from reqrep.majordomo.request import ServiceRequest

__all__ = ["RequestQueue"]

_CHECKS_PER_LIFE = 60


@dataclass(slots=True, eq=False)
class _Line:
    """The requests of one client, the oldest first, as a chain. ``moved_at``: when a request last left the line."""

    client: bytes
    first: ServiceRequest
    last: ServiceRequest
    moved_at: float

    def is_late(self, now: float, seconds_max: float) -> bool:
        """Return whether the first request has waited too long since the client was last served."""
        return max(self.first.queued_at, self.moved_at) + seconds_max <= now


class RequestQueue:
    """A request expires when it has waited ``seconds_max``, counted from when its client was last served.

    ``check_at`` is when :meth:`expired` has work to do. ``count`` and ``bytes`` are the number and the weight of the
    waiting requests.
    """

    def __init__(self, budget: Budget, seconds_max: float) -> None:
        self.check_at: float | None = None
        self.bytes = 0
        self._budget = budget
        self._seconds_max = seconds_max
        self._lines: OrderedDict[bytes, _Line] = OrderedDict()
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def put(self, now: float, request: ServiceRequest) -> None:
        """Append a request, which was weighed, to its client's line."""
        line = self._line_for(now, request)
        if line is not None:
            line.last.following = request
            line.last = request

    def put_first(self, now: float, request: ServiceRequest) -> None:
        """Put a request before all others. It may never have been weighed."""
        request.weight = weight_of(request.body)
        line = self._line_for(now, request)
        if line is not None:
            request.following, line.first = line.first, request
        self._lines.move_to_end(request.client, last=False)

    def pop(self, now: float) -> tuple[ServiceRequest, bool]:
        """Take the request whose turn it is, and return whether it has expired. The queue must not be empty."""
        line = next(iter(self._lines.values()))
        request = self._pop_from(line)
        since = request.queued_at if request.queued_at > line.moved_at else line.moved_at
        if since + self._seconds_max <= now:
            return request, True
        line.moved_at = now
        return request, False

    def expired(self, now: float) -> list[ServiceRequest]:
        """Take all requests that have expired. Each call looks at all lines, so ``check_at`` limits their number."""
        gone: list[ServiceRequest] = []
        first = None
        for line in list(self._lines.values()):
            while line.client in self._lines and line.is_late(now, self._seconds_max):
                gone.append(self._pop_from(line))
            if line.client in self._lines:
                late_at = max(line.first.queued_at, line.moved_at) + self._seconds_max
                first = late_at if first is None else min(first, late_at)
        self.check_at = None if first is None else max(first, now + self._seconds_max / _CHECKS_PER_LIFE)
        return gone

    def _line_for(self, now: float, request: ServiceRequest) -> _Line | None:
        """Count a request. Return its client's line, or None if the request has made it."""
        self.count += 1
        weight = request.weight
        self.bytes += weight
        self._budget.take(request.client, weight)
        request.queued_at, request.following = now, None
        if self.check_at is None:
            self.check_at = now + self._seconds_max
        line = self._lines.get(request.client)
        if line is None:
            self._lines[request.client] = _Line(request.client, request, request, now)
            self._budget.take(request.client, LINE_BYTES)
        else:
            request.client = line.client  # one object for all requests of the client
        return line

    def _pop_from(self, line: _Line) -> ServiceRequest:
        """Take the first request of a line, and send the line to the end of the turn."""
        request, following = line.first, line.first.following
        weight = request.weight
        self.count -= 1
        self.bytes -= weight
        self._budget.give(line.client, weight)
        if following is None:
            del self._lines[line.client]
            self._budget.give(line.client, LINE_BYTES)
            return request
        line.first, request.following = following, None
        if len(self._lines) > 1:
            self._lines.move_to_end(line.client)
        return request

"""A client with many outstanding requests on one socket, without I/O (MD-24).

Each request has a number in the first frame of its body. Workers must return that frame unchanged; the workers of this
package do. A request without a reply in time is sent again: on the same socket while other replies arrive. Otherwise
all outstanding requests are sent again on a new socket, to the next endpoint.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from hookwire.services.envelope import number_frame, number_of
from hookwire.services.machine import Answered, Connect, Frames, GaveUp, Leave, Outbox, Step, Stray
from hookwire.services.mdp import MDP_01, Dialect
from hookwire.services.retry_client import RetryOptions

__all__ = ["PipelineMachine"]


@dataclass(slots=True)
class _Outstanding:
    """A request without a reply. ``tries_left`` is how often it may be sent again."""

    message: Frames
    deadline: float
    tries_left: int


class PipelineMachine:
    """Keeps at most ``window`` requests outstanding. Set it well below the high-water marks (ZL-04)."""

    def __init__(self, options: RetryOptions, window: int = 200, dialect: Dialect = MDP_01) -> None:
        if window < 1:
            raise ValueError("window must be at least 1")
        self._options = options
        self._window = window
        self._dialect = dialect
        self._number = 0
        self._endpoint = 0
        self._is_connected = False
        self._heard_at = 0.0
        self._waiting: OrderedDict[int, _Outstanding] = OrderedDict()
        self._outbox = Outbox()

    @property
    def has_room(self) -> bool:
        """Return whether another request may be submitted."""
        return len(self._waiting) < self._window

    @property
    def outstanding(self) -> int:
        """Return the number of requests without a reply."""
        return len(self._waiting)

    @property
    def number(self) -> int:
        """Return the number of the last submitted request."""
        return self._number

    def submit(self, now: float, service: bytes, body: Frames) -> Step:
        """Send a request, whose number is then :attr:`number`. Raise RuntimeError if the window is full."""
        if not self.has_room:
            raise RuntimeError("the window is full; receive replies first")
        self._number += 1
        message = self._dialect.client_message(service, [number_frame(self._number), *body])
        if not self._is_connected:
            self._connect(now)
        deadline = now + self._options.timeout_seconds
        self._waiting[self._number] = _Outstanding(message, deadline, self._options.tries - 1)
        self._outbox.frames.append(message)
        return self._outbox.take()

    def receive(self, now: float, frames: Frames) -> Step:
        """Handle a reply. The second reply to a repeated request is dropped as a stray."""
        reply = self._dialect.read_reply(frames)
        number = number_of(reply.body[0]) if reply is not None else None
        if reply is None or number is None:
            self._outbox.events.append(Stray("malformed" if reply is None else "no-number"))
        elif not reply.is_final:
            self._outbox.events.append(Stray("partial"))
        else:
            self._heard_at = now
            known = self._waiting.pop(number, None)
            self._outbox.events.append(Stray("answered-already") if known is None else Answered(number, reply.body[1:]))
        return self._outbox.take()

    def tick(self, now: float) -> Step:
        """Repeat or end the requests that got no reply in time."""
        late = self._late(now)
        for number in late:
            if self._waiting[number].tries_left == 0:
                del self._waiting[number]
                self._outbox.events.append(GaveUp(number, "no reply"))
        late = [number for number in late if number in self._waiting]
        if late and now - self._heard_at >= self._options.timeout_seconds:
            self._endpoint = (self._endpoint + 1) % len(self._options.endpoints)
            self._connect(now)
            self._repeat(now, list(self._waiting))
        else:
            self._repeat(now, late)
        return self._outbox.take()

    def deadline(self) -> float | None:
        """Return when :meth:`tick` has work to do, or None."""
        return next((request.deadline for request in self._waiting.values()), None)

    def stop(self) -> Step:
        """End all outstanding requests and close the socket."""
        self._outbox.events += [Leave(), *(GaveUp(number, "cancelled") for number in self._waiting)]
        self._waiting.clear()
        self._is_connected = False
        return self._outbox.take()

    def forget(self, number: int) -> None:
        """Stop waiting for a request. Its reply is then dropped as a stray."""
        self._waiting.pop(number, None)

    def _late(self, now: float) -> list[int]:
        """Return the numbers of the requests whose deadline has passed. Requests are sorted by deadline."""
        late = []
        for number, request in self._waiting.items():
            if request.deadline > now:
                break
            late.append(number)
        return late

    def _connect(self, now: float) -> None:
        self._outbox.events.append(Connect(self._options.endpoints[self._endpoint]))
        self._is_connected, self._heard_at = True, now

    def _repeat(self, now: float, numbers: list[int]) -> None:
        for number in numbers:
            request = self._waiting[number]
            request.deadline = now + self._options.timeout_seconds
            request.tries_left = max(0, request.tries_left - 1)
            self._waiting.move_to_end(number)
            self._outbox.frames.append(request.message)

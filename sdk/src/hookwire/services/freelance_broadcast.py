"""Freelance model 2 without I/O: each request goes to all servers, and the first reply is used (FL-02, FL-03).

All servers execute each request, and no server is preferred.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hookwire.services.machine import Answered, Event, Frames, GaveUp, Stray

__all__ = ["Broadcast", "BroadcastStep"]

_AGAIN_SECONDS_FIRST: Final = 0.01
_AGAIN_SECONDS_MAX: Final = 0.32


class BroadcastStep(NamedTuple):
    """The result of one step: messages, each with its endpoint, and events."""

    sends: list[tuple[str, Frames]]
    events: list[Event]


class Broadcast:
    """One call at a time. A server that is not connected yet gets the request when it is connected (FL-09)."""

    def __init__(self, endpoints: tuple[str, ...], timeout_seconds: float = 2.5) -> None:
        if not endpoints:
            raise ValueError("name at least one server")
        self._endpoints = endpoints
        self._timeout_seconds = timeout_seconds
        self._number = 0
        self._message: Frames | None = None
        self._unsent: list[str] = []
        self._again_at = 0.0
        self._again_seconds = _AGAIN_SECONDS_FIRST
        self._ends_at = 0.0

    @property
    def is_waiting(self) -> bool:
        """Return whether a call is in progress."""
        return self._message is not None

    def call(self, now: float, body: bytes) -> BroadcastStep:
        """Send ``[empty][number][body]`` to all servers. Raise RuntimeError while another call is in progress."""
        if self._message is not None:
            raise RuntimeError("a call is in progress; use one client for each concurrent call")
        self._number += 1
        self._message = [b"", b"%d" % self._number, body]
        self._ends_at = now + self._timeout_seconds
        self._unsent = list(self._endpoints)
        self._again_seconds = _AGAIN_SECONDS_FIRST
        return self._send(now)

    def receive(self, now: float, endpoint: str, frames: Frames) -> BroadcastStep:
        """Handle a reply. Replies of slower servers and to earlier calls are dropped."""
        if len(frames) < 3 or frames[0] != b"":
            return BroadcastStep([], [Stray("malformed")])
        if self._message is None or frames[1] != self._message[1]:
            return BroadcastStep([], [Stray("stale-reply")])
        self._message = None
        return BroadcastStep([], [Answered(self._number, frames[2:], endpoint)])

    def failed(self, endpoint: str) -> None:
        """Note that a message could not be sent. :meth:`tick` sends it again during the call."""
        if self._message is not None:
            self._unsent.append(endpoint)

    def tick(self, now: float) -> BroadcastStep:
        """Send the messages that could not be sent before, or end the call after its time."""
        if self._message is None:
            return BroadcastStep([], [])
        if now >= self._ends_at:
            self._message = None
            return BroadcastStep([], [GaveUp(self._number, "no reply")])
        return self._send(now) if self._unsent and now >= self._again_at else BroadcastStep([], [])

    def deadline(self) -> float | None:
        """Return when :meth:`tick` has work to do, or None."""
        if self._message is None:
            return None
        return min(self._ends_at, self._again_at) if self._unsent else self._ends_at

    def _send(self, now: float) -> BroadcastStep:
        assert self._message is not None
        self._again_at = now + self._again_seconds
        self._again_seconds = min(self._again_seconds * 2, _AGAIN_SECONDS_MAX)
        targets, self._unsent = self._unsent, []
        return BroadcastStep([(endpoint, self._message) for endpoint in targets], [])

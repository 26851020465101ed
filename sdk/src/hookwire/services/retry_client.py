"""One call at a time, repeated until it is answered: Lazy Pirate, and the clients that are based on it.

The states::

            call                    reply with the right number
    idle ----------> waiting ----------------------------------> idle  (Answered)
      ^               |   ^
      |    no tries   |   |  pause is over: new socket, same request
      '---------------+   |
        (GaveUp)      '-> pausing
                  time is over: socket closed

A late reply arrives at a closed socket, so a later call never gets it (LP-06).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hookwire.services.machine import Answered, Connect, Frames, GaveUp, Leave, Outbox, Part, Step, Stray
from hookwire.services.mdp import MDP_01, Dialect

__all__ = ["Exchange", "MajordomoExchange", "RetryClient", "RetryOptions", "SequenceExchange"]


@dataclass(frozen=True, slots=True)
class RetryOptions:
    """How a call is repeated.

    * ``timeout_seconds``: the time of each try. It must exceed the time that the service needs for a request.
    * ``tries``: how often the request is sent at most. The default, as in the guide, covers 7.5 s. Choose more tries if
      a restart takes longer (LP-11).
    * ``pause_seconds``: the pause between two tries. For a Binary Star pair, use at least its fail-over time (BS-13).
    """

    endpoints: tuple[str, ...]
    timeout_seconds: float = 2.5
    tries: int = 3
    pause_seconds: float = 0.0

    def __post_init__(self) -> None:
        if not self.endpoints:
            raise ValueError("name at least one endpoint, such as tcp://127.0.0.1:5555")
        if self.timeout_seconds <= 0 or self.tries < 1 or self.pause_seconds < 0:
            raise ValueError("timeout_seconds must be above 0, tries at least 1, pause_seconds at least 0")


class Exchange(Protocol):
    """Encodes requests and decodes replies."""

    def encode(self, number: int, service: bytes, body: Frames) -> Frames:
        """Build the request."""

    def decode(self, number: int, service: bytes, frames: Frames) -> tuple[Frames, bool] | str:
        """Return the body and whether it is the last, or the reason why this is not a reply to the request."""


class SequenceExchange:
    """Lazy Pirate: the first frame is a sequence number as text, which the server sends back (LP-05)."""

    def encode(self, number: int, service: bytes, body: Frames) -> Frames:
        """Build the request: the empty delimiter of REQ, the number, the body."""
        return [b"", b"%d" % number, *body]

    def decode(self, number: int, service: bytes, frames: Frames) -> tuple[Frames, bool] | str:
        """Return the frames behind the number, or the reason why this is not the reply."""
        if len(frames) < 2 or frames[0] != b"":
            return "malformed"
        return (frames[2:], True) if frames[1] == b"%d" % number else "wrong-number"


class MajordomoExchange:
    """Majordomo: checks header and service (MD-23). Each try has a new socket, because replies have no number."""

    def __init__(self, dialect: Dialect = MDP_01) -> None:
        self._dialect = dialect

    def encode(self, number: int, service: bytes, body: Frames) -> Frames:
        """Build a REQUEST."""
        return self._dialect.client_message(service, body)

    def decode(self, number: int, service: bytes, frames: Frames) -> tuple[Frames, bool] | str:
        """Return the body of a REPLY of this service, or the reason why this is not the reply."""
        reply = self._dialect.read_reply(frames)
        if reply is None:
            return "malformed"
        return (reply.body, reply.is_final) if reply.service == service else "wrong-service"


class RetryClient:
    """The state machine, with at most one call at a time."""

    def __init__(self, exchange: Exchange, options: RetryOptions) -> None:
        self._exchange = exchange
        self._options = options
        self._number = 0
        self._endpoint = 0
        self._is_connected = False
        self._service = b""
        self._request: Frames | None = None
        self._tries_left = 0
        self._has_part = False
        self._is_pausing = False
        self._deadline = 0.0
        self._outbox = Outbox()

    @property
    def number(self) -> int:
        """Return the number of the present or last call."""
        return self._number

    @property
    def is_waiting(self) -> bool:
        """Return whether a call is in progress."""
        return self._request is not None

    def call(self, now: float, service: bytes, body: Frames) -> Step:
        """Start a call. Raise RuntimeError while another call is in progress."""
        if self._request is not None:
            raise RuntimeError("a call is in progress; use one client for each concurrent call")
        self._number += 1
        self._service, self._has_part = service, False
        self._request = self._exchange.encode(self._number, service, body)
        self._tries_left = self._options.tries
        self._send(now)
        return self._outbox.take()

    def receive(self, now: float, frames: Frames) -> Step:
        """Handle a reply, a part of it, or a stray. A stray does not move the deadline (LP-05)."""
        if self._request is None or self._is_pausing:
            self._outbox.events.append(Stray("no-call"))
            return self._outbox.take()
        found = self._exchange.decode(self._number, self._service, frames)
        if isinstance(found, str):
            self._outbox.events.append(Stray(found))
        elif found[1]:
            self._request = None
            self._outbox.events.append(Answered(self._number, found[0]))
        else:
            self._has_part = True
            self._deadline = now + self._options.timeout_seconds
            self._outbox.events.append(Part(self._number, found[0]))
        return self._outbox.take()

    def tick(self, now: float) -> Step:
        """Repeat the request on a new socket to the next endpoint, or end the call."""
        if self._request is not None and now >= self._deadline:
            if self._is_pausing:
                self._send(now)
            elif self._tries_left == 0 or self._has_part:
                self._leave()
                self._end("interrupted after a partial reply" if self._has_part else "no reply")
            else:
                self._leave()
                self._endpoint = (self._endpoint + 1) % len(self._options.endpoints)
                self._pause(now)
        return self._outbox.take()

    def deadline(self) -> float | None:
        """Return when the present try or pause ends, or None."""
        return self._deadline if self._request is not None else None

    def cancel(self) -> Step:
        """End the call in progress. Its reply is never returned."""
        if self._request is not None:
            self._leave()
            self._end("cancelled")
        return self._outbox.take()

    def _send(self, now: float) -> None:
        assert self._request is not None
        if not self._is_connected:
            self._outbox.events.append(Connect(self._options.endpoints[self._endpoint]))
            self._is_connected = True
        self._is_pausing = False
        self._tries_left -= 1
        self._deadline = now + self._options.timeout_seconds
        self._outbox.frames.append(self._request)

    def _pause(self, now: float) -> None:
        if self._options.pause_seconds == 0:
            self._send(now)
        else:
            self._is_pausing = True
            self._deadline = now + self._options.pause_seconds

    def _leave(self) -> None:
        self._is_connected = False
        self._outbox.events.append(Leave())

    def _end(self, reason: str) -> None:
        self._request, self._is_pausing = None, False
        self._outbox.events.append(GaveUp(self._number, reason))

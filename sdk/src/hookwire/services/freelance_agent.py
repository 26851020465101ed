"""Freelance model 3 (10/FLP) without I/O: a client with one ROUTER for many servers, without a broker.

The routing id of a server is its endpoint. A server counts as live from its first message until it was silent for
``dead_seconds``. A request goes to the first live server in the configured order. Without an answer in time, it goes to
the next live server. No server gets a request twice (FL-10).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from hookwire.services.machine import Answered, Frames, GaveUp, Outbox, Step, Stray

__all__ = ["FreelanceAgent", "FreelanceOptions"]

_PING: Final = b"PING"
_PONG: Final = b"PONG"
_PING_AGAIN_SECONDS_FIRST: Final = 0.01


@dataclass(frozen=True, slots=True)
class FreelanceOptions:
    """Times in seconds, and a limit (FL-07).

    * ``ping_seconds``: silence of a server before it gets a PING.
    * ``dead_seconds``: silence of a server after which it counts as dead.
    * ``request_seconds_max``: the longest time for a request, over all servers.
    * ``outstanding_max``: the most requests without a reply.
    """

    ping_seconds: float = 2.0
    dead_seconds: float = 6.0
    request_seconds_max: float = 3.0
    outstanding_max: int = 1_000

    def __post_init__(self) -> None:
        if not 0 < self.ping_seconds < self.dead_seconds or self.request_seconds_max <= 0:
            raise ValueError("ping_seconds must be above 0 and below dead_seconds, request_seconds_max above 0")


@dataclass(slots=True, eq=False)
class _Server:
    endpoint: bytes
    ping_at: float
    dead_at: float = 0.0
    is_live: bool = False
    ping_pause: float = _PING_AGAIN_SECONDS_FIRST


@dataclass(slots=True, eq=False)
class _Request:
    """A request. ``tried`` servers got it; ``holder`` is the last. At ``next_at`` it goes to the next live server."""

    number: int
    body: Frames
    ends_at: float
    next_at: float
    tried: set[bytes] = field(default_factory=set)
    holder: bytes = b""

    @property
    def control(self) -> bytes:
        """Return the control frame, which the server sends back unchanged (FL-06)."""
        return b"%d" % self.number


class FreelanceAgent:
    """Tracks servers, in their configured order, and many concurrent requests (FL-14)."""

    def __init__(self, options: FreelanceOptions | None = None) -> None:
        self._options = options or FreelanceOptions()
        self._servers: dict[bytes, _Server] = {}
        self._requests: dict[bytes, _Request] = {}
        self._number = 0
        self._outbox = Outbox()

    @property
    def live(self) -> list[str]:
        """Return the endpoints of the live servers in order, without duplicates (FL-08, ZD-22)."""
        return [server.endpoint.decode() for server in self._servers.values() if server.is_live]

    @property
    def number(self) -> int:
        """Return the number of the last request."""
        return self._number

    def connect(self, now: float, endpoint: str) -> Step:
        """Add a server and ping it, repeatedly until it is connected (FL-09)."""
        self._servers.setdefault(endpoint.encode(), _Server(endpoint.encode(), now))
        return self.tick(now)

    def request(self, now: float, body: Frames) -> Step:
        """Send a request, or keep it until a server is live. Raise RuntimeError if too many have no reply yet."""
        if len(self._requests) >= self._options.outstanding_max:
            raise RuntimeError("too many outstanding requests; await some replies first")
        self._number += 1
        request = _Request(self._number, body, now + self._options.request_seconds_max, now)
        self._requests[request.control] = request
        self._advance(now, request)
        return self._outbox.take()

    def receive(self, now: float, frames: Frames) -> Step:
        """Handle a message of a server. A reply must have the exact control frame of a request (FL-11, ZD-23)."""
        server = self._servers.get(frames[0]) if frames else None
        if server is None:
            self._outbox.events.append(Stray("unknown-server"))
            return self._outbox.take()
        self._heard(now, server)
        if len(frames) >= 3:
            self._reply(frames)
        elif frames[1:] != [_PONG]:
            self._outbox.events.append(Stray("malformed"))
        return self._outbox.take()

    def failed(self, now: float, frames: Frames) -> Step:
        """Handle a message that could not be sent because the server is not connected (FL-09)."""
        server = self._servers[frames[0]]
        server.is_live = False
        server.ping_at = now + server.ping_pause
        server.ping_pause = min(server.ping_pause * 2, self._options.ping_seconds)
        request = self._requests.get(frames[1])
        if request is not None:
            request.tried.discard(server.endpoint)
            self._advance(now, request)
        return self._outbox.take()

    def tick(self, now: float) -> Step:
        """Ping silent servers, mark dead servers, move requests to the next server or end them (FL-07, FL-12)."""
        for server in self._servers.values():
            if server.is_live and now >= server.dead_at:
                self._drop_dead(now, server)
            if now >= server.ping_at:
                server.ping_at = now + self._options.ping_seconds
                self._outbox.frames.append([server.endpoint, _PING])
        for request in list(self._requests.values()):
            if now >= request.ends_at:
                del self._requests[request.control]
                self._outbox.events.append(GaveUp(request.number, "no reply"))
            elif now >= request.next_at:
                self._advance(now, request)
        return self._outbox.take()

    def deadline(self) -> float | None:
        """Return when :meth:`tick` has work to do, or None."""
        times = [server.ping_at for server in self._servers.values()]
        times += [min(request.ends_at, request.next_at) for request in self._requests.values()]
        return min(times, default=None)

    def forget(self, number: int) -> None:
        """Stop waiting for a request. Its reply is then dropped as a stray (ZD-24)."""
        self._requests.pop(b"%d" % number, None)

    def _heard(self, now: float, server: _Server) -> None:
        server.dead_at = now + self._options.dead_seconds
        server.ping_at = now + self._options.ping_seconds
        server.ping_pause = _PING_AGAIN_SECONDS_FIRST
        if not server.is_live:
            server.is_live = True
            for request in self._requests.values():
                if not request.tried:
                    self._advance(now, request)

    def _drop_dead(self, now: float, server: _Server) -> None:
        """Mark a server as dead and move its requests to the next server at once."""
        server.is_live = False
        for request in self._requests.values():
            if request.holder == server.endpoint:
                self._advance(now, request)

    def _reply(self, frames: Frames) -> None:
        request = self._requests.pop(frames[1], None)
        if request is None:
            self._outbox.events.append(Stray("stale-reply"))
        else:
            self._outbox.events.append(Answered(request.number, frames[2:], frames[0].decode("utf-8", "replace")))

    def _advance(self, now: float, request: _Request) -> None:
        """Send the request to the first live server that did not get it yet."""
        share = self._options.request_seconds_max / max(1, len(self._servers))
        request.next_at = now + share
        for server in self._servers.values():
            if server.is_live and server.endpoint not in request.tried:
                request.tried.add(server.endpoint)
                request.holder = server.endpoint
                self._outbox.frames.append([server.endpoint, request.control, *request.body])
                return

"""Clients for threads: one call at a time, repeated until it is answered."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Self

from hookwire.services.error import ClientClosed, NoReply
from hookwire.services.machine import Answered, Event, Frames, GaveUp, Part, Stray
from hookwire.services.mdp import DIALECTS, Version
from hookwire.services.retry_client import Exchange, MajordomoExchange, RetryClient, RetryOptions, SequenceExchange
from hookwire.services.transport import Curve, Link, Poll, SocketOptions

__all__ = ["Client", "LazyPirate", "Trace"]

Trace = Callable[[str, Frames], None]


class RetryingClient:
    """Base of the clients: it runs a :class:`RetryClient`. Threads take turns."""

    def __init__(self, exchange: Exchange, options: RetryOptions, curve: Curve | None, trace: Trace | None) -> None:
        self._machine = RetryClient(exchange, options)
        self._endpoints = ", ".join(options.endpoints)
        self._poll = Poll()
        self._link = Link(self._poll.add, self._poll.remove, SocketOptions(curve=curve), trace)
        self._turn = threading.Lock()
        self._is_closed = False
        self.strays = 0

    def _parts(self, service: bytes, body: Frames) -> Iterator[tuple[Frames, bool]]:
        """Call, and yield each part of the reply with whether it is the last."""
        with self._turn:
            if self._is_closed:
                raise ClientClosed
            try:
                events = self._link.carry_out(self._machine.call(time.monotonic(), service, body))
                while self._machine.is_waiting or events:
                    for event in events:
                        yield from self._found(service, event)
                    events = self._wait() if self._machine.is_waiting else []
            finally:
                # After an exception or Ctrl-C, a later call never gets this reply.
                self._link.carry_out(self._machine.cancel())

    def _found(self, service: bytes, event: Event) -> Iterator[tuple[Frames, bool]]:
        if isinstance(event, Answered | Part):
            yield event.body, isinstance(event, Answered)
        elif isinstance(event, GaveUp):
            raise NoReply(service.decode("utf-8", "replace") or self._endpoints, event.reason)
        elif isinstance(event, Stray):
            self.strays += 1

    def _wait(self) -> list[Event]:
        if self._is_closed:
            raise ClientClosed
        deadline = self._machine.deadline()
        self._poll.wait(None if deadline is None else deadline - time.monotonic())
        frames = self._link.receive()
        now = time.monotonic()
        step = self._machine.receive(now, frames) if frames is not None else self._machine.tick(now)
        return self._link.carry_out(step)

    def close(self) -> None:
        """Close the connection. A call in another thread raises :class:`ClientClosed`."""
        self._is_closed = True
        self._poll.wake()
        with self._turn:
            self._link.close()
            self._poll.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Client(RetryingClient):
    """A Majordomo client.

    With several endpoints each further try goes to the next endpoint. Name all brokers to which the workers connect, or
    both sides of a Binary Star pair. For a pair, set ``pause_seconds`` to at least its fail-over time.
    """

    def __init__(
        self,
        *endpoints: str,
        timeout_seconds: float = 2.5,
        tries: int = 3,
        pause_seconds: float = 0.0,
        version: Version = "0.1",
        curve: Curve | None = None,
        trace: Trace | None = None,
    ) -> None:
        options = RetryOptions(endpoints, timeout_seconds, tries, pause_seconds)
        super().__init__(MajordomoExchange(DIALECTS[version]), options, curve, trace)

    def call(self, service: str, body: bytes) -> bytes:
        """Return the reply of a service; several frames are joined. Raise :class:`NoReply`."""
        return b"".join(self.call_frames(service, [body]))

    def call_frames(self, service: str, body: Sequence[bytes]) -> list[bytes]:
        """Return all frames of the reply and of partial replies. Raise :class:`NoReply`."""
        return [frame for part, _ in self._parts(service.encode(), list(body) or [b""]) for frame in part]

    def stream(self, service: str, body: bytes) -> Iterator[bytes]:
        """Yield each part of the reply when it arrives (18/MDP). Raise :class:`NoReply`."""
        for part, _ in self._parts(service.encode(), [body]):
            yield b"".join(part)

    def service(self, name: str) -> Callable[[Callable[[bytes], bytes]], Callable[[bytes], bytes]]:
        """Decorate a typed stub so that it calls the service. The stub's body never runs."""

        def decorate(stub: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
            def call(body: bytes) -> bytes:
                return self.call(name, body)

            call.__name__, call.__doc__ = stub.__name__, stub.__doc__
            return call

        return decorate


class LazyPirate(RetryingClient):
    """A Lazy Pirate client, for a server or a queue without services. The first frame is a sequence number."""

    def __init__(
        self,
        *endpoints: str,
        timeout_seconds: float = 2.5,
        tries: int = 3,
        pause_seconds: float = 0.0,
        trace: Trace | None = None,
    ) -> None:
        super().__init__(
            SequenceExchange(), RetryOptions(endpoints, timeout_seconds, tries, pause_seconds), None, trace
        )

    def call(self, *body: bytes) -> list[bytes]:
        """Send the number and the frames. Return the frames behind the number. Raise :class:`NoReply`."""
        return [frame for part, _ in self._parts(b"", list(body)) for frame in part]

    @property
    def number(self) -> int:
        """Return the sequence number of the last call."""
        return self._machine.number

"""A client for one thread with separate ``send`` and ``receive``, as the guide's asynchronous client (MD-24)."""

from __future__ import annotations

import time
from collections import deque
from typing import NamedTuple

from hookwire.services.client import Trace
from hookwire.services.machine import Answered, Event, GaveUp, Stray
from hookwire.services.mdp import DIALECTS, Version
from hookwire.services.pipeline_machine import PipelineMachine
from hookwire.services.retry_client import RetryOptions
from hookwire.services.transport import Curve, Link, Poll, SocketOptions

__all__ = ["Pipeline", "Reply"]

_DRAIN_MESSAGES_MAX = 500


class Reply(NamedTuple):
    """The end of a request: its number, and the frames of the reply, or None if no try got a reply."""

    number: int
    frames: list[bytes] | None


class Pipeline:
    """Sends many requests on one socket. Replies arrive in any order; each has the number that ``send`` returned."""

    def __init__(
        self,
        *endpoints: str,
        window: int = 200,
        timeout_seconds: float = 2.5,
        tries: int = 3,
        version: Version = "0.1",
        curve: Curve | None = None,
        trace: Trace | None = None,
    ) -> None:
        self._machine = PipelineMachine(RetryOptions(endpoints, timeout_seconds, tries), window, DIALECTS[version])
        self._poll = Poll()
        self._link = Link(self._poll.add, self._poll.remove, SocketOptions(curve=curve), trace)
        self._replies: deque[Reply] = deque()
        self.strays = 0

    @property
    def outstanding(self) -> int:
        """Return the number of requests without a reply."""
        return self._machine.outstanding

    def send(self, service: str, *body: bytes) -> int:
        """Send a request and return its number. Wait while ``window`` requests are outstanding."""
        while not self._machine.has_room:
            self._wait()
        self._keep(self._link.carry_out(self._machine.submit(time.monotonic(), service.encode(), list(body))))
        return self._machine.number

    def receive(self) -> Reply:
        """Return the next reply. Raise LookupError if no request is outstanding."""
        while not self._replies:
            if not self._machine.outstanding:
                raise LookupError("no request is outstanding")
            self._wait()
        return self._replies.popleft()

    def close(self) -> None:
        """End all outstanding requests and close the socket."""
        self._link.carry_out(self._machine.stop())
        self._poll.close()

    def _wait(self) -> None:
        deadline = self._machine.deadline()
        self._poll.wait(None if deadline is None else deadline - time.monotonic())
        for _ in range(_DRAIN_MESSAGES_MAX):
            frames = self._link.receive()
            if frames is None:
                break
            self._keep(self._link.carry_out(self._machine.receive(time.monotonic(), frames)))
        deadline, now = self._machine.deadline(), time.monotonic()
        if deadline is not None and deadline <= now:
            self._keep(self._link.carry_out(self._machine.tick(now)))

    def _keep(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Answered):
                self._replies.append(Reply(event.number, event.body))
            elif isinstance(event, GaveUp):
                self._replies.append(Reply(event.number, None))
            elif isinstance(event, Stray):
                self.strays += 1

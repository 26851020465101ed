"""Freelance clients, without a broker: model 1 asks servers in turn, 2 asks all, 3 tracks which servers are live."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from hookwire.services.error import ClientClosed, NoReply
from hookwire.services.freelance_agent import FreelanceAgent, FreelanceOptions
from hookwire.services.freelance_broadcast import Broadcast, BroadcastStep
from hookwire.services.machine import Answered, Event, Frames, GaveUp, Step
from hookwire.services.transport import Poll, Socket, SocketOptions, open_socket

__all__ = ["FreelanceBroadcastClient", "FreelanceClient", "FreelanceReply", "ask_in_turn"]

_DRAIN_MESSAGES_MAX = 500
_ONE_SERVER_TRIES = 3


@dataclass(frozen=True, slots=True)
class FreelanceReply:
    """The frames of a reply, and the server that sent it."""

    frames: list[bytes]
    server: str


def ask_in_turn(endpoints: Sequence[str], body: bytes, timeout_seconds: float = 1.0) -> FreelanceReply:
    """Ask one server three times, or each of several servers once, in order: model 1 (FL-01). Raise :class:`NoReply`.

    While the first server is dead, each call first waits for its timeout.
    """
    tries = list(endpoints) * _ONE_SERVER_TRIES if len(endpoints) == 1 else list(endpoints)
    for endpoint in tries:
        poll, socket = Poll(), open_socket("dealer")
        try:
            socket.connect(endpoint)
            poll.add(socket)
            socket.send([b"", body])
            poll.wait(timeout_seconds)
            frames = socket.receive()
        finally:
            socket.close()
            poll.close()
        if frames is not None and len(frames) > 1 and frames[0] == b"":
            return FreelanceReply(frames[1:], endpoint)
    raise NoReply("freelance", f"none of {len(tries)} tries was answered")


class FreelanceBroadcastClient:
    """Model 2: each request goes to all servers, and the first reply is returned. One call at a time."""

    def __init__(self, *endpoints: str, timeout_seconds: float = 2.5) -> None:
        self._machine = Broadcast(endpoints, timeout_seconds)
        self._poll = Poll()
        self._sockets: dict[str, Socket] = {}
        self._endpoints: dict[Socket, str] = {}
        self.strays = 0
        for endpoint in endpoints:
            socket = open_socket("dealer", SocketOptions(immediate=True))
            socket.connect(endpoint)
            self._poll.add(socket)
            self._sockets[endpoint], self._endpoints[socket] = socket, endpoint

    def call(self, body: bytes) -> FreelanceReply:
        """Return the first reply. Raise :class:`NoReply`."""
        events = self._carry_out(self._machine.call(time.monotonic(), body))
        while True:
            for event in events:
                if isinstance(event, Answered):
                    return FreelanceReply(event.body, event.source)
                if isinstance(event, GaveUp):
                    raise NoReply("freelance", event.reason)
                self.strays += 1
            events = self._wait()

    def close(self) -> None:
        """Close all sockets."""
        for socket in self._endpoints:
            socket.close()
        self._poll.close()

    def _wait(self) -> list[Event]:
        deadline = self._machine.deadline()
        events: list[Event] = []
        for socket in self._poll.wait(None if deadline is None else deadline - time.monotonic()):
            frames = socket.receive()
            if frames is not None:
                step = self._machine.receive(time.monotonic(), self._endpoints[socket], frames)
                events += self._carry_out(step)
        return events + self._carry_out(self._machine.tick(time.monotonic()))

    def _carry_out(self, step: BroadcastStep) -> list[Event]:
        for endpoint, frames in step.sends:
            if self._sockets[endpoint].send(frames) is not None:
                self._machine.failed(endpoint)
        return step.events


class FreelanceClient:
    """Model 3: a background thread tracks which servers are live and sends the requests (FL-14).

    Several threads may call at once. With asyncio, use ``await asyncio.wrap_future(client.submit(body))``. An invalid
    endpoint raises ValueError.
    """

    def __init__(self, *endpoints: str, options: FreelanceOptions | None = None) -> None:
        self._machine = FreelanceAgent(options)
        self._socket = open_socket("router")
        self._poll = Poll()
        self._poll.add(self._socket)
        self._asked: deque[tuple[Frames, Future[FreelanceReply]]] = deque()
        self._futures: dict[int, Future[FreelanceReply]] = {}
        self._is_closed = False
        self._connect(endpoints)
        self._thread = threading.Thread(target=self._run, name="hookwire-freelance", daemon=True)
        self._thread.start()

    def call(self, *body: bytes) -> FreelanceReply:
        """Return the reply of a live server. Raise :class:`NoReply`."""
        return self.submit(*body).result()

    def submit(self, *body: bytes) -> Future[FreelanceReply]:
        """Send a request and return the future of its reply. It can be cancelled until it is sent."""
        if self._is_closed:
            raise ClientClosed
        future: Future[FreelanceReply] = Future()
        self._asked.append((list(body), future))
        self._poll.wake()
        return future

    @property
    def live(self) -> list[str]:
        """Return the endpoints of the servers that are live now."""
        return self._machine.live

    def close(self) -> None:
        """Close the sockets. Calls in progress raise :class:`ClientClosed`."""
        self._is_closed = True
        self._poll.wake()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._is_closed:
                self._turn()
        finally:
            self._end()

    def _connect(self, endpoints: Sequence[str]) -> None:
        try:
            for endpoint in endpoints:
                self._socket.connect(endpoint)
                self._carry_out(self._machine.connect(time.monotonic(), endpoint))
        except ValueError:
            self._end()
            raise

    def _end(self) -> None:
        """Refuse further calls, fail all open ones and close the sockets."""
        self._is_closed = True
        asked = [future for _, future in self._asked if future.set_running_or_notify_cancel()]
        for future in [*self._futures.values(), *asked]:
            future.set_exception(ClientClosed())
        self._socket.close()
        self._poll.close()

    def _turn(self) -> None:
        deadline = self._machine.deadline()
        self._poll.wait(None if deadline is None else deadline - time.monotonic())
        for _ in range(_DRAIN_MESSAGES_MAX):
            frames = self._socket.receive()
            if frames is None:
                break
            self._carry_out(self._machine.receive(time.monotonic(), frames))
        while self._asked:
            self._ask(*self._asked.popleft())
        self._carry_out(self._machine.tick(time.monotonic()))

    def _ask(self, body: Frames, future: Future[FreelanceReply]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            step = self._machine.request(time.monotonic(), body)
        except RuntimeError as error:
            future.set_exception(error)
            return
        self._futures[self._machine.number] = future
        self._carry_out(step)

    def _carry_out(self, step: Step) -> None:
        steps = deque([step])
        while steps:
            out = steps.popleft()
            for frames in out.frames:
                if self._socket.send(frames) is not None:
                    steps.append(self._machine.failed(time.monotonic(), frames))
            for event in out.events:
                self._settle(event)

    def _settle(self, event: Event) -> None:
        if isinstance(event, Answered):
            self._futures.pop(event.number).set_result(FreelanceReply(event.body, event.source))
        elif isinstance(event, GaveUp):
            self._futures.pop(event.number).set_exception(NoReply("freelance", event.reason))

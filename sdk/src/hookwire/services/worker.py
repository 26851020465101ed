"""A worker for threads: it offers functions as services (MD-22).

One thread has all sockets and sends the heartbeats. The functions run in other threads, so a slow function does not
stop the heartbeats. With ``heartbeats_while_working=False``, as in the guide, functions run in the first thread. A
stuck function then stops the heartbeats, and the worker gets no more requests. However a function ends, its request
ends, and the worker goes on; after a KeyboardInterrupt it stops softly.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from hookwire.services.envelope import split_number
from hookwire.services.machine import Event, Frames, Run, ServingMachine, Step
from hookwire.services.mdp import DIALECTS, Version
from hookwire.services.pirate import ParanoidWorker, PirateOptions, SimpleWorker, printable_identity
from hookwire.services.presence import HeartbeatOptions
from hookwire.services.transport import Curve, Link, Poll, Socket, SocketOptions
from hookwire.services.worker_machine import WorkerMachine, WorkerOptions
from hookwire.threads import Threads

__all__ = ["FramesHandler", "Handler", "PirateWorker", "Result", "Worker", "frames_of"]

Result = bytes | Sequence[bytes] | Iterator[bytes]
Handler = Callable[[bytes], bytes]
FramesHandler = Callable[[list[bytes]], Result]
_LOG = logging.getLogger("hookwire.services")


def frames_of(result: bytes | Sequence[bytes]) -> Frames:
    """Return the frames of a handler's result. Raise TypeError for a result that is not bytes."""
    frames = [result] if isinstance(result, bytes) else list(result)
    if not frames or not all(isinstance(frame, bytes) for frame in frames):
        raise TypeError("a handler must return bytes, or a sequence of bytes that is not empty")
    return frames


@dataclass(slots=True, eq=False)
class _Connection:
    """One service at one broker."""

    machine: ServingMachine
    link: Link
    handler: FramesHandler
    name: str
    functions: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Finished:
    """A handler's result, on its way to the thread with the sockets. ``frames`` is None if the handler failed."""

    connection: _Connection
    ticket: int
    frames: Frames | None
    is_part: bool = False


@dataclass(slots=True)
class _Service:
    """A function, and its machines, which get requests."""

    name: str
    handler: FramesHandler
    machines: Callable[[], list[ServingMachine]]
    identity: Callable[[], bytes] | None = None


@dataclass(slots=True)
class _Running:
    connections: list[_Connection] = field(default_factory=list)
    by_socket: dict[Socket, _Connection] = field(default_factory=dict)


class ServingLoop:
    """Base of the workers for threads: one thread has all sockets, other threads run the handlers."""

    def __init__(
        self,
        in_threads: bool = True,
        curve: Curve | None = None,
        trace: Callable[[str, Frames], None] | None = None,
        grace_seconds: float = 10.0,
    ) -> None:
        self._grace_seconds = grace_seconds
        self._in_threads = in_threads
        self._threads = Threads("hookwire-service", 0)
        self._curve = curve
        self._trace = trace
        self._services: list[_Service] = []
        self._poll = Poll()
        self._running = _Running()
        self._finished: deque[_Finished] = deque()
        self._is_stopped = False

    def run(self) -> None:
        """Register and serve until :meth:`stop`. Requests in progress are still answered, for ``grace_seconds``."""
        connections = self._connections()
        if not connections:
            raise ValueError("a worker needs at least one endpoint and one service: pass an endpoint, call service()")
        self._threads = Threads("hookwire-service", len(connections))
        for connection in connections:
            self._carry_out(connection, connection.machine.start(time.monotonic()))
        while not self._is_stopped:
            self._turn()
        self._drain(time.monotonic() + self._grace_seconds)
        for connection in connections:
            self._carry_out(connection, connection.machine.stop())
        self._threads.close()
        self._poll.close()

    def _drain(self, until: float) -> None:
        """Serve until no request is in progress, or until a time. Name the functions that do not end."""
        while (busy := [one for one in self._running.connections if one.machine.is_busy]) and time.monotonic() < until:
            self._turn(until)
        for connection in busy:
            _LOG.warning("a function of %s does not end; the broker treats its request as lost", connection.name)

    def stop(self) -> None:
        """End :meth:`run`. Safe in signal handlers and other threads."""
        self._is_stopped = True
        self._poll.wake()

    def _connections(self) -> list[_Connection]:
        for service in self._services:
            for machine in service.machines():
                options = SocketOptions(curve=self._curve, identity=service.identity() if service.identity else None)
                self._running.connections.append(self._connection(machine, service, options))
        return self._running.connections

    def _connection(self, machine: ServingMachine, service: _Service, options: SocketOptions) -> _Connection:
        def opened(socket: Socket) -> None:
            self._poll.add(socket)
            self._running.by_socket[socket] = connection

        def closing(socket: Socket) -> None:
            self._poll.remove(socket)
            del self._running.by_socket[socket]

        link = Link(opened, closing, options, self._trace)
        connection = _Connection(machine, link, service.handler, service.name)
        return connection

    def _turn(self, until: float = math.inf) -> None:
        """Wait once. Read messages before checking deadlines: after a pause of this process they count."""
        deadlines = [at for c in self._running.connections if (at := c.machine.deadline()) is not None]
        if until < math.inf:
            deadlines.append(until)
        first = min(deadlines, default=None)
        for socket in self._poll.wait(None if first is None else first - time.monotonic()):
            connection = self._running.by_socket.get(socket)
            while connection is not None and (frames := connection.link.receive()) is not None:
                self._carry_out(connection, connection.machine.receive(time.monotonic(), frames))
        while self._finished:
            self._send(self._finished.popleft())
        for connection in self._running.connections:
            deadline = connection.machine.deadline()
            if deadline is not None and deadline <= time.monotonic():
                self._carry_out(connection, connection.machine.tick(time.monotonic()))

    def _carry_out(self, connection: _Connection, step: Step) -> None:
        for event in connection.link.carry_out(step):
            if isinstance(event, Run):
                self._begin(connection, event)
            else:
                self._note(event)

    def _begin(self, connection: _Connection, run: Run) -> None:
        if connection.functions:
            _LOG.warning("a function of %s still runs although its request was lost", connection.name)
        connection.functions.add(run.ticket)
        if self._in_threads:
            self._threads.begin(lambda: self._handle(connection, run))
        else:
            self._handle(connection, run)

    def _handle(self, connection: _Connection, run: Run) -> None:
        """Run the handler. Its exception ends the request, never the worker."""
        frames: Frames | None = None
        try:
            frames = self._frames_of(connection, run)
        except BaseException as error:  # noqa: BLE001 - user code may raise anything
            _LOG.exception("the handler of a service failed; the broker treats the request as lost")
            if isinstance(error, KeyboardInterrupt):
                self.stop()
        connection.functions.discard(run.ticket)
        self._hand_over(_Finished(connection, run.ticket, frames))

    def _frames_of(self, connection: _Connection, run: Run) -> Frames:
        number, body = split_number(run.body)
        result = connection.handler(body)
        last = self._send_parts(connection, run, number, result) if isinstance(result, Iterator) else frames_of(result)
        return [*number, *last]

    def _send_parts(self, connection: _Connection, run: Run, number: Frames, parts: Iterator[bytes]) -> Frames:
        """Send all parts but the last as partial replies. Return the last part.

        Raise TypeError for a part that is not bytes, and ValueError if the protocol has no partial replies.
        """
        last = frames_of(next(parts))
        for following in parts:
            if not connection.machine.has_parts:
                raise ValueError("this protocol has no partial replies; use a Majordomo worker with version='0.2'")
            self._hand_over(_Finished(connection, run.ticket, [*number, *last], is_part=True))
            last = frames_of(following)
        return last

    def _hand_over(self, finished: _Finished) -> None:
        self._finished.append(finished)
        self._poll.wake()

    def _send(self, finished: _Finished) -> None:
        machine, now = finished.connection.machine, time.monotonic()
        if finished.frames is None:
            step = machine.abandon(now, finished.ticket)
        elif finished.is_part:
            step = machine.partial(now, finished.ticket, finished.frames)
        else:
            step = machine.reply(now, finished.ticket, finished.frames)
        self._carry_out(finished.connection, step)

    def _note(self, event: Event) -> None:
        _LOG.debug("dropped a message: %s", event)


class Worker(ServingLoop):
    """Offers functions as Majordomo services at one broker, or at several brokers at the same time (MD-34)."""

    def __init__(
        self,
        *endpoints: str,
        heartbeat: HeartbeatOptions | None = None,
        reconnect_seconds: float = 2.5,
        version: Version = "0.1",
        heartbeats_while_working: bool = True,
        curve: Curve | None = None,
        trace: Callable[[str, Frames], None] | None = None,
        grace_seconds: float = 10.0,
    ) -> None:
        super().__init__(heartbeats_while_working, curve, trace, grace_seconds)
        self._endpoints = endpoints
        self._options = WorkerOptions(heartbeat or HeartbeatOptions(), reconnect_seconds)
        self._dialect = DIALECTS[version]

    def service(self, name: str, *, concurrency: int = 1) -> Callable[[Handler], Handler]:
        """Offer a function of one body as a service. At most ``concurrency`` requests per broker run at once."""

        def decorate(handler: Handler) -> Handler:
            self.frames_service(name, concurrency=concurrency)(lambda frames: handler(b"".join(frames)))
            return handler

        return decorate

    def frames_service(self, name: str, *, concurrency: int = 1) -> Callable[[FramesHandler], FramesHandler]:
        """Offer a function of a list of frames. In 18/MDP it may be a generator; each frame is a part of the reply."""

        def machines() -> list[ServingMachine]:
            return [
                WorkerMachine(endpoint, name.encode(), self._dialect, self._options)
                for endpoint in self._endpoints * concurrency
            ]

        def decorate(handler: FramesHandler) -> FramesHandler:
            self._services.append(_Service(f"the service {name}", handler, machines))
            return handler

        return decorate


class PirateWorker(ServingLoop):
    """Offers a function to a Simple or Paranoid Pirate queue."""

    def __init__(
        self,
        endpoint: str,
        handler: FramesHandler,
        *,
        is_paranoid: bool = True,
        options: PirateOptions | None = None,
        heartbeats_while_working: bool = True,
        trace: Callable[[str, Frames], None] | None = None,
        grace_seconds: float = 10.0,
    ) -> None:
        super().__init__(heartbeats_while_working, None, trace, grace_seconds)

        def machines() -> list[ServingMachine]:
            return [ParanoidWorker(endpoint, options) if is_paranoid else SimpleWorker(endpoint, options)]

        self._services.append(_Service(f"the worker at {endpoint}", handler, machines, printable_identity))

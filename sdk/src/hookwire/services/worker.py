"""A worker for threads: it offers functions as services (MD-22).

One thread has all sockets and sends the heartbeats. The functions run in other threads, so a slow function does not
stop the heartbeats. With ``heartbeats_while_working=False``, as in the guide, functions run in the first thread. A
stuck function then stops the heartbeats, and the worker gets no more requests.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from hookwire.services.envelope import split_number
from hookwire.services.machine import Event, Frames, Run, ServingMachine, Step
from hookwire.services.mdp import DIALECTS, Version
from hookwire.services.pirate import ParanoidWorker, PirateOptions, SimpleWorker, printable_identity
from hookwire.services.presence import HeartbeatOptions
from hookwire.services.transport import Curve, Link, Poll, Socket, SocketOptions
from hookwire.services.worker_machine import WorkerMachine, WorkerOptions

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
    ) -> None:
        self._in_threads = in_threads
        self._curve = curve
        self._trace = trace
        self._services: list[_Service] = []
        self._poll = Poll()
        self._running = _Running()
        self._finished: deque[_Finished] = deque()
        self._is_stopped = False

    def run(self) -> None:
        """Register and serve until :meth:`stop`. Requests in progress are still answered."""
        connections = self._connections()
        if not connections:
            raise ValueError("a worker needs at least one endpoint and one service: pass an endpoint, call service()")
        with ThreadPoolExecutor(len(connections), thread_name_prefix="hookwire-service") as threads:
            for connection in connections:
                self._carry_out(connection, connection.machine.start(time.monotonic()), threads)
            while not self._is_stopped or any(connection.machine.is_busy for connection in connections):
                self._turn(threads)
            for connection in connections:
                self._carry_out(connection, connection.machine.stop(), threads)
        self._poll.close()

    def stop(self) -> None:
        """End :meth:`run`. Safe in signal handlers and other threads."""
        self._is_stopped = True
        self._poll.wake()

    def _connections(self) -> list[_Connection]:
        for service in self._services:
            for machine in service.machines():
                options = SocketOptions(curve=self._curve, identity=service.identity() if service.identity else None)
                self._running.connections.append(self._connection(machine, service.handler, options))
        return self._running.connections

    def _connection(self, machine: ServingMachine, handler: FramesHandler, options: SocketOptions) -> _Connection:
        def opened(socket: Socket) -> None:
            self._poll.add(socket)
            self._running.by_socket[socket] = connection

        def closing(socket: Socket) -> None:
            self._poll.remove(socket)
            del self._running.by_socket[socket]

        connection = _Connection(machine, Link(opened, closing, options, self._trace), handler)
        return connection

    def _turn(self, threads: ThreadPoolExecutor) -> None:
        """Wait once. Read messages before checking deadlines: after a pause of this process they count."""
        deadlines = [at for c in self._running.connections if (at := c.machine.deadline()) is not None]
        first = min(deadlines, default=None)
        for socket in self._poll.wait(None if first is None else first - time.monotonic()):
            connection = self._running.by_socket.get(socket)
            while connection is not None and (frames := connection.link.receive()) is not None:
                self._carry_out(connection, connection.machine.receive(time.monotonic(), frames), threads)
        while self._finished:
            self._send(self._finished.popleft(), threads)
        for connection in self._running.connections:
            deadline = connection.machine.deadline()
            if deadline is not None and deadline <= time.monotonic():
                self._carry_out(connection, connection.machine.tick(time.monotonic()), threads)

    def _carry_out(self, connection: _Connection, step: Step, threads: ThreadPoolExecutor) -> None:
        for event in connection.link.carry_out(step):
            if isinstance(event, Run):
                self._begin(connection, event, threads)
            else:
                self._note(event)

    def _begin(self, connection: _Connection, run: Run, threads: ThreadPoolExecutor) -> None:
        if self._in_threads:
            threads.submit(self._handle, connection, run)
        else:
            self._handle(connection, run)

    def _handle(self, connection: _Connection, run: Run) -> None:
        """Run the handler. Its exception ends the request, never the worker."""
        number, body = split_number(run.body)
        try:
            result = connection.handler(body)
            if isinstance(result, Iterator):
                last = self._send_parts(connection, run, number, result)
            else:
                last = frames_of(result)
        except Exception:  # noqa: BLE001 - user code may raise anything
            _LOG.exception("the handler of a service failed; the broker treats the request as lost")
            self._hand_over(_Finished(connection, run.ticket, None))
        else:
            self._hand_over(_Finished(connection, run.ticket, [*number, *last]))

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

    def _send(self, finished: _Finished, threads: ThreadPoolExecutor) -> None:
        machine, now = finished.connection.machine, time.monotonic()
        if finished.frames is None:
            step = machine.abandon(now, finished.ticket)
        elif finished.is_part:
            step = machine.partial(now, finished.ticket, finished.frames)
        else:
            step = machine.reply(now, finished.ticket, finished.frames)
        self._carry_out(finished.connection, step, threads)

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
    ) -> None:
        super().__init__(heartbeats_while_working, curve, trace)
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
            self._services.append(_Service(handler, machines))
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
    ) -> None:
        super().__init__(heartbeats_while_working, None, trace)

        def machines() -> list[ServingMachine]:
            return [ParanoidWorker(endpoint, options) if is_paranoid else SimpleWorker(endpoint, options)]

        self._services.append(_Service(handler, machines, printable_identity))

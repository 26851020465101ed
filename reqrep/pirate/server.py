"""The sockets of both Pirate queues: a ROUTER for clients and a ROUTER for workers (SP-01)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from reqrep.frames import Event, Frames
from reqrep.pirate.options import QueueStep
from reqrep.pirate.paranoid_queue import ParanoidQueue
from reqrep.pirate.simple_queue import SimpleQueue
from reqrep.reactor import Reactor
from reqrep.transport import Socket, SocketOptions, Transport

__all__ = ["QueueServer"]

_DRAIN_MESSAGES_MAX = 200


class QueueServer:
    """Connects a queue to its two sockets. The clients' socket is read only while a worker is ready (SP-04)."""

    def __init__(
        self,
        queue: SimpleQueue | ParanoidQueue,
        reactor: Reactor,
        transport: Transport,
        frontend: str,
        backend: str,
        report: Callable[[Event], None] | None = None,
    ) -> None:
        self.queue = queue
        self._reactor = reactor
        self._report = report
        limits = queue.options.limits
        options = SocketOptions(frame_bytes_max=limits.message_bytes_max, frames_max=limits.frames_max)
        self._front: Socket = transport.socket("router", options)
        self._back: Socket = transport.socket("router", options)
        self.frontend = self._front.bind(frontend)
        self.backend = self._back.bind(backend)
        self._reads_front = False
        reactor.reader(self._back, self._read_workers)
        reactor.deadline(queue.deadline, lambda now: self._carry_out(queue.tick(now)))

    def close(self) -> None:
        """Close both sockets."""
        for socket in (self._front, self._back):
            self._reactor.remove(socket)
            socket.close()

    def _read_workers(self) -> None:
        for _ in range(_DRAIN_MESSAGES_MAX):
            frames = self._back.receive()
            if frames is None:
                return
            self._carry_out(self.queue.from_worker(self._reactor.clock(), frames))

    def _read_clients(self) -> None:
        for _ in range(_DRAIN_MESSAGES_MAX):
            frames = self._front.receive() if self.queue.wants_clients else None
            if frames is None:
                return
            self._carry_out(self.queue.from_client(self._reactor.clock(), frames))

    def _carry_out(self, step: QueueStep) -> None:
        steps = deque([step])
        while steps:
            out = steps.popleft()
            for socket, messages in ((self._front, out.to_clients), (self._back, out.to_workers)):
                steps.extend(self._send(socket, frames) for frames in messages)
            if self._report is not None:
                for event in out.events:
                    self._report(event)
        self._watch_front()

    def _send(self, socket: Socket, frames: Frames) -> QueueStep:
        reason = socket.send(frames)
        if reason is None:
            return QueueStep([], [], [])
        return self.queue.failed(self._reactor.clock(), frames, socket is self._back, reason)

    def _watch_front(self) -> None:
        if self.queue.wants_clients != self._reads_front:
            self._reads_front = self.queue.wants_clients
            if self._reads_front:
                self._reactor.reader(self._front, self._read_clients)
            else:
                self._reactor.remove(self._front)

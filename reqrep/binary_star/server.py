"""The sockets of one side of a Binary Star pair: PUB and SUB for the state, a ROUTER for clients."""

from __future__ import annotations

from collections.abc import Callable

from reqrep.binary_star.state import BinaryStar, BinaryStarOptions, Role
from reqrep.frames import Event, Frames
from reqrep.reactor import Reactor
from reqrep.transport import Socket, SocketOptions, Transport

__all__ = ["BinaryStarServer"]

Handler = Callable[[Socket, Frames], None]
Report = Callable[[Event], None]
_DRAIN_MESSAGES_MAX = 200
_STATE_BYTES_MAX = 256
"""A state has one byte, a subscription to it ten. ZeroMQ keeps the subscriptions of whoever reaches the endpoint."""


class BinaryStarServer:
    """One side of a pair. It publishes its state at ``local`` and reads the peer's state from ``remote``.

    The caller runs the reactor and may add timers and readers to it.
    """

    def __init__(
        self,
        role: Role,
        local: str,
        remote: str,
        reactor: Reactor,
        transport: Transport,
        options: BinaryStarOptions | None = None,
        report: Report | None = None,
    ) -> None:
        self.machine = BinaryStar(role, reactor.clock(), options)
        self._reactor = reactor
        self._transport = transport
        self._report = report
        self._voter: Socket | None = None
        self._on_active: Callable[[], None] | None = None
        self._on_passive: Callable[[], None] | None = None
        small = SocketOptions(frame_bytes_max=_STATE_BYTES_MAX)
        self._publisher = transport.socket("pub", small)
        self._subscriber = transport.socket("sub", small)
        self.endpoint = self._publisher.bind(local)
        self._subscriber.connect(remote)
        reactor.reader(self._subscriber, self._read_peer)
        reactor.deadline(self.machine.deadline, self._tick)

    def on_active(self, handler: Callable[[], None]) -> None:
        """Set the handler that is called once per transition to active."""
        self._on_active = handler

    def on_passive(self, handler: Callable[[], None]) -> None:
        """Set the handler that is called once per transition to passive."""
        self._on_passive = handler

    def voter(self, endpoint: str, handler: Handler, options: SocketOptions | None = None) -> str:
        """Open the ROUTER whose requests vote, and return its real endpoint.

        The handler gets the requests that this side may serve. Raise RuntimeError for a second voter.
        """
        if self._voter is not None:
            raise RuntimeError("this side of the pair has a voter already; call voter() once")
        self._voter = socket = self._transport.socket("router", options)
        bound = socket.bind(endpoint)
        self._reactor.reader(socket, lambda: self._read_clients(socket, handler))
        return bound

    def vote(self, now: float) -> bool:
        """Vote with a client's request that another socket received; return whether to serve it."""
        vote = self.machine.client(now)
        self._tell(vote.events)
        return vote.serve

    def promote(self) -> None:
        """Become active by an operator's order."""
        self._tell(self.machine.promote(self._reactor.clock()))

    def close(self) -> None:
        """Close the sockets of this side."""
        for socket in (self._publisher, self._subscriber, self._voter):
            if socket is not None:
                self._reactor.remove(socket)
                socket.close()

    def _read_clients(self, socket: Socket, handler: Handler) -> None:
        """Read the requests and discard those that this side must not serve."""
        for _ in range(_DRAIN_MESSAGES_MAX):
            frames = socket.receive()
            if frames is None:
                return
            if self.vote(self._reactor.clock()):
                handler(socket, frames)

    def _read_peer(self) -> None:
        for _ in range(_DRAIN_MESSAGES_MAX):
            frames = self._subscriber.receive()
            if frames is None:
                return
            self._tell(self.machine.peer(self._reactor.clock(), frames)[1])

    def _tick(self, now: float) -> None:
        out, events = self.machine.tick(now)
        for frames in out:
            self._publisher.send(frames)
        self._tell(events)

    def _tell(self, events: list[Event]) -> None:
        for event in events:
            if self._report is not None:
                self._report(event)
            if event.kind == "active" and self._on_active is not None:
                self._on_active()
            elif event.kind == "passive" and self._on_passive is not None:
                self._on_passive()
        if self.machine.must_stop:
            self._reactor.stop()

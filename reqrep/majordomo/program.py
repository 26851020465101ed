"""A whole broker process: broker, sockets, keys, and optionally Binary Star and Titanic, on one reactor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from reqrep.binary_star.server import BinaryStarServer
from reqrep.binary_star.state import BinaryStarOptions, Role
from reqrep.frames import Event
from reqrep.inside import ReplyGiven
from reqrep.key_folder import KeyFolder
from reqrep.majordomo.broker import Broker
from reqrep.majordomo.door import Door
from reqrep.majordomo.inside import Inside
from reqrep.majordomo.options import BrokerOptions
from reqrep.majordomo.server import BrokerServer
from reqrep.memory import FreedMemory
from reqrep.reactor import Reactor
from reqrep.rights import RightsFile
from reqrep.titanic.services import TITANIC_NAMES
from reqrep.titanic.thread import BrokerMail, TitanicPlan, TitanicThread
from reqrep.transport import CurveServer, Socket, SocketOptions, Transport, secret_key_in
from reqrep.zap import Gatekeeper

__all__ = ["BrokerProgram", "CurvePlan", "PairPlan"]

Report = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class CurvePlan:
    """The files of CURVE: the server's secret key, and a folder with the public keys of clients and workers.

    ``rights``: what each user may do. None: every user may do everything.
    """

    secret_key_file: Path
    key_folder: Path
    rights: RightsFile | None = None


@dataclass(frozen=True, slots=True)
class PairPlan:
    """One side of a Binary Star pair. ``local`` and ``remote``: endpoints of its own state and of the peer's state."""

    role: Role
    local: str
    remote: str
    options: BinaryStarOptions


class BrokerProgram:
    """All parts of a broker process. ``snapshot`` is replaced once per second; other threads may read it."""

    def __init__(
        self,
        endpoints: list[str],
        options: BrokerOptions,
        curve: CurvePlan | None = None,
        pair: PairPlan | None = None,
        report: Report | None = None,
        trace: Callable[[str], None] | None = None,
        titanic: TitanicPlan | None = None,
    ) -> None:
        self.reactor = Reactor()
        self._freed = FreedMemory()
        self._titanic = None if titanic is None else TitanicThread(titanic, self._post, self.stop)
        self._transport = Transport()
        self._pair: BinaryStarServer | None = None
        try:
            self._gatekeeper = self._open_gatekeeper(curve) if curve is not None else None
            if pair is not None:
                self._pair = BinaryStarServer(
                    pair.role, pair.local, pair.remote, self.reactor, self._transport, pair.options, report
                )
            inside = None if titanic is None else Inside(TITANIC_NAMES | titanic.others.keys(), self.titanic_counts)
            door = None if curve is None or curve.rights is None else Door(curve.rights)
            self._rights = None if curve is None else curve.rights
            self.broker = Broker(options, None if self._pair is None else self._pair.vote, inside, door)
            self.broker.state = self.state
            socket_options = SocketOptions(
                frame_bytes_max=options.limits.message_bytes_max,
                frames_max=options.limits.frames_max,
                takes_over=curve is None,  # else a user could get the requests of another's worker
                ping_seconds=options.ping_seconds,
                curve=None if curve is None else CurveServer(secret_key_in(curve.secret_key_file)),
            )
            self._server = BrokerServer(
                self.broker, self.reactor, self._transport, endpoints, socket_options, report, trace,
                None if self._titanic is None else self._titanic.take,
            )  # fmt: skip
            if self._titanic is not None:
                self._titanic.start()
        except BaseException:
            self._transport.close()
            self.reactor.close()
            raise
        self.endpoints = self._server.endpoints
        self.snapshot = self.state_and_counts()
        self.reactor.timer(1.0, self._refresh)

    def run(self) -> None:
        """Serve until :meth:`stop`, then close. Raise the exception that ended Titanic's thread, if any."""
        try:
            self.reactor.run()
        finally:
            self.close()
        if self._titanic is not None and self._titanic.error is not None:
            raise self._titanic.error

    def close(self) -> None:
        """Disconnect the workers and close everything. Call it for a program that was not :meth:`run`."""
        if self._titanic is not None:
            self._titanic.stop()
        self._server.close()
        if self._pair is not None:
            self._pair.close()
        self._transport.close()
        self.reactor.close()

    def stop(self) -> None:
        """End :meth:`run`. Safe in signal handlers and other threads."""
        self.reactor.stop()

    def promote(self) -> None:
        """Make this side of the pair active on the operator's order. Raise RuntimeError without a pair."""
        if self._pair is None:
            raise RuntimeError("this broker does not belong to a pair")
        self._pair.promote()

    @property
    def stopped_by_pair(self) -> bool:
        """Return whether this side stopped because both sides were active or both were passive."""
        return self._pair is not None and self._pair.machine.must_stop

    def state(self) -> dict[str, object]:
        """Return the state of the pair, or an empty dictionary without a pair."""
        return {} if self._pair is None else self._pair.machine.status(self.reactor.clock())

    def state_and_counts(self) -> dict[str, object]:
        """Return the values of all metrics."""
        refused = {} if self._gatekeeper is None else dict(self._gatekeeper.counters.drops)
        counts = self.broker.counters.snapshot()
        counts["drops"].update(refused)
        return {**counts, **self.broker.summary(), "state": self.state(), "titanic": self.titanic_counts()}

    def titanic_counts(self) -> dict[str, int]:
        """Return the numbers of Titanic, at most a second old, or an empty dictionary without Titanic."""
        return {} if self._titanic is None else self._titanic.counts

    def _post(self, mail: list[BrokerMail]) -> None:
        """Pass a batch of Titanic to the reactor. Called in Titanic's thread."""
        self.reactor.post(lambda now: self._carry_out(now, mail))

    def _carry_out(self, now: float, mail: list[BrokerMail]) -> None:
        for letter in mail:
            if isinstance(letter, ReplyGiven):
                self._server.carry_out(self.broker.reply_inside(*letter))
            else:
                self._server.carry_out(self.broker.call_inside(now, *letter))

    def _refresh(self, now: float) -> None:
        self._freed.note(self.broker.budget.held)
        if self._rights is not None:
            self._rights.reload()
        self.snapshot = self.state_and_counts()

    def _open_gatekeeper(self, curve: CurvePlan) -> Gatekeeper:
        gatekeeper = Gatekeeper(user_of_key=KeyFolder(curve.key_folder).user_of)
        socket = self._transport.zap_socket()
        self.reactor.reader(socket, lambda: _judge(socket, gatekeeper))
        return gatekeeper


def _judge(socket: Socket, gatekeeper: Gatekeeper) -> None:
    """Answer one ZAP request of libzmq about a connection."""
    frames = socket.receive()
    answer = gatekeeper.answer(frames) if frames is not None else None
    if answer is not None:
        socket.send(answer)

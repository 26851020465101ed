"""The socket of the Majordomo broker: one ROUTER, which is read without blocking."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from reqrep.frames import Event, Frames, Step, dump
from reqrep.inside import CallAnswered, RequestTaken
from reqrep.majordomo.broker import Broker
from reqrep.majordomo.pipes import LargeReply, Pipes
from reqrep.majordomo.replies import WaitingReplies
from reqrep.majordomo.wire import MessageKind, parse
from reqrep.reactor import Reactor
from reqrep.transport import Socket, SocketOptions, Transport

__all__ = ["BrokerServer"]

Report = Callable[[Event], None]
Trace = Callable[[str], None]
HandOver = Callable[[list[RequestTaken], list[CallAnswered]], None]
"""Gets requests for services of this process, and answers to its calls."""
_DRAIN_MESSAGES_MAX = 200
_LINGER_SECONDS = 1.0
_SETTLED_SECONDS = 300.0
# A message that is found so soon after the last read had been waiting. Then more messages are read in one turn.
_WAITING_SECONDS = 50e-6


class BrokerServer:
    """Connects a broker to its socket, which it opens at once. The reactor calls it."""

    def __init__(
        self,
        broker: Broker,
        reactor: Reactor,
        transport: Transport,
        endpoints: Iterable[str],
        options: SocketOptions | None = None,
        report: Report | None = None,
        trace: Trace | None = None,
        hand_over: HandOver | None = None,
    ) -> None:
        self.broker = broker
        self._hand_over = hand_over
        self._reactor = reactor
        self._report = report
        self._trace = trace
        self._message_number = 0
        self._budget = 1
        self._read_at = 0.0
        self._socket: Socket = transport.socket("router", options)
        self.endpoints = [self._socket.bind(endpoint) for endpoint in endpoints]
        seconds_max = broker.options.policy.request_seconds_max
        self._pipes = Pipes()
        self._replies = WaitingReplies(self._send, broker.budget, seconds_max)
        broker.origin, broker.connection = self._socket.origin, self._socket.connection
        self._settled_until: float | None = None
        reactor.reader(self._socket, self._read)
        reactor.deadline(broker.deadline, self._tick)
        reactor.deadline(self._replies.deadline, self._send_waiting)

    def close(self) -> None:
        """Disconnect the workers and close the socket. Messages to slow peers may still leave for a second."""
        self._carry_out(self.broker.stop())
        self._reactor.remove(self._socket)
        self._socket.close(_LINGER_SECONDS)

    def carry_out(self, step: Step) -> None:
        """Send the messages of a step that no message from the socket caused, and report its events."""
        self._carry_out(step)
        self._give_inside()

    def _give_inside(self) -> None:
        if self._hand_over is not None:
            requests, answers = self.broker.inside.taken()
            if requests or answers:
                self._hand_over(requests, answers)

    def _read(self) -> None:
        """Handle a bounded number of messages, so that heartbeats are never late.

        The bound doubles while messages wait, and is halved when none wait. At low load it is one message, because
        reading an empty socket costs more than the next wait.
        """
        clock, receive, take = self._reactor.clock, self._socket.receive_with_user, self.broker.receive
        is_waiting = clock() - self._read_at < _WAITING_SECONDS
        self._budget = min(self._budget * 2, _DRAIN_MESSAGES_MAX) if is_waiting else max(1, self._budget // 2)
        for _ in range(self._budget):
            message = receive()
            if message is None:
                break
            frames, user = message
            if self._trace is not None:
                self._show("<", frames)
            step = take(clock(), frames, user)
            if step[0] or step[1]:
                self._carry_out(step)
        self._read_at = clock()
        self._give_inside()

    def _tick(self, now: float) -> None:
        if self._settled_until is not None and now >= self._settled_until:
            self._socket.take_over(True)
            self._settled_until = None
        self.carry_out(self.broker.tick(now))

    def _carry_out(self, step: Step) -> None:
        out, events = step
        send, readers, trace = self._socket.send, self._replies.readers, self._trace
        for frames in out:  # it grows by what a failure causes
            if trace is not None:
                self._show(">", frames)
            if frames[0] in readers:
                reason: str | None = "full"
            else:
                reason = send(frames) if type(frames) is list else self._send(frames)
            if reason is not None and not self._keeps(frames, reason):
                more, later = self.broker.failed(self._reactor.clock(), frames, reason)
                out.extend(more)
                events.extend(later)
        for event in events:
            if event.kind == "identity-taken":
                self._settle()
            if self._report is not None:
                self._report(event)

    def _send(self, frames: Frames) -> str | None:
        if type(frames) is LargeReply and self._pipes.is_full(frames):
            return "full"
        return self._socket.send(frames)

    def _settle(self) -> None:
        """Let the two workers of one identity not take it from each other in turn: the present owner keeps it."""
        self._socket.take_over(False)
        self._settled_until = self._reactor.clock() + _SETTLED_SECONDS

    def _keeps(self, frames: Frames, reason: str) -> bool:
        """Keep a reply to a client that does not read yet. Return whether it is kept."""
        is_reply = reason == "full" and frames[0] not in self.broker.workers
        return is_reply and self._replies.keep(self._reactor.clock(), frames)

    def _send_waiting(self, now: float) -> None:
        for frames, reason in self._replies.send_due(now):
            self._carry_out(self.broker.failed(now, frames, reason))

    def _show(self, direction: str, frames: Frames) -> None:
        assert self._trace is not None
        self._message_number += 1
        words = ""
        if direction == "<":
            command = parse(frames)
            words = f" {command.dialect.name} {command.kind.name}" + (
                f" {command.problem}" * (command.kind is MessageKind.INVALID)
            )
        self._trace(dump(self._message_number, direction, frames) + words)

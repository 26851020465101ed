"""Servers without a broker: a plain REP for Lazy Pirate and Freelance 1 and 2, and the ROUTER of Freelance model 3."""

from __future__ import annotations

from collections.abc import Callable

from hookwire.services.machine import Frames
from hookwire.services.transport import Poll, Socket, SocketOptions, open_socket

__all__ = ["FreelanceServer", "ReplyServer", "answer_freelance"]

Handler = Callable[[Frames], Frames]
_DRAIN_MESSAGES_MAX = 200


def answer_freelance(frames: Frames, handler: Handler) -> Frames | None:
    """Return the answer to a message of a client, or None for something else (FL-05, FL-06).

    ``[client]["PING"]`` gives ``[client]["PONG"]``; ``[client][control][body...]`` gives the control frame unmodified
    and the frames of the handler.
    """
    if len(frames) == 2:
        return [frames[0], b"PONG"] if frames[1] == b"PING" else None
    return [*frames[:2], *handler(frames[2:])] if len(frames) > 2 else None


class _Server:
    """The loop of both servers."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self._poll = Poll()
        self._poll.add(socket)
        self._is_stopped = False
        self.drops = 0

    def run(self) -> None:
        """Answer until :meth:`stop` is called."""
        while not self._is_stopped:
            self._poll.wait(None)
            for _ in range(_DRAIN_MESSAGES_MAX):
                frames = self._socket.receive()
                if frames is None:
                    break
                self._answer(frames)
        self._socket.close(1.0)
        self._poll.close()

    def stop(self) -> None:
        """Let :meth:`run` end. Safe in signal handlers and other threads."""
        self._is_stopped = True
        self._poll.wake()

    def _answer(self, frames: Frames) -> None:
        raise NotImplementedError


class ReplyServer(_Server):
    """A REP socket: the handler gets the frames of a request and returns the frames of the reply."""

    def __init__(self, endpoint: str, handler: Handler) -> None:
        super().__init__(open_socket("rep"))
        self._handler = handler
        self.endpoint = self._socket.bind(endpoint)

    def _answer(self, frames: Frames) -> None:
        if self._socket.send(self._handler(frames)) is not None:
            self.drops += 1


class FreelanceServer(_Server):
    """Model 3: its routing id is its public endpoint (FL-04). ``bind`` may differ from it, as behind a gateway."""

    def __init__(self, endpoint: str, handler: Handler, bind: str | None = None) -> None:
        super().__init__(open_socket("router", SocketOptions(identity=endpoint.encode())))
        self._handler = handler
        self.endpoint = endpoint
        self._socket.bind(bind or endpoint)

    def _answer(self, frames: Frames) -> None:
        reply = answer_freelance(frames, self._handler)
        if reply is None or self._socket.send(reply) is not None:
            self.drops += 1

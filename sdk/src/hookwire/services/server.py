"""Servers without a broker: a REP for Lazy Pirate and Freelance models 1 and 2, and a ROUTER for Freelance model 3."""

from __future__ import annotations

from collections.abc import Callable

from hookwire.services.machine import Frames
from hookwire.services.transport import Poll, Socket, SocketOptions, open_socket

__all__ = ["FreelanceServer", "ReplyServer", "answer_freelance"]

Handler = Callable[[Frames], Frames]
_DRAIN_MESSAGES_MAX = 200


def answer_freelance(frames: Frames, handler: Handler) -> Frames | None:
    """Return the answer to a message of a client, or None for a malformed message (FL-05, FL-06).

    The answer to ``[client]["PING"]`` is ``[client]["PONG"]``. The answer to ``[client][control][body...]`` has the
    same control frame and the handler's frames.
    """
    if len(frames) == 2:
        return [frames[0], b"PONG"] if frames[1] == b"PING" else None
    return [*frames[:2], *handler(frames[2:])] if len(frames) > 2 else None


class _Server:
    """Base of both servers: it reads messages and answers them."""

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
        """End :meth:`run`. Safe in signal handlers and other threads."""
        self._is_stopped = True
        self._poll.wake()

    def _answer(self, frames: Frames) -> None:
        raise NotImplementedError


class ReplyServer(_Server):
    """A server on a REP socket. The handler gets the frames of a request and returns the frames of the reply."""

    def __init__(self, endpoint: str, handler: Handler) -> None:
        super().__init__(open_socket("rep"))
        self._handler = handler
        self.endpoint = self._socket.bind(endpoint)

    def _answer(self, frames: Frames) -> None:
        if self._socket.send(self._handler(frames)) is not None:
            self.drops += 1


class FreelanceServer(_Server):
    """A server of model 3. Its routing id is its public ``endpoint`` (FL-04); behind a gateway set ``bind`` too."""

    def __init__(self, endpoint: str, handler: Handler, bind: str | None = None) -> None:
        super().__init__(open_socket("router", SocketOptions(identity=endpoint.encode())))
        self._handler = handler
        self.endpoint = endpoint
        self._socket.bind(bind or endpoint)

    def _answer(self, frames: Frames) -> None:
        reply = answer_freelance(frames, self._handler)
        if reply is None or self._socket.send(reply) is not None:
            self.drops += 1

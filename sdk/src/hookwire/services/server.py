"""Servers without a broker: for Lazy Pirate and Freelance models 1 and 2, and for Freelance model 3.

However a handler ends, the server goes on; it sends no answer where the handler failed, so that the client asks again.
After a KeyboardInterrupt it stops.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from hookwire.services.machine import Frames
from hookwire.services.transport import Poll, Socket, SocketOptions, open_socket
from hookwire.services.worker import frames_of

__all__ = ["FreelanceServer", "ReplyServer", "answer_freelance"]

Handler = Callable[[Frames], Frames]
_DRAIN_MESSAGES_MAX = 200
_LOG = logging.getLogger("hookwire.services")


def answer_freelance(frames: Frames, handler: Handler) -> Frames | None:
    """Return the answer to a message of a client, or None for a malformed message (FL-05, FL-06).

    The answer to ``[client]["PING"]`` is ``[client]["PONG"]``. The answer to ``[client][control][body...]`` has the
    same control frame and the handler's frames.
    """
    if len(frames) == 2:
        return [frames[0], b"PONG"] if frames[1] == b"PING" else None
    return [*frames[:2], *frames_of(handler(frames[2:]))] if len(frames) > 2 else None


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
        try:
            reply = self._reply_to(frames)
        except BaseException as error:  # noqa: BLE001 - a handler may raise anything
            _LOG.exception("the handler of a server failed; its client gets no answer")
            reply = None
            if isinstance(error, KeyboardInterrupt):
                self.stop()
        if reply is None or self._socket.send(reply) is not None:
            self.drops += 1

    def _reply_to(self, frames: Frames) -> Frames | None:
        """Return the answer to a message, or None for a malformed message."""
        raise NotImplementedError


class ReplyServer(_Server):
    """A server for REQ sockets. The handler gets the frames of a request and returns the frames of the reply.

    It has a ROUTER, because a REP must answer each request before it can read the next.
    """

    def __init__(self, endpoint: str, handler: Handler) -> None:
        super().__init__(open_socket("router"))
        self._handler = handler
        self.endpoint = self._socket.bind(endpoint)

    def _reply_to(self, frames: Frames) -> Frames | None:
        if b"" not in frames:
            return None
        body = frames.index(b"") + 1
        return [*frames[:body], *frames_of(self._handler(frames[body:]))]


class FreelanceServer(_Server):
    """A server of model 3. Its routing id is its public ``endpoint`` (FL-04); behind a gateway set ``bind`` too."""

    def __init__(self, endpoint: str, handler: Handler, bind: str | None = None) -> None:
        super().__init__(open_socket("router", SocketOptions(identity=endpoint.encode())))
        self._handler = handler
        self.endpoint = endpoint
        self._socket.bind(bind or endpoint)

    def _reply_to(self, frames: Frames) -> Frames | None:
        return answer_freelance(frames, self._handler)

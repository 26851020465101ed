"""Replies to clients that do not read yet: they wait here while the pipe to the client is full."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from reqrep.deadlines import Deadlines
from reqrep.frames import Frames
from reqrep.majordomo.budget import LINE_BYTES, Budget, weight_of

__all__ = ["WaitingReplies"]

_PAUSE_SECONDS = 0.005
_PAUSE_SECONDS_MAX = 0.5
_BODY_AT = 4
"""The frames before the body in both dialects: client, two of the protocol, service."""


@dataclass(slots=True, eq=False)
class _Reader:
    """A client whose pipe is full. ``moved_at``: when it last took a reply."""

    client: bytes
    moved_at: float
    pause: float = _PAUSE_SECONDS
    replies: deque[Frames] = field(default_factory=deque)


class WaitingReplies:
    """Sends each client its replies in order, as soon as its pipe has room. ZeroMQ does not tell when that is.

    So each client's first reply is tried again after a pause, which doubles while the client reads nothing. A client
    that reads nothing for ``seconds_max`` loses its replies.

    ``readers`` has the clients with waiting replies. ``deadline()`` is when :meth:`send_due` has work to do.
    """

    def __init__(self, send: Callable[[Frames], str | None], budget: Budget, seconds_max: float) -> None:
        self._send = send
        self._budget = budget
        self._seconds_max = seconds_max
        self.readers: dict[bytes, _Reader] = {}
        self._deadlines: Deadlines[_Reader] = Deadlines()
        self.deadline = self._deadlines.first

    def keep(self, now: float, frames: Frames) -> bool:
        """Keep a reply that the socket did not take. Return False if its client has no budget left."""
        client, weight = frames[0], weight_of(frames[_BODY_AT:])
        reader = self.readers.get(client)
        if self._budget.refusal(client, weight if reader is not None else weight + LINE_BYTES) is not None:
            return False
        if reader is None:
            reader = self.readers[client] = _Reader(client, now)
            self._budget.take(client, LINE_BYTES)
            self._deadlines.add(now + reader.pause, reader)
        self._budget.take(client, weight)
        frames[0] = reader.client  # one object for all replies to the client
        reader.replies.append(frames)
        return True

    def send_due(self, now: float) -> list[tuple[Frames, str]]:
        """Send what fits. Return the replies that are given up, each with the reason."""
        lost: list[tuple[Frames, str]] = []
        for _, reader in self._deadlines.due(now):
            reason, has_moved = self._send_to(reader)
            if reason == "full" and (has_moved or now - reader.moved_at < self._seconds_max):
                reader.moved_at = now if has_moved else reader.moved_at
                reader.pause = _PAUSE_SECONDS if has_moved else min(reader.pause * 2, _PAUSE_SECONDS_MAX)
                self._deadlines.add(now + reader.pause, reader)
                continue
            while reader.replies:
                lost.append((self._pop(reader), reason or "full"))
            del self.readers[reader.client]
            self._budget.give(reader.client, LINE_BYTES)
        return lost

    def _send_to(self, reader: _Reader) -> tuple[str | None, bool]:
        """Send until the pipe is full. Return the reason of the end, and whether anything was sent."""
        has_moved = False
        while reader.replies:
            reason = self._send(reader.replies[0])
            if reason is not None:
                return reason, has_moved
            self._pop(reader)
            has_moved = True
        return None, has_moved

    def _pop(self, reader: _Reader) -> Frames:
        frames = reader.replies.popleft()
        self._budget.give(reader.client, weight_of(frames[_BODY_AT:]))
        return frames

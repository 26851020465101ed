"""Large replies to clients that do not read. A pipe of ZeroMQ holds 1,000 messages, however large they are."""

from __future__ import annotations

import sys
from fcntl import ioctl
from typing import Final

from reqrep.frames import Frames

__all__ = ["LARGE_BYTES", "LargeReply", "Pipes"]

LARGE_BYTES: Final = 8 * 1024
"""A thousand replies below this size are 8 MiB at most."""
_PIPE_BYTES_MAX: Final = 4 * 1024 * 1024
_MOVING_BYTES_MAX: Final = 16 * 1024
_CLIENTS_MAX: Final = 1_000
_UNACKNOWLEDGED: Final = 0x5411  # SIOCOUTQ of linux/sockios.h: the bytes that the peer's host has not acknowledged


class LargeReply(Frames):
    """The frames of a reply of ``LARGE_BYTES`` or more, and the descriptor of the connection of its request."""

    __slots__ = ("connection",)

    def __init__(self, frames: Frames, connection: int) -> None:
        super().__init__(frames)
        self.connection = connection


class Pipes:
    """Judges by the kernel how much of what was sent to a client may still wait in its pipe."""

    def __init__(self) -> None:
        self._sent: dict[bytes, int] = {}

    def is_full(self, reply: LargeReply) -> bool:
        """Return whether a reply has to wait. If not, count it as sent.

        ZeroMQ fills the kernel's buffer before anything waits in the pipe. So a nearly empty buffer shows that the
        pipe is empty too. Without that, a client gets 4 MiB.
        """
        size = sum(map(len, reply))
        if _unacknowledged(reply.connection) <= _MOVING_BYTES_MAX:
            if len(self._sent) >= _CLIENTS_MAX:
                self._sent.clear()
            self._sent[reply[0]] = size
            return False
        sent = self._sent.get(reply[0], 0) + size
        if sent > _PIPE_BYTES_MAX:
            return True
        self._sent[reply[0]] = sent
        return False


def _unacknowledged(descriptor: int) -> int:
    """Return the bytes that a connection has not delivered; 0 if the descriptor is closed, or no connection."""
    found = bytearray(4)
    try:
        ioctl(descriptor, _UNACKNOWLEDGED, found)
    except (OSError, ValueError):
        return 0
    return int.from_bytes(found, sys.byteorder)

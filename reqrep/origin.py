"""The connection that a message came by, and what the kernel knows about it."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass

__all__ = ["NOWHERE", "Origin"]

_INFO_BYTES = 60
_UNACKNOWLEDGED_AT, _LAST_ACKNOWLEDGED_AT = 24, 56  # struct tcp_info of linux/tcp.h, the latter in milliseconds


@dataclass(frozen=True, slots=True)
class Origin:
    """``connection`` is the descriptor of its socket in this process, ``address`` the peer's host.

    The descriptor belongs to ZeroMQ, so it is only looked at. A later connection may have got the same one, but it has
    another ``number``, which is the socket's inode.
    """

    connection: int = -1
    address: str = ""
    number: int = 0

    @classmethod
    def of(cls, connection: int, address: str) -> Origin:
        """Return the origin of a descriptor that is open now."""
        return cls(connection, address, _inode(connection))

    def is_open(self) -> bool:
        """Return whether the connection is open."""
        return self.number != 0 and _inode(self.connection) == self.number

    def is_silent(self, seconds: float) -> bool:
        """Return whether the peer's host has not acknowledged sent bytes for so long: it, or the link to it, is gone.

        A host whose program is stopped or reads nothing acknowledges. Sockets that are not TCP are never silent.
        """
        found = _tcp_info(self.connection)
        if len(found) < _INFO_BYTES:
            return False
        unacknowledged, milliseconds = (
            int.from_bytes(found[at : at + 4], sys.byteorder) for at in (_UNACKNOWLEDGED_AT, _LAST_ACKNOWLEDGED_AT)
        )
        return unacknowledged > 0 and milliseconds >= seconds * 1000


NOWHERE = Origin()


def _inode(descriptor: int) -> int:
    """Return the number of the file behind a descriptor, or 0 if none is open."""
    try:
        return os.fstat(descriptor).st_ino
    except OSError:
        return 0


def _tcp_info(descriptor: int) -> bytes:
    """Return the kernel's numbers about a connection; empty if the descriptor is none, or none of TCP."""
    try:
        copy = os.dup(descriptor)
    except OSError:
        return b""
    try:
        connection = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        return b""
    with connection, suppress(OSError):
        return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    return b""

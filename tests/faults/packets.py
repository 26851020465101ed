"""Packets that vanish on their way to a socket, as if its host were gone: the kernel drops them by a filter."""

import ctypes
import socket
import struct
from contextlib import suppress
from typing import Protocol

_SO_ATTACH_FILTER, _SO_DETACH_FILTER = 26, 27
_RETURN = 0x06
_UNACKNOWLEDGED_OFFSET = 24  # struct tcp_info, linux/tcp.h


class _Socket(Protocol):
    def setsockopt(self, level: int, option: int, value: int | bytes, /) -> None: ...
    def getsockopt(self, level: int, option: int, size: int, /) -> bytes: ...


def drop_what_comes(sock: _Socket) -> None:
    """Drop every packet for this socket from now on, also the acknowledgements of its peer."""
    instruction = ctypes.create_string_buffer(struct.pack("HBBI", _RETURN, 0, 0, 0))
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", 1, ctypes.addressof(instruction)))


def take_what_comes(sock: _Socket) -> None:
    """Drop nothing any more."""
    with suppress(FileNotFoundError):  # it has no filter
        sock.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)


def is_acknowledged(sock: _Socket) -> bool:
    """Return whether the peer has acknowledged all that was sent: then the kernel sends nothing again."""
    found = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _UNACKNOWLEDGED_OFFSET + 4)
    return int.from_bytes(found[_UNACKNOWLEDGED_OFFSET:], "little") == 0

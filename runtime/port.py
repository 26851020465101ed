"""A free TCP port of loopback, reserved against every other process that uses this module."""

from __future__ import annotations

import random
import socket
from collections import deque

from runtime.loopback import loopback

__all__ = ["PORTS", "free_port"]

# Below the range for outgoing connections (Linux 32768, BSD 49152). Otherwise a client could take the port while its
# server is down, and a restart on the same port would sometimes fail.
PORTS = range(20_000, 32_000)
_CHOICES_MAX = 200
_RESERVED_MAX = 200
_reserved: deque[socket.socket] = deque()
"""Sockets whose names in Linux's abstract namespace reserve the newest ports. They end with the process."""


def free_port() -> int:
    """Return a port of loopback that is free and stays reserved while its server is down.

    The newest 200 ports of this process are reserved: no other process gets one of them here. Raise OSError when 200
    random choices were all taken.
    """
    for port in random.sample(PORTS, _CHOICES_MAX):
        reservation = _reservation(port)
        if reservation is None:
            continue
        if _is_free(port):
            _keep(reservation)
            return port
        reservation.close()
    raise OSError(f"no free port between {PORTS.start} and {PORTS.stop} after {_CHOICES_MAX} choices")


def _reservation(port: int) -> socket.socket | None:
    """Bind the port's name; return None where another call holds it."""
    candidate = socket.socket(socket.AF_UNIX)
    try:
        candidate.bind(f"\0hookwire-port-{port}")
    except OSError:
        candidate.close()
        return None
    return candidate


def _keep(reservation: socket.socket) -> None:
    if len(_reserved) == _RESERVED_MAX:
        _reserved.popleft().close()
    _reserved.append(reservation)


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in loopback() else socket.AF_INET) as candidate:
        try:
            candidate.bind((loopback(), port))
        except OSError:
            return False
    return True

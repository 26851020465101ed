"""A free TCP port of loopback, reserved against every other process that asks here."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from collections import deque
from pathlib import Path

__all__ = ["PORTS", "free_port"]

# Below every system's range for outgoing connections (Linux 32768, BSD 49152): a port from that range could be taken
# by some client while its server is down, and the restart on the same port would fail now and then.
PORTS = range(20_000, 32_000)
_CHOICES_MAX = 200
_RESERVED_MAX = 200
_reserved: deque[int] = deque()
"""Descriptors of locked files, oldest first. A lock ends with its descriptor, at the latest with the process."""


def free_port() -> int:
    """Return a port of 127.0.0.1 that is free and stays ours while its server is down.

    The newest 200 ports of this process are reserved: no other process gets one of them here. Raise OSError when 200
    random choices were all taken.
    """
    folder = Path(tempfile.gettempdir(), f"hookwire-ports-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    for port in random.sample(PORTS, _CHOICES_MAX):
        if _reserve(folder / str(port)):
            if _is_free(port):
                return port
            os.close(_reserved.pop())
    raise OSError(f"no free port between {PORTS.start} and {PORTS.stop} after {_CHOICES_MAX} choices")


def _reserve(path: Path) -> bool:
    """Lock the port's file; False where another call holds it."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return False
    if len(_reserved) == _RESERVED_MAX:
        os.close(_reserved.popleft())
    _reserved.append(descriptor)
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as candidate:
        try:
            candidate.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True

"""Loopback: the address by which this machine reaches itself, also where it has no IPv4."""

from __future__ import annotations

import socket
from functools import cache

__all__ = ["at_loopback", "loopback"]


@cache
def loopback() -> str:
    """Return 127.0.0.1, or ::1 on a machine that has only IPv6."""
    return "127.0.0.1" if _has("127.0.0.1", socket.AF_INET) or not _has("::1", socket.AF_INET6) else "::1"


def at_loopback(port: int) -> str:
    """Return loopback and a port as in a URL: 127.0.0.1:8080 or [::1]:8080."""
    return f"[{loopback()}]:{port}" if ":" in loopback() else f"{loopback()}:{port}"


def _has(address: str, family: socket.AddressFamily) -> bool:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as candidate:
            candidate.bind((address, 0))
    except OSError:
        return False
    return True

"""Addresses in settings and options: host:port."""

from __future__ import annotations

import re

__all__ = ["address_of"]


def address_of(text: str) -> tuple[str, int] | None:
    """Return the host, without the brackets of IPv6, and the port, 0 to 65535. Return None for any other text."""
    host, _, port = text.rpartition(":")
    if not (host and re.fullmatch("[0-9]{1,5}", port) and int(port) < 2**16):
        return None
    return host.strip("[]"), int(port)

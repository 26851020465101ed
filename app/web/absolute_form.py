"""Absolute form: a target such as ``http://hub.example/hub?a=1``, which a proxy may send (RFC 9112, 3.2.2)."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["split_absolute"]

_ABSOLUTE: Final = re.compile(rb"https?://([^/?#@]+)((?:[/?#].*)?)", re.IGNORECASE | re.DOTALL)


def split_absolute(target: bytes) -> tuple[bytes, bytes] | None:
    """Return the host and the path with its query, or None if the target has another form."""
    match = _ABSOLUTE.fullmatch(target)
    if match is None:
        return None
    host, path = match.groups()
    return host, path if path.startswith(b"/") else b"/" + path

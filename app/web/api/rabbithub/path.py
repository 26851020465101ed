"""The parts of a path below /rabbithub, for authentication and for the routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote

__all__ = ["PREFIX", "parts_of"]

PREFIX: Final = "/rabbithub/"
_WHATS: Final = ("endpoint", "subscribe", "subscriptions")


def parts_of(raw_path: str) -> tuple[str, str, Sequence[str]]:
    """Return virtual host, ``what`` and the names after it, of a path as it was sent. Segments are split first and then
    percent-decoded: a virtual host or a name may hold a slash.
    """
    segments = [unquote(part) for part in raw_path.removeprefix(PREFIX).split("/")]
    vhost = segments.pop(0) if segments[0] not in _WHATS and len(segments) > 1 else "/"
    return vhost, segments[0], segments[1:]

"""What a path below /rabbithub means (RH-01): read in one way by the gate, which lets in, and by the routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote

__all__ = ["PREFIX", "parts_of"]

PREFIX: Final = "/rabbithub/"
_WHATS: Final = ("endpoint", "subscribe", "subscriptions")


def parts_of(raw_path: str) -> tuple[str, str, Sequence[str]]:
    """Virtual host, ``what`` and the names behind it, of a path as it was sent.

    Segments are percent-decoded after they were taken apart: a virtual host or a name may hold a slash.
    """
    segments = [unquote(part) for part in raw_path.removeprefix(PREFIX).split("/")]
    vhost = segments.pop(0) if segments[0] not in _WHATS and len(segments) > 1 else "/"
    return vhost, segments[0], segments[1:]

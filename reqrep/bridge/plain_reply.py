"""The reply to a request, as its worker gave it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PlainReply"]


@dataclass(frozen=True, slots=True)
class PlainReply:
    """A stored reply of one frame."""

    body: bytes
    content_type: str | None

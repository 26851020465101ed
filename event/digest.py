"""Digest: a short name for a text that may hold any character."""

from __future__ import annotations

import hashlib

__all__ = ["short_digest"]


def short_digest(text: str) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]

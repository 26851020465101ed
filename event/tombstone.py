"""Tombstone: an event without a value, which deletes the last value of its key (FM-05).

On Kafka its record has a null value, so a compacted topic forgets the key. Elsewhere its body is empty, and a header
distinguishes it from an event with an empty body.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["TOMBSTONE_HEADER", "is_tombstone"]

TOMBSTONE_HEADER: Final = "hookwire-tombstone"


def is_tombstone(headers: Mapping[str, str]) -> bool:
    """Return whether these headers belong to a tombstone."""
    return headers.get(TOMBSTONE_HEADER) == "true"

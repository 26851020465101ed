"""Tombstone: an event without a value, by which the last value of its key is deleted (FM-05).

On Kafka its record has a null value, so a compacted topic forgets the key. Elsewhere its body is empty, and the header
tells it from an event with an empty body.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["TOMBSTONE_HEADER", "is_tombstone"]

TOMBSTONE_HEADER: Final = "hookwire-tombstone"


def is_tombstone(headers: Mapping[str, str]) -> bool:
    """Return whether these are the headers of a tombstone."""
    return headers.get(TOMBSTONE_HEADER) == "true"

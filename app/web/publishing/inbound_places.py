"""Places: how many unverified requests may be at the doors at once. Rates: how many verified ones in a minute.

A place is held from the first byte of the body until the signature was judged. One address cannot take all places of a
door, and all doors together leave places of the process to clients with a key.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from app.web.problem import Problem

__all__ = ["PLACES_OF_ADDRESS", "PLACES_OF_DOOR", "Places", "Rates"]

PLACES_OF_DOOR: Final = 256
PLACES_OF_ADDRESS: Final = 64
PLACES: Final = 512
_RATES_MAX: Final = 10_000


class Places:
    """The places in use. It keeps a name or an address only while a request holds a place for it."""

    def __init__(
        self, of_door: int = PLACES_OF_DOOR, of_address: int = PLACES_OF_ADDRESS, in_all: int = PLACES
    ) -> None:
        self._of_door = of_door
        self._of_address = of_address
        self._in_all = in_all
        self._taken = 0
        self._doors: Counter[str] = Counter()
        self._addresses: Counter[str] = Counter()

    @contextmanager
    def take(self, door: str, address: str) -> Iterator[None]:
        """Hold a place of a door, which need not exist; raises ``Problem``: busy."""
        is_full = self._doors[door] >= self._of_door or self._addresses[address] >= self._of_address
        if is_full or self._taken >= self._in_all:
            raise Problem("busy", "More requests are at this door than it judges at once; nothing was stored.")
        self._doors[door] += 1
        self._addresses[address] += 1
        self._taken += 1
        try:
            yield
        finally:
            _give_back(self._doors, door)
            _give_back(self._addresses, address)
            self._taken -= 1


def _give_back(places: Counter[str], name: str) -> None:
    places[name] -= 1
    if not places[name]:
        del places[name]


class Rates:
    """Token buckets of the doors; a bucket holds a minute's tokens."""

    def __init__(self) -> None:
        self._buckets: dict[str, tuple[float, float]] = {}

    def admits(self, door: str, per_minute: int | None) -> bool:
        """Count a verified request; return whether it is within the rate."""
        if per_minute is None:
            return True
        now = time.monotonic()
        tokens, at = self._buckets.get(door, (float(per_minute), now))
        tokens = min(float(per_minute), tokens + (now - at) * per_minute / 60)
        if len(self._buckets) >= _RATES_MAX:
            self._buckets.clear()
        self._buckets[door] = (tokens - 1 if tokens >= 1 else tokens, now)
        return tokens >= 1

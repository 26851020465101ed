"""Places: how many unverified requests may be at the doors at once. Rates: how many verified ones in a minute.

A place is held from the first byte of the body until the signature was judged. One address, or an IPv6 network of 64
bits, cannot take all places of a door. All doors together leave places and memory to clients with a key.
"""

from __future__ import annotations

import time
from typing import Final

from app.web.problem import Problem
from hub.requester import network_of

__all__ = ["BYTES", "PLACES_OF_ADDRESS", "PLACES_OF_DOOR", "HeldPlace", "Places", "Rates"]

PLACES_OF_DOOR: Final = 256
PLACES_OF_ADDRESS: Final = 64
PLACES: Final = 512
BYTES: Final = 128 * 1024 * 1024
"""How many bytes of unverified bodies one process holds at once."""
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
        self._bytes = 0
        self._doors: dict[str, int] = {}
        self._addresses: dict[str, int] = {}

    def take(self, door: str, address: str) -> HeldPlace:
        """Hold a place of a door, which need not exist, until the end of a ``with``; raises ``Problem``: busy."""
        network = network_of(address)  # none: a Unix socket, whose other end is a proxy
        at_door, of_network = self._doors.get(door, 0), self._addresses.get(network or "", 0)
        is_full = at_door >= self._of_door or self._taken >= self._in_all
        if is_full or (network is not None and of_network >= self._of_address):
            raise Problem("busy", "More requests are at this door than it judges at once; nothing was stored.")
        self._doors[door] = at_door + 1
        self._addresses[network or ""] = of_network + 1
        self._taken += 1
        return HeldPlace(self, door, network or "")

    def give_back(self, door: str, network: str, size_bytes: int) -> None:
        """Free a place that was held, with the bytes of its body."""
        self._bytes -= size_bytes
        _give_back(self._doors, door)
        _give_back(self._addresses, network)
        self._taken -= 1

    def has_room(self, size_bytes: int) -> bool:
        """Count bytes of a body; return whether all bodies together are within the bound."""
        self._bytes += size_bytes
        return self._bytes <= BYTES


class HeldPlace:
    """The place of one request, with the bytes of its body that have come. The end of its ``with`` gives it back."""

    __slots__ = ("_door", "_network", "_places", "size_bytes")

    def __init__(self, places: Places, door: str, network: str) -> None:
        self._places = places
        self._door = door
        self._network = network
        self.size_bytes = 0

    def __enter__(self) -> HeldPlace:
        return self

    def __exit__(self, *_: object) -> None:
        self._places.give_back(self._door, self._network, self.size_bytes)

    def add(self, size_bytes: int) -> None:
        """Count a part of the body; raises ``Problem``: busy."""
        self.size_bytes += size_bytes
        if not self._places.has_room(size_bytes):
            raise Problem("busy", "The bodies at the doors have more bytes than it judges at once; nothing was stored.")


def _give_back(places: dict[str, int], name: str) -> None:
    if places[name] > 1:
        places[name] -= 1
    else:
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

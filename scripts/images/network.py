"""A network namespace of its own for a container, joined to this machine by a pair of virtual devices."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final

from scripts.images.command import output

__all__ = ["Network", "open_network"]

_FIRST: Final = IPv4Address("10.213.0.0")
_PAIRS: Final = 2**14


@dataclass(frozen=True, slots=True)
class Network:
    """``name`` of the namespace; ``address`` of whoever runs in it, and ``host``, this machine's, seen from there."""

    name: str
    address: str
    host: str


@contextmanager
def open_network() -> Iterator[Network]:
    """Make the namespace and its two ends, and remove both at the end."""
    first = _FIRST + 4 * secrets.randbelow(_PAIRS)
    network = Network(f"hw{secrets.token_hex(4)}", str(first + 2), str(first + 1))
    outside, inside = f"{network.name}o", f"{network.name}i"
    output("ip", "netns", "add", network.name)
    try:
        output("ip", "link", "add", outside, "type", "veth", "peer", "name", inside, "netns", network.name)
        output("ip", "address", "add", f"{network.host}/30", "dev", outside)
        output("ip", "link", "set", outside, "up")
        output("ip", "-n", network.name, "address", "add", f"{network.address}/30", "dev", inside)
        output("ip", "-n", network.name, "link", "set", inside, "up")
        output("ip", "-n", network.name, "link", "set", "lo", "up")
        yield network
    finally:
        with suppress(RuntimeError):
            output("ip", "link", "del", outside)
        output("ip", "netns", "del", network.name)

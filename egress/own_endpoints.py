"""Own endpoints: recognise this hub's own addresses before they are dialled, under any name (FS-09).

The guard compares host and port as they are written. This module compares addresses, where the port is one of this
hub::

    a listener on every address   each address of this machine, on that port
    a server with a name          the addresses that the name has now; looked up again after a while
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from typing import Final

from egress.guard import Address, Endpoint, is_wildcard
from egress.resolver import ResolveFailed, Resolver

__all__ = ["OwnEndpoints", "is_of_this_machine"]

_BELIEVED_SECONDS: Final = 60.0


class OwnEndpoints:
    """Host (name, address or wildcard) and port of this hub's ``servers``, which must never be dialled."""

    def __init__(self, servers: Iterable[Endpoint], resolver: Resolver) -> None:
        self._hosts: dict[int, list[str]] = {}
        for host, port in servers:
            self._hosts.setdefault(port, []).append(host)
        self._resolver = resolver
        self._found: dict[str, tuple[float, frozenset[Address]]] = {}

    async def hold(self, addresses: Sequence[Address], port: int) -> bool:
        """Return whether one of these addresses on this port is this hub's."""
        for host in self._hosts.get(port, ()):
            if is_wildcard(host):
                if any(is_of_this_machine(address) for address in addresses):
                    return True
            elif not (await self._addresses_of(host)).isdisjoint(addresses):
                return True
        return False

    async def _addresses_of(self, host: str) -> frozenset[Address]:
        """Return the addresses of a name; if a lookup gives none, those of the last one that gave any."""
        now = asyncio.get_running_loop().time()
        at, found = self._found.get(host, (-_BELIEVED_SECONDS, frozenset()))
        if now - at >= _BELIEVED_SECONDS:
            with suppress(ResolveFailed):
                found = frozenset(map(_plain, await self._resolved(host)))
            self._found[host] = (now, found)
        return found

    async def _resolved(self, host: str) -> Sequence[Address]:
        try:
            return [ip_address(host)]
        except ValueError:
            return await self._resolver.resolve(host)


def is_of_this_machine(address: Address) -> bool:
    """Return whether a packet to this address would come back to this machine.

    The kernel answers, and nothing is sent.
    """
    if address.is_loopback or address.is_unspecified:
        return True
    family = socket.AF_INET6 if isinstance(address, IPv6Address) else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((str(address), 9))
        except OSError:
            return False
        own = str(probe.getsockname()[0]).partition("%")[0]
    return ip_address(own) == _plain(address)


def _plain(address: Address) -> Address:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped

"""Requester: the network that a WebSub request comes from, and how much it may ask for.

    too many wait? --> a token of its network --> a known pair, or room for one more subscription?

Any client may ask the hub to verify a callback, and each request costs a GET to an address of its choice. So each
network, an IPv4 address or an IPv6 /64, has a bucket of tokens and a limit of waiting requests. The number of
subscriptions of a network and of a callback's host is limited. Renewals are always possible.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Final

from db.pool import Session
from hub.form import FormRefused, Mode
from hub.options import HubOptions

__all__ = ["bucket_of", "check_pending", "check_room", "network_of"]

_ADDRESSES_MAX: Final = 4_096
_ADDRESS_CHARACTERS_MAX: Final = 64
_WAIT_SECONDS = 10
"""When to retry where too many requests wait: after the longest verification."""


def network_of(address: str | None) -> str | None:
    """Return the network of an address; None if it has none, as for a Unix socket."""
    address = address or ""
    return _network_of(address) if len(address) <= _ADDRESS_CHARACTERS_MAX else None


@lru_cache(maxsize=_ADDRESSES_MAX)
def _network_of(address: str) -> str | None:
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is None:
            return str(ipaddress.ip_network((ip, 64), strict=False))
        ip = ip.ipv4_mapped
    return str(ip)


def bucket_of(network: str) -> str:
    """Return the name of a network's bucket. No host's name has a blank in it."""
    return f"requester {network}"


async def check_pending(session: Session, options: HubOptions, network: str | None) -> None:
    """Raise ``FormRefused`` 429 where this network has its limit of waiting requests."""
    most = options.pending_requester_max
    if network is None or not most:
        return
    if await session.fetchval("intent.pending_of", network, most) >= most:
        text = f"cannot be asked now: {most} requests of this requester wait already"
        raise FormRefused(429, "hub.callback", text, retry_after_seconds=_WAIT_SECONDS)


async def check_room(
    session: Session, options: HubOptions, tenant: str, pair: bytes, mode: Mode, host: str, network: str | None
) -> None:
    """Raise ``FormRefused`` 403 if its callback's host or its requester has as many subscriptions as allowed."""
    if mode is not Mode.SUBSCRIBE or await session.fetchval("intent.renews", tenant, pair):
        return
    for statement, whose, most, words in (
        ("intent.subscriptions_of_host", host, options.subscriptions_host_max, "this callback host"),
        ("intent.subscriptions_of_requester", network, options.subscriptions_requester_max, "this requester"),
    ):
        if most and whose is not None and await session.fetchval(statement, whose, most) >= most:
            raise FormRefused(403, "hub.callback", f"is refused: {words} has {most} subscriptions, which is the limit")

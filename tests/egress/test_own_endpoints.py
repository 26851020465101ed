"""That the hub dials nothing of its own, under whatever name: FS-09."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import Any

import psutil
import pytest

from egress.client import Client, Request
from egress.connector import ProtocolFactory
from egress.failure import Blocked, ConnectFailed, OutboundError
from egress.guard import Address, GuardPolicy, networks
from egress.own_endpoints import OwnEndpoints, is_of_this_machine
from egress.resolver import ResolveFailed
from egress.url import UrlRefused, parse_target
from tests.hostile.dns import always

EVERYWHERE = networks(["0.0.0.0/0", "::/0"])
OURS = [
    found.address
    for network in psutil.net_if_addrs().values()
    for found in network
    if found.family in (socket.AF_INET, socket.AF_INET6) and "%" not in found.address
]


class _Names:
    """A resolver by table; a name that it does not have is not found."""

    def __init__(self, **table: str) -> None:
        self.table = table

    async def resolve(self, host: str) -> tuple[Address, ...]:
        if host not in self.table:
            raise ResolveFailed("no such name")
        return (ip_address(self.table[host]),)


def test_every_address_of_this_machine_is_known_and_no_other() -> None:
    """FS-09: of all interfaces."""
    others = ["198.51.100.7", "2001:db8::7", "8.8.8.8"]

    found = {text: is_of_this_machine(ip_address(text)) for text in (*OURS, "127.3.2.1", "::1", *others)}

    assert found == {**dict.fromkeys((*OURS, "127.3.2.1", "::1"), True), **dict.fromkeys(others, False)}


@pytest.mark.parametrize("listen", ["0.0.0.0", "::"])
@pytest.mark.parametrize("address", OURS)
async def test_a_listener_on_every_address_is_never_dialled(listen: str, address: str) -> None:
    """FS-09: with an allowed network that holds it, by an address, a name, and not on another port."""
    policy = GuardPolicy(
        allow_cidrs=EVERYWHERE, allow_hosts=("alias.example",), own_endpoints=frozenset({(listen, 18080)}),
        own_servers=frozenset({(listen, 18080)}), allow_high_ports=True,
    )  # fmt: skip
    literal = f"[{address}]" if ":" in address else address

    found = [
        await _outcome(policy, f"http://{literal}:18080/subscriptions", address),
        await _outcome(policy, "http://alias.example:18080/subscriptions", address),
        await _outcome(policy, "http://alias.example:18081/hook", address),
    ]

    assert found == [Blocked, Blocked, ConnectFailed]


async def _outcome(policy: GuardPolicy, url: str, resolves_to: str) -> type[OutboundError]:
    async def refuse(_address: Address, _port: int, _factory: ProtocolFactory) -> Any:
        raise ConnectionRefusedError

    client = Client(policy, always(resolves_to), dialer=refuse)
    try:
        await client.send(Request("POST", parse_target(url, policy), (), b"", 30.0))
    except UrlRefused:  # loopback is refused as it is written
        return Blocked
    except OutboundError as error:
        return type(error)
    finally:
        await client.aclose()
    raise AssertionError("it was dialled")


async def test_a_server_of_ours_is_known_by_its_address_whatever_it_is_called() -> None:
    """FS-09: a database by name, dialled under another one; a lookup that fails forgets nothing."""
    names = _Names(**{"db.corp": "10.0.0.5"})
    own = OwnEndpoints({("db.corp", 15432), ("10.0.0.9", 5432)}, names)
    first = [
        await own.hold([ip_address(text)], port)
        for text, port in (("10.0.0.5", 15432), ("10.0.0.5", 8000), ("10.0.0.6", 15432), ("10.0.0.9", 5432))
    ]
    names.table = {}
    own._found["db.corp"] = (float("-inf"), own._found["db.corp"][1])

    assert (first, await own.hold([ip_address("10.0.0.5")], 15432)) == ([True, False, False, True], True)


async def test_a_name_of_ours_that_moved_is_looked_up_again() -> None:
    """FS-09: after a minute."""
    names = _Names(**{"db.corp": "10.0.0.5"})
    own = OwnEndpoints({("db.corp", 15432)}, names)
    before = await own.hold([ip_address("10.0.0.6")], 15432)
    names.table = {"db.corp": "10.0.0.6"}
    own._found["db.corp"] = (float("-inf"), own._found["db.corp"][1])

    assert (before, await own.hold([ip_address("10.0.0.6")], 15432)) == (False, True)

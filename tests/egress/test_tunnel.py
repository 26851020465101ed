"""egress/tunnel.py: requests through the operator's proxy, over a real one on loopback (EG-11, WH-G05)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from egress.client import Client, ClientOptions, Proxy, Request
from egress.failure import Blocked, OutboundError
from egress.guard import GuardPolicy, networks
from egress.url import parse_target
from tests.hostile.authority import Authority
from tests.hostile.dns import always
from tests.hostile.proxy import ESTABLISHED, connecting
from tests.hostile.server import HostileServer, Script, answering, close_now, hang, hostile_server

POLICY = GuardPolicy(allow_cidrs=networks(["127.0.0.0/8"]), allow_hosts=("subscriber.example",), allow_high_ports=True)
ALL = networks(["0.0.0.0/0"])
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=LOOPS, ids=str)
def run(request: pytest.FixtureRequest) -> Callable[[Awaitable[Any]], Any]:
    """Run on each kind of loop: they differ in how a transport changes its protocol."""

    def runs(work: Awaitable[Any]) -> Any:
        async def within() -> Any:
            async with asyncio.timeout(60):
                return await work

        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            return runner.run(within())

    return runs


@asynccontextmanager
async def through(
    script: Script,
    *,
    resolved: str = "127.0.0.1",
    policy: GuardPolicy = POLICY,
    ca_file: str | None = None,
    **named: Any,
) -> AsyncIterator[tuple[Client, HostileServer]]:
    """A client behind a proxy that follows a script."""
    async with hostile_server(script) as proxy:
        options = ClientOptions(proxy=Proxy("127.0.0.1", proxy.port, **named), ca_file=ca_file)
        client = Client(policy, always(resolved), options)
        try:
            yield client, proxy
        finally:
            await client.aclose()


def post(url: str, policy: GuardPolicy = POLICY, deadline_seconds: float = 20.0) -> Request:
    return Request("POST", parse_target(url, policy), (), b"{}", deadline_seconds)


def test_every_request_goes_by_the_address_that_was_judged(run: Callable[..., Any]) -> None:
    """EG-11, EG-01: one tunnel for two requests, with the operator's credentials, by address and not by name."""

    async def exchange() -> tuple[Any, ...]:
        async with hostile_server() as server, through(connecting(), credentials="me:s3cret") as (client, proxy):
            url = server.url("/ok", host="subscriber.example")
            answers = [await client.send(post(url)) for _ in "12"]
            asked = [(one.line, one.header("proxy-authorization")) for one in proxy.requests]
            seen = [(one.header("host"), one.header("proxy-authorization"), one.body) for one in server.requests]
            return server.port, [(one.status, one.address) for one in answers], asked, seen

    port, answers, asked, seen = run(exchange())
    assert answers == [(200, "127.0.0.1")] * 2
    assert asked == [(b"CONNECT 127.0.0.1:%d HTTP/1.1" % port, b"Basic bWU6czNjcmV0")]
    assert seen == [(b"subscriber.example:%d" % port, None, b"{}")] * 2


def test_tls_is_spoken_with_the_callback_and_not_with_the_proxy(run: Callable[..., Any], tmp_path: Path) -> None:
    """OB-07: the certificate is the callback's, by its name."""
    authority = Authority(tmp_path)

    async def exchange() -> int:
        async with (
            hostile_server(tls=authority.context("subscriber.example")) as server,
            through(connecting(), ca_file=str(authority.ca_file)) as (client, _),
        ):
            return (await client.send(post(server.url("/ok", host="subscriber.example")))).status

    assert run(exchange()) == 200


async def test_a_proxy_that_resolves_is_asked_for_the_name() -> None:
    """EG-11: it has to judge it, because nothing is looked up here."""
    script = connecting({"subscriber.example": "127.0.0.1"})
    async with hostile_server() as server, through(script, resolved="10.0.0.1", resolves=True) as (client, proxy):
        answer = await client.send(post(server.url("/ok", host="subscriber.example")))
    assert (answer.status, answer.address) == (200, "subscriber.example")
    assert [one.target for one in proxy.requests] == [b"subscriber.example:%d" % server.port]


@pytest.mark.parametrize(
    ("url", "resolved", "resolves"),
    [
        ("http://subscriber.example:8080/", "169.254.169.254", False),
        ("http://10.9.8.7:8080/", "127.0.0.1", False),
        ("http://10.9.8.7:8080/", "127.0.0.1", True),
    ],
)
async def test_the_guard_stands_before_the_proxy(url: str, resolved: str, resolves: bool) -> None:
    """WH-G01, EG-11: what the resolver's answer, or the URL itself, shows to be denied never reaches it."""
    strict, lax = GuardPolicy(allow_high_ports=True), GuardPolicy(allow_cidrs=ALL, allow_high_ports=True)
    async with through(connecting(), resolved=resolved, policy=strict, resolves=resolves) as (client, proxy):
        with pytest.raises(Blocked):
            await client.send(post(url, lax))
    assert proxy.connections == 0


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (answering(b"HTTP/1.1 403 Forbidden\r\n\r\n"), "blocked"),
        (answering(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n"), "blocked"),
        (answering(b"HTTP/1.1 502 Bad Gateway\r\n\r\n"), "connect"),
        (answering(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), "connect"),
        (answering(ESTABLISHED + b"HTTP/1.1 200 OK\r\n\r\n"), "connect"),
        (answering(b"HTTP/1.1 200 OK\r\n" + b"x: " + b"x" * 9000), "connect"),
        (close_now, "connect"),
        (hang, "timeout"),
    ],
    ids=["403", "407", "502", "no HTTP", "more than a head", "an endless head", "closed", "silent"],
)
async def test_what_a_proxy_answers_is_the_outcome_and_no_byte_of_the_request_leaves(script: Script, kind: str) -> None:
    """EG-11: the delivery is tried again by its schedule."""
    async with through(script) as (client, proxy):
        with pytest.raises(OutboundError) as caught:
            await client.send(
                post("http://subscriber.example:8080/", deadline_seconds=20.0 if kind != "timeout" else 0.3)
            )
        heads = {one.line.split(b" ")[0] for one in proxy.requests}
    assert (caught.value.kind, heads <= {b"CONNECT"}, client.open_count) == (kind, True, 0)


async def test_a_proxy_that_is_not_there_is_told_to_the_operator_alone(free_port: int) -> None:
    """OB-11."""
    client = Client(POLICY, always("127.0.0.1"), ClientOptions(proxy=Proxy("127.0.0.1", free_port)))
    with pytest.raises(OutboundError) as caught:
        await client.send(post("http://subscriber.example:8080/"))
    assert (caught.value.kind, caught.value.detail) == ("connect", "the connection was refused")
    assert caught.value.reason == f"the egress proxy 127.0.0.1:{free_port} cannot be reached"


def test_credentials_are_not_shown() -> None:
    """SE-09."""
    assert "s3cret" not in repr(Proxy("proxy.example", 3128, "me:s3cret"))

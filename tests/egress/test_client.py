"""egress/client.py: what our client promises beyond the port (the port itself: tests/contract)."""

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import psutil
import pytest

from egress.client import Client, ClientOptions, ReadLimits, Request, Response, check_header, self_test
from egress.client import HeaderRefused as HeaderRefusedError
from egress.connector import ProtocolFactory, dial
from egress.failure import NOT_ALLOWED, Blocked, ConnectFailed, NotSent, OutboundError, TlsFailed
from egress.guard import Address, GuardPolicy, networks
from egress.url import UrlRefused, parse_target
from tests.hostile.authority import Authority
from tests.hostile.dns import ScriptedResolver, always, flipping
from tests.hostile.server import answer, answering, hostile_server
from tests.hostile.urls import answers, hostile_urls
from tests.waiting import until

LOOPBACK = GuardPolicy(
    allow_cidrs=networks(["127.0.0.0/8"]), allow_hosts=("subscriber.example",), allow_high_ports=True
)


class Recorder:
    """A dialler that opens nothing and remembers what it was asked for."""

    def __init__(self) -> None:
        self.dialled: list[Address] = []

    async def __call__(self, address: Address, _port: int, _factory: ProtocolFactory) -> Any:
        self.dialled.append(address)
        raise ConnectionRefusedError


@asynccontextmanager
async def outbound(*args: Any, **options: Any) -> AsyncIterator[Client]:
    """Build a client for loopback, or as given."""
    client = Client(*(args or (LOOPBACK, always("127.0.0.1"))), options=ClientOptions(**options))
    try:
        yield client
    finally:
        await client.aclose()


def _post(url: str, body: bytes = b"{}", deadline_seconds: float = 5.0, **rest: Any) -> Request:
    return Request("POST", parse_target(url, LOOPBACK), (), body, deadline_seconds, **rest)


async def _failure(client: Client, request: Request) -> OutboundError:
    with pytest.raises(OutboundError) as caught:
        await client.send(request)
    return caught.value


# The guard.


async def test_no_hostile_url_opens_a_socket() -> None:
    """T10, I10: more than 150 forms; what the URL check lets through meets the guard with hostile answers."""
    recorder, refused, urls = Recorder(), 0, list(hostile_urls())
    policy = GuardPolicy(allow_high_ports=True)
    client = Client(policy, ScriptedResolver(answers), dialer=recorder)
    for raw in urls:
        try:
            target = parse_target(raw, policy)
            await client.send(Request("POST", target, (), b"", 1.0))
        except (UrlRefused, Blocked):
            refused += 1
    assert (recorder.dialled, refused) == ([], len(urls))
    assert len(set(urls)) >= 150


async def test_a_name_that_flips_to_an_internal_address_never_gets_there() -> None:
    """T10, F33: 1,000 rounds of rebinding with a time to live of zero; one lookup per connection."""
    recorder = Recorder()
    resolver = flipping(["93.184.216.34"], ["169.254.169.254"], ["93.184.216.34", "10.0.0.1"], ["::ffff:127.0.0.1"])
    client = Client(GuardPolicy(), resolver, dialer=recorder)
    request = Request("POST", parse_target("https://rebound.example/", GuardPolicy()), (), b"", 1.0)
    kinds = [(await _failure(client, request)).kind for _ in range(1000)]
    assert kinds == ["connect", "blocked", "blocked", "blocked"] * 250
    assert (set(recorder.dialled), len(recorder.dialled)) == ({ip_address("93.184.216.34")}, 250)
    assert len(resolver.asked) == 1000


async def test_a_socket_that_reached_another_peer_gets_no_byte() -> None:
    """EG-04."""

    async def astray(_address: Address, port: int, factory: ProtocolFactory) -> Any:
        return await dial(ip_address("127.0.0.1"), port, factory)

    async with hostile_server() as server:
        client = Client(LOOPBACK, always("127.0.0.2"), dialer=astray)
        failure = await _failure(client, _post(server.url(host="subscriber.example")))
        await server.until(lambda s: s.closed == 1)
        assert (type(failure), failure.detail, server.requests) == (Blocked, NOT_ALLOWED, [])


async def test_a_tenant_reads_no_address_and_no_foreign_words() -> None:
    """OB-11, EG-03; the operator's reason says more."""
    client = Client(GuardPolicy(), always("10.9.8.7"))
    failure = await _failure(client, Request("GET", parse_target("http://a.example/", GuardPolicy()), (), b"", 1.0))
    assert (failure.detail, str(failure), "10.9.8.7" in failure.reason) == (NOT_ALLOWED, NOT_ALLOWED, True)


async def test_the_self_test_passes_on_a_guarded_client() -> None:
    """SC-14."""
    assert await self_test(lambda resolver, dialer: Client(GuardPolicy(), resolver, dialer=dialer)) == []


async def test_the_self_test_finds_a_client_whose_guard_lets_metadata_through() -> None:
    """SC-14: the checker is shown to fail."""
    open_wide = GuardPolicy(allow_metadata=True, allow_cidrs=networks(["0.0.0.0/0"]))
    findings = await self_test(lambda resolver, dialer: Client(open_wide, resolver, dialer=dialer))
    assert len(findings) == 7


def test_strangers_are_dialled_in_one_module_only() -> None:
    """WH-G04, EG-13: no other way out in the rooms that handle strangers' URLs."""
    rooms = Path(__file__).parents[2]
    ways_out = re.compile(r"create_connection|open_connection|sock_connect|import (httpx|aiohttp|requests|urllib3)\b")
    modules = [path for room in ("egress", "webhooks", "hub", "jobs") for path in (rooms / room).rglob("*.py")]
    assert [path.name for path in modules if ways_out.search(path.read_text())] == ["connector.py"]


# Addresses and time.


async def test_the_next_judged_address_is_tried_when_one_refuses() -> None:
    async with hostile_server() as server, outbound(LOOPBACK, always("127.0.0.9", "127.0.0.1")) as client:
        response = await client.send(_post(server.url("/ok", host="subscriber.example")))
        assert response.address == "127.0.0.1"


async def test_a_black_hole_gets_only_its_share_of_the_time() -> None:
    """One dead address family does not use up the attempt."""

    async def dialer(address: Address, port: int, factory: ProtocolFactory) -> Any:
        if str(address) == "127.0.0.9":
            await asyncio.Event().wait()
        return await dial(address, port, factory)

    async with hostile_server() as server:
        client = Client(LOOPBACK, always("127.0.0.9", "127.0.0.1"), ClientOptions(connect_seconds_max=1.0), dialer)
        response = await client.send(_post(server.url("/ok", host="subscriber.example")))
        await client.aclose()
        assert (response.status, 0.5 <= response.connect_seconds < 1.0) == (200, True)


async def test_connecting_has_a_limit_inside_the_deadline() -> None:
    """OB-01."""

    async def black_hole(_address: Address, _port: int, _factory: ProtocolFactory) -> Any:
        await asyncio.Event().wait()

    client = Client(LOOPBACK, always("127.0.0.1"), ClientOptions(connect_seconds_max=0.1), black_hole)
    failure = await _failure(client, _post("http://127.0.0.1:9000/", deadline_seconds=10.0))
    assert type(failure) is ConnectFailed


@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "new"])
async def test_nothing_is_sent_after_the_latest_time(is_kept: bool) -> None:
    """RR-10: a process that was stopped since it began sends nothing that others may have sent meanwhile."""
    async with hostile_server() as server, outbound() as client:
        if is_kept:
            await client.send(_post(server.url("/ok")))
        with pytest.raises(NotSent):
            await client.send(_post(server.url("/late"), not_after=time.monotonic() - 1.0))
        await client.send(_post(server.url("/ok"), not_after=time.monotonic() + 60.0))

    assert b"/late" not in [request.target for request in server.requests]
    assert len(server.requests) == 1 + is_kept


async def test_a_connection_that_took_too_long_says_nothing_of_its_target_after_the_latest_time() -> None:
    """RR-10: the deadline ran out while the process was stopped."""

    async def black_hole(_address: Address, _port: int, _factory: ProtocolFactory) -> Any:
        await asyncio.Event().wait()

    client = Client(LOOPBACK, always("127.0.0.1"), ClientOptions(), black_hole)
    with pytest.raises(NotSent):
        await client.send(_post("http://127.0.0.1:9000/", deadline_seconds=0.05, not_after=time.monotonic()))


async def test_an_answer_carries_its_times() -> None:
    """WH-P06: duration split; a kept connection costs no connecting."""
    async with hostile_server() as server, outbound() as client:
        first, second = [await client.send(_post(server.url("/ok"))) for _ in range(2)]
    assert 0.0 < first.connect_seconds <= first.first_byte_seconds <= first.total_seconds
    assert (second.connect_seconds, second.first_byte_seconds > 0.0) == (0.0, True)


# Connections.


async def test_concurrent_requests_share_as_many_connections_as_they_need() -> None:
    """WH-17: idle connections are kept up to the host's concurrency."""
    async with hostile_server() as server, outbound(idle_per_origin_max=20) as client:
        for _ in range(5):
            await asyncio.gather(*(client.send(_post(server.url("/ok"))) for _ in range(20)))
        assert (server.connections, client.idle_count, client.open_count) == (20, 20, 20)


async def test_no_more_connections_are_kept_than_allowed() -> None:
    """OB-08."""
    async with hostile_server() as server, outbound(idle_per_origin_max=2) as client:
        await asyncio.gather(*(client.send(_post(server.url("/ok"))) for _ in range(10)))
        await server.until(lambda s: s.closed == 8)
        assert (client.idle_count, client.open_count) == (2, 2)


async def test_an_idle_connection_is_closed_when_its_verdict_has_aged() -> None:
    """EG-05."""
    async with hostile_server() as server, outbound(keep_alive_seconds_max=0.1) as client:
        await client.send(_post(server.url("/ok")))
        await server.until(lambda s: s.closed == 1)
        assert client.idle_count == 0


async def test_a_fresh_connection_is_judged_again() -> None:
    """EG-05: a name that has moved inside is not reached once its connection is gone."""
    resolver = flipping(["127.0.0.1"], ["10.0.0.1"])
    policy = GuardPolicy(allow_cidrs=networks(["127.0.0.0/8"]), allow_high_ports=True)
    async with hostile_server() as server, outbound(policy, resolver) as client:
        url = server.url("/close-after-answer", host="moved.example")
        assert (await client.send(_post(url))).status == 200
        await server.until(lambda s: s.closed == 1)
        assert (await _failure(client, _post(url))).kind == "blocked"


async def test_a_connection_that_the_peer_closed_leaves_the_pool_at_once() -> None:
    async with hostile_server() as server, outbound() as client:
        await client.send(_post(server.url("/close-after-answer")))
        await until(lambda: not client.open_count, 20)
        assert client.idle_count == 0


@pytest.mark.parametrize("mode", ["hang", "endless", "reset-in-body", "garbage", "long-body", "early"])
async def test_no_way_an_attempt_can_end_leaks_a_connection(mode: str) -> None:
    """OB-13."""
    async with hostile_server() as server, outbound() as client:
        for _ in range(5):
            try:
                await client.send(_post(server.url(f"/{mode}"), bytes(1 << 20), deadline_seconds=0.2))
            except OutboundError:
                continue
        await until(lambda: not client.open_count, 20)
        assert client.idle_count == 0


async def test_closing_ends_attempts_under_way_and_refuses_later_ones() -> None:
    async with hostile_server() as server:
        client = Client(LOOPBACK, always("127.0.0.1"))
        attempt = asyncio.ensure_future(client.send(_post(server.url("/hang"))))
        await server.until(lambda s: len(s.requests) == 1)
        await client.aclose()
        with pytest.raises(ConnectFailed):
            await attempt
        with pytest.raises(RuntimeError):
            await client.send(_post(server.url("/ok")))
        assert client.open_count == 0


# Bodies and limits.


async def test_a_large_body_arrives_whole() -> None:
    """OB-06: the signed bytes are the sent bytes."""
    body = os.urandom(3 << 20)
    async with hostile_server() as server, outbound() as client:
        await client.send(_post(server.url("/ok"), body))
        assert server.requests[0].body == body


async def test_a_request_can_read_less_or_more_than_the_client_does() -> None:
    """OB-02: verification answers, topic content."""
    async with hostile_server(answering(answer(200, b"x" * 200_000))) as server, outbound() as client:
        small = await client.send(_post(server.url(), limits=ReadLimits(1024, 20, 2048, 100)))
        large = await client.send(
            _post(server.url(), limits=ReadLimits(read_bytes_max=1 << 20, keep_bytes_max=1 << 20))
        )
    assert (len(small.body), small.truncated) == (100, True)
    assert (len(large.body), large.truncated) == (200_000, False)


async def test_five_hundred_bombs_cost_no_memory() -> None:
    """WH-I05, T8: at most 64 MiB more."""
    process = psutil.Process()
    async with hostile_server() as server, outbound() as client:
        await client.send(_post(server.url("/bomb")))
        before = process.memory_info().rss
        for _ in range(10):
            await asyncio.gather(*(client.send(_post(server.url("/bomb"))) for _ in range(50)))
        assert process.memory_info().rss - before < 64 << 20


def test_limits_that_contradict_each_other_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="contradict"):
        ReadLimits(head_bytes_max=2000, read_bytes_max=1000)


@pytest.mark.parametrize(
    "options", [{"keep_alive_seconds_max": 61}, {"connect_seconds_max": 0}, {"user_agent": "a\nb"}]
)
def test_options_out_of_range_are_a_mistake(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must be|control character"):
        ClientOptions(**options)


async def test_a_method_with_other_framing_is_a_mistake() -> None:
    client = Client(LOOPBACK, always("127.0.0.1"))
    with pytest.raises(ValueError, match="HEAD"):
        await client.send(Request("HEAD", parse_target("http://a.example/", LOOPBACK), (), b"", 1.0))


async def test_a_get_has_neither_body_nor_length() -> None:
    """WS-40."""
    async with hostile_server() as server, outbound() as client:
        await client.send(Request("GET", parse_target(server.url("/ok"), LOOPBACK), (), b"", 5.0))
        assert (server.requests[0].line, server.requests[0].header("content-length")) == (b"GET /ok HTTP/1.1", None)


# Fields and secrets.


@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "connection", "TE", "Accept-Encoding"])
def test_fields_of_the_hop_belong_to_the_client(name: str) -> None:
    """EG-16."""
    with pytest.raises(HeaderRefusedError, match="set by the sender"):
        check_header(name, "x")


@pytest.mark.parametrize(
    ("name", "value"),
    [("", "x"), ("a b", "x"), ("a:", "x"), ("é", "x"), ("a", "x\r\ny"), ("a", "\n"), ("a", "\x7f"), ("a", "€")],
)
def test_malformed_fields_are_refused(name: str, value: str) -> None:
    """EG-16, B-50."""
    with pytest.raises(HeaderRefusedError):
        check_header(name, value)


@pytest.mark.parametrize(
    ("name", "value"), [("X-Api-Key", "a b\tc"), ("authorization", "Bearer x"), ("ce-type", ""), ("x", "é")]
)
def test_ordinary_header_fields_are_accepted(name: str, value: str) -> None:
    check_header(name, value)


async def test_a_request_may_name_its_own_user_agent() -> None:
    """WS-85: subscriber counts."""
    async with hostile_server() as server, outbound(user_agent="hookwire/1") as client:
        target = parse_target(server.url("/ok"), LOOPBACK)
        await client.send(Request("GET", target, [("User-Agent", "hookwire/1; 3 subscribers")], b"", 5.0))
        assert server.requests[0].header("user-agent") == b"hookwire/1; 3 subscribers"


def test_reprs_hide_what_is_secret() -> None:
    """SE-07, SE-09."""
    request = Request("POST", parse_target("http://a.example/?k=s3cret", LOOPBACK), [("a", "s3cret")], b"s3cret", 1.0)
    response = Response(200, (("a", "s3cret"),), b"s3cret", False, "127.0.0.1", 0.0, 0.0, 0.0)
    assert "s3cret" not in repr(request) + repr(response)


# TLS.


@pytest.mark.parametrize(
    ("host", "options", "detail"),
    [
        ("subscriber.example", {"days": (-2, -1)}, "the certificate has expired"),
        ("subscriber.example", {"days": (1, 2)}, "the certificate is not valid yet"),
        ("subscriber.example", {"self_signed": True}, "the certificate is self-signed"),
        ("other.example", {}, "the certificate is for another host"),
    ],
)
async def test_a_tls_failure_says_why(host: str, options: dict[str, Any], detail: str, tmp_path: Path) -> None:
    """OB-07, F32."""
    authority = Authority(tmp_path)
    async with (
        hostile_server(tls=authority.context(host, **options)) as server,
        outbound(ca_file=authority.ca_file) as client,
    ):
        failure = await _failure(client, _post(server.url(host="subscriber.example")))
        assert (type(failure), failure.detail, client.open_count) == (TlsFailed, detail, 0)


async def test_a_request_may_wait_less_for_its_connection_than_the_client() -> None:
    """FS-04: a first verification; nobody answers at this address."""

    async def silent(_address: Address, _port: int, _factory: ProtocolFactory) -> Any:
        await asyncio.Event().wait()

    async with asyncio.timeout(60):
        client = Client(LOOPBACK, always("127.0.0.1"), ClientOptions(connect_seconds_max=3600), silent)
        failure = await _failure(
            client, _post("http://subscriber.example:8080/", deadline_seconds=3600, connect_seconds_max=0.05)
        )
        await client.aclose()

    assert (type(failure), failure.detail) == (ConnectFailed, "the connection was not established in time")

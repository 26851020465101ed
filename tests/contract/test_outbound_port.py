"""One conformance suite for the outbound port, on our client (asyncio and uvloop) and on httpx (EG-19, OB-nn).

Every test talks to the hostile server over loopback. `dialled` records each address before its socket exists, and a
dialler that is asked for anything but loopback refuses: a bug in the guard cannot send a packet anywhere.
"""

import asyncio
import functools
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvloop

from egress.client import Client, ClientOptions, Outbound, Request, Response
from egress.connector import ProtocolFactory, dial
from egress.failure import (
    NOT_ALLOWED,
    BadResponse,
    Blocked,
    ConnectFailed,
    DeadlineExceeded,
    DnsFailed,
    OutboundError,
    TlsFailed,
)
from egress.guard import Address, GuardPolicy, networks
from egress.resolver import Resolver
from egress.url import parse_target
from tests.contract.httpx_outbound import HttpxOutbound
from tests.hostile.authority import Authority
from tests.hostile.dns import always, stalled, unknown
from tests.hostile.server import (
    answer,
    answering,
    close_on_second,
    deaf,
    half_answer_on_second,
    hostile_server,
)

LOOPBACK = GuardPolicy(
    allow_cidrs=networks(["127.0.0.0/8", "::1/128"]),
    allow_hosts=("subscriber.example",),
    allow_high_ports=True,
)
DEADLINE_SECONDS = 5.0
"""For attempts that should end long before it."""


@dataclass(frozen=True)
class Subject:
    """An implementation under test and what it does not promise."""

    name: str
    loop_factory: Callable[[], asyncio.AbstractEventLoop]
    build: Callable[..., Outbound]
    repeats_silently: bool = True
    drops_excess: bool = True
    honours_reuse: bool = True
    bounds_heads: bool = True
    reads_early_answers: bool = True
    tells_half_answers: bool = True

    def needs(self, feature: str) -> None:
        """Skip, visibly, what this implementation does not promise; our own promises everything."""
        if not getattr(self, feature):
            assert self.build is not Client
            pytest.skip(f"{self.name}: not {feature}")


SUBJECTS = [
    Subject("ours-asyncio", asyncio.new_event_loop, Client),
    Subject("ours-uvloop", uvloop.new_event_loop, Client),
    Subject(
        "httpx",
        asyncio.new_event_loop,
        HttpxOutbound,
        repeats_silently=False,
        drops_excess=False,
        honours_reuse=False,
        bounds_heads=False,
        reads_early_answers=False,
        tells_half_answers=False,
    ),
]


@dataclass
class Harness:
    """A client with the record of what it dialled."""

    client: Outbound
    dialled: list[tuple[str, int]] = field(default_factory=list)

    async def post(self, url: str, body: bytes = b"{}", **rest: Any) -> Response:
        """POST to a URL of the hostile server."""
        return await self.client.send(_request("POST", url, body, **rest))


def _request(
    method: str,
    url: str,
    body: bytes = b"",
    headers: Sequence[tuple[str, str]] = (),
    deadline_seconds: float = DEADLINE_SECONDS,
    *,
    reuse: bool = True,
) -> Request:
    return Request(method, parse_target(url, LOOPBACK), headers, body, deadline_seconds, reuse=reuse)


@asynccontextmanager
async def harness(
    subject: Subject,
    policy: GuardPolicy = LOOPBACK,
    resolver: Resolver | None = None,
    options: ClientOptions | None = None,
) -> AsyncIterator[Harness]:
    """Build the client under test on a recording dialler."""
    dialled: list[tuple[str, int]] = []

    async def record(address: Address, port: int, factory: ProtocolFactory) -> Any:
        dialled.append((str(address), port))
        if not address.is_loopback:
            raise ConnectionRefusedError
        return await dial(address, port, factory) if subject.build is Client else None

    client = subject.build(policy, resolver or always("127.0.0.1"), options or ClientOptions(), record)
    try:
        yield Harness(client, dialled)
    finally:
        await client.aclose()


def on_its_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test on the event loop that its subject names."""

    @functools.wraps(test)
    def run(subject: Subject, **fixtures: Any) -> None:
        with asyncio.Runner(loop_factory=subject.loop_factory) as runner:
            runner.run(test(subject=subject, **fixtures))  # type: ignore[arg-type]

    return run


@pytest.fixture(params=SUBJECTS, ids=lambda subject: subject.name)
def subject(request: pytest.FixtureRequest) -> Subject:
    return request.param


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


async def _failure(attempt: Awaitable[Response]) -> OutboundError:
    with pytest.raises(OutboundError) as caught:
        await attempt
    return caught.value


# What goes out.


@on_its_loop
async def test_the_request_is_sent_with_its_length_its_fields_and_nothing_of_our_own(subject: Subject) -> None:
    """OB-06, OB-10: Content-Length, identity, User-Agent."""
    async with hostile_server() as server, harness(subject, options=ClientOptions(user_agent="hookwire/1 (+x)")) as it:
        response = await it.post(server.url("/ok"), b"\x00\xffbody", headers=[("webhook-id", "evt_1")])
        request = server.requests[0]
    assert (response.status, response.body, response.truncated, response.address) == (200, b"ok", False, "127.0.0.1")
    assert (request.line, request.body) == (b"POST /ok HTTP/1.1", b"\x00\xffbody")
    fields = {name.lower(): value for name, value in request.headers if name.lower() != b"connection"}
    assert fields == {
        b"host": f"127.0.0.1:{server.port}".encode(),
        b"user-agent": b"hookwire/1 (+x)",
        b"accept-encoding": b"identity",
        b"content-length": b"6",
        b"webhook-id": b"evt_1",
    }


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("/%7e/a/../b?x=%2f%41", b"/%7e/a/../b?x=%2f%41"),
        ("", b"/"),
        ("?x=1", b"/?x=1"),
        ("/?", b"/?"),
        ("/cb?^z=y&a=b", b"/cb?^z=y&a=b"),
        ('/cb?a="q"&a=1&a=', b'/cb?a="q"&a=1&a='),
        ("/é b", b"/%C3%A9%20b"),
        ("//double//", b"//double//"),
    ],
)
@on_its_loop
async def test_the_request_target_is_the_stored_one_byte_for_byte(subject: Subject, given: str, sent: bytes) -> None:
    """WS-24, WS-26, WS-62, OB-14."""
    async with hostile_server(answering(answer())) as server, harness(subject) as it:
        await it.post(server.url(given))
        assert server.requests[0].target == sent


@pytest.mark.parametrize(
    "header",
    [("x-a", "1\r\nX-Evil: 1"), ("x-a", "1\n"), ("x-a", "\x00"), ("x a", "1"), ("Host", "other"), ("x-a", "é\u20ac")],
    ids=repr,
)
@on_its_loop
async def test_a_field_that_would_break_the_framing_is_refused_unsent(
    subject: Subject, header: tuple[str, str]
) -> None:
    """EG-16."""
    async with hostile_server() as server, harness(subject) as it:
        failure = await _failure(it.post(server.url("/ok"), headers=[header]))
    assert (type(failure), it.dialled, server.connections) == (Blocked, [], 0)


@on_its_loop
async def test_the_environment_names_no_proxy(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """EG-10."""
    async with hostile_server() as proxy, hostile_server() as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url())
        async with harness(subject) as it:
            await it.post(server.url("/ok"))
        assert (proxy.connections, len(server.requests)) == (0, 1)


@on_its_loop
async def test_cookies_are_not_kept(subject: Subject) -> None:
    """OB-04."""
    async with hostile_server() as server, harness(subject) as it:
        for _ in range(2):
            await it.post(server.url("/cookie"))
        assert [request.header("cookie") for request in server.requests] == [None, None]


# What comes back.


@pytest.mark.parametrize(
    "status",
    [200, 201, 202, 203, 204, 299, 300, 304, 400, 401, 404, 408, 410, 415, 425, 429, 500, 502, 503, 504],
)
@on_its_loop
async def test_every_status_is_an_answer(subject: Subject, status: int) -> None:
    """WH-T11."""
    async with hostile_server() as server, harness(subject) as it:
        assert (await it.post(server.url(f"/status/{status}"))).status == status


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@on_its_loop
async def test_a_redirect_is_not_followed(subject: Subject, status: int) -> None:
    """WH-R04, EG-09, F30, WS-44: the target would answer 200, and is not asked."""
    async with hostile_server() as server, harness(subject) as it:
        response = await it.post(server.url(f"/redirect/{status}"))
        assert (response.status, response.values("location"), len(server.requests)) == (
            status,
            [server.url("/ok")],
            1,
        )


@on_its_loop
async def test_interim_answers_are_skipped(subject: Subject) -> None:
    """EG-19."""
    async with hostile_server() as server, harness(subject) as it:
        response = await it.post(server.url("/interim-then-ok"))
        assert (response.status, response.body, response.values("link")) == (200, b"ok", [])


@on_its_loop
async def test_a_body_may_end_with_the_connection(subject: Subject) -> None:
    """F28 half-close: the peer shuts its sending side only."""
    async with hostile_server() as server, harness(subject) as it:
        response = await it.post(server.url("/half-close"))
        assert (response.status, response.body, response.truncated) == (200, b"until the end", False)


@on_its_loop
async def test_chunks_are_joined_and_trailers_are_not_headers(subject: Subject) -> None:
    """EG-19."""
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n3;x=y\r\ncde\r\n0\r\nX-Late: 1\r\n\r\n"
    async with hostile_server(answering(chunked)) as server, harness(subject) as it:
        responses = [await it.post(server.url()) for _ in range(2)]
        assert [(r.status, r.body, r.values("x-late")) for r in responses] == [(200, b"abcde", [])] * 2
        assert server.connections == 1


# Hostile answers: bounded, and the status decides where it was read.


@pytest.mark.parametrize("mode", ["endless", "endless-chunked"])
@on_its_loop
async def test_an_endless_body_is_cut_and_counts_by_its_status(subject: Subject, mode: str) -> None:
    """WH-I05, OB-02, F29, WS-58: the connection is closed at the read limit."""
    async with hostile_server() as server, harness(subject) as it:
        response = await it.post(server.url(f"/{mode}"))
        await server.until(lambda s: s.closed == 1)
    assert (response.status, len(response.body), response.truncated) == (200, 4096, True)


@on_its_loop
async def test_a_coded_body_is_kept_as_sent(subject: Subject) -> None:
    """OB-03, F29: a gzip bomb stays gzip."""
    async with hostile_server() as server, harness(subject) as it:
        response = await it.post(server.url("/bomb"))
        assert (response.status, response.body[:2], len(response.body)) == (200, b"\x1f\x8b", 4096)


@pytest.mark.parametrize("mode", ["many-headers", "long-header"])
@on_its_loop
async def test_an_endless_head_is_not_read_to_its_end(subject: Subject, mode: str) -> None:
    """F29, EG-19: 32 KiB and 100 fields; the status line was read, so it decides (OB-05)."""
    async with hostile_server() as server, harness(subject) as it:
        attempt = it.post(server.url(f"/{mode}"))
        if subject.bounds_heads:
            response = await attempt
            assert (response.status, response.truncated, response.body) == (200, True, b"")
            assert len(response.headers) <= 100
        else:
            assert isinstance(await _failure(attempt), BadResponse)
        await server.until(lambda s: s.closed == 1)


@on_its_loop
async def test_a_flood_of_interim_answers_is_no_answer(subject: Subject) -> None:
    """F29, OB-01."""
    async with hostile_server() as server, harness(subject) as it:
        failure = await _failure(it.post(server.url("/interim-flood"), deadline_seconds=1.0))
        assert isinstance(failure, BadResponse if subject.bounds_heads else DeadlineExceeded)
        await server.until(lambda s: s.closed == 1)


@pytest.mark.parametrize("mode", ["hang", "interim-drip", "drip-head", "deaf"])
@on_its_loop
async def test_no_answer_ends_at_the_deadline_and_closes(subject: Subject, mode: str) -> None:
    """OB-01, T8, F28: one deadline round the whole; time-outs per read would never fire on a drip."""
    script = deaf if mode == "deaf" else None
    async with hostile_server(script) as server, harness(subject) as it:
        attempt = it.post(server.url(f"/{mode}"), body=b"x" * 100_000, deadline_seconds=0.5)
        outcome = await _outcome(attempt)
        if mode != "deaf":
            await server.until(lambda s: s.closed == 1)
    assert outcome == "timeout"


@on_its_loop
async def test_a_dripping_body_ends_at_the_deadline_and_counts_by_its_status(subject: Subject) -> None:
    """OB-05, WS-58, F28."""
    async with hostile_server() as server, harness(subject) as it:
        response = await it.post(server.url("/drip-body"), deadline_seconds=0.5)
        await server.until(lambda s: s.closed == 1)
    assert (response.status, response.truncated) == (200, True)


@pytest.mark.parametrize("mode", ["reset-in-body", "short-body", "bad-chunks"])
@on_its_loop
async def test_an_answer_broken_after_its_status_counts_by_the_status(subject: Subject, mode: str) -> None:
    """OB-05, F29."""
    async with hostile_server() as server, harness(subject) as it:
        response = await it.post(server.url(f"/{mode}"))
        assert (response.status, response.truncated) == (200, True)


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("garbage", "bad_response"),
        ("upgrade", "bad_response"),
        ("reset-now", "connect"),
        ("close-now", "connect"),
    ],
)
@on_its_loop
async def test_what_is_no_answer_is_classed(subject: Subject, mode: str, kind: str) -> None:
    async with hostile_server() as server, harness(subject) as it:
        assert await _outcome(it.post(server.url(f"/{mode}"))) == kind


@pytest.mark.parametrize("mode", ["early", "early-and-wait"])
@on_its_loop
async def test_an_answer_before_the_body_was_taken_is_read(subject: Subject, mode: str) -> None:
    """OB-05: 413 while eight megabytes are still on their way; that connection is not used again."""
    subject.needs("reads_early_answers")
    async with hostile_server() as server, harness(subject) as it:
        response = await it.post(server.url(f"/{mode}"), body=bytes(8 * 1024 * 1024))
        assert response.status == 413
        assert (await it.post(server.url("/ok"))).status == 200
        assert server.connections == 2


# Connections.


@on_its_loop
async def test_a_connection_carries_one_request_after_another(subject: Subject) -> None:
    """WH-I04, WH-17."""
    async with hostile_server() as server, harness(subject) as it:
        for _ in range(3):
            await it.post(server.url("/ok"))
        assert (len(server.requests), server.connections, len(it.dialled)) == (3, 1, 1)


@on_its_loop
async def test_a_kept_connection_that_the_peer_closed_is_replaced(subject: Subject) -> None:
    """EG-19."""
    async with hostile_server() as server, harness(subject) as it:
        await it.post(server.url("/close-after-answer"))
        await server.until(lambda s: s.closed == 1)
        assert (await it.post(server.url("/ok"))).status == 200
        assert server.connections == 2


@on_its_loop
async def test_a_kept_connection_closed_by_the_request_itself_is_replaced_once(subject: Subject) -> None:
    """EG-19: not one byte of an answer came, so the same attempt goes out on a fresh connection."""
    async with hostile_server(close_on_second) as server, harness(subject) as it:
        await it.post(server.url())
        outcome = await _outcome(it.post(server.url()))
        assert (outcome, len(server.requests)) == (("200", 3) if subject.repeats_silently else ("connect", 2))


@on_its_loop
async def test_a_request_that_must_not_repeat_takes_no_kept_connection(subject: Subject) -> None:
    """WH-O06."""
    subject.needs("honours_reuse")
    async with hostile_server(close_on_second) as server, harness(subject) as it:
        await it.post(server.url())
        assert (await it.post(server.url(), reuse=False)).status == 200
        assert [request.connection for request in server.requests] == [1, 2]


@on_its_loop
async def test_a_request_is_not_repeated_once_a_byte_of_an_answer_came(subject: Subject) -> None:
    """EG-19."""
    subject.needs("tells_half_answers")
    async with hostile_server(half_answer_on_second) as server, harness(subject) as it:
        await it.post(server.url())
        assert (await _outcome(it.post(server.url())), len(server.requests)) == ("bad_response", 2)


@pytest.mark.parametrize("mode", ["long-body", "chatty"])
@on_its_loop
async def test_bytes_that_nobody_asked_for_never_answer_the_next_request(subject: Subject, mode: str) -> None:
    """OB-13: an answer sent ahead must not be taken for the next delivery's."""
    subject.needs("drops_excess")
    async with hostile_server() as server, harness(subject) as it:
        await it.post(server.url(f"/{mode}"))
        if mode == "chatty":
            await server.until(lambda s: s.closed == 1)
        assert (await it.post(server.url("/ok"))).status == 200
        assert server.connections == 2


@on_its_loop
async def test_cancelling_closes_the_connection(subject: Subject) -> None:
    """OB-13."""
    async with hostile_server() as server, harness(subject) as it:
        attempt = asyncio.ensure_future(it.post(server.url("/hang"), deadline_seconds=60.0))
        await server.until(lambda s: len(s.requests) == 1)
        attempt.cancel()
        await asyncio.wait([attempt])
        await server.until(lambda s: s.closed == 1, seconds=10.0)
        assert attempt.cancelled()


@on_its_loop
async def test_closing_the_client_closes_idle_connections(subject: Subject) -> None:
    async with hostile_server() as server:
        async with harness(subject) as it:
            await it.post(server.url("/ok"))
        await server.until(lambda s: s.closed == 1)


# Names and addresses.


@pytest.mark.parametrize(
    "answers",
    [
        ["169.254.169.254"],
        ["10.0.0.1"],
        ["::ffff:10.0.0.1"],
        ["64:ff9b::a00:1"],
        ["fd00:ec2::254"],
        ["93.184.216.34", "10.0.0.1"],
        ["93.184.216.34", "fe80::1"],
        ["127.0.0.1", "192.168.0.1"],
    ],
    ids=" ".join,
)
@on_its_loop
async def test_a_name_with_one_bad_address_is_refused_before_a_socket_exists(
    subject: Subject, answers: list[str]
) -> None:
    """EG-01, EG-03, I10: one bad refuses all, and the text is the same for all."""
    policy = GuardPolicy(allow_cidrs=networks(["127.0.0.0/8"]))
    async with harness(subject, policy, always(*answers)) as it:
        failure = await _failure(it.post("http://hooks.example/"))
    assert (type(failure), failure.detail, it.dialled) == (Blocked, NOT_ALLOWED, [])


@on_its_loop
async def test_the_judged_address_is_dialled_and_the_name_stays_in_host(subject: Subject) -> None:
    """EG-01: one lookup, no second one."""
    resolver = always("127.0.0.1")
    async with hostile_server() as server, harness(subject, resolver=resolver) as it:
        response = await it.post(server.url("/ok", host="subscriber.example"))
        host = server.requests[0].header("host")
    assert (response.address, it.dialled, resolver.asked, host) == (
        "127.0.0.1",
        [("127.0.0.1", server.port)],
        ["subscriber.example"],
        f"subscriber.example:{server.port}".encode(),
    )


@on_its_loop
async def test_a_name_without_addresses_is_a_dns_failure(subject: Subject) -> None:
    """F33."""
    async with harness(subject, resolver=unknown()) as it:
        failure = await _failure(it.post("http://hooks.example/"))
    assert (type(failure), it.dialled) == (DnsFailed, [])


@on_its_loop
async def test_a_stalled_lookup_ends_at_the_deadline(subject: Subject) -> None:
    """OB-01, F33: the deadline covers resolving."""
    async with harness(subject, resolver=stalled()) as it:
        assert isinstance(await _failure(it.post("http://hooks.example/", deadline_seconds=0.2)), DeadlineExceeded)


@on_its_loop
async def test_a_port_where_nobody_listens_is_a_connect_failure(subject: Subject, free_port: int) -> None:
    async with harness(subject) as it:
        assert isinstance(await _failure(it.post(f"http://127.0.0.1:{free_port}/")), ConnectFailed)


# TLS.


@on_its_loop
async def test_tls_is_verified_against_the_name_while_the_address_is_dialled(
    subject: Subject, authority: Authority
) -> None:
    """OB-07, EG-01: SNI and certificate by name."""
    context = authority.context("subscriber.example")
    options = ClientOptions(ca_file=authority.ca_file)
    async with hostile_server(tls=context) as server, harness(subject, options=options) as it:
        url = server.url("/ok", host="subscriber.example")
        responses = [await it.post(url), await it.post(url)]
        await it.post(server.url("/endless", host="subscriber.example"))
        assert ([r.status for r in responses], server.server_names) == ([200, 200], ["subscriber.example"])


@on_its_loop
async def test_a_literal_address_is_verified_as_an_address(subject: Subject, authority: Authority) -> None:
    """OB-07."""
    options = ClientOptions(ca_file=authority.ca_file)
    async with hostile_server(tls=authority.context("127.0.0.1")) as server, harness(subject, options=options) as it:
        assert (await it.post(server.url("/ok"))).status == 200


@pytest.mark.parametrize("fault", ["expired", "not yet", "other host", "self-signed", "unknown authority", "TLS 1.1"])
@on_its_loop
async def test_a_bad_certificate_or_version_fails_before_anything_is_sent(
    subject: Subject, fault: str, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """F32, OB-07: no request, no fall-back to plain text."""
    context, trusted = _faulty(fault, authority, tmp_path_factory)
    async with hostile_server(tls=context) as server, harness(subject, options=ClientOptions(ca_file=trusted)) as it:
        failure = await _failure(it.post(server.url("/ok", host="subscriber.example")))
    assert (type(failure), server.requests, len(it.dialled)) == (TlsFailed, [], 1)


@on_its_loop
async def test_a_handshake_that_hangs_ends_at_the_deadline(subject: Subject) -> None:
    """F32."""
    async with hostile_server(deaf) as server, harness(subject) as it:
        failure = await _failure(it.post(f"https://127.0.0.1:{server.port}/", deadline_seconds=0.5))
    assert isinstance(failure, DeadlineExceeded)


@on_its_loop
async def test_a_plain_server_on_a_tls_url_gets_no_request(subject: Subject) -> None:
    """F32: https is never downgraded (WS-62)."""
    async with hostile_server(_plain) as server, harness(subject) as it:
        failure = await _failure(it.post(f"https://127.0.0.1:{server.port}/"))
    assert (type(failure), server.requests) == (TlsFailed, [])


async def _plain(conversation: Any) -> None:
    await conversation.reader.read(10)
    await conversation.send(answer(400))


def _faulty(fault: str, authority: Authority, folders: pytest.TempPathFactory) -> tuple[ssl.SSLContext, str]:
    host = "subscriber.example"
    if fault == "expired":
        context = authority.context(host, days=(-2, -1))
    elif fault == "not yet":
        context = authority.context(host, days=(1, 2))
    elif fault == "other host":
        context = authority.context("other.example")
    elif fault == "self-signed":
        context = authority.context(host, self_signed=True)
    elif fault == "unknown authority":
        context = Authority(folders.mktemp("foreign")).context(host)
    else:
        context = authority.context(host, version=ssl.TLSVersion.TLSv1_1)
    return context, authority.ca_file


async def _outcome(attempt: Awaitable[Response]) -> str:
    try:
        return str((await attempt).status)
    except OutboundError as error:
        return error.kind

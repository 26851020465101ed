"""The HTTP server on raw sockets: framing, sizes, slow and greedy clients, start and stop (B-01..B-19, SV-01..SV-09).

Every test runs on asyncio's own loop and on uvloop, which the service uses. Deadlines are short, no test depends on
speed: time in which this process is held up counts for nobody, and server and clients share it.
"""

from __future__ import annotations

import asyncio
import random
import socket
from dataclasses import replace
from pathlib import Path

import pytest
import uvloop
from starlette.types import Receive, Scope, Send

from app.web.problem import Problems
from app.web.protocol import HookwireProtocol, is_valid_host
from app.web.server import HttpServer, ListenError, ServerLimits
from tests.app.web.corpus_http import (
    CASES,
    CLOSED,
    GET,
    HOST,
    QUICK,
    Answer,
    Case,
    Echo,
    ask,
    chunks,
    connected,
    exchange,
    get,
    has_ended,
    post,
    read_answer,
    send,
    serving,
)
from tests.waiting import lasts, until

# The hook that replaces the fixture below speaks for a whole folder, and only the server is loop-dependent.
pytestmark = pytest.mark.filterwarnings("ignore:Overriding the .event_loop_policy. fixture:DeprecationWarning")


@pytest.fixture(params=[asyncio.DefaultEventLoopPolicy, uvloop.EventLoopPolicy], ids=["asyncio", "uvloop"])
def event_loop_policy(request: pytest.FixtureRequest) -> asyncio.AbstractEventLoopPolicy:
    policy = request.param()
    assert isinstance(policy, asyncio.AbstractEventLoopPolicy)
    return policy


# --- framing and sizes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_a_hostile_request_is_refused_and_the_next_client_is_served(case: Case) -> None:
    """B-01..B-12, B-15, B-17, B-18, B-60; SV-01, SV-02, SV-06: one problem shape, connection closed, nothing served."""
    app = Echo()
    async with serving(app) as server:
        answer, ended = await exchange(server.port, *case.sent)
        healthy = await ask(server.port, GET)
    assert answer.status in case.statuses, answer
    assert ended
    if answer.status != CLOSED:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["connection"] == "close"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.document["request_id"] == answer.headers["x-request-id"]
    assert (healthy.status, app.served) == (200, ["/healthy"])


@pytest.mark.parametrize(
    "host",
    [b"a", b"hook_wire", b"hookwire.test.", b"hookwire.test:80", b"127.0.0.1:8080", b"[::1]", b"[2001:db8::1]:65535"],
)
def test_an_ordinary_host_is_accepted(host: bytes) -> None:
    """B-07: the refusal does not reach names that exist."""
    assert is_valid_host(host)


@pytest.mark.parametrize(
    ("name", "sent", "body_bytes"),
    [
        ("header of 31 KiB", get(HOST + (b"X: " + b"a" * 400 + b"\r\n") * 78), 0),
        ("target of 8 KiB", get(target=b"/" + b"a" * 8191), 0),
        ("100 fields", get(HOST + b"X: a\r\n" * 99), 0),
        ("long body in one write", post(b"Content-Length: 300000\r\n", b"a" * 300_000), 300_000),
        ("one-byte chunks", chunks(b"1\r\na\r\n" * 20_000 + b"0\r\n\r\n"), 20_000),
        ("chunk extension", chunks(b"3;x=y\r\nabc\r\n0\r\n\r\n"), 3),
        ("line ends before the request", b"\r\n\r\n" + get(), 0),
        ("HTTP/1.0", get(version=b"HTTP/1.0"), 0),
        ("100-continue for HTTP/1.0", get(HOST + b"Expect: 100-continue\r\n", version=b"HTTP/1.0"), 0),
    ],
)
async def test_what_keeps_to_the_limits_is_served(name: str, sent: bytes, body_bytes: int) -> None:
    async with serving(Echo()) as server:
        answer = await ask(server.port, *(sent[start : start + 7000] for start in range(0, len(sent), 7000)))
    assert (answer.status, answer.document["body_bytes"]) == (200, body_bytes)


async def test_a_long_read_may_hold_a_short_header_and_a_long_pipeline() -> None:
    """SV-01: header bytes are counted per header, not per read."""
    async with serving(Echo()) as server, connected(server.port) as (reader, writer):
        writer.write(post(b"Content-Length: 200000\r\n", b"a" * 200_000) + get(target=b"/second"))
        answers = [await read_answer(reader), await read_answer(reader)]
    assert [answer.document["path"] for answer in answers] == ["/", "/second"]


async def test_an_offer_of_another_protocol_than_websocket_is_ignored() -> None:
    """RFC 9110 section 7.8: a client that offers h2c, as Java's does, gets its answer over HTTP/1.1, body included."""
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nContent-Length: 3\r\n"
    async with serving(Echo()) as server:
        answer = await ask(server.port, post(offer))
    names = [name for name, _ in answer.document["headers"]]
    assert (answer.status, answer.document["body_bytes"], names) == (200, 3, ["host", "connection", "content-length"])


async def test_trailer_fields_never_become_header_fields() -> None:
    """B-06: what comes after the body was not there when the request was judged."""
    async with serving(Echo()) as server:
        answer = await ask(server.port, chunks(b"3\r\nabc\r\n0\r\nHost: evil.test\r\nX-Late: 1\r\n\r\n"))
    assert [name for name, _ in answer.document["headers"]] == ["host", "transfer-encoding"]


async def test_100_continue_is_sent_when_the_application_reads() -> None:
    """B-15, RFC 9110 section 10.1.1."""
    async with serving(Echo()) as server, connected(server.port) as (reader, writer):
        writer.write(post(b"Expect: 100-continue\r\nContent-Length: 3\r\n", b""))
        first = await read_answer(reader)
        writer.write(b"abc")
        second = await read_answer(reader)
    assert (first.status, second.status, second.document["body_bytes"]) == (100, 200, 3)


async def test_forged_forwarding_headers_are_ignored() -> None:
    """B-19, SV-05."""
    forged = (
        b"X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\nForwarded: for=6.6.6.6\r\n"
    )
    async with serving(Echo()) as server:
        answer = await ask(server.port, get(HOST + forged))
    assert (answer.document["client"][0], answer.document["scheme"]) == ("127.0.0.1", "http")


async def test_a_trusted_proxy_may_name_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """B-19, SV-05: only from the trusted list, and never from the environment."""
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    forwarded = get(HOST + b"X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\n")
    async with serving(Echo(), trusted_proxies=["127.0.0.0/8"]) as trusting, serving(Echo()) as strict:
        answers = [await ask(trusting.port, forwarded), await ask(strict.port, forwarded)]
    assert [answer.document["client"][0] for answer in answers] == ["6.6.6.6", "127.0.0.1"]


async def test_no_answer_tells_what_serves_it() -> None:
    """SV-05."""
    async with serving(Echo()) as server:
        answers = [await ask(server.port, GET), await ask(server.port, b"nonsense\r\n\r\n")]
    assert [("server" in answer.headers, "date" in answer.headers) for answer in answers] == [
        (False, True),
        (False, True),
    ]


async def test_a_problem_points_to_the_public_address() -> None:
    async with serving(Echo(), problems=Problems("https://hooks.test/")) as server:
        answer = await ask(server.port, get(b""))
    assert answer.document["type"] == "https://hooks.test/problems/bad-request"


async def test_a_request_is_the_same_wherever_it_is_cut() -> None:
    """SV-01: limits and judgement do not depend on how the bytes were split into reads."""
    request = post(b"X: y\r\nTransfer-Encoding: chunked\r\n", b"3;e=f\r\nabc\r\n2\r\nde\r\n0\r\nT: t\r\n\r\n")
    async with serving(Echo(), ServerLimits()) as server, asyncio.TaskGroup() as clients:
        tasks = [clients.create_task(ask(server.port, request[:cut], request[cut:])) for cut in range(len(request))]
        await asyncio.wait(tasks)
    assert {(task.result().status, task.result().document["body_bytes"]) for task in tasks} == {(200, 5)}


@pytest.mark.parametrize("seed", range(4))
async def test_mutated_requests_never_break_the_server(seed: int) -> None:
    """B-01..B-18: whatever is sent is served, refused or cut; no 5xx, no exception, and the server stays."""
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    chance = random.Random(seed)
    whole = (GET, *(b"".join(case.sent) for case in CASES if sum(map(len, case.sent)) < 1000))
    async with serving(Echo()) as server, asyncio.TaskGroup() as clients:
        tasks = [clients.create_task(exchange(server.port, mutate(chance, whole))) for _ in range(100)]
        await asyncio.wait(tasks)
        healthy = await ask(server.port, GET)
    assert {task.result()[0].status // 100 for task in tasks} <= {0, 2, 4}
    assert (healthy.status, errors) == (200, [])


def mutate(chance: random.Random, corpus: tuple[bytes, ...]) -> bytes:
    """Two requests, cut and glued anywhere, with a few bytes changed."""
    first, second = chance.choice(corpus), chance.choice(corpus)
    mixed = bytearray(first[: chance.randrange(len(first)) + 1] + second[chance.randrange(len(second)) :])
    for _ in range(chance.randrange(4)):
        mixed[chance.randrange(len(mixed))] = chance.choice(b"\x00\r\n :;,0aZ\x7f\xff")
    return bytes(mixed)


# --- order of answers -------------------------------------------------------------------------------------------


class Gate:
    """An application that answers when it is told to."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()
        self.left = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.entered.set()
        await self.opened.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})
        self.left += 1


@pytest.mark.parametrize("behind", [b"nonsense\r\n\r\n", post(b"Transfer-Encoding: chunked\r\n", b"zz\r\n")])
async def test_a_refusal_waits_for_the_answers_owed_before_it(behind: bytes) -> None:
    """B-16, RFC 9112 section 9.3: the refusal of a second request must not pass for the first one's answer."""
    app = Gate()
    async with serving(app) as server, connected(server.port) as (reader, writer):
        writer.write(GET)
        await app.entered.wait()
        writer.write(behind)
        await until(lambda: server.refused["bad-request"] == 1)
        app.opened.set()
        answers = [await read_answer(reader), await read_answer(reader), await read_answer(reader)]
    assert [answer.status for answer in answers] == [200, 400, CLOSED]


async def test_a_body_that_breaks_reaches_the_application_as_a_disconnect() -> None:
    """B-06: half a body must never look like a whole one."""
    app = Echo()
    async with serving(app) as server:
        answer, _ = await exchange(server.port, chunks(b"3\r\nabc\r\n"), b"nonsense\r\n")
        await until(lambda: not server.request_count)
    assert (answer.status, app.served) == (400, [])


async def test_an_application_behind_a_pipeline_learns_that_its_client_has_left() -> None:
    """The request in progress is told, not only the one read last."""
    told: asyncio.Queue[str] = asyncio.Queue()

    async def waiting(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        told.put_nowait((await receive())["type"])

    async with serving(waiting) as server:
        async with connected(server.port) as (_, writer):
            writer.write(get() + get())
            await until(lambda: server.request_count == 1)
        async with asyncio.timeout(30):
            assert await told.get() == "http.disconnect"


async def test_an_answer_to_a_peer_that_has_closed_is_dropped_without_a_traceback() -> None:
    """GS-07: `_Outlet.flush` raised in the event loop, one error in the log for each such peer."""
    loop = asyncio.get_running_loop()
    errors: list[dict[str, object]] = []
    loop.set_exception_handler(lambda _, context: errors.append(context))
    async with serving(early) as server, connected(server.port):
        await until(lambda: server.connection_count == 1)
        (protocol,) = server._server.server_state.connections
        assert isinstance(protocol, HookwireProtocol)
        protocol.wire.abort()
        await until(lambda: server.connection_count == 0)
        protocol.outlet.write(b"late")
        flushed = asyncio.Event()
        loop.call_soon(flushed.set)
        await flushed.wait()

    assert errors == []


# --- slow clients -----------------------------------------------------------------------------------------------


async def drip(port: int, first: bytes, drop: bytes, seconds: float) -> Answer:
    """Send `first`, then `drop` again and again until the server has had enough."""

    async def dripping(writer: asyncio.StreamWriter) -> None:
        while drop:
            await asyncio.sleep(seconds)
            await send(writer, [drop])

    async with asyncio.timeout(30), connected(port) as (reader, writer):
        await send(writer, [first])
        drops = asyncio.ensure_future(dripping(writer))
        answer = await read_answer(reader)
        while answer.status in (100, 200):
            answer = await read_answer(reader)
        ended = await has_ended(reader)
        drops.cancel()
        assert ended
        return answer


SLOW = {
    "silent": (b"", b"", CLOSED),
    "line ends only": (b"", b"\r\n", CLOSED),
    "half a request line": (b"GE", b"", 408),
    "header at one byte at a time": (b"GET / HTTP/1.1\r\nHost: a\r\nX: ", b"a", 408),
    "fields at one at a time": (b"GET / HTTP/1.1\r\nHost: a\r\n", b"X: a\r\n", 408),
    "body that never comes": (post(b"Content-Length: 100000\r\n", b""), b"", 408),
    "body at one byte at a time": (post(b"Content-Length: 100000\r\n", b""), b"a", 408),
    "body fast enough but too long": (post(b"Content-Length: 10000000\r\n", b""), b"a" * 3000, 408),
    "chunks at one byte at a time": (chunks(b""), b"1\r\na\r\n", 408),
    "idle after a request": (GET, b"", CLOSED),
    "second request slowly": (GET + b"GET / HT", b"T", 400),
}


async def test_a_slow_client_is_cut() -> None:
    """B-13, SV-01: silence is closed, an unfinished request is told why. Each client waits beside the others."""
    async with serving(Echo()) as server, asyncio.TaskGroup() as clients:
        dripping = {
            name: clients.create_task(drip(server.port, first, drop, 0.05)) for name, (first, drop, _) in SLOW.items()
        }
        await asyncio.wait(dripping.values())
    assert {name: task.result().status for name, task in dripping.items()} == {
        name: status for name, (*_, status) in SLOW.items()
    }


async def test_hundreds_of_slow_clients_are_cut_while_a_healthy_one_is_served() -> None:
    """B-13, T12 (smaller), GU-20: 200 slow headers, 50 slow bodies and 50 silent connections; how many are open at once
    is the machine's pace.
    """
    app = Echo()
    async with serving(app) as server, asyncio.timeout(60):
        slow = (
            [SLOW["header at one byte at a time"]] * 200
            + [SLOW["body at one byte at a time"]] * 50
            + [SLOW["silent"]] * 50
        )
        async with asyncio.TaskGroup() as clients:
            dripping = [clients.create_task(drip(server.port, first, drop, 0.2)) for first, drop, _ in slow]
            healthy = []
            while not all(task.done() for task in dripping):
                healthy.append((await ask(server.port, GET)).status)
                await lasts(0.02)
        await until(lambda: not server.connection_count)
    assert [task.result().status for task in dripping] == [status for *_, status in slow]
    assert set(healthy) == {200}


async def test_a_reader_that_does_not_read_is_cut() -> None:
    """SV-09: the answer's buffer is bounded, and so is the time it may stay full."""

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while server.connection_count:
            await send({"type": "http.response.body", "body": b"a" * 65536, "more_body": True})

    async with serving(endless) as server, connected(server.port) as (_, writer):
        writer.write(GET)
        await until(lambda: server.connection_count == 1)
        await until(lambda: server.connection_count == 0)


async def test_a_finished_answer_that_nobody_reads_does_not_hold_its_connection() -> None:
    """SV-09: keep-alive ends the request, the write deadline ends the flush."""

    async def large(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"8000000")]})
        await send({"type": "http.response.body", "body": b"a" * 8_000_000})

    async with serving(large) as server, connected(server.port) as (_, writer):
        writer.write(GET)
        await until(lambda: server.connection_count == 1)
        await until(lambda: server.connection_count == 0)


async def test_a_slow_application_is_not_its_clients_fault() -> None:
    """SV-01: deadlines run for the client only; the application may take its time, with the body waiting unread."""
    app = Gate()
    body = b"a" * 3_000_000
    async with serving(app) as server, connected(server.port) as (reader, writer):
        sending = asyncio.ensure_future(send(writer, [post(b"Content-Length: 3000000\r\n", body)]))
        await app.entered.wait()
        late = clock(server) + QUICK.body_seconds + QUICK.headers_seconds
        await until(lambda: clock(server) > late)
        app.opened.set()
        answer = await read_answer(reader)
        await sending
    assert answer.status == 200


# --- answers before the end of a body ---------------------------------------------------------------------------


async def early(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers without reading."""
    await send({"type": "http.response.start", "status": 404, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"no"})


async def test_a_short_rest_of_a_body_is_read_over() -> None:
    """The connection stays usable when an answer did not need the body."""
    async with serving(early) as server, connected(server.port) as (reader, writer):
        writer.write(post(b"Content-Length: 20000\r\n", b""))
        answers = [await read_answer(reader)]
        writer.write(b"a" * 20_000 + GET)
        answers.append(await read_answer(reader))
    assert [answer.status for answer in answers] == [404, 404]


async def pour(writer: asyncio.StreamWriter, size_bytes: int) -> None:
    for _ in range(0, size_bytes, 65536):
        writer.write(b"a" * 65536)
        await writer.drain()
        await asyncio.sleep(0)


async def test_a_long_rest_of_a_body_is_not_read() -> None:
    """B-14: reading stops; the sender cannot make us take gigabytes for one early answer."""
    async with serving(early) as server, connected(server.port) as (reader, writer):
        writer.write(post(b"Content-Length: 900000000000\r\n", b""))
        answer = await read_answer(reader)
        with pytest.raises(ConnectionError):
            await pour(writer, 64 * 1024 * 1024)
        await until(lambda: not server.connection_count)
    assert answer.status == 404


# --- too many ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "status", "slug"),
    [
        (replace(QUICK, connections_per_address_max=3), 429, "too-many-requests"),
        (replace(QUICK, connections_max=3), 503, "busy"),
    ],
)
async def test_a_connection_above_the_limit_is_told_so(limits: ServerLimits, status: int, slug: str) -> None:
    """SV-01: a cap per address and one for all; a place that becomes free is given again."""
    async with serving(Echo(), limits) as server:
        async with connected(server.port), connected(server.port), connected(server.port):
            await until(lambda: server.connection_count == 3)
            refused, ended = await exchange(server.port)
        await until(lambda: server.connection_count == 0)
        again = await ask(server.port, GET)
    assert (refused.status, ended, again.status, server.refused[slug]) == (status, True, 200, 1)
    assert refused.headers["retry-after"] == "1"


async def test_connections_of_a_trusted_proxy_are_not_counted_as_one_client() -> None:
    """SV-01, SV-07: everybody comes from the proxy's address."""
    limits = replace(QUICK, connections_per_address_max=1)
    async with serving(Echo(), limits, trusted_proxies=["127.0.0.1"]) as server, connected(server.port):
        await until(lambda: server.connection_count == 1)
        answer = await ask(server.port, GET)
    assert answer.status == 200


# --- listening and leaving --------------------------------------------------------------------------------------


async def test_a_taken_port_is_a_clear_error() -> None:
    async with serving(Echo()) as server:
        with pytest.raises(ListenError, match=rf"127\.0\.0\.1:{server.port} .*HOOKWIRE_LISTEN"):
            await HttpServer(Echo(), port=server.port).start()


async def test_an_address_that_does_not_resolve_is_a_clear_error() -> None:
    with pytest.raises(ListenError, match="HOOKWIRE_LISTEN"):
        await HttpServer(Echo(), host="192.0.2.1", port=0).start()


async def test_localhost_listens_on_one_port_for_all_its_addresses() -> None:
    async with HttpServer(Echo(), host="localhost", port=0, limits=QUICK) as server:
        assert (await ask(server.port, GET)).status == 200


async def test_a_unix_socket_serves_too(tmp_path: Path) -> None:
    path = tmp_path / "s"
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(str(path))
    async with serving(Echo(), sockets=[bound]):
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(GET)
        answer = await read_answer(reader)
        writer.close()
    assert (answer.status, answer.document["client"]) == (200, None)


async def test_nothing_is_accepted_after_stop_accepting_and_what_has_begun_is_finished() -> None:
    """SV-04: soft stop."""
    app = Gate()
    async with serving(app) as server, connected(server.port) as (reader, writer), connected(server.port) as (idle, _):
        writer.write(GET)
        await app.entered.wait()
        await until(lambda: server.connection_count == 2)
        port = server.port
        server.stop_accepting()
        async with asyncio.timeout(30):
            idle_ended = await has_ended(idle)
        with pytest.raises(ConnectionError):
            await asyncio.open_connection("127.0.0.1", port)
        app.opened.set()
        answer = await read_answer(reader)
        ended = await has_ended(reader)
    assert (idle_ended, answer.status, answer.headers["connection"], ended) == (True, 200, "close", True)


async def test_an_answer_says_how_long_its_connection_is_kept() -> None:
    """RFC 9112 section 9.3, and the field Keep-Alive of RFC 2068 section 19.7.1, which clients still read."""
    kept = replace(QUICK, keep_alive_seconds=75.0)
    async with serving(Echo(), kept) as server, connected(server.port) as (reader, writer):
        await until(lambda: server.connection_count == 1)
        writer.write(GET)
        answer = await read_answer(reader)
        last = await ask(server.port, GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    async with serving(_ending, kept) as server:
        ended = await ask(server.port, GET)
    found = [[one.headers.get(name) for name in ("connection", "keep-alive")] for one in (answer, last, ended)]
    assert found == [["keep-alive", "timeout=75"], ["close", None], ["close", None]]


async def _ending(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer, and end the connection."""
    headers = [(b"content-length", b"0"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def test_idle_connections_end_sooner_in_a_crowd() -> None:
    """Whoever waits for a request must not keep others out. Two are no crowd, so the second one may stay."""
    limits = replace(QUICK, keep_alive_seconds=3600.0, crowd_keep_alive_seconds=0.1, connections_max=4)
    async with (
        serving(Echo(), limits) as server,
        connected(server.port) as (first, one), connected(server.port) as (second, two),
        connected(server.port) as (third, three),
    ):  # fmt: skip
        for reader, writer in ((first, one), (second, two), (third, three)):
            writer.write(GET)
            await read_answer(reader)
        async with asyncio.timeout(30):
            assert await has_ended(first)


async def test_a_request_half_read_at_the_soft_stop_is_still_served() -> None:
    """SV-04: what has begun is finished."""
    async with serving(Echo()) as server, connected(server.port) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\n")
        await until(lambda: any(c.phase.name == "HEAD" for c in protocols(server)))
        server.stop_accepting()
        writer.write(HOST + b"\r\n")
        answer = await read_answer(reader)
    assert (answer.status, answer.headers["connection"]) == (200, "close")


async def test_the_end_of_the_grace_cancels_what_is_left() -> None:
    """SV-04: hard stop, also for a request whose client has left."""
    app = Gate()
    server = HttpServer(app, port=0, limits=QUICK)
    await server.start()
    async with connected(server.port) as (reader, writer):
        writer.write(GET)
        await app.entered.wait()
        async with asyncio.timeout(30):
            await server.stop(0.05)
            ended = await read_answer(reader)
    assert (server.request_count, server.connection_count, app.left, ended.status in (500, CLOSED)) == (0, 0, 0, True)


async def test_starting_and_stopping_again_is_harmless() -> None:
    async with serving(Echo()) as server:
        await server.start()
        assert (await ask(server.port, GET)).status == 200
    await server.stop(1.0)
    server.stop_accepting()


async def test_no_signal_handler_is_touched() -> None:
    """The process owns its signals."""
    import signal

    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    async with serving(Echo()):
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


async def test_an_error_of_our_own_in_a_callback_is_loud_and_ends_only_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Programming errors are not taken for bad requests."""
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context.get("exception")))
    async with serving(Echo()) as server:
        with monkeypatch.context() as patch:
            patch.setattr(HookwireProtocol, "_judge_head", lambda self: 1 / 0)
            broken, _ = await exchange(server.port, GET)
        healthy = await ask(server.port, GET)
    assert (broken.status, healthy.status, [type(error) for error in errors]) == (CLOSED, 200, [ZeroDivisionError])


def protocols(server: HttpServer) -> list[HookwireProtocol]:
    return [c for c in server._server.server_state.connections if isinstance(c, HookwireProtocol)]


def clock(server: HttpServer) -> float:
    """The clock by which the server measures its clients."""
    return server._server.connections.clock


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"http://hub.test/a/b?c=d", "/a/b", b"c=d"), (b"HTTPS://hub.test:8443", "/", b""),
        (b"http://hub.test?c", "/", b"c"),
    ],
)  # fmt: skip
async def test_a_target_in_absolute_form_is_accepted_and_its_host_counts(
    target: bytes, path: str, query: bytes
) -> None:
    """GW-14: RFC 9112, 3.2.2. It was answered 400."""
    scopes: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send_back: Send) -> None:
        scopes.append(scope)
        await send_back({"type": "http.response.start", "status": 204, "headers": []})
        await send_back({"type": "http.response.body", "body": b""})

    async with serving(app) as server:
        answer = await ask(server.port, get(b"Host: other.test\r\n", target=target))

    assert answer.status == 204
    [scope] = scopes
    host = target.split(b"//")[1].partition(b"/")[0].partition(b"?")[0]
    assert (scope["path"], scope["query_string"], dict(scope["headers"])[b"host"]) == (path, query, host)

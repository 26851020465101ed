"""The front door: body limits, codings, load shedding, request ids, headers and the last border (SV-03..SV-08)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI, Request
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.web.limits import FrontDoor, RequestIds, RequestLimits
from app.web.problem import Problem, Problems, install_problem_handlers
from app.web.server import ServerLimits
from tests.app.web.corpus_http import GET, HOST, Echo, ask, connected, exchange, get, read_answer, serving

LIMITS = RequestLimits(
    events_bytes_max=1000, batch_bytes_max=3000, form_bytes_max=500, other_bytes_max=200, requests_in_flight_max=2
)


def front(app: ASGIApp) -> FrontDoor:
    return FrontDoor(app, problems=Problems("https://hooks.test"), limits=LIMITS)


def request(path: str, body_bytes: int, *, chunked: bool = False, fields: bytes = b"") -> bytes:
    body = b"a" * body_bytes
    framing = b"Transfer-Encoding: chunked\r\n" if chunked else b"Content-Length: %d\r\n" % body_bytes
    if chunked:
        half = body_bytes // 2
        body = b"%x\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (half, body[:half], body_bytes - half, body[half:])
    return get(HOST + fields + framing, path.encode(), method=b"POST") + body


NDJSON = b"Content-Type: application/x-ndjson; charset=utf-8\r\n"


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
@pytest.mark.parametrize(
    ("path", "fields", "limit_bytes"),
    [
        ("/topics/orders.created/events", b"", 1000),
        ("/topics/orders.created/events", NDJSON, 3000),
        ("/topics/orders.created/events", b"Content-Type: application/cloudevents-batch+json\r\n", 3000),
        ("/rabbithub/endpoint/x/orders", b"", 1000),
        ("/jobs", b"", 1000),
        ("/hub", b"", 500),
        ("/subscriptions", b"", 200),
        ("/subscriptions", NDJSON, 200),
    ],
)
async def test_a_body_is_served_up_to_its_routes_limit(
    path: str, fields: bytes, limit_bytes: int, chunked: bool
) -> None:
    """B-39, B-14, SV-03: limit -1, 0 and +1 byte; with and without Content-Length."""
    async with serving(front(Echo())) as server:
        answers = [
            await ask(server.port, request(path, limit_bytes + more, chunked=chunked, fields=fields))
            for more in (-1, 0, 1)
        ]
    assert [answer.status for answer in answers] == [200, 200, 413]
    assert answers[2].document["limit_bytes"] == limit_bytes


async def test_a_declared_body_above_the_limit_is_refused_before_it_is_read() -> None:
    """B-14, SV-03: also when the client waits to be told to go on."""
    app = Echo()
    waiting = get(HOST + b"Expect: 100-continue\r\nContent-Length: 900000000000\r\n", b"/hub", method=b"POST")
    async with serving(front(app)) as server:
        answer, ended = await exchange(server.port, waiting)
    assert (answer.status, answer.headers["connection"], ended, app.served) == (413, "close", True, [])


async def test_a_chunked_body_is_not_read_beyond_its_limit() -> None:
    """B-14, SV-03: reading stops at the limit, whatever the client goes on to send."""
    read_bytes = 0

    async def reading(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal read_bytes
        while True:
            read_bytes += len((await receive()).get("body", b""))

    head = get(HOST + b"Transfer-Encoding: chunked\r\n", b"/hub", method=b"POST")
    small, large = (b"%x\r\n%b\r\n" % (size, b"a" * size) for size in (100, 60_000))
    async with serving(front(reading)) as server:
        answer, ended = await exchange(server.port, head, *[small] * 5, *[large] * 50)
    assert (answer.status, ended, read_bytes <= 500) == (413, True, True)


async def test_a_client_that_reads_only_after_sending_still_learns_that_it_sent_too_much() -> None:
    """B-14: what is moderately too long is thrown away, because closing at once would destroy the answer."""
    async with serving(front(Echo()), ServerLimits()) as server:
        answer = await ask(server.port, request("/hub", 3_000_000))
    assert answer.status == 413


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
async def test_a_common_client_that_sends_40_mb_is_told_the_limit(chunked: bool) -> None:
    """B-14: httpx writes its whole body before it reads. It saw a broken connection instead of the answer."""

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b"x" * 1_000_000

    async with serving(front(Echo()), ServerLimits()) as server, httpx.AsyncClient(trust_env=False) as client:
        body = parts() if chunked else b"x" * 40_000_000
        answer = await client.post(f"http://127.0.0.1:{server.port}/topics/a/events", content=body)
    assert (answer.status_code, answer.json()["limit_bytes"]) == (413, 1000)


async def test_a_framework_that_swallows_the_overrun_cannot_change_the_answer() -> None:
    """SV-03: FastAPI turns errors of body reading into a 400 of its own."""
    app = FastAPI()
    install_problem_handlers(app, Problems())

    @app.post("/subscriptions")
    async def subscribe(body: dict[str, str]) -> dict[str, str]:
        return body

    async with serving(front(app)) as server:
        answer = await ask(server.port, request("/subscriptions", 300, chunked=True))
    assert (answer.status, answer.document["type"]) == (413, "https://hooks.test/problems/body-too-large")


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        (b"Content-Encoding: gzip\r\n", 415),
        (b"Content-Encoding: GZIP\r\n", 415),
        (b"Content-Encoding: identity, gzip\r\n", 415),
        (b"Content-Encoding: gzip\r\nContent-Encoding: identity\r\n", 415),
        (b"Content-Encoding: br\r\n", 415),
        (b"Content-Encoding: Identity\r\n", 200),
        (b"Accept-Encoding: gzip\r\n", 200),
    ],
)
async def test_a_coded_body_is_never_unpacked(fields: bytes, status: int) -> None:
    """B-59."""
    async with serving(front(Echo())) as server:
        answer = await ask(server.port, request("/topics/a/events", 10, fields=fields))
    assert answer.status == status


# --- load -------------------------------------------------------------------------------------------------------


async def test_load_is_shed_but_health_stays_reachable() -> None:
    """SV-04: with two requests in flight a third is told when to come back, and every health route answers."""
    entered: asyncio.Queue[str] = asyncio.Queue()
    opened = asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/slow":
            entered.put_nowait(scope["path"])
            await opened.wait()
        await Echo()(scope, receive, send)

    door = front(slow)
    async with serving(door) as server, asyncio.TaskGroup() as clients:
        busy = [clients.create_task(ask(server.port, get(target=b"/slow"))) for _ in range(2)]
        for _ in busy:
            await entered.get()
        shed = await ask(server.port, GET)
        health = [await ask(server.port, get(target=path)) for path in (b"/healthz", b"/readyz", b"/metrics")]
        opened.set()
        await asyncio.wait(busy)
        after = await ask(server.port, GET)
    assert (shed.status, shed.headers["retry-after"], shed.document["title"]) == (503, "1", "The service is overloaded")
    assert [answer.status for answer in (*health, after)] == [200] * 4
    assert (door.in_flight, door.shed_total) == (0, 1)


# --- names and headers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [b"abc-123", b"req_1.2:3/4+5=", b"a" * 128])
async def test_a_sane_request_id_is_taken_over(given: bytes) -> None:
    async with serving(front(Echo())) as server:
        answer = await ask(server.port, get(HOST + b"X-Request-Id: " + given + b"\r\n"))
    assert answer.headers["x-request-id"] == given.decode()


@pytest.mark.parametrize("given", [b"", b"a b", b"a" * 129, b"<script>", b"\xff", b'"', b"-a", b"a\tb"])
async def test_another_request_id_is_replaced(given: bytes) -> None:
    """AB-05: what goes into logs and headers holds nothing but harmless characters."""
    async with serving(front(Echo())) as server:
        answer = await ask(server.port, get(HOST + b"X-Request-Id: " + given + b"\r\n"))
    assert len(answer.headers["x-request-id"]) == 21


def test_request_ids_differ_within_a_process_and_between_two() -> None:
    one, other = RequestIds(), RequestIds()
    assert len({one.new(), one.new(), other.new(), other.new()}) == 4


async def test_every_answer_forbids_sniffing() -> None:
    """SV-08: answers of the application and refusals alike, and no CORS."""
    async with serving(front(Echo())) as server:
        answers = [await ask(server.port, GET), await ask(server.port, request("/hub", 501))]
    assert [answer.headers["x-content-type-options"] for answer in answers] == ["nosniff"] * 2
    assert not [name for answer in answers for name in answer.headers if name.startswith("access-control")]


async def test_an_answer_message_that_is_sent_twice_is_not_changed() -> None:
    """A hot path may keep its messages; the front door must not write into them."""
    start: Message = {"type": "http.response.start", "status": 204, "headers": []}

    async def constant(scope: Scope, receive: Receive, send: Send) -> None:
        await send(start)
        await send({"type": "http.response.body"})

    async with serving(front(constant)) as server:
        await ask(server.port, GET)
    assert start["headers"] == []


# --- the last border --------------------------------------------------------------------------------------------


def failing(error: Exception) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise error

    return app


async def test_a_programming_error_is_logged_once_and_told_without_details(caplog: pytest.LogCaptureFixture) -> None:
    """SV-06: no stack, no SQL, no names; the request id leads the operator to the log."""
    app = FastAPI()
    install_problem_handlers(app, Problems())

    @app.get("/healthy")
    async def broken() -> None:
        raise ValueError("SELECT secret FROM db.internal")

    async with serving(front(app)) as server:
        answer = await ask(server.port, GET)
    (record,) = [record for record in caplog.records if record.exc_info]
    assert (answer.status, b"secret" in answer.body) == (500, False)
    assert (record.levelno, vars(record)["request_id"]) == (logging.ERROR, answer.headers["x-request-id"])
    assert answer.document["request_id"] == answer.headers["x-request-id"]


async def test_a_problem_raised_by_a_plain_application_is_answered_as_one() -> None:
    problem = Problem("callback-refused", setting="HOOKWIRE_EGRESS_ALLOW_CIDRS", retry_after_seconds=7)
    async with serving(front(failing(problem))) as server:
        answer = await ask(server.port, GET)
    assert (answer.status, answer.headers["retry-after"]) == (422, "7")
    assert answer.document["setting"] == "HOOKWIRE_EGRESS_ALLOW_CIDRS"


async def test_a_client_that_left_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    sent: list[Message] = []

    async def keep(message: Message) -> None:
        sent.append(message)

    async def gone() -> Message:
        return {"type": "http.disconnect"}

    async def reading(scope: Scope, receive: Receive, send: Send) -> None:
        await Request(scope, receive).body()

    scope = {"type": "http", "method": "POST", "path": "/hub", "headers": []}
    await front(reading)(scope, gone, keep)
    assert (sent, [record for record in caplog.records if record.levelno > logging.DEBUG]) == ([], [])


async def test_an_answer_that_breaks_off_ends_the_connection() -> None:
    """SV-06: half an answer must not look whole, and no second answer is put into it."""

    async def breaking(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10")]})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise ValueError

    async with serving(front(breaking)) as server, connected(server.port) as (reader, writer):
        writer.write(GET)
        async with asyncio.timeout(30):
            received = await reader.read()
    assert received.endswith(b"\r\n\r\nhalf")


async def test_a_cancelled_request_is_told_that_the_process_leaves() -> None:
    """SV-04: the end of the grace."""
    entered = asyncio.Event()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        entered.set()
        await asyncio.Event().wait()

    async with serving(front(endless)) as server, connected(server.port) as (reader, writer):
        writer.write(GET)
        await entered.wait()
        await server.stop(0.0)
        answer = await read_answer(reader)
    assert (answer.status, answer.document["title"]) == (503, "This process is shutting down")


async def test_what_is_not_http_passes_untouched() -> None:
    seen: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)

    async def nothing(*_: object) -> Message:
        raise ClientDisconnect

    await front(app)({"type": "lifespan"}, nothing, nothing)  # type: ignore[arg-type]
    assert seen == [{"type": "lifespan"}]

"""The client against a hub that is away, slow or confused, and proxies before it: it says which, and repeats safely."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.context import attach, detach

from hookwire import (
    ApiRefused,
    AsyncHookwire,
    Conflict,
    Event,
    Forbidden,
    Hookwire,
    HookwireError,
    RateLimited,
    TimedOut,
    TooLarge,
    Unreachable,
)  # fmt: skip

STORED = {"id": "evt_x_1", "topic": "a", "key": None, "sequence": None, "accepted_at": "2026-01-15T09:31:07.120455Z"}


def answer(status: int, body: bytes, content_type: str, *more: str) -> bytes:
    head = [f"HTTP/1.1 {status} X", f"Content-Type: {content_type}", f"Content-Length: {len(body)}", *more]
    return "\r\n".join([*head, "", ""]).encode() + body


def problem(status: int, slug: str, *more: str) -> bytes:
    document = {"type": f"http://hub/problems/{slug}", "title": "T", "status": status, "detail": "D", "request_id": "r"}
    return answer(status, json.dumps(document).encode(), "application/problem+json", "X-Request-Id: r", *more)


OK = answer(202, json.dumps(STORED).encode(), "application/json", "Idempotency-Replayed: true")
RESET, SILENT = b"", b"silent"
HALF = OK[:-20]
PACE_SECONDS = 0.05
DRIPPING = b"drip"  # begins the answer, and goes on with a byte at a time
HTML = b"<html>"


class Server:
    """Answers the requests one after the other, as the script says, the last answer for ever."""

    def __init__(self, script: Sequence[bytes]) -> None:
        self.script = list(script)
        self.keys: list[str] = []
        self.times: list[float] = []
        self.heads: list[str] = []
        self.bodies: list[list[Any]] = []
        self.connections = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:-2])
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.bodies.append([json.loads(line) for line in body.splitlines()])
                self.keys.append(headers.get("idempotency-key", ""))
                self.times.append(time.monotonic())
                self.heads.append(head)
                said = self.script.pop(0) if len(self.script) > 1 else self.script[0]
                if said == SILENT:
                    await reader.read()
                if said == DRIPPING:
                    await drip(reader, writer)
                writer.write(said)
                await writer.drain()
                if said in (RESET, HALF, SILENT, DRIPPING):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Begin an answer, and go on with it until the client has gone."""
    gone = asyncio.create_task(reader.read())
    writer.write(b"HTTP/1.1 202 X\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n")
    while not gone.done():
        writer.write(b"{")
        await writer.drain()
        await asyncio.wait([gone], timeout=PACE_SECONDS)


@asynccontextmanager
async def hub(*script: bytes) -> AsyncIterator[Server]:
    server = Server(script)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listening.close()


async def publish(kind: str, url: str, seconds: float = 30, **options: Any) -> Any:
    if kind == "tasks":
        async with AsyncHookwire(url, "hwk_secret") as client:
            return await client.publish("a", 1, timeout_seconds=seconds, **options)
    with Hookwire(url, "hwk_secret") as client:
        return await asyncio.to_thread(client.publish, "a", 1, timeout_seconds=seconds, **options)


@pytest.mark.parametrize("kind", ["tasks", "threads"])
@pytest.mark.parametrize(
    "trouble",
    [
        RESET, HALF, problem(503, "busy"), problem(503, "outcome-unknown"), problem(409, "idempotency-key-in-flight"),
        problem(429, "too-many-requests"), problem(408, "request-timeout"), answer(425, b"", "text/plain"),
        answer(502, HTML, "text/html"), answer(504, HTML, "text/html"),
    ],
    ids=["reset", "half", "busy", "unknown", "in flight", "429", "408", "425", "502", "504"],
)  # fmt: skip
async def test_a_passing_trouble_is_repeated_with_the_same_key(kind: str, trouble: bytes) -> None:
    """FD-03."""
    async with hub(trouble, trouble, OK) as server:
        published = await publish(kind, server.url)

        assert (published.id, published.replayed, len(server.keys), len(set(server.keys))) == ("evt_x_1", True, 3, 1)


@pytest.mark.parametrize("kind", ["tasks", "threads"])
@pytest.mark.parametrize(
    ("said", "error", "words", "may_have_been_stored"),
    [
        (problem(409, "conflict"), Conflict, "a was refused with 409: D; see http://hub/problems/conflict", False),
        (problem(413, "body-too-large"), TooLarge, "413: D", False),
        (problem(403, "forbidden"), Forbidden, "403: D", False),
        (problem(422, "invalid-topic"), ApiRefused, "422: D", False),
        (answer(401, b"", "text/plain"), Forbidden, "pass token= or set HOOKWIRE_TOKEN", False),
        (answer(308, b"", "text/plain", "Location: https://hub/x"), ApiRefused, "redirects to https://hub/x", False),
        (answer(200, HTML, "text/html"), ApiRefused, "200 with text/html, which is no answer of a hub", True),
        (answer(500, HTML, "text/html"), ApiRefused, "500 with text/html", False),
        (answer(202, b"{", "application/json"), ApiRefused, "202 with application/json", True),
    ],
    ids=["409", "413", "403", "422", "401", "redirect", "proxy", "500", "no JSON"],
)  # fmt: skip
async def test_what_a_repeat_does_not_cure_is_told_at_once(
    kind: str, said: bytes, error: type[ApiRefused], words: str, may_have_been_stored: bool
) -> None:
    """FD-04."""
    async with hub(said) as server:
        with pytest.raises(error) as refused:
            await publish(kind, server.url)

        assert (words in str(refused.value), len(server.keys)) == (True, 1)
        assert refused.value.may_have_been_stored is may_have_been_stored
        assert "hwk_secret" not in repr(refused.value) + str(refused.value)
        assert (again := pickle.loads(pickle.dumps(refused.value))).__dict__ == refused.value.__dict__
        assert str(again) == str(refused.value)


@pytest.mark.parametrize("kind", ["tasks", "threads"])
@pytest.mark.parametrize(
    ("said", "error", "may_have_been_stored"),
    [
        (SILENT, TimedOut, True),
        (DRIPPING, TimedOut, True),
        (problem(503, "outcome-unknown"), TimedOut, True),
        (problem(429, "too-many-requests", "Retry-After: 3600"), RateLimited, False),
        (problem(503, "busy", "Retry-After: 3600"), ApiRefused, False),
    ],
    ids=["silent", "slow", "unknown", "429", "busy"],
)
async def test_at_the_deadline_the_error_says_whether_the_event_may_be_stored(
    kind: str, said: bytes, error: type[HookwireError], may_have_been_stored: bool
) -> None:
    """FD-03 FD-04."""
    async with hub(said) as server:
        with pytest.raises(error) as refused:
            await publish(kind, server.url, 0.5, idempotency_key="mine")

        assert (refused.value.may_have_been_stored, refused.value.idempotency_key) == (may_have_been_stored, "mine")
        assert ("idempotency_key='mine'" in str(refused.value)) is may_have_been_stored


@pytest.mark.parametrize("kind", ["tasks", "threads"])
async def test_a_hub_that_is_away_is_named_with_the_cure(kind: str, free_port: int) -> None:
    with pytest.raises(Unreachable, match=r"cannot be reached .*is it running, and is HOOKWIRE_URL right") as refused:
        await publish(kind, f"http://127.0.0.1:{free_port}", 0.5)

    assert refused.value.may_have_been_stored is False


async def test_retry_after_is_obeyed() -> None:
    async with hub(problem(429, "too-many-requests", "Retry-After: 1"), OK) as server:
        await publish("tasks", server.url)

        assert server.times[1] - server.times[0] >= 1


async def test_an_act_whose_answer_is_lost_is_not_repeated_but_one_that_was_not_done_is() -> None:
    """A second claim would take a second batch of work, for a program that asked once."""
    claimed = answer(200, b'{"items": []}', "application/json")
    async with hub(RESET, claimed) as lost, hub(problem(503, "busy"), claimed) as busy:
        with pytest.raises(Unreachable) as refused:
            await AsyncHookwire(lost.url).jobs.claim()
        items = await AsyncHookwire(busy.url).jobs.claim()

        assert (refused.value.may_have_been_stored, len(lost.keys), items, len(busy.keys)) == (True, 1, [], 2)


UNKNOWN = {"outcome": "unknown", "error": {"type": "t", "title": "T", "status": 503, "detail": "D"}}


def lines(*items: dict[str, Any]) -> bytes:
    return answer(207, json.dumps(items).encode(), "application/json")


async def test_only_lines_without_an_outcome_are_sent_again_with_their_keys() -> None:
    """FD-10."""
    stored, replayed = {"outcome": "stored", **STORED}, {"outcome": "replayed", **STORED}
    async with hub(lines(stored, UNKNOWN), lines(UNKNOWN), lines(replayed)) as server:
        events = [Event("a", 1), Event("a", 2, idempotency_key="two")]
        outcomes = await AsyncHookwire(server.url).publish_many(events)

        assert [one.outcome for one in outcomes] == ["stored", "replayed"]
        assert [[line["idempotency_key"] for line in body] for body in server.bodies][1:] == [["two"], ["two"]]


async def test_what_is_unknown_at_the_deadline_has_its_key_for_a_later_repeat() -> None:
    """FD-10: no error takes the keys away with it."""
    async with hub(lines(UNKNOWN), SILENT) as server:
        [outcome] = await AsyncHookwire(server.url).publish_many([Event("a", 1)], timeout_seconds=1)

        assert (outcome.outcome, outcome.event.idempotency_key) == ("unknown", outcome.idempotency_key)
        assert server.bodies[0][0]["idempotency_key"] == outcome.idempotency_key


async def test_a_repeat_is_logged_without_the_token(caplog: pytest.LogCaptureFixture) -> None:
    """FD-07."""
    caplog.set_level(logging.DEBUG)
    async with hub(problem(503, "busy"), OK) as server:
        await publish("tasks", server.url)

        own = [record.getMessage() for record in caplog.records if record.name == "hookwire"]
        assert (len(own), own[0].startswith("publish to a is repeated in "), "hwk_secret" in caplog.text) == (
            1,
            True,
            False,
        )
        assert "hwk_secret" not in repr(AsyncHookwire(server.url, "hwk_secret").__dict__)


async def test_a_forked_process_and_another_loop_open_connections_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """FD-01: two processes on one connection would read each other's answers."""
    async with hub(OK) as server:
        threads, tasks = Hookwire(server.url), AsyncHookwire(server.url)
        for _ in "12":
            await asyncio.to_thread(threads.publish, "a")
        await tasks.publish("a")
        before = server.connections
        await asyncio.to_thread(asyncio.run, tasks.publish("a"))
        monkeypatch.setattr("hookwire.client.transport.os.getpid", lambda: 1)
        await asyncio.to_thread(threads.publish, "a")

        assert (before, server.connections) == (2, 4)


async def test_many_threads_may_use_one_client() -> None:
    """FD-01."""
    async with hub(OK) as server:
        client = Hookwire(server.url)
        found = await asyncio.gather(*(asyncio.to_thread(client.publish, "a", number) for number in range(40)))

        assert ({one.id for one in found}, len(set(server.keys))) == ({"evt_x_1"}, 40)


async def test_a_client_of_the_caller_is_used_and_left_open() -> None:
    """FD-08: httpx2, or httpx where that is what the program has."""
    async with hub(OK) as server:
        own = httpx.AsyncClient(headers={"X-Own": "yes"}, follow_redirects=True)
        async with AsyncHookwire(server.url, http=own) as client:
            await client.publish("a")

        assert ("x-own: yes" in server.heads[0], own.is_closed) == (True, False)
        with pytest.raises(TypeError, match="a client of httpx2 or httpx, not object"):
            AsyncHookwire(server.url, http=object())


async def test_the_current_trace_travels_with_the_event() -> None:
    """FD-07."""
    context = trace.SpanContext(1, 2, is_remote=False, trace_flags=trace.TraceFlags(1))
    token = attach(trace.set_span_in_context(trace.NonRecordingSpan(context)))
    try:
        async with hub(OK) as server:
            await publish("tasks", server.url)
    finally:
        detach(token)

    assert f"traceparent: 00-{1:032x}-{2:016x}-01" in server.heads[0]


@pytest.mark.parametrize(
    "arguments",
    [("ftp://hub",), ("http://user:secret@hub",), ("http://hub/?a=b",), ("hub:8080",), ("http://hub", "two\nlines")],
)
def test_a_wrong_address_or_token_is_named_before_anything_is_sent(arguments: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"^the (hub's address|token) ") as refused:
        Hookwire(*arguments)

    assert "secret" not in str(refused.value)

"""Requests that were sent ahead on one connection, on raw sockets: their limit, their order, their turns."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from starlette.types import Receive, Scope, Send

from tests.app.web.corpus_http import QUICK, Echo, connected, get, read_answer, send, serving
from tests.app.web.test_server import event_loop_policy, protocols, pytestmark

__all__ = ["event_loop_policy", "pytestmark"]


@pytest.mark.parametrize("requests_per_write", [1, 10_000])
async def test_ten_thousand_pipelined_requests_are_answered_in_order_or_closed(requests_per_write: int) -> None:
    """B-16: answers keep the order, and what is held at once stays below the limit. One at a time all are served."""
    held: list[int] = []
    app = Echo()

    async def watching(scope: Scope, receive: Receive, send: Send) -> None:
        held.extend(len(protocol.pipeline) for protocol in protocols(server))
        await app(scope, receive, send)

    requests = [get(target=b"/%d" % number) for number in range(10_000)]
    writes = [b"".join(requests[n : n + requests_per_write]) for n in range(0, 10_000, requests_per_write)]
    async with (
        serving(watching) as server,
        asyncio.timeout(240),
        connected(server.port) as (reader, writer),
        asyncio.TaskGroup() as both,
    ):
        both.create_task(send(writer, [*writes, b"end"]))
        answers = [await read_answer(reader)]
        while answers[-1].status == 200:
            answers.append(await read_answer(reader))
    *served, last = answers
    assert [answer.document["path"] for answer in served] == [f"/{number}" for number in range(len(served))]
    assert (last.status, len(served)) == ((400, 10_000) if requests_per_write == 1 else (429, 16 + 1))
    assert max(held) <= QUICK.pipelined_requests_max


async def test_a_pipeline_within_the_limit_is_served_in_order() -> None:
    """B-16."""
    async with serving(Echo()) as server, connected(server.port) as (reader, writer):
        writer.write(b"".join(get(target=b"/%d" % number) for number in range(16)))
        answers = [await read_answer(reader) for _ in range(16)]
    assert [answer.document["path"] for answer in answers] == [f"/{number}" for number in range(16)]


async def test_requests_that_were_sent_ahead_begin_one_at_a_time_among_all_connections() -> None:
    """GS-07: with 100 such connections everybody else waited for 100 answers in each step of the loop."""
    began: list[tuple[int, str]] = []
    step, app = 0, Echo()

    async def watching(scope: Scope, receive: Receive, send: Send) -> None:
        began.append((step, scope["path"]))
        await app(scope, receive, send)

    def count_steps() -> None:
        nonlocal step
        step += 1
        ticking[0] = asyncio.get_running_loop().call_soon(count_steps)

    ticking = [asyncio.get_running_loop().call_soon(count_steps)]
    async with serving(watching) as server, AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(connected(server.port)) for _ in range(5)]
        for _, writer in peers:
            writer.write(get(target=b"/first") + get(target=b"/ahead") * 10)
        for reader, _ in peers:
            for _ in range(11):
                assert (await read_answer(reader)).status == 200
    ticking[0].cancel()
    steps = [at for at, path in began if path == "/ahead"]
    assert len(steps) == len(set(steps)) == 50


async def test_a_refusal_waits_for_requests_that_were_sent_ahead_of_it() -> None:
    """GS-07, B-16: also while they wait for their turn."""
    async with serving(Echo()) as server, connected(server.port) as (reader, writer):
        writer.write(b"".join(get(target=b"/%d" % number) for number in range(5)) + b"nonsense\r\n\r\n")
        answers = [await read_answer(reader) for _ in range(6)]
    assert [answer.status for answer in answers] == [200] * 5 + [400]


async def test_a_whole_answer_is_sent_before_what_else_is_ready() -> None:
    """The deliveries of an event began before the answer to its publisher was sent."""
    held: list[int] = []

    def look() -> None:
        held.extend(protocol.outlet._held_bytes for protocol in protocols(server))

    async def watched(scope: Scope, receive: Receive, send: Send) -> None:
        asyncio.get_running_loop().call_soon(look)
        await Echo()(scope, receive, send)

    async with serving(watched) as server, connected(server.port) as (reader, writer):
        writer.write(get())
        answer = await read_answer(reader)
    assert (answer.status, held) == (200, [0])

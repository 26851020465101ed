"""The room of answers in the making, without a database (GS-03)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from app.web.api.route.answers import ANSWER_BYTES_MAX, Answers, Json, Share, json_of
from app.web.api.route.paging import Paging

_MIB = 1024 * 1024
_DEADLINE_SECONDS = 60


class _Reads:
    """Reads that last until they are released; each returns as many bytes as it was allowed."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.rooms: list[int] = []
        self.released = asyncio.Event()
        self.begun = asyncio.Event()

    async def read(self, room: int) -> Sequence[bytes]:
        self.rooms.append(room)
        self.begun.set()
        await self.released.wait()
        return [b"x" * room]

    async def answer(self) -> Response:
        async with self.answers.share() as share:
            found = await share.fetch(self.read)
            return await share.list_of(found, lambda one: {"size": len(one)}, len)


async def _settled() -> None:
    """Let every task run until it waits."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_all_answers_in_the_making_share_one_limit() -> None:
    """GS-03: the first gets 8 MiB, later ones less; when all is reserved, the next waits, and goes on."""
    answers = Answers()
    reads = _Reads(answers)
    async with asyncio.timeout(_DEADLINE_SECONDS), asyncio.TaskGroup() as tasks:
        for _ in range(40):
            tasks.create_task(reads.answer())
        await _settled()
        begun, reserved = len(reads.rooms), answers.making_bytes
        reads.released.set()

    assert reads.rooms[0] == ANSWER_BYTES_MAX
    assert reads.rooms[:begun] == sorted(reads.rooms[:begun], reverse=True)
    assert (begun < 40, reserved <= answers.bytes_max, len(reads.rooms)) == (True, True, 40)
    assert answers.making_bytes == 0


async def test_an_answer_that_a_client_does_not_read_makes_others_smaller_and_delays_none() -> None:
    """GS-03: its bytes count until it is sent."""
    answers = Answers(16 * _MIB)
    async with answers.share() as share:
        answer = await share.list_of([b"x"] * 12, lambda _: {"payload": "x" * _MIB}, lambda _: _MIB)
    reading = asyncio.Event()

    async def send(_: Any) -> None:
        await reading.wait()

    sending = asyncio.create_task(answer({"type": "http"}, None, send))  # type: ignore[arg-type]  # nothing is received
    await _settled()
    rooms = []
    async with answers.share() as share:
        await share.fetch(lambda room: _noted(rooms, room))
    reading.set()
    await sending
    async with answers.share() as share:
        await share.fetch(lambda room: _noted(rooms, room))

    assert rooms == [_MIB, 4 * _MIB]


async def _noted(rooms: list[int], room: int) -> list[bytes]:
    rooms.append(room)
    return []


async def test_a_route_that_fails_gives_its_room_back() -> None:
    """GS-03: also if the fetch itself fails."""
    answers = Answers()
    with pytest.raises(ZeroDivisionError):
        async with answers.share() as share:
            await share.fetch(lambda room: _noted([], room // 0))

    assert answers.making_bytes == 0


@pytest.mark.parametrize("size", [1, _MIB], ids=["small", "large"])
async def test_json_of_the_database_goes_into_an_answer_as_it_is(size: int) -> None:
    """GS-03: it is not parsed on the way. A large answer has the same content as a small one."""
    item = {"id": "a\n", "args": Json('{"n": 1e3}'), "inner": {"none": json_of(None), "list": [1, "é"]}}
    share = Share(Answers())
    bodies = [
        await _body(await share.list_of([item] * 2, dict, lambda _: size, {"next_cursor": None})),
        await _body(await share.list_of([], dict, lambda _: size)),
        await _body(await share.one(lambda: item, size)),
    ]
    text = '{"id":"a\\n","args":{"n": 1e3},"inner":{"none":null,"list":[1,"é"]}}'

    assert [body.decode().rstrip("\n") for body in bodies] == [
        f'{{"items":[{text},{text}],"next_cursor":null}}', '{"items":[]}', text,
    ]  # fmt: skip


async def _body(answer: Response) -> bytes:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await answer({"type": "http"}, None, send)  # type: ignore[arg-type]  # nothing is received
    return b"".join(message.get("body", b"") for message in sent)


async def test_a_page_that_is_cut_says_so_by_its_link() -> None:
    """GS-03: the next page begins behind the last item that fitted, also if nobody may see it."""
    request = Request({"type": "http", "path": "/jobs", "query_string": b"limit=5", "headers": []})

    async def read(_bytes_max: int) -> list[dict[str, Any]]:
        return [{"n": n, "fits": n < 3} for n in range(6)]

    paging = Paging(request, Response(), None, 5)
    answer = await Answers().page(
        paging, read, lambda row: [row["n"]], lambda row: {"n": row["n"]}, lambda row: row["n"] != 2
    )

    assert answer.headers["link"] == '</jobs?limit=5&cursor=WzJd>; rel="next"'

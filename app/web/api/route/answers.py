"""Answers: JSON with users' contents, bounded in bytes for one answer and for all at once (ADR 66).

::

    share() --fetch--> rows within its bytes --list_of, one--> answer --sent--> the bytes are free again
                |
                '-- waits while the fetches of others have all bytes

A share is a quarter of the bytes that are free, at most :data:`ANSWER_BYTES_MAX`. Answers on their way to slow clients
make the shares of others smaller, and never make them wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic_core import to_json
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from db.pool import Row

if TYPE_CHECKING:
    from app.web.api.route.paging import Paging

__all__ = ["ANSWERS_BYTES_MAX", "ANSWER_BYTES_MAX", "Answers", "Json", "Share", "json_of", "row_bytes"]

ANSWER_BYTES_MAX: Final = 8 * 1024 * 1024
ANSWERS_BYTES_MAX: Final = 4 * ANSWER_BYTES_MAX
_SHARE_BYTES_MIN: Final = 1024 * 1024
_LARGE_BYTES: Final = 128 * 1024
"""A larger answer is encoded in a thread, and sent in pieces."""
_Item = TypeVar("_Item")


class Json(str):
    """Text that is JSON already, so it goes into an answer as it is."""

    __slots__ = ()


class Answers:
    """The answers of this process: their bytes, and the one thread that encodes large ones."""

    def __init__(self, bytes_max: int = ANSWERS_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.making_bytes = 0
        self.leaving_bytes = 0
        self.thread = ThreadPoolExecutor(1, "answers")
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def share(self) -> AsyncIterator[Share]:
        """Give a route room for one answer; it is free again at the end, unless an answer has taken it over."""
        share = Share(self)
        try:
            yield share
        finally:
            self.resize(share, 0)

    async def page(
        self, paging: Paging, read: Callable[[int], Awaitable[Sequence[Row]]],
        key: Callable[[Row], Sequence[str | int]], shape: Callable[[Row], Mapping[str, Any]],
        may_see: Callable[[Row], bool] = lambda _: True,
    ) -> Response:  # fmt: skip
        """Return the rows of ``read(bytes_max)`` that fit and may be seen, with a link to the next page if it has more
        than fit.
        """
        async with self.share() as share:
            rows = await share.fetch(read)
            fitting = [row for row in rows[: paging.limit] if row["fits"]]
            is_last = len(rows) == len(fitting)
            cursor, link = (None, None) if is_last else paging.link_after(key(fitting[-1]))
            seen = [row for row in fitting if may_see(row)]
            answer = await share.list_of(seen, shape, row_bytes, {"next_cursor": cursor})
        if link is not None:
            answer.headers["Link"] = link
        return answer

    async def reserve(self, share: Share) -> None:
        """Wait for room, and reserve a share of it."""
        while self.making_bytes and self.making_bytes + _SHARE_BYTES_MIN > self.bytes_max:
            self._freed.clear()
            await self._freed.wait()
        free = self.bytes_max - self.making_bytes - self.leaving_bytes
        self.resize(share, max(_SHARE_BYTES_MIN, free // 4))

    def resize(self, share: Share, size: int) -> None:
        """Set the bytes of a share that is in the making."""
        self.making_bytes += size - share.bytes
        share.bytes = size
        self._freed.set()


class Share:
    """The room of one answer in the making: ``bytes``, of which 0 are reserved before the first fetch."""

    def __init__(self, answers: Answers) -> None:
        self.bytes = 0
        self._answers = answers

    async def fetch(self, read: Callable[[int], Awaitable[Sequence[_Item]]]) -> Sequence[_Item]:
        """Read items by ``read(bytes_max)``. Nothing stays reserved if there are none, so a long poll may repeat it."""
        await self._answers.reserve(self)
        found = await read(self.bytes)
        if not found:
            self._answers.resize(self, 0)
        return found

    async def list_of(
        self, found: Sequence[_Item], shape: Callable[[_Item], Mapping[str, Any]],
        size: Callable[[_Item], int], rest: Mapping[str, Any] | None = None, *, name: str = "items",
    ) -> Response:  # fmt: skip
        """Return ``{"items": [...]}``, or a list of another name, with the members of ``rest``."""
        begin = b'{"%s":[' % name.encode()
        more = b"".join(b',"%s":%s' % (member.encode(), to_json(value)) for member, value in (rest or {}).items())
        items = [partial(_piece, b"," if n else begin, shape, one) for n, one in enumerate(found)]
        end = b"%b]%b}" % (b"" if items else begin, more)
        return self._answer([*items, lambda: end], sum(map(size, found)))

    async def one(self, shape: Callable[[], Mapping[str, Any]], size: int) -> Response:
        """Return one object."""
        return self._answer([lambda: _encoded(shape())], size)

    def _answer(self, pieces: list[Callable[[], bytes]], size: int) -> Response:
        if size <= _LARGE_BYTES:
            return Response(b"".join(piece() for piece in pieces), media_type="application/json")
        return LargeAnswer(pieces, size, self._answers)


class LargeAnswer(Response):
    """JSON in pieces, ``size`` bytes of contents in all. A thread encodes each when the one before it is sent."""

    def __init__(self, pieces: list[Callable[[], bytes]], size: int, answers: Answers) -> None:
        super().__init__(media_type="application/json")
        del self.headers["content-length"]
        self._pieces = pieces
        self._size = size
        self._answers = answers

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        encode = partial(asyncio.get_running_loop().run_in_executor, self._answers.thread)
        self._answers.leaving_bytes += self._size
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            self._pieces.reverse()
            while self._pieces:  # a piece that was sent is not kept
                await send({"type": "http.response.body", "body": await encode(self._pieces.pop()), "more_body": True})
            await send({"type": "http.response.body", "body": b"\n"})
        finally:
            self._answers.leaving_bytes -= self._size


def _piece(before: bytes, shape: Callable[[_Item], Mapping[str, Any]], one: _Item) -> bytes:
    return before + _encoded(shape(one))


def json_of(text: str | None) -> Json | None:
    """Return the value of a column of JSON, unparsed."""
    return None if text is None else Json(text)


def row_bytes(row: Row) -> int:
    """Return the size of a row's texts."""
    return sum(len(value) for value in row.values() if isinstance(value, str | bytes))


def _encoded(value: Any) -> bytes:
    if isinstance(value, Json):
        return value.encode()
    if isinstance(value, dict):
        return b"{%s}" % b",".join(b"%s:%s" % (to_json(name), _encoded(inner)) for name, inner in value.items())
    return to_json(value)

"""Keyset paging: opaque cursors, bounded pages, a ``Link`` to the next one."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Depends, Query, Request, Response

from app.web.problem import Problem
from app.web.scopes import grant_in
from db.pool import Row

__all__ = ["PAGE_MAX", "Paged", "PagedByName", "PagedFew", "Paging", "reached_page", "read_cursor"]

PAGE_DEFAULT = 50
PAGE_MAX = 500
_EXAMINED_MAX = 2_000
Key = Sequence[str | int]
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]


def read_cursor(cursor: str | None, types: Sequence[type]) -> list[str | int] | None:
    """Return the key after which the page begins; None at the beginning. A foreign cursor is a problem."""
    if cursor is None:
        return None
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        raise Problem("invalid-cursor") from None
    if (
        not isinstance(values, list)
        or [type(value) for value in values] != list(types)
        or any(isinstance(value, int) and not 0 <= value < 2**63 for value in values)
        or any(isinstance(value, str) and not (value.isascii() and "\x00" not in value) for value in values)
    ):
        raise Problem("invalid-cursor")
    return values


@dataclass(frozen=True, slots=True)
class Paging:
    """The page that a request asks for: the cursor where it begins, and the largest number of its items."""

    request: Request
    response: Response
    cursor: str | None
    limit: int

    def after(self, *begin: str | int) -> list[Any]:
        """Return the key after which the page begins; ``begin`` without a cursor, which has values of its types."""
        return read_cursor(self.cursor, [type(value) for value in begin]) or list(begin)

    def next_after(self, key: Key | None) -> str | None:
        """Add ``Link: <...>; rel="next"`` when there is more; return the cursor."""
        if key is None:
            return None
        cursor, self.response.headers["Link"] = self.link_after(key)
        return cursor

    def link_after(self, key: Key) -> tuple[str, str]:
        """Return the cursor of the page after this key, and the value of its ``Link``."""
        cursor = base64.urlsafe_b64encode(json.dumps(list(key)).encode()).decode().rstrip("=")
        query = urlencode({**self.request.query_params, "cursor": cursor})
        return cursor, f'<{self.request.url.path}?{query}>; rel="next"'

    def next_of(self, rows: Sequence[Row], column: str) -> str | None:
        """Return as :meth:`next_after` where there are more rows than items; ``column`` is their key."""
        return self.next_after([rows[self.limit - 1][column]] if len(rows) > self.limit else None)

    async def reached(
        self, begin: Key, read: Callable[[Key, int], Awaitable[tuple[Sequence[Row], Key | None]]],
        pattern_of: Callable[[Row], str | None], key_of: Callable[[Row], Key],
    ) -> tuple[Sequence[Row], str | None]:  # fmt: skip
        """Return the rows of :func:`reached_page`, and the cursor of the next page."""
        rows, last = await reached_page(self.request, self.limit, begin, read, pattern_of, key_of)
        return rows, self.next_after(last)

    def page(self, rows: Sequence[Row], column: str) -> dict[str, Any]:
        """Return the page of these rows as they are."""
        next_cursor = self.next_of(rows, column)
        return {"items": [dict(row) for row in rows[: self.limit]], "next_cursor": next_cursor}


async def _paging(
    request: Request, response: Response, cursor: Annotated[str | None, Query(max_length=400)] = None,
    limit: Limit = PAGE_DEFAULT,
) -> Paging:  # fmt: skip
    return Paging(request, response, cursor, limit)


async def _paging_by_name(
    request: Request, response: Response, cursor: Annotated[str | None, Query(max_length=600)] = None,
    limit: Limit = PAGE_DEFAULT,
) -> Paging:  # fmt: skip
    return Paging(request, response, cursor, limit)


async def _paging_of_few(
    request: Request, response: Response, cursor: Annotated[str | None, Query(max_length=400)] = None,
    limit: Limit = PAGE_MAX,
) -> Paging:  # fmt: skip
    return Paging(request, response, cursor, limit)


Paged = Annotated[Paging, Depends(_paging)]
PagedByName = Annotated[Paging, Depends(_paging_by_name)]
"""The cursor of a page by name may be longer."""
PagedFew = Annotated[Paging, Depends(_paging_of_few)]
"""A list that seldom has more than one page."""


async def reached_page(
    request: Request,
    limit: int,
    begin: Key,
    read: Callable[[Key, int], Awaitable[tuple[Sequence[Row], Key | None]]],
    pattern_of: Callable[[Row], str | None],
    key_of: Callable[[Row], Key],
) -> tuple[Sequence[Row], Key | None]:
    """Return a page of rows that the request's key reaches, and the key after which the next page begins, or None.

    ``read`` returns at most so many rows after a key, and the key of the rest. ``pattern_of`` names a row's topic or
    pattern; a key for some topics never reaches a row without one. For such a key 2,000 rows are examined at most, so
    a page may hold fewer rows, or none. A cursor must not name a topic.
    """
    grant = grant_in(request.scope)
    if grant is None or grant.topics is None:
        return await read(begin, limit)
    found: list[Row] = []
    examined, after = 0, begin
    while True:
        rows, more = await read(after, PAGE_MAX)
        for row in rows:
            if (pattern := pattern_of(row)) is not None and grant.reaches(pattern):
                found.append(row)
                if len(found) == limit:
                    is_last = more is None and row is rows[-1]
                    return found, None if is_last else key_of(row)
        examined += PAGE_MAX
        if more is None or examined >= _EXAMINED_MAX:
            return found, more
        after = more

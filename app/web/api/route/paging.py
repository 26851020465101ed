"""Keyset paging: opaque cursors, bounded pages, a ``Link`` to the next one."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import urlencode

from fastapi import Request, Response

from app.web.problem import Problem
from app.web.scopes import grant_in
from db.pool import Row

__all__ = ["PAGE_DEFAULT", "PAGE_MAX", "link_next", "next_page", "reached_page", "read_cursor"]

PAGE_DEFAULT = 50
PAGE_MAX = 500
_EXAMINED_MAX = 2_000
Key = Sequence[str | int]


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


def link_next(request: Request, response: Response, key: Sequence[str | int] | None) -> str | None:
    """Add ``Link: <...>; rel="next"`` when there is more; return the cursor."""
    if key is None:
        return None
    cursor, response.headers["Link"] = next_page(request, key)
    return cursor


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


def next_page(request: Request, key: Sequence[str | int]) -> tuple[str, str]:
    """Return the cursor of the page after this key, and the value of its ``Link``."""
    cursor = base64.urlsafe_b64encode(json.dumps(list(key)).encode()).decode().rstrip("=")
    query = urlencode({**request.query_params, "cursor": cursor})
    return cursor, f'<{request.url.path}?{query}>; rel="next"'

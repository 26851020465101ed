"""Keyset paging: opaque cursors, bounded pages, a ``Link`` to the next one (EC-24, EC-H08)."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from urllib.parse import urlencode

from fastapi import Request, Response

from app.web.problem import Problem

__all__ = ["PAGE_DEFAULT", "PAGE_MAX", "link_next", "next_page", "read_cursor"]

PAGE_DEFAULT = 50
PAGE_MAX = 500


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


def next_page(request: Request, key: Sequence[str | int]) -> tuple[str, str]:
    """Return the cursor of the page after this key, and the value of its ``Link``."""
    cursor = base64.urlsafe_b64encode(json.dumps(list(key)).encode()).decode().rstrip("=")
    query = urlencode({**request.query_params, "cursor": cursor})
    return cursor, f'<{request.url.path}?{query}>; rel="next"'

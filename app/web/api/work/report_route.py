"""ReportRoute: a strict route for the report of work that is done.

A result that cannot be stored is no reason to do the work again. It becomes the beginning of its text, with a note.
"""

from __future__ import annotations

import json
from itertools import islice
from typing import Final

from starlette.requests import Request
from typing_extensions import override

from app.web.api.route.strict_route import Rewritten, StrictRoute
from app.web.problem import Problem
from event.json_places import member_places
from event.strict_json import LENIENT, TEXT_CHARACTERS_MAX, storable_text
from runtime.large_body import beside_loop_if_large

__all__ = ["ReportRoute", "with_text"]

_MEMBERS_MAX: Final = 100
"""A report with more members is refused by its model."""


class ReportRoute(StrictRoute):
    """Reads a body whose member `result` alone is no strict JSON."""

    @override
    async def judged(self, request: Request, body: bytes) -> Request:
        """Return the request, or one whose result is text. Raise a problem if anything else of the body is wrong."""
        try:
            return await super().judged(request, body)
        except Problem as problem:
            kept = await beside_loop_if_large(len(body), with_text, body, problem.detail or "")
            if kept is None:
                raise
        return await super().judged(Rewritten(request, kept), kept)


def with_text(body: bytes, why: str) -> bytes | None:
    """Return the body with its result as text and the reason as its note, or None without a result.

    The result is kept as it was sent, because an object of a body of the wrong shape is never built.
    """
    try:
        places = {name: (start, end) for name, start, end in islice(member_places(body), _MEMBERS_MAX)}
        start, end = places["result"]
        text = _text_of(body[start:end])
    except (KeyError, ValueError):
        return None
    kept = b"%b%b%b" % (body[:start], json.dumps(text).encode(), body[end:])
    if "note" in places:
        return kept
    note = json.dumps(f"the result cannot be stored: {why[:200]}; the beginning of its text is kept").encode()
    return kept.replace(b"{", b'{"note": %b, ' % note, 1)


def _text_of(source: bytes) -> str:
    if source.startswith(b'"'):
        return storable_text(LENIENT.decode(source.decode("utf-8", "replace")))
    return storable_text(source[: 4 * TEXT_CHARACTERS_MAX].decode("utf-8", "replace"))

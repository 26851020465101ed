"""ReportRoute: a strict route for the report of work that is done.

A result that cannot be stored is no reason to do the work again. It becomes the beginning of its text, with a note.
"""

from __future__ import annotations

import json

from starlette.requests import Request
from typing_extensions import override

from app.web.api.route.strict_route import Rewritten, StrictRoute
from app.web.problem import Problem
from event.strict_json import storable_text

__all__ = ["ReportRoute"]


class ReportRoute(StrictRoute):
    """Reads a body whose member `result` alone is no strict JSON."""

    @override
    def judged(self, request: Request, body: bytes) -> Request:
        """Return the request, or one whose result is text. Raise a problem if anything else of the body is wrong."""
        try:
            return super().judged(request, body)
        except Problem as problem:
            kept = _with_text(body, problem.detail or "")
            if kept is None:
                raise
        return super().judged(Rewritten(request, kept), kept)


def _with_text(body: bytes, why: str) -> bytes | None:
    """Return the body with its result as text and the reason as its note, or None without a result."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or "result" not in found:
        return None
    result = found["result"]
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    note = f"the result cannot be stored: {why[:200]}; the beginning of its text is kept"
    return json.dumps({"note": note, **found, "result": storable_text(text)}).encode()

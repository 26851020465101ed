"""Refusals: how a route's problems are written into the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from app.web.problem import PROBLEM_MEDIA_TYPE, Problem, Problems
from app.web.problem_kinds import KINDS

__all__ = ["ACT", "BODY", "OPTIONAL_BODY", "PROBLEM_SCHEMA", "refusals"]

OPTIONAL_BODY: Final = ("malformed-json", "invalid-parameter", "unsupported-media-type", "body-too-large")
"""The refusals of a JSON body that may lack each of its members."""
BODY: Final = (*OPTIONAL_BODY, "missing-parameter")
"""The refusals of a JSON body."""
ACT: Final = (*OPTIONAL_BODY, "not-found", "outcome-unknown")
"""The refusals of an act on one thing, with an optional body."""

PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": "Problem",
    "description": "A refusal (RFC 9457). `type` is the address of a page that explains cause and cure.",
    "required": ["type", "title", "status", "detail", "request_id"],
    "properties": {
        "type": {"type": "string", "format": "uri-reference", "description": "Names the kind; open it in a browser."},
        "title": {"type": "string", "description": "The kind in a few words; always the same for one `type`."},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string", "description": "The event that caused it."},
        "request_id": {
            "type": "string",
            "description": "The id of the request in the log; also X-Request-Id.",
        },
        "parameter": {"type": "string", "description": "The wrong header, parameter or field."},
        "setting": {
            "description": "The setting that decides it.",
            "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
        },
        "errors": {
            "type": "array",
            "description": "All errors of the request, where they are known.",
            "items": {
                "type": "object",
                "required": ["in", "parameter", "message"],
                "properties": {name: {"type": "string"} for name in ("in", "parameter", "message")},
            },
        },
    },
    "additionalProperties": True,
}

_RETRY_AFTER = {"Retry-After": {"description": "Seconds to wait before repeating.", "schema": {"type": "integer"}}}


def refusals(*slugs: str) -> dict[int | str, dict[str, Any]]:
    """Return the ``responses`` of a route with these problem kinds, grouped by status, one example each."""
    found: dict[int | str, dict[str, Any]] = {}
    for kind in sorted((KINDS[slug] for slug in slugs), key=lambda kind: (kind.status, kind.slug)):
        response = found.setdefault(kind.status, _response())
        response["description"] = "; ".join(filter(None, (response["description"], kind.title)))
        response["content"][PROBLEM_MEDIA_TYPE]["examples"][kind.slug] = {
            "summary": kind.title,
            "value": Problems("https://hub.example").document(Problem(kind.slug), "5f0c9b2e71aa-0000002a"),
        }
        if kind.retry_after_seconds is not None:
            response["headers"] = _RETRY_AFTER
    return found


def _response() -> dict[str, Any]:
    content = {"schema": {"$ref": "#/components/schemas/Problem"}, "examples": {}}
    return {"description": "", "content": {PROBLEM_MEDIA_TYPE: content}}

"""StrictRoute: a route that reads its JSON body strictly.

The framework's own parser accepts NaN, the last of two equal keys, lone surrogates and U+0000, which the database would
refuse. It also ignores an unknown parameter of the query. A list with a misspelt filter would return everything, and a
purge with ``?dry_run=true`` would be done (ADR 33).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import override

from app.web.api.route.json_route import JsonRoute
from app.web.api.route.refusals import refusals
from app.web.api.route.remark import Remark, remarks_of, with_remarks
from app.web.problem import Problem
from app.web.publishing.query import refuse_unknown
from event.attribute import CONTENT_TYPE_BYTES_MAX
from event.json_format import charset_is_utf8, is_json_type
from event.strict_json import StrictJsonError, loads

__all__ = ["NO_NUL", "Rewritten", "StrictRoute", "strict_router"]

NO_NUL: Final = r"^[^\x00]*$"  # for a text in an address: the database has no such character

_READS = frozenset({"GET", "HEAD"})


class StrictRoute(JsonRoute):
    """Refuses a body that is not announced as JSON (415) or that is no strict JSON (400, 422).

    Routes with query parameters and routes that change something also refuse unknown parameters (400). A plain read
    without parameters ignores them, because links to it may carry extra ones.
    """

    _remarks: Mapping[str, Remark] = MappingProxyType({})

    @override
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the framework's handler with our strict reading of the body."""
        handle = super().get_route_handler()
        known = [field.alias for one in (self.dependant, *self.dependant.dependencies) for field in one.query_params]
        if self.body_field is not None:
            self._remarks = remarks_of(self.body_field.field_info.annotation)
        is_strict = bool(known) or not _READS.issuperset(self.methods or ())

        async def handle_strictly(request: Request) -> Response:
            if self.body_field is not None and (body := await request.body()):
                _judge_type(request.headers.get("content-type", ""))
                request = await self.judged(request, body)
            if is_strict:
                refuse_unknown(request.query_params, known)
            return await handle(request)

        return handle_strictly

    async def judged(self, request: Request, body: bytes) -> Request:
        """Return the request if its body is strict JSON, or is so without its remarks. Else raise a problem."""
        try:
            loads(body)
        except StrictJsonError as error:
            refused = Problem("malformed-json", error.reason, status=error.status_hint)
        else:
            return request
        if not self._remarks or (cleaned := with_remarks(body, self._remarks)) is None:
            raise refused
        try:
            loads(cleaned)
        except StrictJsonError:
            raise refused from None
        return Rewritten(request, cleaned)


def strict_router(prefix: str, tag: str, *kinds: str) -> APIRouter:
    """Return a router of strict routes. Each may refuse with these problem kinds, or because of the database."""
    responses = refusals("database-unavailable", "busy", *kinds)
    return APIRouter(prefix=prefix, tags=[tag], route_class=StrictRoute, responses=responses)


class Rewritten(Request):
    """The request with another body."""

    def __init__(self, request: Request, body: bytes) -> None:
        super().__init__(request.scope, request.receive)
        self._body = body


def _judge_type(content_type: str) -> None:
    if len(content_type) > CONTENT_TYPE_BYTES_MAX:
        detail = f"Content-Type has {len(content_type)} bytes, at most {CONTENT_TYPE_BYTES_MAX} are read."
        raise Problem("unsupported-media-type", detail)
    if not _is_application_json(content_type) or not charset_is_utf8(content_type):
        raise Problem("unsupported-media-type", "This route reads Content-Type: application/json in UTF-8.")


def _is_application_json(content_type: str) -> bool:
    """Return whether the text before the first semicolon is JSON's type; RFC 2231 is ignored."""
    media_type = content_type.partition(";")[0].strip().lower()
    return media_type.startswith("application/") and media_type.count("/") == 1 and is_json_type(media_type)

"""Every answer that is not a success: one table of kinds, one shape on the wire (RFC 9457).

A problem is raised where it is found and written at one of three borders, always as the same document::

    a route ............ raise Problem("unknown-topic")  -> install_problem_handlers  -> Response
    plain ASGI ......... raise Problem(...)              -> app.web.limits.FrontDoor      -> answer()
    the HTTP parser .... raise Problem(...)              -> app.web.server                -> answer()

    {"type": "<public url>/problems/<slug>", "title", "status", "detail", "request_id", ...extra members}

The kinds themselves are the table in `app.web.problem_kinds`.
"""

from __future__ import annotations

import http
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from app.web.problem_kinds import KINDS
from db.errors import Busy, DatabaseError, OutcomeUnknown

if TYPE_CHECKING:
    from fastapi import FastAPI

PROBLEM_MEDIA_TYPE: Final = "application/problem+json"
RESERVED_MEMBERS: Final = frozenset({"type", "title", "status", "detail", "instance", "request_id"})
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
# Texts that quote the caller are cut here, so that every answer stays small.
DETAIL_CHARACTERS_MAX: Final = 500
VALIDATION_ERRORS_MAX: Final = 20


_SLUG_OF_STATUS: Final = {
    404: "not-found",
    405: "method-not-allowed",
    408: "request-timeout",
    413: "body-too-large",
    415: "unsupported-media-type",
    429: "too-many-requests",
    503: "busy",
}


_MESSAGES: Final = {
    "extra_forbidden": "there is no such member",
    "missing": "is missing",
    "model_attributes_type": "must be a JSON object",
}
"""Our texts for errors of the validation library."""


class Problem(Exception):
    """A request that cannot be served, with all data of its answer.

    `slug` names a row of `KINDS` (an unknown one is a programming error: KeyError). `detail` is about this occurrence
    and is shown to the caller; it defaults to the kind's cause. `status` deviates from the row where a protocol
    demands another one. A header of several values is sent as so many fields. `extra` become members of the document,
    e.g. `parameter="limit"` or `setting="HOOKWIRE_..."`.
    """

    def __init__(
        self,
        slug: str,
        detail: str | None = None,
        *,
        status: int | None = None,
        retry_after_seconds: int | None = None,
        headers: Mapping[str, str | Sequence[str]] | None = None,
        **extra: object,
    ) -> None:
        assert not RESERVED_MEMBERS & extra.keys(), f"reserved problem members: {extra.keys()}"
        self.kind = KINDS[slug]
        self.slug = slug
        self.detail = (detail or self.kind.cause)[:DETAIL_CHARACTERS_MAX]
        self.status = status or self.kind.status
        self.retry_after_seconds = retry_after_seconds or self.kind.retry_after_seconds
        self.headers = dict(headers or {})
        self.extra = extra
        super().__init__(f"{slug}: {self.detail}")


@dataclass(frozen=True, slots=True)
class Answer:
    """A problem ready to be written over HTTP: status, ASGI header pairs, body."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


@dataclass(frozen=True, slots=True)
class Problems:
    """Writes problems. `public_url` is where users reach this service; empty makes `type` a relative reference."""

    public_url: str = ""

    def type_of(self, slug: str) -> str:
        """Return the `type` member: the address of the page that explains this kind of problem."""
        return f"{self.public_url.rstrip('/')}/problems/{slug}"

    def document(self, problem: Problem, request_id: str) -> dict[str, object]:
        """Return the members of the answer (RFC 9457 section 3.1) and our extension members."""
        return {
            "type": self.type_of(problem.slug),
            "title": problem.kind.title,
            "status": problem.status,
            "detail": problem.detail,
            "request_id": request_id,
            **problem.extra,
        }

    def answer(self, problem: Problem, request_id: str) -> Answer:
        """Return the problem as bytes, for plain ASGI applications and for the HTTP protocol itself."""
        # ASCII escapes: the answer can be encoded with any quoted text, even with lone surrogates.
        body = json.dumps(self.document(problem, request_id), separators=(",", ":")).encode("ascii") + b"\n"
        headers = [(b"content-type", PROBLEM_MEDIA_TYPE.encode()), (b"content-length", b"%d" % len(body))]
        if problem.retry_after_seconds is not None:
            headers.append((b"retry-after", b"%d" % problem.retry_after_seconds))
        return Answer(problem.status, [*headers, *header_fields(problem)], body)

    def response(self, problem: Problem, request_id: str) -> Response:
        """Return the problem as a Starlette response."""
        answer = self.answer(problem, request_id)
        response = Response(answer.body, status_code=answer.status)
        response.raw_headers = answer.headers
        return response


def header_fields(problem: Problem) -> list[tuple[bytes, bytes]]:
    """Return the headers that a problem brings, as ASGI pairs."""
    return [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, values in problem.headers.items()
        for value in ([values] if isinstance(values, str) else values)
    ]


def request_id_of(scope: Scope) -> str:
    """Return the id that `app.web.limits.FrontDoor` gave this request; empty without one."""
    return str(scope.get("state", {}).get("request_id", ""))


def problem_of_http_exception(error: HTTPException) -> Problem:
    """Return the framework's own refusals (no such route, wrong method, unreadable body) as our own problems.

    A detail that only repeats the status phrase is dropped, and so is every detail of a 5xx: it is not for the caller.
    """
    status = error.status_code
    slug = _SLUG_OF_STATUS.get(status, "bad-request" if status < 500 else "internal-error")
    phrase = http.HTTPStatus(status).phrase if status in http.HTTPStatus.__members__.values() else ""
    detail = str(error.detail) if status < 500 and error.detail and error.detail != phrase else None
    return Problem(slug, detail, status=status, headers=error.headers)


def problem_of_database(error: DatabaseError, *, reads: bool) -> Problem:
    """Return the problem of an operating error of the database."""
    if isinstance(error, Busy):
        return Problem("busy", "The database is held up; nothing was changed.")
    if isinstance(error, OutcomeUnknown) and not reads:
        return Problem("outcome-unknown")
    return Problem("database-unavailable")


def problem_of_validation(errors: Sequence[Mapping[str, Any]]) -> Problem:
    """Return the problem of an invalid request, parameter by parameter; rejected values are never repeated."""
    found = [_validation_error(error) for error in errors[:VALIDATION_ERRORS_MAX]]
    if errors[0]["type"] == "json_invalid":
        return Problem("malformed-json", f"{found[0]['message']} at character {errors[0]['loc'][-1]}")
    slug = "missing-parameter" if errors[0]["type"] == "missing" else "invalid-parameter"
    place, parameter, message = found[0].values()
    where = place if parameter == place else f"{place} {parameter}"
    return Problem(slug, f"{where}: {message}", parameter=parameter, errors=found)


def _validation_error(error: Mapping[str, Any]) -> dict[str, str]:
    place, *path = (str(part)[:100] for part in error["loc"])
    message = _MESSAGES.get(error["type"]) or str(error["msg"])[:200]
    return {"in": place, "parameter": ".".join(path[:10]) or place, "message": message}


def allowed_methods(request: Request) -> str:
    """Return the Allow header (RFC 9110 section 15.5.6): all methods of this path. Where there is GET, there is HEAD.

    The framework names those of one route.
    """
    routes = request.scope["app"].router.routes
    probes = ((method, {**request.scope, "method": "GET" if method == "HEAD" else method}) for method in METHODS)
    return ", ".join(m for m, scope in probes if any(route.matches(scope)[0] is Match.FULL for route in routes))


def install_problem_handlers(app: FastAPI, problems: Problems) -> None:
    """Make every refusal of `app` a problem document.

    The handler for Exception only answers. The framework raises the exception again after it, and `FrontDoor`, which is
    outside of the framework, logs it once with the request id.
    """
    from fastapi.exceptions import RequestValidationError

    async def problem(request: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return problems.response(error, request_id_of(request.scope))

    async def http_exception(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        found = problem_of_http_exception(error)
        if found.status == 405 and (methods := allowed_methods(request)):
            found = Problem("method-not-allowed", f"This address answers to {methods}.", headers={"Allow": methods})
        return problems.response(found, request_id_of(request.scope))

    async def validation(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return problems.response(problem_of_validation(error.errors()), request_id_of(request.scope))

    async def programming_error(request: Request, _: Exception) -> Response:
        return problems.response(Problem("internal-error"), request_id_of(request.scope))

    app.add_exception_handler(Problem, problem)
    app.add_exception_handler(HTTPException, http_exception)
    app.add_exception_handler(RequestValidationError, validation)
    app.add_exception_handler(Exception, programming_error)

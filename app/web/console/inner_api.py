"""InnerApi: the pages read and act through the routes of the API, in this process (ADR 73).

::

    page --ask(GET /subscriptions)--> need of the route --> repeats --> route --> JSON --> page
                                          |
                                          '-- the key has too few rights: the same refusal as over HTTP

So a page shows what its reader's key may see, and an act has the checks, the refusals and the audit entry of its route.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urlencode

from fastapi import Request
from starlette.types import ASGIApp, Message, Scope

from app.web.authentication import grant_of, judge_need
from app.web.problem import PROBLEM_MEDIA_TYPE, Problem
from app.web.problem_kinds import KINDS
from app.web.route_needs import RouteNeeds

__all__ = ["ApiRequest", "InnerApi", "inner_api_of"]

_PASSED: Final = frozenset({b"user-agent", b"x-forwarded-for"})


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request of the API. ``path`` is percent-encoded; ``once`` is its ``Idempotency-Key``."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    once: str = ""

    @classmethod
    def with_json(cls, method: str, path: str, body: Any, once: str = "") -> ApiRequest:
        """Return a request with this body."""
        return cls(method, path, body=json.dumps(body).encode(), once=once)

    @property
    def target(self) -> str:
        """Return path and query."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path

    def fields(self) -> list[tuple[bytes, bytes]]:
        """Return its own headers, as ASGI has them."""
        named = dict(self.headers)
        if self.body is not None:
            named["content-type"] = self.content_type
        if self.once:
            named["idempotency-key"] = self.once
        return [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in named.items()]


class InnerApi:
    """The API of this process. ``needs`` None: requests need no key."""

    def __init__(self, app: ASGIApp, needs: RouteNeeds | None) -> None:
        self._app = app
        self._needs = needs

    async def ask(self, request: Request, ask: ApiRequest) -> Any:
        """Return the JSON of the answer, or its text, for the caller of ``request``.

        Raises ``Problem`` where the API refuses, also where the caller's key has too few rights.
        """
        scope, answer = _scope(request, ask), _Answer()
        grant = grant_of(request)
        if self._needs is not None and grant is not None:
            judge_need(grant, self._needs.of(scope))
        body = [ask.body or b""]

        async def receive() -> Message:
            if body:
                return {"type": "http.request", "body": body.pop(), "more_body": False}
            return await request.receive()

        await self._app(scope, receive, answer.take)
        return answer.read()


def inner_api_of(request: Request) -> InnerApi:
    """Return the API of a request's application."""
    found: InnerApi = request.app.state.inner_api
    return found


class _Answer:
    """The messages of an answer."""

    def __init__(self) -> None:
        self._status = 0
        self._type = ""
        self._body: list[bytes] = []

    async def take(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = dict(message.get("headers", ()))
            self._type = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0]
        else:
            self._body.append(message.get("body", b""))

    def read(self) -> Any:
        body = b"".join(self._body)
        if self._type == PROBLEM_MEDIA_TYPE:
            raise _problem(json.loads(body))
        return json.loads(body) if self._type == "application/json" and body else body.decode("utf-8", "replace")


def _problem(document: Mapping[str, Any]) -> Problem:
    slug = str(document["type"]).rpartition("/")[2]
    return Problem(slug if slug in KINDS else "internal-error", document["detail"], status=document["status"])


def _scope(request: Request, ask: ApiRequest) -> Scope:
    outer = request.scope
    passed = [(name, value) for name, value in outer["headers"] if name in _PASSED or name == _actor_header(request)]
    state = {name: value for name, value in outer["state"].items() if name in ("grant", "request_id")}
    return {
        **{name: outer[name] for name in ("type", "asgi", "http_version", "scheme", "client", "server")},
        "method": ask.method, "root_path": "", "path": unquote(ask.path), "raw_path": ask.path.encode("ascii"),
        "query_string": urlencode(ask.query).encode("ascii"), "headers": [*passed, *ask.fields()], "state": state,
    }  # fmt: skip


def _actor_header(request: Request) -> bytes:
    name: str = request.app.state.context.settings.actor_header
    return name.lower().encode("ascii")

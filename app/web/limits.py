"""Limits of one request, between the HTTP server and the application.

`FrontDoor` is one plain ASGI layer round the whole application. For each request, in this order::

    request id      X-Request-Id is kept when it is valid, else made; scope["state"]["request_id"]
    page            from another site's page -> 403; under another host name -> 421; see `app.web.page_policy`
    agent           our own, so a subscriber's callback leads back to this hub -> 403
    load            more requests in flight than allowed -> 503 + Retry-After; health routes always pass
    coding          Content-Encoding other than identity -> 415, nothing is ever unpacked
    length          Content-Length above the route's limit -> 413 before a byte of the body is read
    counting        chunked bodies are counted while they are read; at the limit reading stops -> 413
    last resort     an unhandled exception -> logged once with the request id, 500 without details
    answer          X-Request-Id and X-Content-Type-Options on whatever is sent

A body with a Content-Length needs no counting: the HTTP parser ends it at that length. The layer works on the ASGI
messages themselves, because it runs for every published event. `app.web.server` has already judged the request on the
wire: header size, times, framing.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.web.page_policy import PagePolicy
from app.web.problem import Problem, Problems

log = logging.getLogger(__name__)

KIB: Final = 1024
MIB: Final = 1024 * KIB
HEALTH_PATHS: Final = frozenset({"/healthz", "/readyz", "/metrics"})
_BATCH_TYPES: Final = (
    b"application/x-ndjson", b"application/vnd.hookwire.events+ndjson", b"application/cloudevents-batch+json",
)  # fmt: skip
_WATCHED: Final = frozenset(
    {
        b"content-length",
        b"content-encoding",
        b"content-type",
        b"host",
        b"origin",
        b"sec-fetch-site",
        b"transfer-encoding",
        b"user-agent",
        b"x-request-id",
    }
)
_SANE_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:/+=-]{0,127}")
_CALL_SLASHES: Final = 2  # /services/{name}
_WORK: Final = ("/jobs/", "/queues/", "/subscriptions/")
_REPORTS: Final = ("/complete", "/fail", "/progress", "/reject", "/nack")
_NOSNIFF: Final = (b"x-content-type-options", b"nosniff")


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """How much one request may send, and how many may be in progress at once in this process.

    `events_bytes_max` bounds one event, `batch_bytes_max` a whole batch (lines, CloudEvents batch), `form_bytes_max`
    the forms of /hub, `other_bytes_max` every other body. The reports of workers may be as large as a batch,
    and every other body of `/jobs` as an event.
    """

    events_bytes_max: int = 1 * MIB
    batch_bytes_max: int = 4 * MIB
    form_bytes_max: int = 64 * KIB
    other_bytes_max: int = 64 * KIB
    requests_in_flight_max: int = 1024

    def body_bytes_max(self, path: str, content_type: bytes) -> int:
        """Return the limit of the route that serves `path`.

        RabbitHub's endpoints take the event as the body, as ours do.
        """
        takes_bodies = path.endswith(("/events", "/messages")) and path.startswith(("/topics/", "/queues/"))
        takes_bodies |= path.startswith("/services/") and path.count("/") == _CALL_SLASHES
        takes_bodies |= path.startswith("/requests/") and path.endswith("/reply")
        if path.endswith("/batch") and path.startswith("/topics/"):
            return self.batch_bytes_max
        if path.startswith("/in/"):
            return self.events_bytes_max
        if takes_bodies or path.startswith(("/rabbithub/", "/hub/content", "/hub/callback/")):
            return self.batch_bytes_max if content_type.lower().startswith(_BATCH_TYPES) else self.events_bytes_max
        if path.startswith(_WORK) and path.endswith(_REPORTS):
            return self.batch_bytes_max  # a large result or the long text of an error is cut, not refused
        if path == "/jobs" or path.startswith("/jobs/"):
            return self.events_bytes_max  # arguments, results and answers of jobs
        return self.form_bytes_max if path == "/hub" else self.other_bytes_max


class RequestIds:
    """Makes request ids: unique among processes, and in order within this process."""

    def __init__(self) -> None:
        self._prefix = secrets.token_hex(6)
        self._numbers = itertools.count(1)

    def new(self) -> str:
        """Return the next id, e.g. `5f0c9b2e71aa-0000002a`."""
        return f"{self._prefix}-{next(self._numbers):08x}"

    def adopt(self, given: bytes | None) -> str:
        """Return the caller's own id when it is short and safe in logs and headers, else a new id."""
        if given is not None and _SANE_REQUEST_ID.fullmatch(given):
            return given.decode("ascii")
        return self.new()


class FrontDoor:
    """The ASGI layer described above. The metrics read `in_flight` and `shed_total`."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        problems: Problems,
        limits: RequestLimits | None = None,
        request_ids: RequestIds | None = None,
        pages: PagePolicy | None = None,
        own_agent: bytes | None = None,
    ) -> None:
        self.app = app
        self.problems = problems
        self.limits = limits or RequestLimits()
        self.request_ids = request_ids or RequestIds()
        self.pages = pages or PagePolicy()
        self.own_agent = own_agent
        self.in_flight = 0
        self.shed_total = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; other scopes (lifespan) pass untouched. It is also the last border: every
        exception of the application ends here, as an answer and, if unexpected, as one log record.
        """
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        watched = {name: value for name, value in scope["headers"] if name in _WATCHED}
        request_id = self.request_ids.adopt(watched.get(b"x-request-id"))
        scope.setdefault("state", {})["request_id"] = request_id
        exchange = _Exchange(self.problems, request_id, send)
        self.in_flight += 1
        try:
            self.pages.judge(scope, watched)
            limit_bytes = self.limits.body_bytes_max(scope["path"], watched.get(b"content-type", b""))
            self._judge(scope, watched, limit_bytes)
            if b"transfer-encoding" in watched:
                receive = exchange.counted(receive, limit_bytes)
            # The server sends no body in answer to HEAD (RFC 9110, 9.3.2).
            asked = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
            await self.app(asked, receive, exchange.send)
        except Problem as problem:
            await exchange.refuse(problem)
        except ClientDisconnect:
            log.debug("client left before its request was read", extra={"request_id": request_id})
        except asyncio.CancelledError:
            # The server cancels what is left after its grace. Nothing awaits this task, so it may just end.
            await exchange.refuse(Problem("shutting-down"))
        except Exception:
            if exchange.overrun is None:
                facts = {"request_id": request_id, "method": scope["method"], "path": scope["path"]}
                log.exception("request failed by a programming error", extra=facts)
            await exchange.refuse(Problem("internal-error"))
        finally:
            self.in_flight -= 1
        if exchange.overrun is not None:
            await exchange.refuse(exchange.overrun)

    def _judge(self, scope: Scope, watched: Mapping[bytes, bytes], limit_bytes: int) -> None:
        if self.own_agent is not None and watched.get(b"user-agent") == self.own_agent:
            raise Problem("own-request")
        if self.in_flight > self.limits.requests_in_flight_max and scope["path"] not in HEALTH_PATHS:
            self.shed_total += 1
            raise Problem("busy", "More requests are in flight than this process accepts; nothing was done.")
        if b"content-encoding" in watched and _coded(scope):
            raise Problem("unsupported-media-type", "Content-Encoding is not accepted; send the body as it is.")
        if b"content-length" in watched and int(watched[b"content-length"]) > limit_bytes:
            raise _too_large(limit_bytes)


class _Exchange:
    """The answer to one request: whether it has begun, and whether it must become a 413."""

    __slots__ = ("_answer_headers", "_outer_send", "_problems", "_request_id", "overrun", "started")

    def __init__(self, problems: Problems, request_id: str, send: Send) -> None:
        self._problems = problems
        self._request_id = request_id
        self._answer_headers = ((b"x-request-id", request_id.encode("ascii")), _NOSNIFF)
        self._outer_send = send
        self.overrun: Problem | None = None
        self.started = False

    async def send(self, message: Message) -> None:
        """Add our headers to the answer. After an overrun the answer is 413, regardless of the application's answer."""
        if self.overrun is not None and not self.started:
            return
        if message["type"] == "http.response.start":
            self.started = True
            message = {**message, "headers": [*message.get("headers", ()), *self._answer_headers]}
        await self._outer_send(message)

    def counted(self, receive: Receive, limit_bytes: int) -> Receive:
        """Return `receive` with a count: when the body exceeds the limit of its route, nothing more is read."""
        read_bytes = 0

        async def receive_counted() -> Message:
            nonlocal read_bytes
            message = await receive()
            read_bytes += len(message.get("body", b""))
            if read_bytes > limit_bytes:
                self.overrun = self.overrun or _too_large(limit_bytes)
                raise self.overrun
            return message

        return receive_counted

    async def refuse(self, problem: Problem) -> None:
        """Answer with a problem, unless an answer has begun: then the server ends it by closing the connection."""
        if self.started:
            return
        problem = self.overrun or problem
        self.started = True
        answer = self._problems.answer(problem, self._request_id)
        headers = [*answer.headers, *self._answer_headers]
        await self._outer_send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await self._outer_send({"type": "http.response.body", "body": answer.body})


def _too_large(limit: int) -> Problem:
    # The rest of the body is not read, so this connection cannot carry another request.
    detail = f"At most {limit} bytes are accepted here."
    return Problem("body-too-large", detail, limit_bytes=limit, headers={"Connection": "close"})


def _coded(scope: Scope) -> bool:
    return any(name == b"content-encoding" and value.lower() != b"identity" for name, value in scope["headers"])

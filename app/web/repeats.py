"""Repeats: a POST with an ``Idempotency-Key`` is executed once, and its repeats get its answer (ADR 70).

::

    lock the key --> an answer is kept --> same request: that answer; another: 422
         |      '--> none --> the route, in this transaction --> 2xx: keep the answer, COMMIT, send
         '--> locked elsewhere: 409                         '--> else: ROLLBACK, send

So what the route made and the answer are committed together, or neither is.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.web.api.route.repeat_rules import FORMER, KEPT, REFUSED, keys_given, repeat_key
from app.web.problem import Problem, problem_of_database
from app.web.publishing.whole_body import read_whole_body
from app.web.scopes import key_id_in
from db.errors import DatabaseError
from db.pool import Database, Row, Session

__all__ = ["Repeats"]

_TENANT: Final = "default"
_READ: Final = frozenset({b"content-type", b"link", b"x-hub-signature"})
_UNLIKE: Final = frozenset({b"hookwire-actor"})
"""Headers of ours that may differ in a repeat."""
_HIDDEN: Final = "The secret was shown once and is not repeated. A new one: POST {place}/keys."


class _NotKept(Exception):
    """The route has refused the request, so its transaction is rolled back."""


@dataclass(slots=True)
class _Answer:
    """The messages of a route's answer, held back until COMMIT."""

    messages: list[Message] = field(default_factory=list)

    async def send(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        return list(self.messages[0].get("headers", ()))

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages[1:])


class Repeats:
    """The ASGI layer. ``tell`` is called after each commit."""

    def __init__(self, app: ASGIApp, database: Database, tell: Callable[[], None]) -> None:
        self._app = app
        self._database = database
        self._tell = tell

    @cached_property
    def _kept(self) -> list[tuple[re.Pattern[str], str]]:
        """The paths whose answers are kept, with the secret of each. The first request with a key compiles them."""
        return [(compile_path(path)[0], secret) for path, secret in (KEPT | dict.fromkeys(FORMER, "")).items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or raise ``Problem`` for the request limits to answer."""
        given = _given(scope)
        if given:
            if (words := REFUSED.get(scope["path"])) is not None:
                raise Problem("invalid-header", words, parameter="idempotency-key")
            secret = next((secret for path, secret in self._kept if path.match(scope["path"])), None)
            if secret is not None:
                await self._once(scope, receive, send, repeat_key(given), secret)
                return
        await self._app(scope, receive, send)

    async def _once(self, scope: Scope, receive: Receive, send: Send, key: str, secret: str) -> None:
        body = await read_whole_body(receive)
        path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        name = (_TENANT, key_id_in(scope) or "", path, key)
        answer, is_first = _Answer(), False
        try:
            with suppress(_NotKept):
                async with self._database.joined() as session:
                    found = await _find(session, name, _fingerprint(scope, body))
                    is_first = found is None
                    if found is None:
                        await self._app(scope, _again(body, receive), answer.send)
                        await _keep(session, name, _fingerprint(scope, body), answer, secret)
                    else:
                        answer.messages = _messages(found, path, secret)
        except DatabaseError as error:
            raise problem_of_database(error, reads=False) from None
        if is_first:
            self._tell()
        for message in answer.messages:
            await send(message)


async def _find(session: Session, name: Sequence[str], fingerprint: bytes) -> Row | None:
    """Return the answer that is kept under this name; else lock the name."""
    if not await session.fetchval("answer.lock", *name):
        raise Problem("idempotency-key-in-flight")
    found = await session.fetchrow("answer.find", *name)
    if found is not None and found["fingerprint"] != fingerprint:
        raise Problem("idempotency-key-reused")
    return found


async def _keep(session: Session, name: Sequence[str], fingerprint: bytes, answer: _Answer, secret: str) -> None:
    if not 200 <= answer.status < 300:
        raise _NotKept
    body = answer.body
    if secret:
        body = json.dumps({**json.loads(body), secret: None}, separators=(",", ":")).encode()
    headers = [text.decode("latin-1") for pair in answer.headers if pair[0] != b"content-length" for text in pair]
    await session.execute("answer.keep", *name, fingerprint, answer.status, headers, body)


def _messages(found: Row, path: str, secret: str) -> list[Message]:
    texts = [text.encode("latin-1") for text in found["headers"]]
    headers = [*zip(texts[::2], texts[1::2], strict=True), (b"idempotency-replayed", b"true")]
    if found["status"] != 204:
        headers.append((b"content-length", b"%d" % len(found["body"])))
    if secret:
        place = path.removesuffix("/keys") if path.endswith("/keys") else dict(headers)[b"location"].decode("latin-1")
        headers.append((b"hookwire-notice", _HIDDEN.format(place=place).encode("latin-1")))
    return [
        {"type": "http.response.start", "status": found["status"], "headers": headers},
        {"type": "http.response.body", "body": found["body"]},
    ]


def _given(scope: Scope) -> list[bytes]:
    return keys_given(scope) if scope["type"] == "http" and scope["method"] == "POST" else []


def _fingerprint(scope: Scope, body: bytes) -> bytes:
    """Return the digest of all that a route reads of a request; trace headers may differ in a repeated one."""
    ours = sorted(
        (name, value) for name, value in scope["headers"]
        if name in _READ or (name.startswith(b"hookwire-") and name not in _UNLIKE)
    )  # fmt: skip
    parts: list[Any] = [scope.get("query_string", b""), *(part for pair in ours for part in pair), body]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"%d:%b" % (len(part), part))
    return digest.digest()


def _again(body: bytes, receive: Receive) -> Receive:
    """Return ``receive`` for a body that was read."""
    is_given = False

    async def give() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return give

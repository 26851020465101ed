"""Authentication: find a request's key, and check its rights for the route.

Without authentication (development, or a proxy that decides), it is not built at all. Otherwise it stands between the
request limits and the application, and judges every request before its body is read::

    Authorization: Bearer hwk_...    one of them; Basic with the key as password for GET, so that a browser can read,
      |                              and below /rabbithub for other programs, because its clients log in so
      | known for less than 3 s --------------------------------+
      | else found by its digest, or not: few tries a second    |
      v                                                         v
    401 unauthorized / 429                            the route's scope and topic, or 403 forbidden

Pages of the console also take the session of a browser that has signed in: its cookie counts below /console only.

A valid key is always found first, so failed tries of others keep no client out.

Each route declares its needs (:mod:`app.web.scopes`). A key for some topics only may use the routes that check the
topic of their data (``reach="route"``, with :func:`require_topic`), and no others.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from app.web.pages.login import login_page, wants_page
from app.web.pages.sessions import Sessions, is_of_console, session_token
from app.web.pages.sign_in_page import refused_page
from app.web.problem import Problem
from app.web.route_needs import RouteNeeds
from app.web.scopes import Need, grant_in, key_id_in
from db.errors import DatabaseError
from event.topic import is_reserved
from hub.keys import Grant, Keys, visible_part

__all__ = [
    "FRESH_SECONDS",
    "Authentication",
    "Keyring",
    "grant_of",
    "judge_need",
    "key_id_of",
    "may_reach_kind",
    "may_reach_queue",
    "may_reach_service",
    "may_reach_topic",
    "require_every_kind",
    "require_every_topic",
    "require_topic",
    "shows_payloads",
    "topics_expression",
]

FRESH_SECONDS: Final = 3.0
"""How long a key counts without a new query: with the query's own time, less than five seconds."""

_KNOWN_MAX = 10_000
_STRANGERS_MAX = 10_000
_WAYS_MAX = 1_000
_QUESTIONS_AT_ONCE = 4
_TRIES = 10
_TRIES_PER_SECOND = 1.0
_READS: Final = ("GET", "HEAD")
_RABBITHUB: Final = "/rabbithub/"
_CHALLENGE: Final = {
    # Two fields, because Chromium reads only the first scheme of a field and does not know Bearer.
    "WWW-Authenticate": ('Bearer realm="hookwire"', 'Basic realm="hookwire: the key is the password", charset="UTF-8"')
}
_SESSION: Final = b"\n"
"""Begins the name of a session among the recent ones; no header can contain it."""


@dataclass(slots=True)
class _Known:
    """A key that was used recently. ``ways``: methods and paths that the key may use."""

    grant: Grant
    fresh_until: float
    ways: set[tuple[str, str]] = field(default_factory=set)


class Keyring:
    """Keys that were used recently, by the bytes of their Authorization header, and sessions; bounded."""

    def __init__(self, keys: Keys, sessions: Sessions) -> None:
        self._keys = keys
        self.sessions = sessions
        self._known: dict[bytes, _Known] = {}
        self._asking: dict[bytes, asyncio.Future[_Known | None]] = {}
        self._strangers: dict[tuple[str, str], tuple[float, float]] = {}
        self._questions = asyncio.Semaphore(_QUESTIONS_AT_ONCE)

    def fresh(self, headers: Sequence[bytes]) -> _Known | None:
        """Return the recent result for the only one of these headers."""
        known = self._known.get(headers[0]) if len(headers) == 1 else None
        return known if known is not None and known.fresh_until > time.monotonic() else None

    async def known(self, header: bytes, address: str, *, basic: bool) -> _Known:
        """Return the key of this header; raises ``Problem``: unauthorized, too-many-requests, database-unavailable.

        ``basic``: this request may log in by Basic.
        """
        if not basic and _is_basic(header):  # a browser would also send it with a request of a foreign page
            raise Problem("unauthorized", "Basic is for reading only; use Bearer.", headers=_CHALLENGE)
        if (known := self.fresh([header])) is not None:
            return known
        found = await self._ask(header)
        if found is None:
            self._charge(address, visible_part(_key_text(header) or ""))
            raise Problem("unauthorized", headers=_CHALLENGE)
        return found

    async def of_session(self, token: str) -> Grant | None:
        """Return the rights of a session; None: it has ended. Raises ``Problem``: database-unavailable.

        Wrong tokens are not counted. Nobody can guess one, and a browser sends an ended session again and again.
        """
        name = _SESSION + token.encode()
        known = self.fresh([name]) or await self._ask(name)
        return known.grant if known is not None else None

    async def end_session(self, token: str) -> None:
        """End a session, in this process at once. Others refuse it within three seconds."""
        await self.sessions.end(token)
        self._known.pop(_SESSION + token.encode(), None)

    async def _ask(self, header: bytes) -> _Known | None:
        """Run one query for all requests that wait for the same answer."""
        asking = self._asking.get(header)
        if asking is None:
            asking = self._asking[header] = asyncio.ensure_future(self._find(header))
            asking.add_done_callback(lambda _: self._asking.pop(header, None))
        try:
            return await asyncio.shield(asking)
        except DatabaseError as error:
            raise Problem("database-unavailable") from error

    async def _find(self, header: bytes) -> _Known | None:
        asked_at = time.monotonic()
        async with self._questions:  # untrusted clients cannot take all of the database's connections
            grant = await self._grant_of(header)
        if grant is None:
            self._known.pop(header, None)
            return None
        lifetime = min(FRESH_SECONDS, FRESH_SECONDS if grant.remaining_seconds is None else grant.remaining_seconds)
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        known = self._known[header] = _Known(grant, asked_at + lifetime)
        return known

    async def _grant_of(self, header: bytes) -> Grant | None:
        if header.startswith(_SESSION):
            return await self.sessions.find(header[len(_SESSION) :].decode())
        text = _key_text(header)
        return await self._keys.find(text) if text is not None and visible_part(text) else None

    def _charge(self, address: str, visible: str) -> None:
        """Take a token for each pair of address and visible part of an unknown key."""
        now = time.monotonic()
        tokens, at = self._strangers.get((address, visible), (float(_TRIES), now))
        tokens = min(float(_TRIES), tokens + (now - at) * _TRIES_PER_SECOND)
        if tokens < 1:
            raise Problem("too-many-requests", "Too many keys that are not accepted came from this address.")
        if len(self._strangers) >= _STRANGERS_MAX:
            self._strangers.clear()
        self._strangers[address, visible] = (tokens - 1, now)


def _is_basic(header: bytes) -> bool:
    return header[:6].lower() == b"basic "


def _key_text(header: bytes) -> str | None:
    """Return the key in an Authorization header; never one in the query."""
    scheme, _, rest = header.partition(b" ")
    try:
        if scheme.lower() == b"bearer":
            return rest.strip().decode("ascii")
        if scheme.lower() == b"basic":
            return base64.b64decode(rest.strip(), validate=True).decode("ascii").partition(":")[2]
    except (UnicodeDecodeError, binascii.Error):
        return None
    return None


class Authentication:
    """The ASGI layer. ``hub_is_open``: WebSub's subscribers, which are unknown beforehand, need no key.
    ``docs_are_open``: nor do readers of the contract.
    """

    def __init__(
        self, app: ASGIApp, keyring: Keyring, needs: RouteNeeds, *, hub_is_open: bool, docs_are_open: bool
    ) -> None:
        self._app = app
        self._keyring = keyring
        self._needs = needs
        self._hub_is_open = hub_is_open
        self._docs_are_open = docs_are_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or raise ``Problem`` for the request limits to answer."""
        if scope["type"] == "http":
            way = (scope["method"], _path_of(scope))
            known = self._keyring.fresh([value for name, value in scope["headers"] if name == b"authorization"])
            if known is not None and way in known.ways:  # the hot path: 1 us
                scope["state"]["grant"] = known.grant
            elif not self._is_open(need := self._needs.of(scope)):
                try:
                    await self._let_in(scope, need, *way)
                except Problem as problem:
                    refused = _page_of(problem, scope)
                    if refused is None:
                        raise
                    await refused(scope, receive, send)
                    return
        await self._app(scope, receive, send)

    async def _let_in(self, scope: Scope, need: Need, method: str, path: str) -> None:
        if is_of_console(path) and (token := session_token(scope)) and not _sends_key(scope):
            await self._let_session_in(scope, need, token)
            return
        client = scope.get("client")
        header = _authorization(scope)
        reads = method in _READS
        basic = reads or (path.startswith(_RABBITHUB) and not _is_from_a_page(scope))
        known = await self._keyring.known(header, client[0] if client else "", basic=basic)
        judge_need(known.grant, need)
        scope["state"]["grant"] = known.grant
        # Basic is valid for some requests only, so the result is not kept where it depends on the request.
        if len(known.ways) < _WAYS_MAX and (reads or not _is_basic(header)):
            known.ways.add((method, path))

    async def _let_session_in(self, scope: Scope, need: Need, token: str) -> None:
        grant = await self._keyring.of_session(token)
        if grant is None:
            raise Problem("unauthorized", "Your session has ended.", headers=_CHALLENGE)
        judge_need(grant, need)
        scope["state"]["grant"] = grant
        scope["state"]["session"] = token

    def _is_open(self, need: Need) -> bool:
        # WebSub's subscribers discover the hub by a topic's latest content, which they may have delivered anyway.
        # Operator events and messages of queues are not open to them.
        if not need.scopes or (self._docs_are_open and need.docs):
            return True
        return self._hub_is_open and need.websub and not is_reserved(need.name or "")


def _page_of(problem: Problem, scope: Scope) -> ASGIApp | None:
    """Return the page for a browser that is refused; None: the answer is the problem itself."""
    if is_of_console(scope["path"]) and wants_page(scope):
        return refused_page(problem, scope)
    if problem.slug == "unauthorized" and scope["method"] == "GET" and wants_page(scope):
        return login_page(problem, _path_of(scope))
    return None


def _sends_key(scope: Scope) -> bool:
    return any(name == b"authorization" for name, _ in scope["headers"])


def _is_from_a_page(scope: Scope) -> bool:
    """Return whether a page sent this request: a browser names the page where a request changes something."""
    return any(name in (b"origin", b"sec-fetch-site") for name, _ in scope["headers"])


def _path_of(scope: Scope) -> str:
    """Return the path, below /rabbithub as it was sent: a slash within a name there must not look like one between
    names.
    """
    path: str = scope["path"]
    if path.startswith(_RABBITHUB) and (raw := scope.get("raw_path")):
        return str(raw, "latin-1")
    return path


def _authorization(scope: Scope) -> bytes:
    found = b""
    for name, value in scope["headers"]:
        if name == b"authorization":
            if found:
                raise Problem("unauthorized", "Authorization was sent twice.", headers=_CHALLENGE)
            found = value
    if not found:
        raise Problem("unauthorized", headers=_CHALLENGE)
    return found


def judge_need(grant: Grant, need: Need) -> None:
    """Check the scope, and the topic or queue as far as the path names them; raise ``Problem`` for too few rights."""
    if missing := need.missing(grant):
        held = ", ".join(sorted(grant.scopes))
        raise Problem("forbidden", f"This needs the scope {' or '.join(missing)}; the key has {held}.")
    if not need.is_reached_by(grant):
        if need.reach in ("all", "topic"):
            raise _out_of_reach(grant, need.instead)
        raise Problem("forbidden", f"The key {grant.key_id} is not for the {need.reach} {(need.name or '')[:80]}.")


def _out_of_reach(grant: Grant, instead: str = "") -> Problem:
    topics = f"The key {grant.key_id} is for the topics {', '.join(grant.topics or ())} only."
    return Problem("forbidden", f"{topics} {instead}".rstrip())


def topics_expression(request: Request) -> str | None:
    """Return the topics of this request's key as a regular expression for PostgreSQL; None: all topics."""
    grant = grant_of(request)
    return grant.topics_expression() if grant is not None else None


def grant_of(request: Request) -> Grant | None:
    """Return the rights of an authenticated request's key; None without authentication."""
    return grant_in(request.scope)


def key_id_of(request: Request) -> str | None:
    """Return the id of an authenticated request's key; None without authentication."""
    return key_id_in(request.scope)


def require_topic(request: Request, pattern: str | None, *, hidden: str | None = None) -> None:
    """Require that the key reaches this topic or pattern, for routes that declare ``reach="route"``. ``hidden``: the
    key may not know of the object, so the answer is a not-found problem with this text. None: what has no topic is
    reached by a key for all topics only.
    """
    grant = grant_of(request)
    if grant is not None and not _reaches(grant, pattern):
        raise Problem("not-found", hidden) if hidden is not None else _out_of_reach(grant)


def require_every_topic(request: Request) -> None:
    """Require a key for every topic, for routes that declare ``reach="route"`` and show data of any topic."""
    require_topic(request, None)


def shows_payloads(request: Request) -> bool:
    """Return whether the key of this request may see the contents of others."""
    grant = grant_of(request)
    return grant is None or grant.has("payloads")


def may_reach_topic(request: Request, pattern: str | None) -> bool:
    """Return whether the key of this request includes this topic or pattern; None: whether it includes every topic."""
    grant = grant_of(request)
    return grant is None or _reaches(grant, pattern)


def _reaches(grant: Grant, pattern: str | None) -> bool:
    return grant.topics is None if pattern is None else grant.reaches(pattern)


def may_reach_queue(request: Request, queue: str) -> bool:
    """Return whether the key of this request includes this queue."""
    grant = grant_of(request)
    return grant is None or grant.reaches_queue(queue)


def may_reach_kind(request: Request, kind: str) -> bool:
    """Return whether the key of this request includes tasks of this kind."""
    grant = grant_of(request)
    return grant is None or grant.reaches_kind(kind)


def may_reach_service(request: Request, service: str) -> bool:
    """Return whether the key of this request includes this service."""
    grant = grant_of(request)
    return grant is None or grant.reaches_service(service)


def require_every_kind(request: Request) -> None:
    """Require a key for every kind, for routes that show or change data of any kind."""
    grant = grant_of(request)
    if grant is not None and not grant.reaches_every_kind():
        raise Problem("forbidden", f"The key {grant.key_id} is not for tasks of every kind.")

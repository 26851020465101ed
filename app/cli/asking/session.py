"""Requests to one hub over kept connections, on the connection of :mod:`egress`: httpx alone took a third of a command.

No redirect is followed, and no proxy of the environment is asked. Certificates are read at the first https request.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, unquote, urlencode, urlsplit

from egress.connection import Connection, ReadLimits
from egress.failure import BadResponse, DeadlineExceeded

if TYPE_CHECKING:
    import ssl

__all__ = ["HubAnswer", "HubPlace", "HubSession", "HubUnreachable", "place_of", "shown"]

_ANY_BYTES: Final = 1 << 62
_LIMITS: Final = ReadLimits(head_bytes_max=64 * 1024, read_bytes_max=_ANY_BYTES, keep_bytes_max=_ANY_BYTES)
_KEPT_IN_TARGETS: Final = "%/!$&'()*+,;=:@~?[]"
_PORTS: Final = {"http": 80, "https": 443}


class HubUnreachable(Exception):
    """No connection to the hub came about."""


class HubPlace(NamedTuple):
    """A URL in parts. ``target`` is what the request line has, ``user`` the value of ``Authorization`` or ''."""

    scheme: str
    host: str
    port: int
    authority: str
    target: str
    user: str


class HubAnswer(NamedTuple):
    """One answer. The names of ``headers`` are in small letters. ``had_key`` tells whether the request had a key."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes
    url: str
    had_key: bool

    @property
    def is_success(self) -> bool:
        """Return whether the status is 2xx."""
        return 200 <= self.status_code < 300

    @property
    def is_client_error(self) -> bool:
        """Return whether the status is 4xx."""
        return 400 <= self.status_code < 500

    def json(self) -> Any:
        """Return the content as JSON. Raise ``ValueError`` if it is none."""
        return json.loads(self.content)


class HubSession:
    """Connections that are kept until the context ends. Requests may be sent concurrently."""

    def __init__(self) -> None:
        self._open: set[Connection] = set()
        self._idle: list[Connection] = []
        self._buffer = memoryview(bytearray(64 * 1024))

    async def __aenter__(self) -> HubSession:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        for connection in tuple(self._open):
            connection.abort()

    async def request(
        self, method: str, url: str, content: bytes | None, headers: Mapping[str, str], deadline_seconds: float,
        params: Mapping[str, str] | None = None,
    ) -> HubAnswer:  # fmt: skip
        """Send one request and return any answer.

        Raise ``HubUnreachable``, ``OutboundError`` for a connection that broke or was silent until the deadline, and
        ``ValueError`` for what is no URL or no header.
        """
        place = place_of(url, params)
        head = _head(method, place, headers, content)
        try:
            async with asyncio.timeout(deadline_seconds):
                connection = await self._connection(place)
                try:
                    await connection.exchange(head, content or b"", _LIMITS, math.inf)
                except BaseException:  # cancellation too: half an answer must not reach the next request
                    connection.abort()
                    raise
        except TimeoutError:
            raise DeadlineExceeded("no answer within the time allowed") from None
        if connection.truncated:
            raise BadResponse("the connection was closed inside the answer")
        return self._answer(connection, url, "authorization" in {name.lower() for name in headers})

    def _answer(self, connection: Connection, url: str, had_key: bool) -> HubAnswer:
        """Take the answer off a connection, and keep or close it."""
        fields = {str(name, "latin-1").lower(): str(value, "latin-1") for name, value in connection.headers}
        answer = HubAnswer(connection.status, fields, b"".join(connection.kept), url, had_key)
        if connection.release():
            self._idle.append(connection)
        else:
            connection.abort()
        return answer

    async def _connection(self, place: HubPlace) -> Connection:
        """Return an idle connection to the place, or a new one."""
        origin, loop = (place.scheme == "https", place.host, place.port), asyncio.get_running_loop()
        for connection in self._idle:
            if connection.origin == origin and not connection.is_closing():
                self._idle.remove(connection)
                return connection
        made = Connection(loop, origin, self._buffer, self._forget)
        try:
            await loop.create_connection(
                lambda: made, place.host, place.port, ssl=self._authorities if place.scheme == "https" else None
            )
        except OSError as error:
            raise HubUnreachable(str(error) or type(error).__name__) from None
        self._open.add(made)
        return made

    def _forget(self, connection: Connection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    @cached_property
    def _authorities(self) -> ssl.SSLContext:
        import ssl

        import certifi

        return ssl.create_default_context(cafile=certifi.where())


def place_of(url: str, params: Mapping[str, str] | None = None) -> HubPlace:
    """Return a URL in parts, with parameters behind its query. Raise ``ValueError`` for what is no URL of http."""
    if not url.isprintable():
        raise ValueError("the URL has a character that cannot be printed")
    try:
        parts = urlsplit(url)
        given_port = parts.port
    except ValueError:  # its text may have the user's password
        raise ValueError("the host or the port of the URL is malformed") from None
    if parts.scheme not in _PORTS or not parts.hostname or given_port == 0:
        raise ValueError(f"{shown(url)} is not the address of a hub, such as http://127.0.0.1:8080")
    host, port = _ascii(parts.hostname), given_port or _PORTS[parts.scheme]
    name = f"[{host}]" if ":" in host else host
    authority = name if port == _PORTS[parts.scheme] else f"{name}:{port}"
    queries = "&".join(filter(None, (parts.query, urlencode(params or {}))))
    target = quote(f"{parts.path or '/'}{'?' if queries else ''}{queries}", safe=_KEPT_IN_TARGETS)
    user = ""
    if parts.username or parts.password:
        pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        user = f"Basic {base64.b64encode(pair.encode()).decode('ascii')}"
    return HubPlace(parts.scheme, host, port, authority, target, user)


def shown(url: str) -> str:
    """Return an address without the user name and password in it."""
    scheme, separator, rest = url.rpartition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{separator}{authority.rpartition('@')[2]}{slash}{path}"


def _ascii(host: str) -> str:
    if host.isascii():
        return host
    import idna

    return idna.encode(host).decode("ascii")


def _head(method: str, place: HubPlace, headers: Mapping[str, str], content: bytes | None) -> bytes:
    """Return the request line and the fields. Raise ``ValueError`` for a field that cannot be sent."""
    fields = {"Host": place.authority, "User-Agent": "hookwire", "Accept": "*/*", **headers}
    if content is not None or method != "GET":
        fields["Content-Length"] = str(len(content or b""))
    if place.user:
        fields["Authorization"] = place.user
    for name, value in fields.items():
        if not (name + value).replace("\t", " ").isprintable():
            raise ValueError(f"the header {name} has a character that cannot be sent")
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} {place.target} HTTP/1.1\r\n{lines}\r\n".encode("ascii")

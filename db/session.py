"""Open a session on the primary, whichever of the named servers that is now.

Names are resolved at each connect, and each address of a name is tried for two seconds. The socket has keepalives of
its own, so that a server that vanished without a word is noticed in four seconds.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any, Final, cast

import asyncpg

from db.address import PORT, ServerAddress, addresses, without_hosts
from db.bound import connecting, is_away, translated
from db.errors import CannotServe, PrimaryChanged, ServerTrouble, TooManyConnections, Unavailable
from db.pooling.pool_options import PoolOptions
from db.replication.primary import ServerIdentity
from db.statements import STATEMENTS

__all__ = ["ServerSession", "open_session"]

_ADDRESS_SECONDS: Final = 2.0
_SOCKET_OPTIONS: Final = {
    "TCP_KEEPIDLE": 2,
    "TCP_KEEPINTVL": 1,
    "TCP_KEEPCNT": 2,
    "TCP_USER_TIMEOUT": 4_000,
}
"""The socket's options, in seconds, and milliseconds for the last one."""

_Candidate = tuple[ServerAddress | None, str | None]
"""A server of the URL, and one of its name's addresses. None: asyncpg finds it, as for a Unix socket."""


_BUILT_IN_BELOW: Final = 10_000
"""A type with a lower number is the same on every server, but for the rows of four catalogs."""

_ROWS_OF_CATALOGS: Final = frozenset({71, 75, 81, 83})

_BUILT_IN: Final[dict[frozenset[int], Sequence[Any]]] = {}
"""What this process knows about built-in types, by the numbers that were asked together."""

_NOT_RUN: Final = SimpleNamespace(name="not run")
"""Stands for the statement that asks about types. It replaced no other, so none is prepared again."""


class ServerSession(asyncpg.Connection):
    """A connection that knows the generation of its primary, and notices a silent peer."""

    __slots__ = ("generation",)

    def __init__(self, protocol: Any, transport: Any, loop: Any, *rest: Any) -> None:
        # asyncpg compares its loop with the running one, and the one given is that of _Route.
        super().__init__(protocol, transport, asyncio.get_running_loop(), *rest)
        self.generation = 0
        _watch(transport.get_extra_info("socket"))

    async def _introspect_types(self, typeoids: Iterable[int], timeout: float | None) -> tuple[Sequence[Any], Any]:
        """Ask about built-in types only if this process does not know them yet.

        asyncpg asks in each session, also about an array of numbers. PostgreSQL needs ten milliseconds for an answer.
        """
        asked = frozenset(typeoids)
        if (known := _BUILT_IN.get(asked)) is not None:
            return known, _NOT_RUN
        types, statement = await super()._introspect_types(typeoids, timeout)  # type: ignore[misc]  # the stubs leave it out
        if max(asked) < _BUILT_IN_BELOW and not asked & _ROWS_OF_CATALOGS:
            _BUILT_IN[asked] = types
        return types, statement


def _watch(sock: Any) -> None:
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _SOCKET_OPTIONS.items():
        if (option := getattr(socket, name, None)) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


class _Route:
    """The running loop, with a ``create_connection`` that goes to one address of a name.

    asyncpg takes no address beside the name, which TLS needs to check the certificate.
    """

    def __init__(self, ip: str | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._ip = ip

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    async def create_connection(self, factory: Callable[[], Any], host: str, port: int, *, ssl: Any = None) -> Any:
        """Connect as the loop does, within the time for one address."""
        name = host if ssl else None
        async with asyncio.timeout(_ADDRESS_SECONDS):
            return await self._loop.create_connection(factory, self._ip or host, port, ssl=ssl, server_hostname=name)


async def open_session(options: PoolOptions) -> ServerSession:
    """Open a session on the server that takes writes; the one that did so last is asked first.

    Raise :class:`Unavailable` where no server can be used; its text has the reason of each. Raise
    :class:`CannotServe` where all of them answer and none takes writes.
    """
    candidates = await _candidates(options)
    seconds = options.connect_seconds if len(candidates) == 1 else min(options.connect_seconds, _ADDRESS_SECONDS)
    refusals: list[tuple[_Candidate, Unavailable]] = []
    for candidate in candidates:
        try:
            session = await _connect(options, candidate, seconds)
        except PrimaryChanged:
            options.primary.address = candidate
            raise
        except Unavailable as error:
            refusals.append((candidate, error))
        else:
            options.primary.address = candidate
            return session
    raise _together(refusals)


async def _candidates(options: PoolOptions) -> list[_Candidate]:
    """Return where to connect to, with the place first where the primary was last."""
    named = addresses(options.url)
    resolved = await asyncio.gather(*map(_resolved, named))
    found: list[_Candidate] = [(one, ip) for one, ips in zip(named, resolved, strict=True) for ip in ips]
    last = options.primary.address
    return sorted(found, key=lambda one: one != last) or [(None, None)]


async def _resolved(address: ServerAddress) -> Sequence[str | None]:
    """Return the addresses of a name. None: the connection looks it up, and reports its failure."""
    if address.host.startswith("/"):
        return [None]
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_ADDRESS_SECONDS):
            found = await loop.getaddrinfo(address.host, address.port or PORT, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError):
        return [None]
    return list(dict.fromkeys(str(info[4][0]) for info in found))


async def _connect(options: PoolOptions, candidate: _Candidate, seconds: float) -> ServerSession:
    (address, ip), generation = candidate, options.primary.generation
    with connecting():
        session: ServerSession = await asyncpg.connect(
            options.url if address is None else without_hosts(options.url),
            host=None if address is None else address.host,
            port=None if address is None else address.port,
            timeout=seconds,
            command_timeout=options.cancelled_after_seconds,
            server_settings=options.server_settings(),
            max_cached_statement_lifetime=options.plan_seconds,
            connection_class=ServerSession,
            loop=cast(asyncio.AbstractEventLoop, _Route(ip)),
        )
    session.generation = generation
    try:
        with connecting():
            async with asyncio.timeout(seconds):
                identity = await _begin(session, options)
            if options.primary.numbers is not None:
                await options.primary.numbers.ensure(session, None if identity is None else str(identity))
    except BaseException:
        session.terminate()
        raise
    return session


async def _begin(session: ServerSession, options: PoolOptions) -> ServerIdentity | None:
    """Set the settings of our statements, and admit the server; return its identity."""
    settings = options.session_settings()
    row = await session.fetchrow(STATEMENTS["session.begin"], list(settings), [*settings.values()])
    assert row is not None, "a row of aggregates"
    if row["is_standby"]:
        raise CannotServe("the server is a standby, which cannot be written to")
    if row["is_read_only"]:
        raise CannotServe("default_transaction_read_only is on for this server, database or role")
    identity = await _identity(session)
    options.primary.admit(identity)
    return identity


async def _identity(session: ServerSession) -> ServerIdentity | None:
    """Return None for a server that keeps it to itself, as some managed ones do."""
    try:
        with translated(sent=False):
            row = await session.fetchrow(STATEMENTS["session.identity"])
    except ServerTrouble:
        return None
    return None if row is None else ServerIdentity(row["system"], row["timeline"])


def _together(refusals: Sequence[tuple[_Candidate, Unavailable]]) -> Unavailable:
    """Return the one refusal, or one that has the words of all."""
    errors = [error for _, error in refusals]
    if len(errors) == 1:
        return errors[0]
    words = "; ".join(f"{address} ({ip}): {error}" for (address, ip), error in refusals)
    if any(isinstance(error, TooManyConnections) for error in errors):
        return TooManyConnections(words)
    together = (CannotServe if all(isinstance(error, CannotServe) for error in errors) else Unavailable)(words)
    together.__cause__ = next((error.__cause__ for error in errors if is_away(error)), None)
    return together

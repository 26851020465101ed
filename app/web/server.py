"""The HTTP server: uvicorn, built and run from code, without its command line, its signals and its environment.

uvicorn brings the ASGI cycle; the protocol is `app.web.protocol`. The sockets, the life cycle and the shutdown are
here, because the process owns them: it decides when to listen, when to accept no more, and how long to drain::

    start() ......... bind (or a clear ListenError), listen, sweep
    stop_accepting()  close the listeners, close idle connections, mark the others "this is the last request"
    stop(grace) ..... stop_accepting, wait for connections and requests, then cancel the rest and cut it off
"""

from __future__ import annotations

import asyncio
import errno
import functools
import socket
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from types import TracebackType
from typing import Any, Final, Self

from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.server import Server

from app.web.connections import Connections, ServerLimits
from app.web.limits import RequestIds
from app.web.problem import Problems
from app.web.protocol import HookwireProtocol

__all__ = ["HttpServer", "ListenError", "ServerLimits", "make_server"]

# Time for cancelled requests to answer before their connections are cut.
_CANCEL_SECONDS: Final = 1.0
_NO_SUCH_ADDRESS: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)


class ListenError(Exception):
    """The server cannot listen on its address; the text says where, why, and which setting decides it."""


class _Server(Server):
    """uvicorn's server without its signal handlers, with the sweep of its connections."""

    def __init__(self, config: Config, connections: Connections) -> None:
        super().__init__(config)
        self.connections = connections

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]  # uvicorn's is a generator
        """Handle no signals: they belong to the process."""
        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections on `sockets`."""
        if not self.config.loaded:
            self.config.load()
        self.lifespan = self.config.lifespan_class(self.config)
        await super().startup(sockets)
        self.server_state.default_headers = self.connections.date_headers
        self.connections.start_sweep(self.server_state.connections)  # type: ignore[arg-type]  # all are HookwireProtocols


def make_server(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    limits: ServerLimits,
    problems: Problems | None = None,
    request_ids: RequestIds | None = None,
    trusted_proxies: Sequence[str] = (),
) -> _Server:
    """Return uvicorn without its defaults that trust or reveal too much.

    X-Forwarded-* is read only from `trusted_proxies` (addresses or networks); the variable FORWARDED_ALLOW_IPS has no
    effect. There is no lifespan protocol: the process starts the application's dependencies before the server.
    """
    connections = Connections(limits, problems=problems, request_ids=request_ids, trusted_proxies=trusted_proxies)
    config = Config(
        app,
        host=host,
        port=port,
        http=functools.partial(HookwireProtocol, connections=connections),  # type: ignore[arg-type]  # only called
        ws="none",
        lifespan="off",
        loop="none",
        interface="asgi3",
        workers=1,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=list(trusted_proxies),
        backlog=limits.backlog_connections,
    )
    return _Server(config, connections)


class HttpServer:
    """One listening HTTP server in the running loop, for one start and one stop; repeating either is harmless.

    `port` 0 takes a free one. `sockets`, when given, are bound already (a Unix socket, or inherited from a supervisor).
    They replace `host` and `port`; the server closes them.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        host: str = "127.0.0.1",
        port: int = 8080,
        limits: ServerLimits | None = None,
        problems: Problems | None = None,
        request_ids: RequestIds | None = None,
        trusted_proxies: Sequence[str] = (),
        sockets: Sequence[socket.socket] = (),
        grace_seconds: float = 10.0,
    ) -> None:
        self._server = make_server(
            app,
            host=host,
            port=port,
            limits=limits or ServerLimits(),
            problems=problems,
            request_ids=request_ids,
            trusted_proxies=trusted_proxies,
        )
        self._host, self._port = host, port
        self._sockets = list(sockets)
        self._grace_seconds = grace_seconds
        self._listening = False

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop(self._grace_seconds)

    @property
    def port(self) -> int:
        """Return the real port of the listener; 0 for a Unix socket. Known after `start`."""
        address = self._sockets[0].getsockname()
        return int(address[1]) if isinstance(address, tuple) else 0

    @property
    def connection_count(self) -> int:
        """Return the number of open connections, idle ones included."""
        return self._server.connections.count

    @property
    def request_count(self) -> int:
        """Return the number of requests in the application."""
        return len(self._server.server_state.tasks)

    @property
    def refused(self) -> Mapping[str, int]:
        """Return the numbers of requests and connections refused before they reached the application, by
        problem kind.
        """
        return self._server.connections.refused

    async def start(self) -> None:
        """Listen; return when connections are accepted. Raise ListenError."""
        if self._listening:
            return
        backlog = self._server.connections.limits.backlog_connections
        if not self._sockets:
            self._sockets = await bind(self._host, self._port, backlog)
        await self._server.startup(self._sockets)
        self._listening = True

    def stop_accepting(self) -> None:
        """Accept no new connections and no new requests; requests in progress go on."""
        if not self._listening:
            return
        self._listening = False
        self._server.connections.leaving = True
        for listener in self._server.servers:
            listener.close()
        for listening in self._sockets:
            listening.close()
        for connection in tuple(self._server.server_state.connections):
            connection.shutdown()

    async def stop(self, grace_seconds: float) -> None:
        """Drain for at most `grace_seconds`, then cancel the remaining requests and cut their connections."""
        self.stop_accepting()
        state = self._server.server_state
        try:
            async with asyncio.timeout(grace_seconds):
                await self._drained()
        except TimeoutError:
            for task in tuple(state.tasks):
                task.cancel("the server's grace has ended")
            with suppress(TimeoutError):
                async with asyncio.timeout(_CANCEL_SECONDS):
                    await self._drained()
            for connection in tuple(state.connections):
                connection.wire.abort()  # type: ignore[union-attr]  # all are HookwireProtocols
        finally:
            self._server.connections.stop_sweep()

    async def _drained(self) -> None:
        await self._server.connections.none_open.wait()
        # A request can outlive its connection: the client has gone, the transaction goes on.
        if tasks := tuple(self._server.server_state.tasks):
            await asyncio.wait(tasks)


async def bind(host: str, port: int, backlog: int, setting: str = "HOOKWIRE_LISTEN") -> list[socket.socket]:
    """Return listening sockets for every address of `host`, all on one port. Raise ListenError, with nothing left open.

    `setting` is the setting that its text names.
    """
    bound: list[socket.socket] = []
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        last = infos[-1]
        for info in dict.fromkeys(infos):
            family, _, protocol, _, address = info
            # With port 0, the port that the first address got is the port of all.
            wanted = (address[0], bound[0].getsockname()[1] if bound else port, *address[2:])
            try:
                bound.append(_listening_socket(family, protocol, wanted, backlog))
            except OSError as error:
                # A name, or none, may have an address of a family that this machine does not speak.
                if error.errno not in _NO_SUCH_ADDRESS or (info == last and not bound):
                    raise
    except OSError as error:
        for listening in bound:
            listening.close()
        raise ListenError(_listen_error_text(host, port, error, setting)) from error
    return bound


def _listening_socket(family: int, protocol: int, address: tuple[Any, ...], backlog: int) -> socket.socket:
    # asyncio sets TCP_NODELAY only on sockets that say they are TCP; without it every answer waits for a delayed ACK.
    listening = socket.socket(family, socket.SOCK_STREAM, protocol)
    try:
        listening.setblocking(False)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
        # Listen here: with SO_REUSEADDR only listen() reports a port that is in use.
        listening.listen(backlog)
    except OSError:
        listening.close()
        raise
    return listening


def _listen_error_text(host: str, port: int, error: OSError, setting: str) -> str:
    cure = {
        errno.EADDRINUSE: f"another process listens there; stop it, or set {setting} to another address",
        errno.EACCES: f"this port needs privileges; set {setting} to a port above 1023",
        errno.EADDRNOTAVAIL: f"this machine does not have that address; set {setting} to one that it has",
    }.get(error.errno or 0, f"check {setting}")
    return f"cannot listen on {host}:{port} ({error.strerror or error}): {cure}"

"""The guarded outbound client: the only way to a URL from an untrusted source.

    Request --head checked--> idle connection of that origin? --yes--> exchange --------------------.
                                   | no                                   | closed, no byte came    v
                                   v                                      v (once)              Response
    Target.host --Resolver--> every address --guard.judge--> Dialer --TLS--> exchange ------------> or
                    DnsFailed                 Blocked         ConnectFailed, TlsFailed         OutboundError

One total deadline covers the whole attempt. The name is resolved once, every address is judged, and only judged
addresses are dialled. No second lookup could give another answer. Redirects are answers, proxies and credentials from
the environment are never read, cookies are not kept, bodies are not decoded. :mod:`egress.tunnel` goes through the
operator's proxy.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import NamedTuple, Protocol

from egress.connection import Connection, Origin, ReadLimits
from egress.connector import Connector, Dialer, ProtocolFactory, dial
from egress.failure import (
    BadResponse,
    Blocked,
    ConnectFailed,
    DeadlineExceeded,
    DnsFailed,
    NotSent,
    OutboundError,
    TlsFailed,
)
from egress.guard import Address, GuardPolicy
from egress.header import OWNED_HEADERS, HeaderRefused, check_header, request_head
from egress.pool import Pool
from egress.resolver import Resolver
from egress.tunnel import Proxy
from egress.url import Target

__all__ = [
    "OWNED_HEADERS",
    "BadResponse",
    "Blocked",
    "Client",
    "ClientOptions",
    "ConnectFailed",
    "DeadlineExceeded",
    "Dialer",
    "DnsFailed",
    "HeaderRefused",
    "NotSent",
    "Outbound",
    "OutboundError",
    "Proxy",
    "ReadLimits",
    "Request",
    "Response",
    "TlsFailed",
    "check_header",
    "dial",
    "self_test",
]


class Request(NamedTuple):
    """One HTTP request. Its repr hides fields and body: they hold secrets and personal data. It is a tuple, because
    each attempt needs one, and creating a frozen dataclass takes four times as long.

    Attributes:
        method: one of `METHODS`.
        target: the destination; its request target is sent unchanged.
        headers: fields beside those that the client sets (`OWNED_HEADERS`, and `User-Agent` unless given here).
        body: sent as is with its Content-Length.
        deadline_seconds: for the whole attempt.
        reuse: False never uses a kept connection and so never repeats the request by itself: for deliveries that
            must be made at most once.
        limits: limits for reading the answer; None for the client's own.
        connect_seconds_max: for the connection, where that is less than the client's own.
        not_after: the monotonic time after which nothing may be sent, or None. Others may do the work from then on.
        may_send: asked before anything is sent; False where others may do the work by now.
    """

    method: str
    target: Target
    headers: Sequence[tuple[str, str]]
    body: bytes
    deadline_seconds: float
    reuse: bool = True
    limits: ReadLimits | None = None
    connect_seconds_max: float | None = None
    not_after: float | None = None
    may_send: Callable[[], bool] | None = None

    def check_time(self) -> None:
        """Raise NotSent if it is too late to send anything."""
        is_late = self.not_after is not None and time.monotonic() > self.not_after
        if is_late or (self.may_send is not None and not self.may_send()):
            raise NotSent("others may do this work by now")

    def __repr__(self) -> str:
        return f"Request(method={self.method!r}, target={self.target!r}, deadline_seconds={self.deadline_seconds!r})"


class Response(NamedTuple):
    """One answer; any status from 200 to 999, redirects included. Its repr hides fields and body.

    Attributes:
        status: the code; it decides, also when the rest of the answer was cut or broken.
        headers: fields in order, names in lower case; empty or incomplete if the head itself was cut.
        body: first bytes of the body as sent, at most `ReadLimits.keep_bytes_max`.
        truncated: `body` is not the whole body: too long, cut by the deadline, or broken off.
        address: the address that was dialled.
        connect_seconds: resolving, judging, dialling and TLS; 0.0 on a kept connection.
        first_byte_seconds: from the start of the attempt to the first byte of an answer.
        total_seconds: from the start of the attempt to the end of the answer.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    truncated: bool
    address: str
    connect_seconds: float
    first_byte_seconds: float
    total_seconds: float

    def __repr__(self) -> str:
        return f"Response(status={self.status!r}, truncated={self.truncated!r}, address={self.address!r})"

    def values(self, name: str) -> list[str]:
        """Return all values of a field by its lower-case name."""
        return [value for field_name, value in self.headers if field_name == name]


class Outbound(Protocol):
    """The port: send one request to an untrusted URL, and return the answer or raise the class of the failure."""

    async def send(self, request: Request) -> Response:
        """Make one attempt, which ends by its deadline. Safe to call concurrently.

        Cancelling closes the connection of the attempt.

        Raises:
            OutboundError: no status line came; its subclass is the class of the outcome.
            NotSent: it was too late to send anything.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections; attempts under way fail, later ones are a programming error."""
        ...


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Settings of a `Client`.

    Attributes:
        user_agent: product, version and a contact URL.
        connect_seconds_max: resolving, dialling and TLS together, inside the deadline.
        keep_alive_seconds_max: how long one verdict may be used (at most 60).
        idle_per_origin_max: kept connections of one origin; at least that host's concurrency.
        idle_max: kept connections in all.
        limits: limits for reading an answer.
        ca_file: PEM file of authorities to trust instead of the system's.
        proxy: the proxy of every request; None: no proxy.
    """

    user_agent: str = "hookwire"
    connect_seconds_max: float = 5.0
    keep_alive_seconds_max: float = 60.0
    idle_per_origin_max: int = 64
    idle_max: int = 1024
    limits: ReadLimits = field(default_factory=ReadLimits)
    ca_file: str | None = None
    proxy: Proxy | None = None

    def __post_init__(self) -> None:
        if not 0 < self.keep_alive_seconds_max <= 60:
            raise ValueError("keep_alive_seconds_max must be above 0 and at most 60")
        if self.connect_seconds_max <= 0:
            raise ValueError("connect_seconds_max must be above 0")
        check_header("user-agent", self.user_agent)


class Client:
    """The product's `Outbound`: HTTP/1.1 over asyncio transports. Belongs to the loop that first uses it.

    Args:
        policy: the targets that may be dialled.
        resolver: turns names into addresses.
        options: see `ClientOptions`.
        dialer: opens sockets.
    """

    def __init__(
        self,
        policy: GuardPolicy,
        resolver: Resolver,
        options: ClientOptions | None = None,
        dialer: Dialer = dial,
    ) -> None:
        self._options = options or ClientOptions()
        self._pool = Pool(
            self._options.keep_alive_seconds_max, self._options.idle_per_origin_max, self._options.idle_max
        )
        self._connector = Connector(
            policy,
            resolver,
            dialer,
            self._options.ca_file,
            self._pool,
            self._options.connect_seconds_max,
            self._options.limits.head_bytes_max,
            self._options.proxy,
        )
        self._limits = self._options.limits
        self._user_agent = f"user-agent: {self._options.user_agent}\r\n".encode("latin-1")

    async def send(self, request: Request) -> Response:
        """See `Outbound.send`. A kept connection that turns out closed is replaced once; that is no further attempt."""
        loop = asyncio.get_running_loop()
        started_at = loop.time()
        deadline_at = started_at + request.deadline_seconds
        target, limits = request.target, request.limits or self._limits
        head = request_head(request.method, target, request.headers, len(request.body), self._user_agent)
        origin = (target.is_tls, target.host, target.port)
        kept = self._pool.take(origin, started_at) if request.reuse else None
        connection = kept or await self._connect(request, origin, deadline_at)
        while True:
            try:
                request.check_time()
                await connection.exchange(head, request.body, limits, deadline_at)
            except ConnectFailed:  # not one byte of an answer came
                if connection is not kept or self._pool.is_closed:
                    raise
                connection = await self._connect(request, origin, deadline_at)
            except BaseException:  # cancellation too: no connection returns half-read to the pool
                connection.abort()
                raise
            else:
                return self._settled(connection, started_at, loop.time())

    async def aclose(self) -> None:
        """See `Outbound.aclose`."""
        await self._pool.aclose()

    @property
    def open_count(self) -> int:
        """Return the number of connections that hold a descriptor now."""
        return self._pool.open_count

    @property
    def idle_count(self) -> int:
        """Return the number of connections kept for reuse now."""
        return self._pool.idle_count

    async def _connect(self, request: Request, origin: Origin, deadline_at: float) -> Connection:
        if self._pool.is_closed:
            raise RuntimeError("the outbound client is closed")
        try:
            return await self._connector.connect(request.target, origin, deadline_at, request.connect_seconds_max)
        except DeadlineExceeded:
            request.check_time()
            raise

    def _settled(self, connection: Connection, started_at: float, ended_at: float) -> Response:
        """Take the answer off a connection and keep or close it."""
        response = Response(
            connection.status,
            tuple([(str(name, "latin-1").lower(), str(value, "latin-1")) for name, value in connection.headers]),
            b"".join(connection.kept),
            connection.truncated,
            connection.address,
            max(connection.connected_at - started_at, 0.0),
            connection.first_byte_at - started_at,
            ended_at - started_at,
        )
        if connection.release():
            self._pool.give(connection)
        else:
            connection.abort()
        return response


async def self_test(client_factory: Callable[[Resolver, Dialer], Outbound]) -> list[str]:
    """Prove at start that the guard refuses before a socket exists. Return the findings, none when all is well.

    Args:
        client_factory: builds a client as the service does, on the given resolver and dialer. Nothing is dialled: the
            dialer only records the addresses.
    """
    dialled: list[str] = []

    async def record(address: Address, port: int, _factory: ProtocolFactory) -> tuple[asyncio.Transport, Connection]:
        dialled.append(f"{address} port {port}")
        raise ConnectionRefusedError

    client = client_factory(_MetadataResolver(), record)
    findings = []
    for host in ("169.254.169.254", "::ffff:169.254.169.254", "guard-self-test.invalid"):
        # Built without parse_target: this tests the guard behind the check of the URL.
        target = Target(f"http://{host}/", "http", host, 80, b"/", host, is_tls=False)
        try:
            await client.send(Request("GET", target, (), b"", deadline_seconds=1.0))
        except Blocked:
            continue
        except OutboundError as error:
            findings.append(f"{host} was not refused by the guard ({error.kind})")
        else:
            findings.append(f"{host} was not refused by the guard")
    await client.aclose()
    return findings + [f"the guard let {text} be dialled" for text in dialled]


class _MetadataResolver:
    """Answers every name with a good address first and a metadata address behind it."""

    async def resolve(self, _host: str) -> tuple[Address, ...]:
        return (ip_address("1.1.1.1"), ip_address("169.254.169.254"))

"""From a target to a ready connection: resolve once, judge every address, dial a judged one, start TLS.

Nothing else in the product opens a socket to an untrusted host. The name stays for TLS (SNI, certificate) and `Host`.
The dialled address is the one that the guard judged; no second lookup could give another answer. TLS
starts after the socket's peer was compared with the verdict.
"""

import asyncio
import functools
import math
import ssl
from collections.abc import Awaitable, Callable
from ipaddress import ip_address

from egress.connection import Connection, Origin
from egress.failure import Blocked, ConnectFailed, DeadlineExceeded, DnsFailed, TlsFailed
from egress.guard import Address, GuardPolicy, judge
from egress.own_endpoints import OwnEndpoints
from egress.pool import Pool
from egress.resolver import ResolveFailed, Resolver
from egress.tunnel import Proxy, open_tunnel
from egress.url import Target, literal_address

_CERTIFICATE_FAULTS = {
    9: "the certificate is not valid yet",
    10: "the certificate has expired",
    18: "the certificate is self-signed",
    19: "the certificate is signed by an unknown authority",
    20: "the certificate is signed by an unknown authority",
    21: "the certificate is signed by an unknown authority",
    23: "the certificate was revoked",
    62: "the certificate is for another host",
    64: "the certificate is for another host",
}
_ADDRESSES_DIALLED_MAX = 4


ProtocolFactory = Callable[[], Connection]


Dialer = Callable[[Address, int, ProtocolFactory], Awaitable[tuple[asyncio.Transport, Connection]]]
"""Opens one TCP connection to a judged address; raises OSError. No other place opens a socket, so tests record here."""


async def dial(address: Address, port: int, factory: ProtocolFactory) -> tuple[asyncio.Transport, Connection]:
    """Open a TCP connection to a literal address, without a lookup."""
    return await asyncio.get_running_loop().create_connection(factory, host=str(address), port=port)


class Connector:
    """Makes connections that a pool then watches.

    Args:
        policy: the targets that may be dialled.
        resolver: turns names into addresses.
        dialer: opens sockets.
        ca_file: PEM file of authorities to trust for https; None: the system's.
        pool: gets every connection that is opened or lost.
        connect_seconds_max: for resolving, dialling and TLS together.
        buffer_bytes: size of the read buffer that all connections share.
        proxy: the proxy of every connection; None: no proxy.
    """

    def __init__(
        self,
        policy: GuardPolicy,
        resolver: Resolver,
        dialer: Dialer,
        ca_file: str | None,
        pool: Pool,
        connect_seconds_max: float,
        buffer_bytes: int,
        proxy: Proxy | None = None,
    ) -> None:
        self._policy = policy
        self._resolver = resolver
        self._own = OwnEndpoints(policy.own_servers, resolver)
        self._dialer = dialer
        # A file that cannot be read ends the start. The system's authorities are read at the first https connection.
        self._tls = tls_context(ca_file) if ca_file is not None else None
        self._pool = pool
        self._connect_seconds_max = connect_seconds_max
        self._buffer = memoryview(bytearray(buffer_bytes))
        self._proxy = proxy

    async def connect(
        self, target: Target, origin: Origin, deadline_at: float, seconds_max: float | None = None
    ) -> Connection:
        """Return a fresh idle connection to a target; ``seconds_max`` shortens the connector's own time limit.

        Raises:
            OutboundError: `Blocked`, `DnsFailed`, `ConnectFailed`, `TlsFailed` or `DeadlineExceeded`.
        """
        limit_at = asyncio.get_running_loop().time() + min(self._connect_seconds_max, seconds_max or math.inf)
        try:
            async with asyncio.timeout_at(min(limit_at, deadline_at)):
                connection = await self._dial_any(await self._judged(target), target, origin)
        except TimeoutError:
            if deadline_at <= limit_at:
                raise DeadlineExceeded("no connection within the time allowed") from None
            raise ConnectFailed("the connection was not established in time") from None
        connection.connected_at = asyncio.get_running_loop().time()
        return connection

    async def _judged(self, target: Target) -> tuple[Address | str, ...]:
        """Return the addresses that may be dialled. Return the name where the proxy resolves it; then the proxy has to
        judge the addresses.
        """
        literal = literal_address(target.host)
        if literal is None and self._proxy is not None and self._proxy.resolves:
            return (target.host,)
        addresses = (literal,) if literal is not None else await self._resolved(target.host)
        verdict = judge(addresses, target.port, self._policy, target.host)
        if not verdict.allowed:
            raise Blocked(verdict.reason)
        if await self._own.hold(verdict.addresses, target.port):
            raise Blocked(f"{target.host} port {target.port} is an endpoint of this hub")
        return verdict.addresses

    async def _resolved(self, host: str) -> tuple[Address, ...]:
        try:
            return await self._resolver.resolve(host)
        except ResolveFailed as error:
            raise DnsFailed(error.detail) from error

    async def _dial_any(self, addresses: tuple[Address | str, ...], target: Target, origin: Origin) -> Connection:
        """Try judged addresses in their order. Each gets an equal share of the time left, so that a dead address family
        does not use it up.
        """
        *early, last = addresses[:_ADDRESSES_DIALLED_MAX]
        for address in early:
            try:
                async with asyncio.timeout(self._connect_seconds_max / (len(early) + 1)):
                    return await self._dial(address, target, origin)
            except (ConnectFailed, TimeoutError):
                continue
        return await self._dial(last, target, origin)

    async def _dial(self, address: Address | str, target: Target, origin: Origin) -> Connection:
        loop, buffer, pool, proxy = asyncio.get_running_loop(), self._buffer, self._pool, self._proxy
        hop, port = await self._next_hop(address), target.port if proxy is None else proxy.port
        try:
            transport, connection = await self._dialer(hop, port, lambda: Connection(loop, origin, buffer, pool.lost))
        except OSError as error:
            reason = "" if proxy is None else f"the egress proxy {proxy.host}:{proxy.port} cannot be reached"
            raise ConnectFailed(_connect_fault(error), reason) from error
        connection.address = str(address)
        pool.opened(connection)
        try:
            _check_peer(transport, hop, port)
            if proxy is not None:
                await open_tunnel(transport, proxy.request(address, target.port))
            if target.is_tls:
                connection.attach(await self._secured(transport, connection, target.host))
        except BaseException:
            transport.abort()
            pool.lost(connection)  # a transport that fails during the handshake does not call connection_lost
            raise
        return connection

    async def _next_hop(self, address: Address | str) -> Address:
        """Return the peer of the socket: the proxy if there is one, even if the guard would refuse its address."""
        if self._proxy is not None:
            literal = literal_address(self._proxy.host)
            return literal if literal is not None else (await self._resolved(self._proxy.host))[0]
        assert not isinstance(address, str), "only a proxy is given a name instead of an address"
        return address

    async def _secured(self, transport: asyncio.Transport, connection: Connection, host: str) -> asyncio.Transport:
        if self._tls is None:
            self._tls = await asyncio.to_thread(tls_context)  # it takes as long as a hundred deliveries
        try:
            secured = await asyncio.get_running_loop().start_tls(
                transport,
                connection,
                self._tls,
                server_hostname=host,
                ssl_handshake_timeout=self._connect_seconds_max,
            )
        except OSError as error:  # ssl.SSLError is an OSError
            raise TlsFailed(_tls_fault(error)) from error
        if secured is None:
            raise TlsFailed("the connection was closed during the TLS handshake")
        return secured


@functools.cache
def tls_context(ca_file: str | None = None) -> ssl.SSLContext:
    """Return the context that verifies chain and host name with TLS 1.2 at least; read once in a process.

    It is built without the standard factory. That one would also honour `SSLKEYLOGFILE`, a file for session keys.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if ca_file is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        context.load_verify_locations(cafile=ca_file)
    return context


def _check_peer(transport: asyncio.Transport, address: Address, port: int) -> None:
    """Compare the socket's peer with the judged address."""
    peer = transport.get_extra_info("peername")
    if peer is None or ip_address(peer[0]) != address or peer[1] != port:
        raise Blocked(f"connected to {peer} instead of {address} port {port}")


def _connect_fault(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "the connection was refused"
    if isinstance(error, ConnectionResetError):
        return "the connection was reset"
    if isinstance(error, TimeoutError):
        return "the connection was not established in time"
    return "the host cannot be reached"


def _tls_fault(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _CERTIFICATE_FAULTS.get(error.verify_code, "the certificate was not accepted")
    if isinstance(error, ssl.SSLError):
        return "the TLS handshake failed"
    return "the connection was closed during the TLS handshake"

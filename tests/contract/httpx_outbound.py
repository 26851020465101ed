"""The outbound port on httpx: the second implementation that keeps the conformance suite honest (EG-02).

Same guard, same limits, another client: the address is chosen in httpcore's network backend, the deadline is put round
the whole, and everything that httpx does by default (decompression, cookies, unlimited bodies) is avoided.
"""

import asyncio
import ssl
from collections.abc import Iterable
from time import monotonic
from typing import Any

import httpcore
import httpx

from egress.client import ClientOptions, Request, Response
from egress.connector import Dialer, tls_context
from egress.failure import BadResponse, Blocked, ConnectFailed, DeadlineExceeded, DnsFailed, OutboundError, TlsFailed
from egress.guard import GuardPolicy, judge
from egress.header import request_head
from egress.resolver import ResolveFailed, Resolver
from egress.url import literal_address


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Resolves once, judges everything, dials what was judged; the name stays for TLS."""

    def __init__(self, policy: GuardPolicy, resolver: Resolver, announce: Dialer) -> None:
        self._policy = policy
        self._resolver = resolver
        self._announce = announce
        self._stock = httpcore.AnyIOBackend()
        self.address = ""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Dial the first judged address."""
        literal = literal_address(host)
        try:
            addresses = (literal,) if literal is not None else await self._resolver.resolve(host)
        except ResolveFailed as error:
            raise DnsFailed(error.detail) from error
        verdict = judge(addresses, port, self._policy, host)
        if not verdict.allowed:
            raise Blocked(verdict.reason)
        self.address = str(verdict.addresses[0])
        await self._announce(verdict.addresses[0], port, _no_protocol)
        return await self._stock.connect_tcp(self.address, port, timeout, local_address, socket_options)

    async def connect_unix_socket(self, *_args: Any, **_kwargs: Any) -> httpcore.AsyncNetworkStream:
        """Refuse: there is no such target."""
        raise Blocked("unix sockets are not a target")

    async def sleep(self, seconds: float) -> None:
        """Sleep between httpcore's own tries; there are none."""
        await asyncio.sleep(seconds)


class HttpxOutbound:
    """`Outbound` on httpx; `announce` is told of each address before it is dialled and may raise."""

    def __init__(self, policy: GuardPolicy, resolver: Resolver, options: ClientOptions, announce: Dialer) -> None:
        self._options = options
        self._backend = GuardedBackend(policy, resolver, announce)
        context = tls_context(options.ca_file)
        transport = httpx.AsyncHTTPTransport(verify=context, trust_env=False, retries=0)
        transport._pool = httpcore.AsyncConnectionPool(
            ssl_context=context,
            network_backend=self._backend,
            http1=True,
            http2=False,
            keepalive_expiry=options.keep_alive_seconds_max,
        )
        self._transport = transport

    async def send(self, request: Request) -> Response:
        """See `Outbound.send`."""
        request_head(request.method, request.target, request.headers, len(request.body), b"")  # checks the fields
        started_at = monotonic()
        try:
            async with asyncio.timeout(request.deadline_seconds):
                response = await self._transport.handle_async_request(self._foreign(request))
                first_byte_at = monotonic()
        except TimeoutError:
            raise DeadlineExceeded("no answer within the time allowed") from None
        except httpx.HTTPError as error:
            raise _mapped(error) from error
        left = max(request.deadline_seconds - (monotonic() - started_at), 0)
        body, truncated = await self._body(response, left)
        return Response(
            status=response.status_code,
            headers=tuple((name.lower(), value) for name, value in response.headers.multi_items()),
            body=body,
            truncated=truncated,
            address=self._backend.address,
            connect_seconds=0.0,
            first_byte_seconds=first_byte_at - started_at,
            total_seconds=monotonic() - started_at,
        )

    async def aclose(self) -> None:
        """See `Outbound.aclose`."""
        await self._transport.aclose()

    def _foreign(self, request: Request) -> httpx.Request:
        target = request.target
        headers = [("user-agent", self._options.user_agent)] if not _has(request, "user-agent") else []
        return httpx.Request(
            request.method,
            httpx.URL(scheme=target.scheme, host=target.host, port=target.port, path="/"),
            headers=[*headers, ("host", target.host_header), ("accept-encoding", "identity"), *request.headers],
            content=request.body,
            extensions={
                "target": target.request_target,
                "timeout": {"connect": request.connect_seconds_max or self._options.connect_seconds_max},
            },
        )

    async def _body(self, response: httpx.Response, seconds: float) -> tuple[bytes, bool]:
        """Read to the limits; the status has decided already, so that no failure counts any more (OB-05)."""
        limits = self._options.limits
        kept, read_bytes, truncated = b"", 0, False
        try:
            async with asyncio.timeout(seconds):
                assert isinstance(response.stream, httpx.AsyncByteStream)
                async for piece in response.stream:
                    read_bytes += len(piece)
                    kept += piece[: limits.keep_bytes_max - len(kept)]
                    if read_bytes >= limits.read_bytes_max:
                        truncated = True
                        break
        except (httpx.HTTPError, TimeoutError):
            truncated = True
        await response.stream.aclose()  # type: ignore[union-attr]
        return kept, truncated or len(kept) < read_bytes


async def _no_protocol() -> None:
    """Stand in for the protocol factory, which httpcore has no use for."""


def _has(request: Request, name: str) -> bool:
    return any(field.lower() == name for field, _ in request.headers)


def _mapped(error: httpx.HTTPError) -> OutboundError:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return TlsFailed("the TLS handshake failed")
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx.RemoteProtocolError) and "without sending" not in str(error):
        return BadResponse("the answer is not valid HTTP")
    return ConnectFailed("no connection")

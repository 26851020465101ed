"""A tunnel through the operator's egress proxy: HTTP CONNECT, RFC 9110 section 9.3.6 (EG-11, WH-G05).

::

    dial the proxy --> CONNECT address:port --> 2xx --> TLS to the callback, by its own name --> the request
                                            --> 403, 407: refused    --> anything else, or no answer: no connection

Every request takes the tunnel, http too. For an https callback the proxy sees no byte of a delivery. The request to the
proxy names the judged address, so the address stays pinned. Where only the proxy can resolve names, the request has the
name, and the proxy has to judge it.
"""

import asyncio
import re
from base64 import b64encode
from dataclasses import dataclass, field
from ipaddress import IPv6Address

from egress.failure import Blocked, ConnectFailed
from egress.guard import Address

__all__ = ["Proxy", "open_tunnel"]

_HEAD_BYTES_MAX = 8192
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})[ \r]")


@dataclass(frozen=True, slots=True)
class Proxy:
    """The proxy of every outbound request.

    Attributes:
        host: its name, or an IP literal without brackets.
        port: its port.
        credentials: `user:password` for it; None without.
        resolves: it gets names instead of judged addresses.
    """

    host: str
    port: int
    credentials: str | None = field(default=None, repr=False)
    resolves: bool = False

    def request(self, host: Address | str, port: int) -> bytes:
        """Return the head of the request that asks for a tunnel."""
        authority = f"[{host}]:{port}" if isinstance(host, IPv6Address) else f"{host}:{port}"
        head = f"CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n"
        if self.credentials is not None:
            head += f"proxy-authorization: Basic {b64encode(self.credentials.encode()).decode()}\r\n"
        return (head + "\r\n").encode("ascii")


async def open_tunnel(transport: asyncio.Transport, request: bytes) -> None:
    """Ask for a tunnel on a fresh connection to the proxy; afterwards the transport has its former protocol again.

    Raises:
        OutboundError: `Blocked` when the proxy refuses, `ConnectFailed` for any other answer, or none.
    """
    protocol = transport.get_protocol()
    answer = _Answer()
    _swap(transport, answer)
    transport.write(request)
    head = await answer.head
    _swap(transport, protocol)
    _judge(head)


def _swap(transport: asyncio.Transport, protocol: asyncio.BaseProtocol) -> None:
    transport.pause_reading()  # the loop chooses how to read by the protocol that is set when reading begins
    transport.set_protocol(protocol)
    transport.resume_reading()


def _judge(head: bytes) -> None:
    status = _STATUS.match(head)
    code = int(status[1]) if status is not None else 0
    if code in (403, 407):
        raise Blocked(f"the egress proxy answered {code}")
    if not 200 <= code < 300:
        answered = f"answered {code}" if code else "does not speak HTTP/1.1"
        raise ConnectFailed("the host cannot be reached", f"the egress proxy {answered}")


class _Answer(asyncio.Protocol):
    """Read the head of the answer. No byte may follow it, because the callback does not send first."""

    def __init__(self) -> None:
        self.head: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._read = b""

    def data_received(self, data: bytes) -> None:
        self._read += data
        if self.head.done():
            return
        head, end, rest = self._read.partition(b"\r\n\r\n")
        if end and not rest:
            self.head.set_result(head + b"\r\n")
        elif end or len(self._read) > _HEAD_BYTES_MAX:
            self._fail("the egress proxy answered with more than a head")

    def connection_lost(self, _error: Exception | None) -> None:
        self._fail("the egress proxy closed the connection")

    def _fail(self, reason: str) -> None:
        if not self.head.done():
            self.head.set_exception(ConnectFailed("the host cannot be reached", reason))

"""One HTTP/1.1 connection to one judged address, carrying one exchange at a time.

                 exchange()                      message complete, framing sound
      idle ------------------> waiting for answer ------------------------------> idle (reusable)
       |                         |        |
       | peer closes,            |        | read limit, deadline, bad framing, peer closes
       | or sends unasked        |        v
       '------------> closed <---+--- status line seen: the exchange succeeds, cut short
                                      not seen: it fails with a class of `egress.failure`

The read side is bounded before anything is parsed. The transport reads into a buffer of `head_bytes_max` that all
connections of a client share; each read is parsed at once. So a hostile answer costs no memory, and nothing beyond its
limits is decompressed, counted or kept. The parser is llhttp through httptools in its strict mode (RFC
9112).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import httptools

from egress.failure import BadResponse, ConnectFailed, DeadlineExceeded, OutboundError

Origin = tuple[bool, str, int]
"""The key of kept connections: is TLS, host, port."""


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Limits for reading one answer.

    Attributes:
        head_bytes_max: status lines and header fields, interim answers included; also the size of one read.
        header_fields_max: fields of the final answer.
        read_bytes_max: everything of one answer, head included; at this point the connection is closed.
        keep_bytes_max: how much of the body the caller gets.
    """

    head_bytes_max: int = 32 * 1024
    header_fields_max: int = 100
    read_bytes_max: int = 64 * 1024
    keep_bytes_max: int = 4 * 1024

    def __post_init__(self) -> None:
        if not 0 < self.head_bytes_max <= self.read_bytes_max or self.header_fields_max < 1 or self.keep_bytes_max < 0:
            raise ValueError(f"read limits contradict each other: {self}")


class _Enough(Exception):
    """Ends parsing from inside a callback: too many fields, or a second answer."""


class Connection(asyncio.BufferedProtocol):
    """The protocol side of a connection; httptools calls the `on_...` methods.

    Args:
        loop: the running loop.
        origin: the origin that it was dialled for.
        buffer: read buffer shared by the client's connections, at least one byte long.
        on_lost: called once with this connection when its transport is gone.

    After a successful exchange `status` (200-999), `headers`, `kept`, `truncated` and `first_byte_at` describe the
    answer.
    """

    __slots__ = (
        "_armed_for",
        "_buffer",
        "_complete",
        "_deadline_at",
        "_excess",
        "_head_complete",
        "_keep_alive",
        "_limits",
        "_loop",
        "_on_lost",
        "_parser",
        "_read_bytes",
        "_room_bytes",
        "_status_line_seen",
        "_timer",
        "_transport",
        "_waiter",
        "address",
        "connected_at",
        "first_byte_at",
        "headers",
        "kept",
        "origin",
        "status",
        "truncated",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        origin: Origin,
        buffer: memoryview,
        on_lost: Callable[["Connection"], None],
    ) -> None:
        self._loop = loop
        self.origin = origin
        self._buffer = buffer
        self._on_lost = on_lost
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = self._deadline_at = 0.0
        self._limits = ReadLimits()
        self.address = ""
        self.connected_at = 0.0
        self._reset()

    def _reset(self) -> None:
        self._read_bytes = self._room_bytes = 0
        self._head_complete = self._status_line_seen = self._complete = self._excess = self._keep_alive = False
        self.headers: list[tuple[bytes, bytes]] = []
        self.kept: list[bytes] = []
        self.truncated = False
        self.first_byte_at = 0.0
        self.status = 0

    # Called by the client.

    def attach(self, transport: asyncio.Transport) -> None:
        """Take the transport that carries requests; called again after the TLS handshake."""
        self._transport = transport

    def exchange(self, head: bytes, body: bytes, limits: ReadLimits, deadline_at: float) -> asyncio.Future[None]:
        """Send one request and return a future for its answer. The connection must be idle and attached.

        The future raises `OutboundError`; `ConnectFailed` means that not one byte of an answer came. A caller
        that stops waiting must call `abort`.
        """
        assert self._waiter is None
        assert self._transport is not None
        self._reset()
        self._limits = limits
        self._room_bytes = limits.keep_bytes_max
        self._deadline_at = deadline_at
        self._waiter = self._loop.create_future()
        if self._timer is None or self._armed_for > deadline_at:
            self._arm(deadline_at)
        if len(body) <= 65536:  # one write sends both; copying a larger body costs more than a second write
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)
        return self._waiter

    def is_closing(self) -> bool:
        """Return whether the transport is closed or closing."""
        return self._transport is None or self._transport.is_closing()

    def release(self) -> bool:
        """End a successful exchange; return whether the connection may carry another one.

        False when the answer was cut, the peer wants to close, or it answered before taking the whole request.
        """
        self._waiter = None
        transport = self._transport
        return (
            self._keep_alive
            and not self._excess
            and transport is not None
            and not transport.is_closing()
            and transport.get_write_buffer_size() == 0
        )

    def abort(self) -> None:
        """Close at once, even during an exchange. Without effect when closed."""
        if self._transport is not None:
            self._transport.abort()

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport of a plain connection."""
        self.attach(cast(asyncio.Transport, transport))  # uvloop's transports do not inherit from asyncio's

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Return the shared buffer, cut to the number of bytes that this answer may still have."""
        limits = self._limits
        left = (limits.read_bytes_max if self._head_complete else limits.head_bytes_max) - self._read_bytes
        buffer = self._buffer
        return buffer if left >= len(buffer) else buffer[: max(left, 1)]

    def buffer_updated(self, nbytes: int) -> None:
        """Parse the bytes that were read; decide whether the answer is complete, too long or broken."""
        waiter = self._waiter
        if waiter is None or waiter.done():  # bytes that no request asked for must not reach the next request
            self.abort()
            return
        if self._read_bytes == 0:
            self.first_byte_at = self._loop.time()
        self._read_bytes += nbytes
        try:
            self._parser.feed_data(self._buffer[:nbytes])
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not isinstance(error.__context__, _Enough | None):
                raise  # a bug in a callback is not the peer's fault
            self._excess = True
            if not self._complete:
                self._cut(BadResponse("the answer is not valid HTTP"))
                return
        if self._complete:
            waiter.set_result(None)
        elif self._read_bytes >= (self._limits.read_bytes_max if self._head_complete else self._limits.head_bytes_max):
            self._cut(BadResponse("the answer is too large"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Settle the exchange in progress: a close may be the regular end of a body (RFC 9112 section 6.3)."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            if self._read_bytes == 0:
                waiter.set_exception(ConnectFailed("the connection was closed before an answer"))
            elif exc is None and self._head_complete and self._is_body_until_close():
                waiter.set_result(None)
            else:
                self._cut(BadResponse("the connection was closed inside the answer"))
        self._on_lost(self)

    def eof_received(self) -> None:
        """Let the transport close: a peer that sends no more has ended the exchange."""

    # Called by the parser.

    def on_message_begin(self) -> None:
        """Stop the parser at a second message, before it changes the state of the first."""
        if self._complete:
            raise _Enough

    def on_status(self, _text: bytes) -> None:
        """Note that the status code is complete: from here on it decides the outcome of the exchange."""
        self._status_line_seen = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a field of the head; trailers are ignored."""
        if self._head_complete:
            return
        if len(self.headers) >= self._limits.header_fields_max:
            raise _Enough
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Note the end of the head; the head of an interim answer does not count."""
        self.status = self._parser.get_status_code()
        self._head_complete = self.status >= 200

    def on_body(self, data: bytes) -> None:
        """Keep the first bytes of the body as they came: nothing is decoded."""
        if len(data) > self._room_bytes:
            self.truncated = True
            data = data[: self._room_bytes]
        if data:
            self._room_bytes -= len(data)
            self.kept.append(data)

    def on_message_complete(self) -> None:
        """End the answer, or forget an interim one (1xx) and go on reading."""
        if self._head_complete:
            self._complete = True
            self._keep_alive = self._parser.should_keep_alive()
        else:
            self._status_line_seen = False
            self.headers = []

    # Inside.

    def _cut(self, failure: OutboundError) -> None:
        """End an unfinished exchange: as a success if its status was read, else as this failure."""
        waiter = self._waiter
        self._keep_alive = False
        self.abort()
        if waiter is None or waiter.done():
            return
        status = self._parser.get_status_code() if self._status_line_seen else 0
        if status >= 200:
            self.status = status
            self.truncated = True
            waiter.set_result(None)
        else:
            waiter.set_exception(failure)

    def _is_body_until_close(self) -> bool:
        names = {name.lower() for name, _ in self.headers}
        return names.isdisjoint((b"content-length", b"transfer-encoding"))

    def _arm(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed_for = at
        self._timer = self._loop.call_at(at, self._expire)

    def _expire(self) -> None:
        # One timer serves many exchanges: a timer per request is a tenth of an exchange's cost.
        self._timer = None
        if self._waiter is None:
            return
        if self._deadline_at > self._armed_for:
            self._arm(self._deadline_at)
        else:
            self._cut(DeadlineExceeded("no answer within the time allowed"))

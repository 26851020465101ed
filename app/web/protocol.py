"""HTTP/1.1 for untrusted clients: uvicorn's httptools protocol with limits, deadlines, strict framing.

uvicorn's own protocol has no deadline for receiving a request, no limit for its header and no opinion on Host; that
cannot be added by a layer above it. `HookwireProtocol` adds it where the bytes arrive. One connection, as it is read::

      connect            first byte             header complete          body complete         answered
    FRESH ------------------> HEAD ------------------> BODY ------------------> ANSWER ------------> IDLE
      | first_byte_seconds     | headers_seconds        | body_seconds, rate      | the application's   | keep_alive_
      v                        v                        v                         | own business        v seconds
    close                  408, close               408, close                    |                   close
                               ^                                                  v
                               '------------------ first byte of the next request (also pipelined) ---- IDLE

    a refusal:  answers that are still owed are sent first (DEAF), then the refusal. Then write_eof, and a short bounded
                discard of the peer's data (LINGER): closing at once would reset the connection and lose the answer.
                Then close, and after write_seconds abort (CLOSING).

The parser (llhttp, strict) refuses by itself: two lengths, length and chunks together, bare line feeds, folded lines,
control characters, unknown methods. This module judges: sizes, Host, target form, transfer coding, version, method,
upgrades. A deadline is a number that the sweep of `app.web.connections` compares; no request arms a timer.
"""

from __future__ import annotations

import asyncio
import collections
import enum
import functools
import http
import re
from typing import Any, Final, cast

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from app.web.absolute_form import split_absolute
from app.web.connections import NEVER, Connections
from app.web.problem import METHODS, Problem

_METHODS: Final = frozenset(method.encode() for method in METHODS)
_NOWHERE: Final[Any] = collections.deque(maxlen=0)  # where trailer fields go
_PROBES: Final = (b"/healthz", b"/readyz")
_FEW: Final = 4
"""With more requests in progress an answer leaves at the end of its step: sending them in turn wakes clients once."""
_SHORT_LINGER_SECONDS: Final = 2.0  # while the process stops, and for a peer that has sent no whole header
_UPGRADE_FIELDS: Final = frozenset({b"upgrade", b"http2-settings"})
# A registered name, an IPv4 address or a bracketed IPv6 address, and a port (RFC 9110 section 7.2, without user info).
_HOST: Final = re.compile(rb"(?:[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,253})|\[[0-9A-Fa-f:.]{2,45}\])(?::([0-9]{1,5}))?")


class Phase(enum.Enum):
    """The event that a connection waits for; the states of the module's diagram."""

    FRESH = "the first byte"
    HEAD = "the rest of a header"
    BODY = "the rest of a body"
    ANSWER = "the application"
    IDLE = "another request"
    DEAF = "answers owed before a refusal"
    LINGER = "the peer to read the refusal"
    CLOSING = "the last bytes to leave"


# Looking a member up on its class costs as much as the rest of a comparison, and these run for every read.
FRESH, HEAD, BODY, ANSWER, IDLE, DEAF, LINGER, CLOSING = Phase
DEAF_PHASES: Final = (DEAF, LINGER, CLOSING)


@functools.lru_cache(maxsize=256)
def is_valid_host(host: bytes) -> bool:
    """Return whether a Host field is only a host and a port: any other would poison URLs built from it."""
    match = _HOST.fullmatch(host)
    return match is not None and (match[1] is None or int(match[1]) <= 65535)


class _Outlet:
    """The transport as uvicorn's response cycle sees it: the protocol decides about closing. Writes of one step of the
    loop are sent together, so that a head and a short body cost one system call and one packet.
    """

    __slots__ = ("_held", "_held_bytes", "_loop", "_transport", "close", "is_closing")

    def __init__(
        self, transport: asyncio.Transport, protocol: HookwireProtocol, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.close = protocol.hang_up
        self.is_closing = protocol.has_hung_up
        self._transport = transport
        self._loop = loop
        self._held: list[bytes] = []
        self._held_bytes = 0

    def write(self, data: bytes) -> None:
        """Write large data now, and small data at the end of this step."""
        if not self._held:
            self._loop.call_soon(self.flush)
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes > HIGH_WATER_LIMIT:
            self.flush()

    def flush(self) -> None:
        """Write the held data, if any and if the connection is still there."""
        if self._held:
            held, self._held, self._held_bytes = self._held, [], 0
            if self._transport.is_closing():
                return
            # Not `writelines`: in early releases of Python 3.12 and 3.13 asyncio's never pauses a protocol.
            self._transport.write(b"".join(held))


class HookwireProtocol(HttpToolsProtocol):
    """One connection; uvicorn builds it. `connections` is shared by all connections of the server.

    Callbacks refuse by raising `Problem`: that stops the parser at once, and `_feed` turns it into the answer.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        connections: Connections,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.shared = connections
        self.limits = connections.limits
        self.phase = FRESH
        self.deadline = self.write_deadline = NEVER
        self.running: RequestResponseCycle | None = None  # the request that the application works on
        self.last_request = False  # the process is stopping: a request read now is the last request
        self.url = b""  # uvicorn sets it with the first byte of a request, which may never come
        self._parting: bytes | None = None  # a refusal that is sent after earlier answers
        self._head_bytes = 0
        self._chunked = self._long_read = self._upgrading = False
        self._body_bytes = self._content_bytes = self._spare_bytes = 0
        self._body_since = 0.0

    # The transport's side

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Admit the connection or refuse it; the first byte must follow soon."""
        super().connection_made(transport)
        self.wire = transport
        self.outlet = _Outlet(transport, self, self.loop)
        self.transport = cast(asyncio.Transport, self.outlet)
        self._wait_for(FRESH, self.limits.first_byte_seconds)
        refusal = self.shared.admit(self.client[0] if self.client else None)
        if refusal is not None:
            self._refuse(refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the request in progress, also when later requests were already read."""
        super().connection_lost(exc)
        self.phase = CLOSING
        if self.running is not None and not self.running.response_complete:
            self.running.disconnected = True
            self.running.message_event.set()
        self.shared.release(self.client[0] if self.client else None)

    def data_received(self, data: bytes) -> None:
        """Count, then parse. Split only a read that crosses the header limit."""
        phase = self.phase
        if phase in DEAF_PHASES:
            self._discard(len(data))
        elif phase is BODY:
            self._body_bytes += len(data)
            self._feed(data)
            if self._chunked:
                self._judge_chunks()
        elif self._head_bytes + len(data) <= self.limits.header_bytes_max:
            self._head_bytes += len(data)
            self._feed(data)
        else:
            self._feed_beyond(data, self.limits.header_bytes_max - self._head_bytes)

    def _feed_beyond(self, data: bytes, room: int) -> None:
        limits = self.limits
        self._long_read = True
        self._head_bytes = limits.header_bytes_max
        self._feed(data[:room])
        if self.phase not in DEAF_PHASES:
            if self._head_bytes < limits.header_bytes_max:  # that header was complete, this is the rest
                self._feed(data[room:])
            elif len(self.url) > limits.url_bytes_max:
                self._refuse(Problem("uri-too-long", self._url_limit()))
            else:
                self._refuse(Problem("header-too-large", self._header_limit()))
        self._long_read = False

    def _feed(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
            return
        except httptools.HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
        except httptools.HttpParserCallbackError as error:
            self._refuse(_problem_in_callback(error))
            return
        except httptools.HttpParserError as error:
            self._refuse(Problem("bad-request", f"{error}."))
            return
        # Outside of the handler: an exception raised within one would lose the callback's own exception as its context.
        self._serve_without_upgrade(rest)

    def pause_writing(self) -> None:
        """Start the write deadline: a peer that reads more slowly than we write must read some data in time."""
        self.write_deadline = self.shared.clock + self.limits.write_seconds
        super().pause_writing()

    def resume_writing(self) -> None:
        """Stop the write deadline: the peer has read."""
        self.write_deadline = NEVER
        super().resume_writing()

    # The parser's side. on_url and on_header are uvicorn's: they only collect, and the end of the header is judged.

    def on_message_begin(self) -> None:
        """Begin a request with its first byte."""
        if len(self.pipeline) >= self.limits.pipelined_requests_max:
            raise Problem("too-many-requests", "Too many requests were sent ahead on one connection.")
        super().on_message_begin()
        self.phase = HEAD
        self.deadline = self.shared.clock + self.limits.headers_seconds

    def on_headers_complete(self) -> None:
        """Judge the header, then let uvicorn begin the request; its body may still be on the way."""
        if self.url[:1] != b"/":
            self._read_absolute_form()
        self._judge_head()
        if self.parser.should_upgrade():
            self._judge_upgrade()
            return
        super().on_headers_complete()
        if self.last_request:
            self.cycle.keep_alive = False
        if self.cycle.keep_alive:
            self.cycle.default_headers = self.shared.kept_headers
        # Trailer fields are dropped: the application has the request already, and its header must not change.
        self.headers = _NOWHERE
        self._head_bytes = self._body_bytes = self._content_bytes = 0
        self.phase = BODY
        self._body_since = clock = self.shared.clock
        self.deadline = clock + self.limits.body_grace_seconds

    def _read_absolute_form(self) -> None:
        """Take host and path from the target; a server must ignore the field Host beside them."""
        if (parts := split_absolute(self.url)) is not None:
            host, self.url = parts
            self.headers[:] = [(name, host if name == b"host" else value) for name, value in self.headers]

    def _judge_head(self) -> None:
        limits, headers = self.limits, self.headers
        if self.parser.get_method() not in _METHODS:
            raise Problem("method-not-allowed", headers={"Allow": ", ".join(METHODS)})
        if self.url[:1] != b"/" or b"#" in self.url:
            raise Problem("bad-request", "The target must be a path with an optional query.")
        if len(self.url) > limits.url_bytes_max:
            raise Problem("uri-too-long", self._url_limit())
        if len(headers) > limits.header_fields_max or (self._long_read and _size(headers) > limits.header_bytes_max):
            raise Problem("header-too-large", self._header_limit())
        fields = dict(headers)
        version = self.parser.get_http_version()
        # Plain load balancers ask for health by HTTP/1.0 without Host.
        is_probe = version == "1.0" and self.url in _PROBES and b"host" not in fields
        if (not is_probe and not is_valid_host(fields.get(b"host", b""))) or (
            len(fields) < len(headers) and _count(headers, b"host") > 1
        ):
            raise Problem("bad-request", "Exactly one Host field with a host and an optional port is needed.")
        self._chunked = b"transfer-encoding" in fields
        if self._chunked and (
            fields[b"transfer-encoding"].lower() != b"chunked" or _count(headers, b"transfer-encoding") > 1
        ):
            raise Problem("bad-request", "The only transfer coding is chunked, once.")
        if version != "1.1":
            self.expect_100_continue = False
            if version != "1.0" or self._chunked:
                raise Problem("bad-request", "HTTP/1.1 is spoken here, and HTTP/1.0 without transfer coding.")

    def _judge_upgrade(self) -> None:
        if any(name == b"upgrade" and b"websocket" in value.lower() for name, value in self.headers):
            raise Problem("bad-request", "WebSocket is not spoken here.")
        self._upgrading = True

    def on_body(self, body: bytes) -> None:
        """Take a part of the body for the application; drop it when the application has answered already."""
        cycle = self.cycle
        if cycle.response_complete:
            self._spare_bytes -= len(body)
            if self._spare_bytes < 0:
                raise Problem("body-too-large")
            return
        self._content_bytes += len(body)
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def _judge_chunks(self) -> None:
        # A byte of content takes six on the wire at worst ("1\r\nx\r\n"); chunk extensions could go on for ever.
        if self.phase is BODY and self._body_bytes > self.limits.chunk_overhead_bytes_max + 8 * self._content_bytes:
            self._refuse(Problem("bad-request", "The chunks carry more framing than content."))

    def on_message_complete(self) -> None:
        """End the request: it has been read whole."""
        if self._upgrading:
            return
        cycle = self.cycle
        if cycle.response_complete:
            self._wait_for(IDLE, self.limits.keep_alive_seconds)
            return
        self.phase = ANSWER
        self.deadline = NEVER
        cycle.more_body = False
        cycle.message_event.set()

    def _serve_without_upgrade(self, rest: bytes) -> None:
        """Serve a request that offers to change the protocol (Java clients offer h2c) as the HTTP/1.1 request it is.

        The parser has given up at the end of the header; so the header is parsed again without the offer.
        """
        head = [b"%b %b HTTP/1.1\r\n" % (self.parser.get_method(), self.url)]
        for name, value in self.headers:
            if name == b"connection":
                tokens = (token.strip() for token in value.split(b","))
                value = b", ".join(token for token in tokens if token.lower() not in _UPGRADE_FIELDS)  # noqa: PLW2901
            if name not in _UPGRADE_FIELDS:
                head.append(b"%b: %b\r\n" % (name, value))
        self._upgrading = False
        self.parser = httptools.HttpRequestParser(self)
        self._feed(b"".join((*head, b"\r\n", rest)))

    @property
    def is_idle(self) -> bool:
        """Return whether the connection waits for another request."""
        return self.phase is IDLE

    # Called by the response cycle

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self.running = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """Continue after an answer: serve the pipeline, send a waiting refusal, or wait for another request."""
        self.server_state.total_requests += 1
        phase = self.phase
        if phase is LINGER or phase is CLOSING:
            return
        if self.pipeline:
            self.shared.steps.take(self._serve_next)
            return
        if len(self.server_state.tasks) <= _FEW:
            self.outlet.flush()  # before what else is ready, such as the deliveries of this event
        self.flow.resume_reading()
        if phase is ANSWER:
            self.phase = IDLE
            self.deadline = self.shared.clock + self.limits.keep_alive_seconds
        elif phase is BODY:
            self._spare_bytes = self.limits.linger_bytes_max
        elif self._parting is not None:
            self.outlet.write(self._parting)
            self.hang_up()

    def _serve_next(self) -> None:
        if self.pipeline and not self.has_hung_up():
            self._start_asgi_task(*self.pipeline.pop())

    def shutdown(self) -> None:
        """Close an idle connection, finish a request in progress. The server calls it when it stops."""
        self.last_request = True
        if self.phase is FRESH or self.phase is IDLE:
            self.hang_up()
        elif self.phase is LINGER:
            self._close()
        elif self.cycle is not None:
            self.cycle.keep_alive = False
            self.cycle.default_headers = self.shared.date_headers

    # Refusing, ending

    def _refuse(self, problem: Problem) -> None:
        """End the connection with a problem, after the answers that earlier requests on it are still owed."""
        if self.phase in DEAF_PHASES:
            return
        self.shared.refused[problem.slug] += 1
        at_fault = self.cycle if self.phase is BODY else None
        self.phase, self.deadline = DEAF, NEVER
        if at_fault is not None:
            at_fault.disconnected = True
            at_fault.message_event.set()
            if self.pipeline and self.pipeline[0][0] is at_fault:
                self.pipeline.popleft()
            elif at_fault.response_started:
                self.hang_up()
                return
        answer = self._refusal_bytes(problem)
        if self.pipeline or not (self.running in (None, at_fault) or self.running.response_complete):
            self._parting = answer
        else:
            self.outlet.write(answer)
            self.hang_up()

    def _refusal_bytes(self, problem: Problem) -> bytes:
        request_id = self.shared.request_ids.new()
        answer = self.shared.problems.answer(problem, request_id)
        head = [b"HTTP/1.1 %d %b\r\n" % (answer.status, http.HTTPStatus(answer.status).phrase.encode())]
        ours = (
            (b"x-request-id", request_id.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"connection", b"close"),
        )
        head += [b"%b: %b\r\n" % field for field in (*self.server_state.default_headers, *answer.headers, *ours)]
        return b"".join((*head, b"\r\n", answer.body))

    def hang_up(self) -> None:
        """End the connection, so that written data still arrives. Discard later data of the peer."""
        if self.has_hung_up():
            return
        self.outlet.flush()
        if self.phase in (HEAD, BODY, DEAF) and self._end_writing():
            self.flow.resume_reading()
            self._spare_bytes = self.limits.linger_bytes_max
            is_short = self.last_request or self.phase is HEAD
            self._wait_for(LINGER, _SHORT_LINGER_SECONDS if is_short else self.limits.linger_seconds)
        else:
            self._close()

    def _end_writing(self) -> bool:
        if self.wire.is_closing() or not self.wire.can_write_eof():
            return False
        try:
            self.wire.write_eof()
        except OSError:  # the peer has reset the connection, and the loop has not reported it yet
            return False
        return True

    def has_hung_up(self) -> bool:
        """Return whether this connection takes no more requests and sends no more answers."""
        return self.phase is LINGER or self.phase is CLOSING

    def _close(self) -> None:
        self._wait_for(CLOSING, self.limits.write_seconds)
        self.wire.close()

    def _discard(self, size_bytes: int) -> None:
        if self.phase is LINGER:
            self._spare_bytes -= size_bytes
            if self._spare_bytes < 0:
                self._close()

    def _wait_for(self, phase: Phase, seconds: float) -> None:
        self.phase = phase
        self.deadline = self.shared.clock + seconds

    # The sweep's side

    def expire(self, now: float) -> None:
        """Act on a deadline, by the phase of the connection."""
        if self.write_deadline <= now or self.phase is CLOSING:
            self.wire.abort()
        elif self.phase is LINGER:
            self._close()
        elif self.phase is HEAD and not self.flow.read_paused:
            self._refuse(Problem("request-timeout", "The header of the request was not complete in time."))
        elif self.phase is BODY:
            self._expire_body(now)
        elif self.phase in (FRESH, IDLE):
            self.hang_up()
        else:
            self.deadline = self.shared.clock

    def _expire_body(self, now: float) -> None:
        """Check the body at every sweep: it must be complete in time and must not come in too slowly."""
        limits = self.limits
        self.deadline = self.shared.clock
        if self.flow.read_paused or (self.cycle.waiting_for_100_continue and not self.cycle.response_complete):
            self._body_since += limits.sweep_seconds  # this process has paused the reading
            return
        elapsed = now - self._body_since
        due_bytes = (elapsed - limits.body_grace_seconds) * limits.body_bytes_per_second
        if elapsed >= limits.body_seconds or self._body_bytes < due_bytes:
            self._refuse(Problem("request-timeout", "The body of the request was not complete in time."))

    # Texts

    def _header_limit(self) -> str:
        return f"At most {self.limits.header_bytes_max} bytes and {self.limits.header_fields_max} fields are read."

    def _url_limit(self) -> str:
        return f"At most {self.limits.url_bytes_max} bytes of target are read."


def _count(headers: list[tuple[bytes, bytes]], wanted: bytes) -> int:
    return sum(name == wanted for name, _ in headers)


def _size(headers: list[tuple[bytes, bytes]]) -> int:
    return sum(len(name) + len(value) + 4 for name, value in headers)


def _problem_in_callback(error: httptools.HttpParserCallbackError) -> Problem:
    """Return the problem of a callback's exception: a refusal stays, an error of the parser is a bad request."""
    cause = error.__context__
    if isinstance(cause, Problem):
        return cause
    if isinstance(cause, httptools.HttpParserError | UnicodeDecodeError):
        return Problem("bad-request")
    raise cause or error

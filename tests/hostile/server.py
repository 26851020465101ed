"""A subscriber that misbehaves on request (IT-13): every mode of F28-F30 and of the status matrix WH-T11.

    async with hostile_server() as server:
        await client.send(... server.url("/hang") ...)

The first word of the path picks the mode from `MODES`; `/status/503` answers any status. A test with a script of its
own passes it instead. The server notes every connection, request and close, and `until` waits for any of them, so that
tests wait on what happened and not on time.
"""

import asyncio
import gzip
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

ZEROS = bytes(64 * 1024)
BOMB = gzip.compress(bytes(50 * 1024 * 1024), 9)


@dataclass(frozen=True)
class Received:
    """One request as it came over the wire."""

    connection: int
    line: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes

    @property
    def target(self) -> bytes:
        """The request target, byte for byte."""
        return self.line.split(b" ")[1]

    def header(self, name: str) -> bytes | None:
        """The first value of a field, or None."""
        return next((value for key, value in self.headers if key.lower() == name.lower().encode()), None)


class Conversation:
    """One accepted connection, as a script sees it."""

    def __init__(
        self, server: "HostileServer", number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.server = server
        self.number = number
        self.reader = reader
        self.writer = writer
        self._peeked = b""

    async def peek_line(self) -> bytes:
        """Look at the first line; it will be read again."""
        self._peeked = await self.reader.readuntil(b"\r\n")
        return self._peeked

    async def read_head(self) -> Received:
        """Read a request's head; the body stays unread."""
        head = self._peeked + await self.reader.readuntil(b"\r\n\r\n")
        self._peeked = b""
        line, *fields = head[:-4].split(b"\r\n")
        headers = [(name, value.strip()) for name, _, value in (text.partition(b":") for text in fields)]
        return Received(self.number, line, headers, b"")

    async def read_request(self) -> Received:
        """Read a whole request and note it."""
        head = await self.read_head()
        length = int(head.header("content-length") or 0)
        request = Received(head.connection, head.line, head.headers, await self.reader.readexactly(length))
        await self.server.note(request)
        return request

    async def send(self, data: bytes) -> None:
        """Write and wait until the kernel took it."""
        self.writer.write(data)
        self.server.sent_bytes += len(data)
        await self.writer.drain()

    async def until_closed(self) -> None:
        """Wait until the peer closes."""
        with suppress(ConnectionError):
            while await self.reader.read(65536):
                pass

    def reset(self) -> None:
        """End with a TCP reset instead of a regular close."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Script = Callable[[Conversation], Awaitable[None]]


@dataclass
class HostileServer:
    """What happened, and where it listens."""

    script: Script
    scheme: str = "http"
    port: int = 0
    host: str = "127.0.0.1"
    requests: list[Received] = field(default_factory=list)
    connections: int = 0
    closed: int = 0
    sent_bytes: int = 0
    server_names: list[str | None] = field(default_factory=list)
    tasks: set["asyncio.Task[object]"] = field(default_factory=set)
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def url(self, path: str = "/", host: str | None = None) -> str:
        """Give a URL of this server."""
        return f"{self.scheme}://{host or self.host}:{self.port}{path}"

    async def note(self, request: Received) -> None:
        """Write a request down."""
        self.requests.append(request)
        async with self._changed:
            self._changed.notify_all()

    async def until(self, condition: Callable[["HostileServer"], bool], seconds: float = 60.0) -> None:
        """Wait until something has happened here, e.g. `lambda s: s.closed == 1`."""
        async with asyncio.timeout(seconds), self._changed:
            await self._changed.wait_for(lambda: condition(self))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hold one conversation; a peer that goes away ends it quietly."""
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        conversation = Conversation(self, self.connections, reader, writer)
        try:
            await self.script(conversation)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:  # the server is closing; streams would log a cancelled handler
            pass
        finally:
            writer.close()
            self.tasks.discard(task)
            self.closed += 1
            async with self._changed:
                self._changed.notify_all()


@asynccontextmanager
async def hostile_server(
    script: Script | None = None, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[HostileServer]:
    """Run a server on a free loopback port until the block ends."""
    state = HostileServer(script or by_path, scheme="https" if tls else "http", host=host)
    if tls is not None:
        tls.sni_callback = lambda _socket, name, _context: state.server_names.append(name)
    server = await asyncio.start_server(state.serve, host, 0, ssl=tls)
    state.port = server.sockets[0].getsockname()[1]
    try:
        yield state
    finally:
        server.close()
        tasks = tuple(state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def answer(status: int = 200, body: bytes = b"ok", *fields: str, reason: str = "Whatever") -> bytes:
    """Give a regular answer's bytes."""
    lines = [f"HTTP/1.1 {status} {reason}", *fields]
    if status not in (204, 304):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (b"" if status in (204, 304) else body)


def answering(data: bytes) -> Script:
    """Read requests and give each the same bytes, for as long as the peer stays."""

    async def script(conversation: Conversation) -> None:
        while True:
            await conversation.read_request()
            await conversation.send(data)

    return script


async def hang(conversation: Conversation) -> None:
    """Take the request and never answer."""
    await conversation.read_request()
    await conversation.until_closed()


async def deaf(conversation: Conversation) -> None:
    """Accept and read nothing at all until the connection is gone."""
    conversation.writer.transport.pause_reading()  # type: ignore[attr-defined]
    await asyncio.Event().wait()


async def drip_head(conversation: Conversation) -> None:
    """Send the status line a byte at a time, slower than any deadline."""
    await conversation.read_request()
    for byte in b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 1000:
        await conversation.send(bytes([byte]))
        await asyncio.sleep(0.2)


async def drip_body(conversation: Conversation) -> None:
    """Send a sound head and then a byte of body now and then."""
    await conversation.read_request()
    await conversation.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        await conversation.send(b".")
        await asyncio.sleep(0.05)


async def endless(conversation: Conversation) -> None:
    """Send a body without end, as fast as it is taken."""
    await conversation.read_request()
    await conversation.send(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        await conversation.send(ZEROS)


async def endless_chunked(conversation: Conversation) -> None:
    """Send chunks without end."""
    await conversation.read_request()
    await conversation.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        await conversation.send(b"%x\r\n" % len(ZEROS) + ZEROS + b"\r\n")


async def bomb(conversation: Conversation) -> None:
    """Send fifty megabytes as fifty kilobytes of gzip."""
    await conversation.read_request()
    await conversation.send(answer(200, BOMB, "Content-Encoding: gzip"))


async def many_headers(conversation: Conversation) -> None:
    """Send 100,000 header fields."""
    await conversation.read_request()
    await conversation.send(b"HTTP/1.1 200 OK\r\n")
    for start in range(0, 100_000, 1000):
        await conversation.send(b"".join(b"X-%d: y\r\n" % n for n in range(start, start + 1000)))
    await conversation.send(b"Content-Length: 0\r\n\r\n")
    await conversation.until_closed()


async def long_header(conversation: Conversation) -> None:
    """Send one header field of 10 MB."""
    await conversation.read_request()
    await conversation.send(b"HTTP/1.1 200 OK\r\nX-Long: ")
    for _ in range(160):
        await conversation.send(b"y" * 65536)
    await conversation.send(b"\r\nContent-Length: 0\r\n\r\n")
    await conversation.until_closed()


async def interim_flood(conversation: Conversation) -> None:
    """Send interim answers without end."""
    await conversation.read_request()
    while True:
        await conversation.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 100)


async def interim_drip(conversation: Conversation) -> None:
    """Send interim answers now and then, for ever: a time-out per read never fires."""
    await conversation.read_request()
    while True:
        await conversation.send(b"HTTP/1.1 102 Processing\r\n\r\n")
        await asyncio.sleep(0.05)


async def interim_then_ok(conversation: Conversation) -> None:
    """Send three interim answers and then a regular one."""
    await conversation.read_request()
    await conversation.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 3 + answer())
    await conversation.until_closed()


async def early(conversation: Conversation) -> None:
    """Refuse a body before reading it, then drop the connection with the body unread."""
    await conversation.server.note(await conversation.read_head())
    await conversation.send(answer(413, b"too large", "Connection: close"))


async def early_and_wait(conversation: Conversation) -> None:
    """Refuse a body before reading it and keep the connection open without ever reading it."""
    await conversation.server.note(await conversation.read_head())
    await conversation.send(answer(413, b"too large"))
    conversation.writer.transport.pause_reading()  # type: ignore[attr-defined]
    await asyncio.Event().wait()


async def reset_now(conversation: Conversation) -> None:
    """Take the request and reset."""
    await conversation.read_request()
    conversation.reset()


async def close_now(conversation: Conversation) -> None:
    """Take the request and close without a word."""
    await conversation.read_request()


async def reset_in_head(conversation: Conversation) -> None:
    """Reset inside the status line."""
    await conversation.read_request()
    await conversation.send(b"HTTP/1.1 2")
    await asyncio.sleep(0.05)
    conversation.reset()


async def reset_in_body(conversation: Conversation) -> None:
    """Reset in the middle of a body."""
    await conversation.read_request()
    await conversation.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    await asyncio.sleep(0.05)
    conversation.reset()


async def short_body(conversation: Conversation) -> None:
    """Promise more body than comes."""
    await conversation.read_request()
    await conversation.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")


async def long_body(conversation: Conversation) -> None:
    """Send more body than promised: the surplus is a forged answer to the next request."""
    while True:
        await conversation.read_request()
        await conversation.send(answer(200, b"ok") + answer(500, b"forged"))


async def bad_chunks(conversation: Conversation) -> None:
    """Break the chunked framing."""
    await conversation.read_request()
    await conversation.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nZZ\r\n")
    await conversation.until_closed()


async def garbage(conversation: Conversation) -> None:
    """Speak something that is not HTTP."""
    await conversation.read_request()
    await conversation.send(b"220 mail.example ESMTP ready\r\n\r\n")
    await conversation.until_closed()


async def upgrade(conversation: Conversation) -> None:
    """Switch protocols unasked."""
    await conversation.read_request()
    await conversation.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nhello")
    await conversation.until_closed()


async def redirect(conversation: Conversation) -> None:
    """Redirect to this very server, where the target would answer 200."""
    while True:
        request = await conversation.read_request()
        status = int(request.target.rpartition(b"/")[2])
        location = conversation.server.url("/ok")
        await conversation.send(answer(status, b"", f"Location: {location}"))


async def half_close(conversation: Conversation) -> None:
    """Answer without a length, shut the sending side, keep the receiving side open."""
    await conversation.read_request()
    await conversation.send(b"HTTP/1.1 200 OK\r\n\r\nuntil the end")
    conversation.writer.write_eof()
    await conversation.until_closed()


async def close_after_answer(conversation: Conversation) -> None:
    """Answer once as if the connection stayed, then close it."""
    await conversation.read_request()
    await conversation.send(answer())


async def close_on_second(conversation: Conversation) -> None:
    """Answer the first request; close without a word on the second of the same connection."""
    await conversation.read_request()
    await conversation.send(answer())
    await conversation.read_request()


async def half_answer_on_second(conversation: Conversation) -> None:
    """Answer the first request; on the second send one byte and close."""
    await conversation.read_request()
    await conversation.send(answer())
    await conversation.read_request()
    await conversation.send(b"H")


async def chatty(conversation: Conversation) -> None:
    """Answer, and a moment later send an answer that nobody asked for."""
    await conversation.read_request()
    await conversation.send(answer())
    await asyncio.sleep(0.05)
    await conversation.send(answer(500, b"forged"))
    await conversation.until_closed()


async def status(conversation: Conversation) -> None:
    """Answer with the status named in the path, again and again."""
    while True:
        request = await conversation.read_request()
        await conversation.send(answer(int(request.target.rpartition(b"/")[2])))


MODES: dict[str, Script] = {
    "bad-chunks": bad_chunks,
    "bomb": bomb,
    "chatty": chatty,
    "close-after-answer": close_after_answer,
    "close-now": close_now,
    "close-on-second": close_on_second,
    "cookie": answering(answer(200, b"ok", "Set-Cookie: taste=sweet; Path=/")),
    "deaf": deaf,
    "drip-body": drip_body,
    "drip-head": drip_head,
    "early": early,
    "early-and-wait": early_and_wait,
    "endless": endless,
    "endless-chunked": endless_chunked,
    "garbage": garbage,
    "half-answer-on-second": half_answer_on_second,
    "half-close": half_close,
    "hang": hang,
    "interim-drip": interim_drip,
    "interim-flood": interim_flood,
    "interim-then-ok": interim_then_ok,
    "long-body": long_body,
    "long-header": long_header,
    "many-headers": many_headers,
    "ok": answering(answer()),
    "redirect": redirect,
    "reset-in-body": reset_in_body,
    "reset-in-head": reset_in_head,
    "reset-now": reset_now,
    "short-body": short_body,
    "status": status,
    "upgrade": upgrade,
}


async def by_path(conversation: Conversation) -> None:
    """Pick the mode by the first word of the first request's path; anything unknown is answered with 200."""
    line = await conversation.peek_line()
    word = line.split(b" ")[1].lstrip(b"/").partition(b"/")[0].partition(b"?")[0].decode("latin-1")
    await MODES.get(word, MODES["ok"])(conversation)

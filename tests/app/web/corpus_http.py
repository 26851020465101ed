"""Hostile and odd HTTP over raw sockets: what is sent, and what has to come back.

A case is data, so that the same corpus can be sent to any server. The helpers below it are the smallest possible client
and the smallest possible application: nothing between the test and the bytes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from app.web.server import HttpServer, ServerLimits

HOST = b"Host: hookwire.test\r\n"
GET = b"GET /healthy HTTP/1.1\r\n" + HOST + b"\r\n"
CLOSED = 0  # the connection was closed without an answer


@dataclass(frozen=True)
class Case:
    """`sent` is one write each; any of `statuses` will do, and the connection must be closed after it."""

    requirement: str
    name: str
    sent: tuple[bytes, ...]
    statuses: frozenset[int]

    @property
    def id(self) -> str:
        return f"{self.requirement}-{self.name.replace(' ', '-')}"


def refused(requirement: str, name: str, *sent: bytes, status: int = 400, or_closed: bool = False) -> Case:
    return Case(requirement, name, sent, frozenset({status, CLOSED} if or_closed else {status}))


def get(fields: bytes = HOST, target: bytes = b"/", version: bytes = b"HTTP/1.1", method: bytes = b"GET") -> bytes:
    return method + b" " + target + b" " + version + b"\r\n" + fields + b"\r\n"


def post(fields: bytes, body: bytes = b"abc") -> bytes:
    return get(HOST + fields, method=b"POST") + body


def chunks(body: bytes) -> bytes:
    return post(b"Transfer-Encoding: chunked\r\n", body)


def pieces(data: bytes, size: int) -> tuple[bytes, ...]:
    return tuple(data[start : start + size] for start in range(0, len(data), size))


def hosts(*values: bytes) -> bytes:
    return b"".join(b"Host: " + value + b"\r\n" for value in values)


KIB = 1024
BAD_HOSTS = {
    "with a path": b"good.test/evil",
    "with user info": b"user@evil.test",
    "with user and password": b"user:pass@evil.test",
    "with port 99999": b"good.test:99999",
    "with a name as port": b"good.test:http",
    "with an empty port": b"good.test:",
    "with two ports": b"good.test:80:80",
    "with a space": b"good.test evil.test",
    "with a query": b"good.test?x",
    "with a fragment": b"good.test#x",
    "with a percent": b"good.test%2fevil",
    "with a backslash": b"good.test\\evil",
    "with a comma": b"good.test, evil.test",
    "with raw UTF-8": "gööd.test".encode(),
    "open bracket": b"[::1",
    "brackets round a name": b"[evil]",
    "empty": b"",
    "of 300 characters": b"a" * 300,
}

CASES: tuple[Case, ...] = (
    refused("B-01", "length then chunked", post(b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n")),
    refused("B-01", "chunked then length", post(b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", b"0\r\n\r\n")),
    refused("B-02", "two different lengths", post(b"Content-Length: 3\r\nContent-Length: 4\r\n")),
    refused("B-02", "two equal lengths", post(b"Content-Length: 3\r\nContent-Length: 3\r\n")),
    refused("B-02", "lengths in a list", post(b"Content-Length: 3, 3\r\n")),
    *(
        refused(
            "B-03", f"coding {coding.decode() or 'empty'}", post(b"Transfer-Encoding: %b\r\n" % coding, b"0\r\n\r\n")
        )
        for coding in (
            b"xchunked",
            b"chunked, identity",
            b"gzip, chunked",
            b"chunked, chunked",
            b"identity",
            b"gzip",
            b"",
        )
    ),
    refused("B-03", "two codings", post(b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n")),
    refused("B-03", "coding with a control character", post(b"Transfer-Encoding: \x0bchunked\r\n", b"0\r\n\r\n")),
    refused(
        "B-03", "coding in HTTP/1.0", get(HOST + b"Transfer-Encoding: chunked\r\n", version=b"HTTP/1.0", method=b"POST")
    ),
    refused("B-04", "space before the colon", get(HOST + b"X : 1\r\n")),
    refused("B-04", "space before the colon of a length", post(b"Content-Length : 3\r\n")),
    refused("B-04", "space before the first field", get(b" " + HOST)),
    refused("B-04", "folded line", get(HOST + b"X: 1\r\n 2\r\n")),
    refused("B-04", "field without a name", get(HOST + b": 1\r\n")),
    refused("B-04", "field without a colon", get(HOST + b"nonsense\r\n")),
    refused("B-05", "bare LF after the request line", b"GET / HTTP/1.1\n" + HOST + b"\r\n"),
    refused("B-05", "bare LF after a field", b"GET / HTTP/1.1\r\nHost: a\n\r\n"),
    refused("B-05", "bare LF as the empty line", b"GET / HTTP/1.1\r\nHost: a\r\n\n"),
    refused("B-05", "bare LF in all line ends", b"GET / HTTP/1.1\nHost: a\n\n"),
    refused("B-05", "bare LF after a chunk size", chunks(b"3\nabc\r\n0\r\n\r\n")),
    refused("B-06", "chunk size 0x3", chunks(b"0x3\r\nabc\r\n0\r\n\r\n")),
    refused("B-06", "negative chunk size", chunks(b"-3\r\nabc\r\n0\r\n\r\n")),
    refused("B-06", "chunk size above 64 bits", chunks(b"fffffffffffffffff\r\nabc")),
    refused("B-06", "space after a chunk size", chunks(b"3 \r\nabc\r\n0\r\n\r\n")),
    refused("B-06", "chunk longer than its size", chunks(b"3\r\nabcd\r\n0\r\n\r\n")),
    refused("B-06", "endless chunk extension", chunks(b"3;x="), *[b"y" * 4 * KIB] * 16),
    refused("B-06", "bad chunk in a later packet", chunks(b"3\r\nabc\r\n"), b"zz\r\n"),
    refused("B-06", "missing last chunk", chunks(b"3\r\nabc\r\n"), status=408),
    refused("B-07", "no Host", get(b"")),
    refused("B-07", "no Host in HTTP/1.0", get(b"", version=b"HTTP/1.0")),
    refused("B-07", "two Hosts", get(hosts(b"a.test", b"b.test"))),
    refused("B-07", "two equal Hosts", get(hosts(b"a.test", b"a.test"))),
    *(refused("B-07", f"Host {name}", get(hosts(value))) for name, value in BAD_HOSTS.items()),
    refused("B-08", "absolute target with a user", get(target=b"http://a@hookwire.test/")),
    refused("B-08", "absolute target without a host", get(target=b"http:///")),
    refused("B-08", "absolute target of another scheme", get(target=b"ftp://hookwire.test/")),
    refused("B-08", "absolute target without Host", get(b"", target=b"http://hookwire.test/")),
    refused("B-08", "absolute target with two Hosts", get(hosts(b"a.test", b"b.test"), target=b"http://a.test/")),
    refused("B-08", "fragment in an absolute target", get(target=b"http://hookwire.test/a#b")),
    refused("B-08", "asterisk target", get(target=b"*", method=b"OPTIONS")),
    refused("B-08", "authority target", get(target=b"evil.test:443")),
    refused("B-08", "fragment in the target", get(target=b"/a#b")),
    refused("B-08", "target without a slash", get(target=b"a")),
    refused("B-09", "NUL in a value", get(HOST + b"X: a\x00b\r\n")),
    refused("B-09", "NUL in a name", get(HOST + b"X\x00: a\r\n")),
    refused("B-09", "NUL in the target", get(target=b"/a\x00")),
    refused("B-09", "CR in a value", get(HOST + b"X: a\rb\r\n")),
    refused("B-09", "CR before a line end", get(HOST + b"X: a\r\r\n")),
    refused("B-09", "DEL in a value", get(HOST + b"X: \x7f\r\n")),
    *(
        refused("B-10", f"length {length.decode() or 'empty'}", post(b"Content-Length: %b\r\n" % length))
        for length in (b"-1", b"+3", b"9" * 20, b"3 3", b"0x3", b"3.0", b"")
    ),
    refused("B-11", "64 KiB field in one piece", get(HOST + b"X: " + b"a" * 64 * KIB + b"\r\n"), status=431),
    refused(
        "B-11", "64 KiB field in many pieces", *pieces(get(HOST + b"X: " + b"a" * 64 * KIB + b"\r\n"), 900), status=431
    ),
    refused("B-11", "1 MiB field", *pieces(get(HOST + b"X: " + b"a" * KIB * KIB + b"\r\n"), 64 * KIB), status=431),
    refused("B-11", "20 MB field that does not end", get(HOST)[:-2] + b"X: ", *[b"a" * 64 * KIB] * 306, status=431),
    refused("B-11", "33 KiB in many fields", get(HOST + (b"X: " + b"a" * 400 + b"\r\n") * 83), status=431),
    refused("B-11", "padding instead of content", get(HOST + b"X: " + b" " * 40 * KIB + b"a\r\n"), status=431),
    refused("B-11", "101 fields", get(HOST + b"X: a\r\n" * 100), status=431),
    refused("B-11", "200000 fields", *pieces(get(HOST + b"X: a\r\n" * 200_000), 64 * KIB), status=431),
    refused("B-11", "line ends before the request", b"\r\n" * 20 * KIB, status=431),
    refused("B-12", "target of 9 KiB", get(target=b"/" + b"a" * 9 * KIB), status=414),
    refused("B-12", "target of 1 MiB", *pieces(get(target=b"/" + b"a" * KIB * KIB), 64 * KIB), status=414),
    refused("B-12", "query of 9 KiB in many pieces", *pieces(get(target=b"/?" + b"a" * 9 * KIB), 800), status=414),
    refused(
        "B-15", "100-continue and then nothing", post(b"Expect: 100-continue\r\nContent-Length: 3\r\n", b""), status=408
    ),
    refused("B-17", "HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"),
    refused("B-17", "HTTP/2 as a version", get(version=b"HTTP/2.0")),
    refused("B-17", "HTTP/0.9 as a version", get(version=b"HTTP/0.9")),
    refused("B-17", "HTTP/1.2 as a version", get(version=b"HTTP/1.2")),
    refused("B-17", "TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64)),
    refused("B-17", "PROXY header", b"PROXY TCP4 10.0.0.1 10.0.0.2 4711 80\r\n" + GET),
    refused("B-17", "PROXY header version 2", b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + bytes(12) + GET),
    refused("B-18", "unknown method", get(method=b"BREW")),
    refused("B-18", "method in small letters", get(method=b"get")),
    refused("B-18", "known but foreign method", get(method=b"PROPFIND"), status=405),
    refused("B-18", "TRACE", get(method=b"TRACE"), status=405),
    refused("B-18", "CONNECT", get(method=b"CONNECT", target=b"evil.test:443"), status=405),
    *(
        refused(
            "B-60",
            f"WebSocket on {path.decode()}",
            get(HOST + b"Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\n", path),
        )
        for path in (b"/", b"/topics/a/events", b"/metrics")
    ),
)


@dataclass(frozen=True)
class Answer:
    """One HTTP answer as it was read; `status` CLOSED when the connection ended instead."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def document(self) -> dict[str, Any]:
        document = json.loads(self.body)
        assert isinstance(document, dict)
        return document


async def read_answer(reader: asyncio.StreamReader, *, head_only: bool = False) -> Answer:
    """The next answer, however it is framed."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return Answer(CLOSED)
    status_line, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    status = int(status_line.split()[1])
    if status == 100 or head_only:
        return Answer(status, headers)
    if headers.get("transfer-encoding") == "chunked":
        return Answer(status, headers, await _read_chunks(reader))
    return Answer(status, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readexactly(2)
    return body


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A raw connection to the server under test."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def send(writer: asyncio.StreamWriter, sent: Iterable[bytes]) -> None:
    """Write piece by piece, as far as the peer lets us: it may refuse before it has read everything."""
    with suppress(ConnectionError):
        for piece in sent:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)


async def exchange(port: int, *sent: bytes) -> tuple[Answer, bool]:
    """Send, read one answer, and say whether the server has ended the connection after it."""
    async with asyncio.timeout(45), connected(port) as (reader, writer):
        async with asyncio.TaskGroup() as both:
            both.create_task(send(writer, sent))
            reading = both.create_task(read_answer(reader))
        answer = reading.result()
        while answer.status == 100:
            answer = await read_answer(reader)
        return answer, await has_ended(reader)


async def has_ended(reader: asyncio.StreamReader) -> bool:
    """Whether nothing more comes; the caller's time-out decides how long "nothing" is."""
    with suppress(ConnectionError):
        return not await reader.read(1)
    return True


async def ask(port: int, *sent: bytes) -> Answer:
    """Send one ordinary request and read its answer."""
    async with asyncio.timeout(45), connected(port) as (reader, writer):
        await send(writer, sent)
        return await read_answer(reader)


@dataclass
class Echo:
    """An application that tells what reached it. It reads the whole body first, and serves nothing when that fails."""

    served: list[str] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body_bytes, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body_bytes += len(message.get("body", b""))
            more = message.get("more_body", False)
        self.served.append(scope["path"])
        seen = {
            "method": scope["method"],
            "path": scope["path"],
            "client": scope["client"],
            "scheme": scope["scheme"],
            "headers": [[name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]],
            "body_bytes": body_bytes,
        }
        body = json.dumps(seen).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})


QUICK = ServerLimits(
    first_byte_seconds=0.4,
    headers_seconds=0.8,
    body_seconds=1.0,
    body_grace_seconds=0.3,
    keep_alive_seconds=0.4,
    write_seconds=0.5,
    linger_seconds=0.3,
    linger_bytes_max=256 * KIB,
    sweep_seconds=0.05,
)


@asynccontextmanager
async def serving(app: ASGIApp, limits: ServerLimits = QUICK, **options: Any) -> AsyncIterator[HttpServer]:
    """The server under test on a free loopback port; it leaves without grace."""
    async with HttpServer(app, port=0, limits=limits, grace_seconds=0.0, **options) as server:
        yield server

"""egress/connection.py: one exchange, however its bytes are cut up, on a transport that only remembers."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.connection import Connection, ReadLimits
from egress.failure import BadResponse, ConnectFailed, DeadlineExceeded, OutboundError


class Transport:
    """What a connection needs of a transport."""

    def __init__(self) -> None:
        self.written = b""
        self.aborted = False

    def write(self, data: bytes) -> None:
        self.written += data

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.aborted

    def get_write_buffer_size(self) -> int:
        return 0


class Line:
    """A connection with its transport, fed as a loop would feed it."""

    def __init__(self, limits: ReadLimits | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.limits = limits or ReadLimits()
        self.buffer = memoryview(bytearray(self.limits.head_bytes_max))
        self.transport = Transport()
        self.connection = Connection(loop, (False, "a.example", 80), self.buffer, lambda _connection: None)
        self.connection.attach(self.transport)  # type: ignore[arg-type]
        self.ask()

    def ask(self) -> None:
        self.answer = self.connection.exchange(b"head", b"body", self.limits, asyncio.get_running_loop().time() + 60)

    def feed(self, data: bytes) -> None:
        """Deliver bytes until all are taken or the connection stops reading."""
        while data and not self.transport.aborted:
            room = self.connection.get_buffer(-1)
            taken = min(len(room), len(data))
            room[:taken] = data[:taken]
            self.connection.buffer_updated(taken)
            data = data[taken:]

    def lose(self, error: Exception | None = None) -> None:
        self.connection.connection_lost(error)

    def outcome(self) -> Any:
        """The answer as (status, headers, body, truncated), the class of the failure, or None while open."""
        if not self.answer.done():
            return None
        failure = self.answer.exception()
        if failure is not None:
            return type(failure)
        connection = self.connection
        return connection.status, connection.headers, b"".join(connection.kept), connection.truncated


ANSWERS = [
    (
        b"HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 5\r\n\r\nhello",
        (200, [(b"A", b"b"), (b"Content-Length", b"5")], b"hello", False),
    ),
    (b"HTTP/1.1 204 No Content\r\n\r\n", (204, [], b"", False)),
    (b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", (200, [(b"Content-Length", b"0")], b"", False)),
    (
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 410 Gone\r\nContent-Length: 2\r\n\r\nno",
        (410, [(b"Content-Length", b"2")], b"no", False),
    ),
    (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nLate: 1\r\n\r\n",
        (200, [(b"Transfer-Encoding", b"chunked")], b"abcde", False),
    ),
]
PREFIXES = [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"]


@pytest.mark.parametrize(("data", "outcome"), ANSWERS)
@given(cuts=st.lists(st.integers(0, 120), max_size=12))
def test_an_answer_is_the_same_however_it_is_cut_up(data: bytes, outcome: Any, cuts: list[int]) -> None:
    async def exchange() -> tuple[Any, bool]:
        line = Line()
        edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
        for start, end in pairwise(edges):
            line.feed(data[start:end])
        return line.outcome(), line.connection.release()

    assert asyncio.run(exchange()) == (outcome, True)


@given(
    st.binary(max_size=300),
    st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"]),
)
def test_any_bytes_end_in_an_answer_or_a_failure_of_ours(data: bytes, prefix: bytes) -> None:
    """Fuzz: nothing else escapes into the loop, and nothing stays open."""

    async def exchange() -> Any:
        line = Line()
        line.feed(prefix + data)
        line.lose()
        return line.outcome()

    outcome = asyncio.run(exchange())
    assert isinstance(outcome, tuple) or issubclass(outcome, OutboundError)
    if prefix:
        assert isinstance(outcome, tuple)


async def test_the_request_is_written_in_one_piece() -> None:
    assert Line().transport.written == b"headbody"


@pytest.mark.parametrize(
    ("data", "outcome"),
    [
        (b"", ConnectFailed),
        (b"H", BadResponse),
        (b"HTTP/1.1 20", BadResponse),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n", BadResponse),
        (b"HTTP/1.1 503 Busy\r\nRetry-After: 1", (503, [], b"", True)),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", (200, [(b"Content-Length", b"9")], b"abc", True)),
        (b"HTTP/1.1 200 OK\r\n\r\nabc", (200, [], b"abc", False)),
    ],
)
async def test_a_close_ends_the_exchange_by_what_was_read(data: bytes, outcome: Any) -> None:
    """OB-05, EG-19, RFC 9112 section 6.3."""
    line = Line()
    line.feed(data)
    line.lose()
    assert line.outcome() == outcome


async def test_a_reset_is_never_the_regular_end_of_a_body() -> None:
    line = Line()
    line.feed(b"HTTP/1.1 200 OK\r\n\r\nabc")
    line.lose(ConnectionResetError())
    assert line.outcome() == (200, [], b"abc", True)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x15\x03\x01\x00\x02",
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ],
)
async def test_what_is_not_http_is_a_bad_response_and_closes(data: bytes) -> None:
    line = Line()
    line.feed(data)
    assert (line.outcome(), line.transport.aborted) == (BadResponse, True)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        b"HTTP/1.1 200 OK\nA: b\n\n",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 102,
        b"HTTP/1.1 200 OK\r\nA: " + b"b" * 40_000,
    ],
)
async def test_a_broken_head_counts_by_its_status_and_closes(data: bytes) -> None:
    """OB-05, B-01, B-02 seen from the other side."""
    line = Line()
    line.feed(data)
    status, _, body, truncated = line.outcome()
    assert (status, body, truncated, line.transport.aborted) == (200, b"", True, True)


async def test_no_more_is_read_than_allowed() -> None:
    """OB-02, T8: 64 KiB to the byte, 4 KiB kept."""
    line = Line()
    line.feed(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 200_000)
    _, _, body, truncated = line.outcome()
    assert (len(body), truncated, line.connection._read_bytes) == (4096, True, 65536)


@pytest.mark.parametrize(
    "excess",
    [b"x", b"HTTP/1.1 500 Forged\r\nContent-Length: 0\r\n\r\n", b"HTTP/1", b"HTTP/1.1 500 Forged\r\n"],
)
async def test_bytes_behind_an_answer_close_the_connection(excess: bytes) -> None:
    """OB-13: never an answer to the next request."""
    line = Line()
    line.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" + excess)
    assert (line.outcome()[0], line.outcome()[2], line.connection.release()) == (200, b"ok", False)


async def test_bytes_on_an_idle_connection_close_it() -> None:
    line = Line()
    line.feed(ANSWERS[0][0])
    assert line.connection.release()
    line.feed(b"HTTP/1.1 500 Forged\r\n\r\n")
    assert line.transport.aborted


@pytest.mark.parametrize("field", [b"Connection: close\r\n", b""], ids=["asked", "HTTP/1.0"])
async def test_a_peer_that_wants_to_close_is_not_used_again(field: bytes) -> None:
    version = b"1.1" if field else b"1.0"
    line = Line()
    line.feed(b"HTTP/" + version + b" 200 OK\r\n" + field + b"Content-Length: 2\r\n\r\nok")
    assert (line.outcome()[0], line.connection.release()) == (200, False)


async def test_one_connection_carries_many_exchanges() -> None:
    line = Line()
    for number in range(400, 420):
        line.feed(b"HTTP/1.1 %d X\r\nContent-Length: 1\r\n\r\n%d" % (number, number % 10))
        assert line.outcome()[0] == number
        assert line.connection.release()
        line.ask()


async def test_the_deadline_holds_for_each_exchange_of_a_connection() -> None:
    """OB-01: a later deadline does not stretch an earlier one, nor does an earlier timer cut a later exchange."""
    line, loop = Line(), asyncio.get_running_loop()
    line.feed(ANSWERS[1][0])
    line.connection.release()
    line.answer = line.connection.exchange(b"", b"", line.limits, loop.time() + 0.05)
    line.feed(ANSWERS[1][0])
    line.connection.release()
    line.answer = line.connection.exchange(b"", b"", line.limits, loop.time() + 0.15)
    started_at = loop.time()
    await asyncio.wait([line.answer], timeout=60)
    assert (line.outcome(), loop.time() - started_at >= 0.1) == (DeadlineExceeded, True)

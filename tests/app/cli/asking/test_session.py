"""Requests to a hub over kept connections: what is sent, what is read, and how each failure is told."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from app.cli.asking.session import HubPlace, HubSession, HubUnreachable, place_of
from egress.failure import BadResponse, ConnectFailed, DeadlineExceeded
from tests.hostile.authority import Authority

OK = b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\nHookwire-Notice: a b\r\n\r\n{"id": "x"}'
SECONDS = 60.0


class Asked:
    """A server that gives each request these bytes; what it was asked, by connection."""

    def __init__(self, answer: bytes, *, closes: bool) -> None:
        self.connections: list[list[bytes]] = []
        self._answer, self._closes = answer, closes

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mine: list[bytes] = []
        self.connections.append(mine)
        try:
            while True:
                mine.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(self._answer)
                if self._closes:
                    break
        except asyncio.IncompleteReadError:
            pass
        writer.close()


@asynccontextmanager
async def asked(
    answer: bytes, tls: ssl.SSLContext | None = None, *, closes: bool = False
) -> AsyncIterator[tuple[Asked, str]]:
    found = Asked(answer, closes=closes)
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0, ssl=tls)
    scheme = "https" if tls else "http"
    yield found, f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


async def test_a_request_has_its_url_and_headers_and_an_answer_its_content() -> None:
    async with asked(OK) as (server, url), HubSession() as session:
        answer = await session.request(
            "POST", f"{url}/topics/a%20b/é?x=1", b"", {"Authorization": "Bearer k"}, SECONDS, {"key": "c d&e"}
        )
    host = url.removeprefix("http://")
    assert server.connections == [[
        f"POST /topics/a%20b/%C3%A9?x=1&key=c+d%26e HTTP/1.1\r\nHost: {host}\r\nUser-Agent: hookwire\r\nAccept: */*\r\n"
        "Authorization: Bearer k\r\nContent-Length: 0\r\n\r\n".encode()
    ]]  # fmt: skip
    assert (answer.status_code, answer.headers["hookwire-notice"], answer.json(), answer.had_key) == (
        200, "a b", {"id": "x"}, True,
    )  # fmt: skip


async def test_requests_after_each_other_share_a_connection() -> None:
    async with asked(OK) as (server, url), HubSession() as session:
        for _ in range(3):
            await session.request("GET", url, None, {}, SECONDS)
    assert [len(requests) for requests in server.connections] == [3]


async def test_requests_at_the_same_time_have_a_connection_each() -> None:
    async with asked(OK) as (server, url), HubSession() as session:
        await asyncio.gather(*(session.request("GET", url, None, {}, SECONDS) for _ in range(3)))
    assert [len(requests) for requests in server.connections] == [1, 1, 1]


async def test_a_connection_that_the_hub_closed_is_not_used_again() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    async with asked(answer, closes=True) as (server, url), HubSession() as session:
        for _ in range(2):
            await session.request("GET", url, None, {}, SECONDS)
    assert [len(requests) for requests in server.connections] == [1, 1]


async def test_an_answer_of_any_length_is_read_whole() -> None:
    body = bytes(range(256)) * 20_000
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    async with asked(chunked) as (_, url), HubSession() as session:
        assert (await session.request("GET", url, None, {}, SECONDS)).content == body


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (b"", ConnectFailed),
        (b"nonsense\r\n\r\n", BadResponse),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe", BadResponse),
    ],
)
async def test_a_broken_answer_is_none(answer: bytes, failure: type[Exception]) -> None:
    async with asked(answer, closes=True) as (_, url), HubSession() as session:
        with pytest.raises(failure):
            await session.request("GET", url, None, {}, SECONDS)


async def test_a_silent_hub_is_left_at_the_deadline() -> None:
    async with asked(b"") as (_, url), HubSession() as session:
        with pytest.raises(DeadlineExceeded):
            await session.request("GET", url, None, {}, 0.01)


async def test_a_hub_that_nobody_runs_is_unreachable(free_port: int) -> None:
    async with HubSession() as session:
        with pytest.raises(HubUnreachable, match=r"Connect call failed|refused"):
            await session.request("GET", f"http://127.0.0.1:{free_port}", None, {}, SECONDS)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


async def test_tls_asks_for_a_certificate_of_an_authority_that_is_known(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The authorities are certifi's, of which a test has no key."""
    async with asked(OK, authority.context()) as (server, url):
        async with HubSession() as session:
            with pytest.raises(HubUnreachable, match="CERTIFICATE_VERIFY_FAILED"):
                await session.request("GET", url, None, {}, SECONDS)
        monkeypatch.setattr("certifi.where", lambda: authority.ca_file)
        async with HubSession() as session:
            answer = await session.request("GET", url, None, {}, SECONDS)
    assert (answer.status_code, [len(requests) for requests in server.connections]) == (200, [1])


async def test_https_to_a_plain_port_is_told() -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with HubSession() as session:
        with pytest.raises(HubUnreachable, match="WRONG_VERSION_NUMBER"):
            await session.request("GET", f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", None, {}, SECONDS)
    server.close()


async def test_the_deadline_holds_for_the_handshake_too() -> None:
    async with asked(b"") as (_, url), HubSession() as session:
        with pytest.raises(DeadlineExceeded):
            await session.request("GET", url.replace("http:", "https:"), None, {}, 0.01)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://hub", HubPlace("http", "hub", 80, "hub", "/", "")),
        ("HTTPS://Hub:443/a", HubPlace("https", "hub", 443, "hub", "/a", "")),
        ("http://[::1]:8080/a?b=%2F", HubPlace("http", "::1", 8080, "[::1]:8080", "/a?b=%2F", "")),
        ("http://bücher.example/", HubPlace("http", "xn--bcher-kva.example", 80, "xn--bcher-kva.example", "/", "")),
        ("http://ada:s%40cret@hub/", HubPlace("http", "hub", 80, "hub", "/", "Basic YWRhOnNAY3JldA==")),
    ],
)
def test_a_url_in_parts(url: str, place: HubPlace) -> None:
    assert place_of(url) == place


@pytest.mark.parametrize(
    "url", ["ftp://a", "http://", "http://[::1", "http://a:0", "http://a:99999", "http://a\nb", "hub:8080", "", "//a"]
)
def test_what_is_no_address_of_a_hub(url: str) -> None:
    with pytest.raises(ValueError, match=r"URL|is not the address of a hub"):
        place_of(url)


def test_a_password_is_not_told() -> None:
    for url in ("ftp://ada:S3cr3t@hub", "http://ada:S3cr3t@hub:x", "http://ada:S3cr3t@[::1"):
        with pytest.raises(ValueError, match=r"URL|address") as told:
            place_of(url)
        assert "S3cr3t" not in str(told.value)


async def test_a_header_on_two_lines_is_not_sent() -> None:
    async with asked(OK) as (server, url), HubSession() as session:
        with pytest.raises(ValueError, match="header X has a character"):
            await session.request("GET", url, None, {"X": "a\r\nHost: b"}, SECONDS)
    assert server.connections == []

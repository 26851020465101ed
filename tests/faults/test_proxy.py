"""The TCP fault proxy does what it says, or every test behind it means nothing (IT-02)."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.faults.proxy import Proxy, proxied


@asynccontextmanager
async def echo_behind_proxy() -> AsyncIterator[Proxy]:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(1000):
            writer.write(chunk)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server, proxied("127.0.0.1", server.sockets[0].getsockname()[1]) as proxy:
        yield proxy


async def say(streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], text: bytes, seconds: float = 5) -> bytes:
    streams[1].write(text)
    async with asyncio.timeout(seconds):
        return await streams[0].readexactly(len(text))


async def test_bytes_pass_both_ways_and_the_end_of_a_stream_too() -> None:
    async with echo_behind_proxy() as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        assert await say((reader, writer), b"hello") == b"hello"
        writer.write_eof()
        assert await reader.read() == b""
        assert proxy.passed_bytes == {"up": 5, "down": 5}


async def test_what_is_held_arrives_late() -> None:
    async with echo_behind_proxy() as proxy:
        streams = await asyncio.open_connection("127.0.0.1", proxy.port)
        proxy.hold("down")
        with pytest.raises(TimeoutError):
            await say(streams, b"late", 0.2)
        proxy.heal()
        assert await streams[0].readexactly(4) == b"late"
        streams[1].close()


async def test_what_is_lost_never_arrives_and_healing_resets_its_connection() -> None:
    async with echo_behind_proxy() as proxy:
        streams = await asyncio.open_connection("127.0.0.1", proxy.port)
        proxy.lose("down")
        with pytest.raises(TimeoutError):
            await say(streams, b"lost", 0.2)
        proxy.heal()
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await say(streams, b"more")
        assert await say(await asyncio.open_connection("127.0.0.1", proxy.port), b"new") == b"new"


async def test_a_reset_is_a_reset_and_a_refused_port_refuses() -> None:
    async with echo_behind_proxy() as proxy:
        streams = await asyncio.open_connection("127.0.0.1", proxy.port)
        assert await say(streams, b"one") == b"one"
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            await streams[0].readexactly(1)
        await proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", proxy.port)
        await proxy.listen()
        assert await say(await asyncio.open_connection("127.0.0.1", proxy.port), b"two") == b"two"


async def test_a_peer_that_closes_after_some_bytes_accepts_and_closes_until_it_is_healed() -> None:
    async with echo_behind_proxy() as proxy:
        cut, other = [await asyncio.open_connection("127.0.0.1", proxy.port) for _ in "12"]
        assert await say(other, b"one") == b"one"
        proxy.close_after(2)
        cut[1].write(b"hello")
        late = await asyncio.open_connection("127.0.0.1", proxy.port)
        heard = [await one[0].read() for one in (cut, other, late)]
        proxy.heal()
        again = await say(await asyncio.open_connection("127.0.0.1", proxy.port), b"two")
        assert (heard, again) == ([b"he", b"", b""], b"two")


async def test_latency_delays_each_way() -> None:
    async with echo_behind_proxy() as proxy:
        streams = await asyncio.open_connection("127.0.0.1", proxy.port)
        proxy.latency_seconds = 0.1
        began = time.monotonic()
        assert await say(streams, b"slow") == b"slow"
        assert time.monotonic() - began >= 0.2
        streams[1].close()

"""A TCP fault proxy: stands before one server and harms what passes (IT-02).

    client ----up----> proxy ----up----> server
           <---down---       <---down---

    latency_seconds = 0.2    every chunk waits so long, in both directions
    bytes_per_second = 1000  no more than that per direction of a connection
    hold("down")             nothing passes until `heal`; then it all does, late (F54)
    lose("down")             nothing passes, ever; `heal` resets the connections that lost something (F04, F20)
    vanish()                 no packet passes, also none of TCP itself: a host that is gone; `heal` resets (HA-04)
    reset()                  every connection is reset; new ones are served
    refuse()                 connections are reset and new ones refused until `listen`
    close_after(n)           after n more bytes from the server, every connection is closed, and new ones are accepted
                             and closed at once, until `heal`; 0 is a load balancer without a server behind it (FC-03)
    turned_away              how many were closed at once since then

    answers                  the sizes of the server's answers, as they came
    rewrite = (a, b)         in the server's answers b stands for a, of the same length, such as an advertised address

What is accepted but held or lost looks like a server that accepts and never answers (F13).
"""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal, get_args

from tests.faults.packets import drop_what_comes, is_acknowledged, take_what_comes
from tests.waiting import until

Direction = Literal["up", "down"]
_CHUNK_BYTES = 64 * 1024
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)


class Proxy:
    """Forwards `port` of loopback to `upstream`; attributes and verbs may be used at any time."""

    def __init__(self, upstream: tuple[str, int], port: int = 0) -> None:
        self.upstream = upstream
        self.port = port
        self.latency_seconds = 0.0
        self.bytes_per_second: int | None = None
        self.passed_bytes = {"up": 0, "down": 0}
        self.answers: list[int] = []
        self.rewrite = (b"", b"")
        self._open = {direction: asyncio.Event() for direction in get_args(Direction)}
        self._losing: set[Direction] = set()
        self._answer_bytes_left: int | None = None
        self.turned_away = 0
        self._links: set[_Link] = set()
        self._server: asyncio.Server | None = None
        self._no_links = asyncio.Event()
        self._no_links.set()
        self.heal()

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._links)

    def heal(self) -> None:
        """Everything passes again; what lost bytes cannot go on and is reset."""
        self._losing.clear()
        self._answer_bytes_left = None
        for gate in self._open.values():
            gate.set()
        for listening in self._server.sockets if self._server is not None else ():
            take_what_comes(listening)
        for link in tuple(self._links):
            if link.has_lost:
                link.reset()

    def hold(self, *directions: Direction) -> None:
        """Keep back what passes; none named: both directions."""
        for direction in directions or get_args(Direction):
            self._open[direction].clear()

    def lose(self, *directions: Direction) -> None:
        """Swallow what passes; none named: both directions."""
        self._losing.update(directions or get_args(Direction))

    def close_after(self, answer_bytes: int) -> None:
        """Close everything once so many more bytes of the server have passed."""
        self._answer_bytes_left = answer_bytes
        self.turned_away = 0
        if answer_bytes == 0:
            self._close_all()

    @property
    def closes(self) -> bool:
        """Whether every connection is closed at once."""
        return self._answer_bytes_left == 0

    async def vanish(self) -> None:
        """Drop all packets of clients, those of new connections too, and send none."""
        self.hold("down")
        for link in tuple(self._links):
            await link.drop_what_comes()
        if self._server is not None:
            for listening in self._server.sockets:
                drop_what_comes(listening)

    def reset(self) -> None:
        """Reset every connection."""
        for link in tuple(self._links):
            link.reset()

    async def refuse(self) -> None:
        """Reset every connection and stop listening, until `listen`."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.reset()

    def _answer(self, chunk: bytes) -> bytes:
        """What is left of an answer, and the record of its size."""
        self.answers.append(len(chunk))
        before, after = self.rewrite
        chunk = chunk.replace(before, after) if before else chunk
        if self._answer_bytes_left is not None:
            chunk = chunk[: self._answer_bytes_left]
            self._answer_bytes_left -= len(chunk)
        return chunk

    def _close_all(self) -> None:
        for link in tuple(self._links):
            link.close()

    async def ended(self) -> None:
        """Wait until no connection is left."""
        await self._no_links.wait()

    async def listen(self) -> None:
        """Accept connections, always on the same port."""
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, backlog=256)
            self.port = self._server.sockets[0].getsockname()[1]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.closes:
            self.turned_away += 1
            writer.close()
            return
        try:
            upstream = await asyncio.open_connection(*self.upstream)
        except OSError:
            writer.transport.abort()
            return
        link = _Link(writer, upstream[1])
        if self.closes:  # since a moment ago
            link.close()
            return
        self._links.add(link)
        self._no_links.clear()
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(link, "up", reader, upstream[1]))
                pumps.create_task(self._pump(link, "down", upstream[0], writer))
        except* OSError:
            pass
        finally:
            link.abort()
            self._links.discard(link)
            if not self._links:
                self._no_links.set()

    async def _pump(
        self, link: "_Link", direction: Direction, source: asyncio.StreamReader, target: asyncio.StreamWriter
    ) -> None:
        while chunk := await source.read(_CHUNK_BYTES):
            if self.latency_seconds:
                await asyncio.sleep(self.latency_seconds)
            await self._open[direction].wait()
            if direction in self._losing or link.has_lost:
                link.has_lost = True
                continue
            if self.bytes_per_second is not None:
                await asyncio.sleep(len(chunk) / self.bytes_per_second)
            if direction == "down":
                chunk = self._answer(chunk)
            target.write(chunk)
            await target.drain()
            self.passed_bytes[direction] += len(chunk)
            if self.closes:
                self._close_all()
        await self._open[direction].wait()
        if not link.has_lost and target.can_write_eof():
            target.write_eof()


class _Link:
    """One connection on both sides."""

    def __init__(self, *writers: asyncio.StreamWriter) -> None:
        self.has_lost = False
        self._writers = writers

    def reset(self) -> None:
        for writer in self._writers:
            if (raw := writer.get_extra_info("socket")) is not None and not writer.is_closing():
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
        self.abort()

    async def drop_what_comes(self) -> None:
        """From the client, whose peer then sends nothing by itself either."""
        self.has_lost = True
        client = self._writers[0].get_extra_info("socket")
        await until(lambda: is_acknowledged(client))
        drop_what_comes(client)

    def close(self) -> None:
        for writer in self._writers:
            writer.close()

    def abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


@asynccontextmanager
async def proxied(host: str, port: int, listen_port: int = 0) -> AsyncIterator[Proxy]:
    """A proxy before `host:port`, healed and gone when the block is left."""
    proxy = Proxy((host, port), listen_port)
    await proxy.listen()
    try:
        yield proxy
    finally:
        proxy.heal()
        await proxy.refuse()
        await proxy.ended()

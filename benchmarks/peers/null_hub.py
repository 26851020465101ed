"""The null hub: it does what no hub can leave out, and nothing else.

It appends each POSTed body to a file, calls fsync, answers 202 and POSTs the body to a webhook. One fsync serves all
bodies that came during the one before. It has no topics, no retries and no memory: what a hub needs beyond its figures
is the price of these. ``python -m benchmarks.peers.null_hub PORT FILE CALLBACK...``; each callback gets a copy.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

import uvloop

from benchmarks.peers.clients import Clients, post_request

__all__ = ["main"]

_ACCEPTED = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
_CLIENTS_MAX = 64


class _Log:
    """A file that bodies are appended to; :meth:`append` returns when its body is on the disk."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None

    async def append(self, body: bytes) -> None:
        """Append a body and a line end."""
        stored = asyncio.get_running_loop().create_future()
        self._waiting.append((body, stored))
        if self._writer is None:
            self._writer = asyncio.ensure_future(self._write())
        await stored

    async def _write(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            await asyncio.to_thread(self._write_all, [body for body, _ in batch])
            for _, stored in batch:
                stored.set_result(None)
        self._writer = None

    def _write_all(self, bodies: Sequence[bytes]) -> None:
        self._file.write(b"\n".join([*bodies, b""]))
        self._file.flush()
        os.fsync(self._file.fileno())


class _Callback:
    """A webhook. Bodies are sent side by side, on at most 64 connections."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None, url
        self._clients = Clients(parts.hostname, parts.port or 80)
        self._path = parts.path or "/"
        self._free = asyncio.Semaphore(_CLIENTS_MAX)

    async def send(self, body: bytes) -> None:
        """Send a body; the answer is read and forgotten."""
        async with self._free:
            await self._clients.post(post_request(self._path, body))


class NullHub:
    """Serves connections. ``sending`` are the POSTs under way."""

    def __init__(self, log: _Log, callbacks: Sequence[_Callback]) -> None:
        self._log = log
        self._callbacks = callbacks
        self._sending: set[asyncio.Future[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection, one after the other."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                body = await reader.readexactly(_length(head))
                await self._log.append(body)
                writer.write(_ACCEPTED)
                for callback in self._callbacks:
                    self._begin(callback.send, body)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _begin(self, send: Callable[[bytes], Awaitable[None]], body: bytes) -> None:
        task = asyncio.ensure_future(send(body))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)


def _length(head: bytes) -> int:
    found = head.lower().partition(b"content-length:")[2]
    return int(found.split(b"\r\n", 1)[0] or 0)


async def _main(port: int, file: BinaryIO, callbacks: Sequence[str]) -> None:
    hub = NullHub(_Log(file), [_Callback(url) for url in callbacks])
    server = await asyncio.start_server(hub.serve, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


def main() -> None:
    """Run the command line."""
    port, path, *callbacks = sys.argv[1:]
    with Path(path).open("ab") as file:
        uvloop.run(_main(int(port), file, callbacks))


if __name__ == "__main__":
    main()

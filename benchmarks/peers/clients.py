"""Clients: HTTP/1.1 connections that are kept, each with one request at a time; as many as are needed at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import cast

import httptools

__all__ = ["Clients", "post_request"]

_ANSWER_SECONDS = 10.0


def post_request(path: str, body: bytes, host: str = "127.0.0.1", headers: Iterable[tuple[str, str]] = ()) -> bytes:
    """Return the bytes of a POST."""
    fields = "".join([f"{name}: {value}\r\n" for name, value in headers])
    head = f"POST {path} HTTP/1.1\r\nhost: {host}\r\n{fields}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


class _Client(asyncio.Protocol):
    """One connection. ``answer`` is the status of the request under way."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def send(self, request: bytes) -> asyncio.Future[int]:
        """Send a request; return the future of its status."""
        self.answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return self.answer

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.transport.abort()

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200 and not self.answer.done():
            if not self._parser.should_keep_alive():
                self.transport.close()
            self.answer.set_result(status)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.answer.done():
            self.answer.set_exception(exc or ConnectionResetError("closed without an answer"))


class Clients:
    """The connections to one address. Idle ones are used again, the latest first."""

    def __init__(self, host: str, port: int) -> None:
        self._address = host, port
        self._idle: list[_Client] = []

    async def post(self, request: bytes) -> int:
        """Send a request; return the status of its answer. OSError: there was none, within ten seconds."""
        client = await self._take()
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                status = await client.send(request)
        except TimeoutError:
            client.transport.abort()
            raise
        if not client.transport.is_closing():
            self._idle.append(client)
        return status

    async def _take(self) -> _Client:
        while self._idle:
            client = self._idle.pop()
            if not client.transport.is_closing():
                return client
        _, client = await asyncio.get_running_loop().create_connection(_Client, *self._address)
        return client

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().transport.close()

"""A keep-alive HTTP/1.1 client of one connection, for the witness's writers only.

It costs a twentieth of a general client, so that the processor is left to the system under test. It keeps one promise:
without a whole answer in time it raises :class:`NoAnswer` and gives up the connection.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from runtime.loopback import at_loopback, loopback

__all__ = ["ChaosClient", "ClientAnswer", "NoAnswer"]

_IDLE_SECONDS_MAX: Final = 3.0  # the hub closes a connection that was idle for 5 s


class NoAnswer(Exception):
    """The connection was refused, reset or cut, or the answer is late. The outcome of the request is unknown."""


@dataclass(frozen=True, slots=True)
class ClientAnswer:
    """A whole answer; header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class ChaosClient:
    """Talks to one port of this machine; connects when it has to. Not shared between tasks."""

    def __init__(self, port: int, timeout_seconds: float) -> None:
        self._port = port
        self._timeout_seconds = timeout_seconds
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._answered_at = 0.0

    async def request(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> ClientAnswer:
        """Send one request and return its answer, within the time-out. Raise :class:`NoAnswer`."""
        fields = {"Host": at_loopback(self._port), "Content-Length": str(len(body)), **(headers or {})}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        request = f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._exchange(request)
        except (OSError, TimeoutError, EOFError, ValueError) as error:
            self.close()
            raise NoAnswer(f"{type(error).__name__}: {error}") from error
        except asyncio.CancelledError:
            self.close()
            raise

    async def _exchange(self, request: bytes) -> ClientAnswer:
        if time.monotonic() - self._answered_at > _IDLE_SECONDS_MAX:
            self.close()
        if self._streams is None:
            self._streams = await asyncio.open_connection(loopback(), self._port)
        reader, writer = self._streams
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status_line, *lines = head[:-4].split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self._answered_at = time.monotonic()
        if headers.get("connection", "").lower() == "close":
            self.close()
        return ClientAnswer(int(status_line.split(" ", 2)[1]), headers, body)

    def close(self) -> None:
        """Drop the connection; the next request makes another."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

"""A load generator on bare asyncio protocols, cheap enough to share two cores with the measured program."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

__all__ = ["Load", "drive", "milliseconds"]


@dataclass
class Load:
    """The result of a run: ``seconds`` of wall time, ``latencies`` of all answers in seconds, ``refused`` non-2xx."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    refused: int = 0

    @property
    def rate(self) -> float:
        """Return answers per second."""
        return len(self.latencies) / self.seconds

    def percentile(self, share: float) -> float:
        """Return the milliseconds within which this share of the answers came."""
        return milliseconds(self.latencies, share)


def milliseconds(seconds: Sequence[float], share: float) -> float:
    """Return the milliseconds within which this share of the times lies. There is at least one."""
    return 1000 * sorted(seconds)[min(int(len(seconds) * share), len(seconds) - 1)]


class _Client(asyncio.Protocol):
    """One keep-alive connection that sends the next request when an answer has come."""

    def __init__(self, request: Callable[[], bytes], load: Load, until: float) -> None:
        self._request = request
        self._load = load
        self._until = until
        self._buffer = b""
        self._sent_at = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def _send(self) -> None:
        now = time.perf_counter()
        if now >= self._until:
            self._transport.close()
            return
        self._sent_at = now
        self._transport.write(self._request())

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end].lower()
        at = head.find(b"content-length:")
        length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(self._buffer) < end + 4 + length:
            return
        self._buffer = self._buffer[end + 4 + length :]
        self._load.latencies.append(time.perf_counter() - self._sent_at)
        self._load.refused += not head.startswith(b"http/1.1 2")
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def drive(host: str, port: int, requests: Sequence[bytes], clients: int, seconds: float) -> Load:
    """Send the requests round robin over ``clients`` connections for ``seconds``."""
    load = Load()
    position = 0

    def following() -> bytes:
        nonlocal position
        position += 1
        return requests[position % len(requests)]

    loop = asyncio.get_running_loop()
    started = time.perf_counter()
    protocols = []
    for _ in range(clients):
        _, protocol = await loop.create_connection(lambda: _Client(following, load, started + seconds), host, port)
        protocols.append(protocol)
    await asyncio.gather(*(protocol.done for protocol in protocols))
    load.seconds = time.perf_counter() - started
    return load

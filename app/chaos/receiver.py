"""A webhook receiver with an arrival log, like that of a careful subscriber.

It logs the arrival, flushed, before it answers; so an event that was answered with 2xx is in the log. It may refuse an
attempt with 503 and not log it, so that retries are part of every run.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from app.chaos.arrivals import ArrivalWriter
from app.chaos.listening import listening
from app.chaos.log import LineLog
from app.chaos.mark import Mark
from runtime.loopback import at_loopback

__all__ = ["Receiver", "open_receiver"]

_ACCEPTED = b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"
_REFUSED = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"


class Receiver:
    """One callback; ``refuses`` is asked before each attempt is taken."""

    def __init__(self, sink: str, log: LineLog, refuses: Callable[[], bool]) -> None:
        self.sink = sink
        self.port = 0
        self.arrived = 0
        self._writer = ArrivalWriter(log, sink)
        self._refuses = refuses

    @property
    def callback(self) -> str:
        """Return the URL to subscribe."""
        return f"http://{at_loopback(self.port)}/{self.sink}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, to its end."""
        while True:
            headers = _headers(await reader.readuntil(b"\r\n\r\n"))
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            writer.write(_REFUSED if self._refuses() else self._take(headers, body))

    def _take(self, headers: dict[str, str], body: bytes) -> bytes:
        sequence = headers.get("hookwire-sequence")
        self._writer.record(
            Mark.from_payload(body),
            event_id=headers.get("webhook-id"),
            sequence=int(sequence) if sequence is not None else None,
        )
        self.arrived += 1
        return _ACCEPTED


def _headers(head: bytes) -> dict[str, str]:
    lines = head[:-4].decode("latin-1").split("\r\n")[1:]
    return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


@asynccontextmanager
async def open_receiver(
    sink: str, folder: Path, chance: random.Random, refused_share: float = 0.0
) -> AsyncIterator[Receiver]:
    """Listen on a free loopback port while the block runs; the log is ``folder/arrivals-<sink>.jsonl``."""
    with LineLog(folder / f"arrivals-{sink}.jsonl") as log:
        receiver = Receiver(sink, log, lambda: chance.random() < refused_share)
        async with listening(receiver.serve) as receiver.port:
            yield receiver

"""A callback that works: answers each POST as a test says, and keeps what it was sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

WAIT_SECONDS = 60.0
Answer = tuple[int, bytes] | tuple[int, bytes, str]
LOOPBACK = {"egress_allow_cidrs": "127.0.0.1/32"}


@dataclass
class CallbackServer:
    """Answers its n-th POST, from 1 on, as ``answer`` says: a status, a body, perhaps header lines.

    ``seen`` has headers and bodies. With ``gate`` an answer waits until the gate is set.
    """

    answer: Callable[[int], Answer] = lambda _: (200, b"done")
    port: int = 0
    seen: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    gate: asyncio.Event | None = None
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def callback(self) -> str:
        return f"http://127.0.0.1:{self.port}/work"

    async def wait_for(self, count: int) -> list[tuple[dict[str, str], bytes]]:
        """What was sent, once there are so many."""
        async with asyncio.timeout(WAIT_SECONDS):
            while len(self.seen) < count:
                self._arrived.clear()
                await self._arrived.wait()
        return self.seen

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in head[1:] if line)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                self.seen.append((headers, body))
                status, answer, *lines = self.answer(len(self.seen))
                self._arrived.set()
                if self.gate is not None:
                    await self.gate.wait()
                fields = "".join(f"{line}\r\n" for line in lines or ["Content-Type: text/x-answer"]).encode()
                writer.write(
                    b"HTTP/1.1 %d Status\r\n%bContent-Length: %d\r\n\r\n%b" % (status, fields, len(answer), answer)
                )
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@asynccontextmanager
async def callback_server() -> AsyncIterator[CallbackServer]:
    """A callback on loopback."""
    made = CallbackServer()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    yield made
    server.close()

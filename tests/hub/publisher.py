"""Another publisher's topic server on loopback: what it serves is set per path, and what it was asked is kept."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class Page:
    """What a path serves; ``gate`` holds the answer back."""

    body: bytes = b""
    content_type: str | None = "text/plain"
    status: int = 200
    headers: str = ""
    gate: asyncio.Event | None = None

    def answer(self) -> bytes:
        typed = f"Content-Type: {self.content_type}\r\n" if self.content_type else ""
        head = f"HTTP/1.1 {self.status} X\r\n{typed}{self.headers}Content-Length: {len(self.body)}\r\n\r\n"
        return head.encode() + self.body


@dataclass
class Publisher:
    """Its ``pages`` by path, and the requests in order: path and headers."""

    port: int = 0
    pages: dict[str, Page] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    arrived: asyncio.Condition = field(default_factory=asyncio.Condition)

    def url(self, path: str = "/feed") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    async def wait_for(self, requests: int) -> None:
        async with asyncio.timeout(60), self.arrived:
            await self.arrived.wait_for(lambda: len(self.requests) >= requests)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines[1:] if line)}
                path = lines[0].split(" ")[1]
                # What is served is decided when the request arrives, however long its answer takes.
                page = self.pages.get(path, Page(status=404))
                answer = page.answer()
                self.requests.append((path, headers))
                async with self.arrived:
                    self.arrived.notify_all()
                if page.gate is not None:
                    await page.gate.wait()
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@asynccontextmanager
async def serve_topics() -> AsyncIterator[Publisher]:
    publisher = Publisher()
    server = await asyncio.start_server(publisher.serve, "127.0.0.1", 0)
    publisher.port = server.sockets[0].getsockname()[1]
    try:
        yield publisher
    finally:
        server.close()

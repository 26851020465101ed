"""A scripted subscriber on loopback: records raw request targets and answers each path as told."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs

Answer = Callable[[asyncio.StreamWriter, bytes], Awaitable[None]]
"""Writes an answer; gets the challenge."""


def answers(status: int, body: bytes | None = None, headers: str = "") -> Answer:
    """Answers with a status and a body; None echoes the challenge."""

    async def answer(writer: asyncio.StreamWriter, challenge: bytes) -> None:
        content = challenge if body is None else body
        writer.write(f"HTTP/1.1 {status} X\r\n{headers}Content-Length: {len(content)}\r\n\r\n".encode() + content)

    return answer


async def hang(_writer: asyncio.StreamWriter, _challenge: bytes) -> None:
    await asyncio.Event().wait()


async def reset(writer: asyncio.StreamWriter, _challenge: bytes) -> None:
    writer.transport.abort()


def after(gate: asyncio.Event, answer: Answer) -> Answer:
    """Waits for the gate, then answers."""

    async def gated(writer: asyncio.StreamWriter, challenge: bytes) -> None:
        await gate.wait()
        await answer(writer, challenge)

    return gated


@dataclass
class Callbacks:
    """The recorder of GETs. `script[path]` is the answer of a path; others echo the challenge with 200.

    A POST, which is what a topic's validator gets, is recorded in `posted` and answered by the same script.
    """

    port: int = 0
    script: dict[str, Answer] = field(default_factory=dict)
    targets: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    posted: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    open_now: Counter[str] = field(default_factory=Counter)
    open_most: Counter[str] = field(default_factory=Counter)
    arrived: asyncio.Condition = field(default_factory=asyncio.Condition)

    def url(self, path: str = "/cb", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def queries(self, path: str = "/cb") -> list[dict[str, list[str]]]:
        """What each request to a path asked, in order."""
        split = (target.partition("?") for target in self.targets)
        return [parse_qs(query, keep_blank_values=True) for found, _, query in split if found == path]

    async def wait_for(self, requests: int) -> None:
        async with asyncio.timeout(45), self.arrived:
            await self.arrived.wait_for(lambda: len(self.targets) >= requests)

    async def wait_for_posts(self, posts: int) -> list[tuple[str, dict[str, str], bytes]]:
        async with asyncio.timeout(60), self.arrived:
            await self.arrived.wait_for(lambda: len(self.posted) >= posts)
        return self.posted

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1"):
                if head.startswith("POST "):
                    await self._take(head, reader, writer)
                else:
                    await self._answer(head, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _take(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = head.split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)
        }
        body = await reader.readexactly(int(headers["content-length"]))
        path = head.split(" ")[1]
        self.posted.append((path, headers, body))
        async with self.arrived:
            self.arrived.notify_all()
        await self.script.get(path, answers(204))(writer, b"")
        await writer.drain()

    async def _answer(self, head: str, writer: asyncio.StreamWriter) -> None:
        method, target, _ = head.partition("\r\n")[0].split(" ")
        assert method == "GET"
        assert "content-length" not in head.lower()
        path, _, query = target.partition("?")
        challenge = parse_qs(query).get("hub.challenge", [""])[-1].encode()
        group = f"{head.lower().partition('host: ')[2].partition(':')[0]} {parse_qs(query)['hub.mode'][-1]}"
        self.open_now[group] += 1
        self.open_most[group] = max(self.open_most[group], self.open_now[group])
        self.heads.append(head)
        self.targets.append(target)
        async with self.arrived:
            self.arrived.notify_all()
        try:
            await self.script.get(path, answers(200))(writer, challenge)
            await writer.drain()
        finally:
            self.open_now[group] -= 1


@asynccontextmanager
async def serve_callbacks() -> AsyncIterator[Callbacks]:
    callbacks = Callbacks()
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await callbacks.serve(reader, writer)
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            tasks.discard(task)

    server = await asyncio.start_server(connected, "0.0.0.0", 0)
    callbacks.port = server.sockets[0].getsockname()[1]
    try:
        yield callbacks
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

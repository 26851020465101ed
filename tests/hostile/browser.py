"""A real browser without a screen, and the site whose pages it opens: Chromium as the system has it."""

import asyncio
import json
import os
import shutil
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from scripts.servers.missing import MissingServerError

WAIT_SECONDS = 60.0
_FOLLOWED = "--virtual-time-budget=20000"  # of the page's own clock: so a form that a page sends is followed


@dataclass
class Site:
    """Serves ``pages`` by path. What a page POSTs to /report is its report; other paths go ``behind``, if there is one.

    ``behind`` is a port on loopback: so a page's own name leads to another server once it is open (DNS rebinding).
    """

    port: int = 0
    pages: dict[str, str] = field(default_factory=dict)
    behind: int | None = None
    reports: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)

    def sends_form(self, action: str, **fields: str) -> str:
        """The address of a page of this site that sends a form as soon as it is open."""
        values = "".join(f'<input name="{name}" value="{escape(value)}">' for name, value in fields.items())
        self.pages["/sends-form"] = (
            f'<form method="post" action="{action}">{values}</form><script>document.forms[0].submit()</script>'
        )
        return f"http://127.0.0.1:{self.port}/sends-form"

    async def report(self) -> Any:
        """The next report, as the page sent it in JSON."""
        async with asyncio.timeout(WAIT_SECONDS):
            return await self.reports.get()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request of one connection."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
            body = await reader.readexactly(int(fields.get("content-length", "0")))
            writer.write(await self._answer(lines[0].split(" ")[1], head, body))
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # a connection that the browser opened ahead
        finally:
            writer.close()

    async def _answer(self, path: str, head: bytes, body: bytes) -> bytes:
        if path in self.pages:
            return _answer(200, self.pages[path].encode())
        if path == "/report":
            self.reports.put_nowait(json.loads(body))
            return _answer(200, b"")
        return _answer(404, b"") if self.behind is None else await _passed_on(self.behind, head, body)


def _answer(status: int, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


async def _passed_on(port: int, head: bytes, body: bytes) -> bytes:
    """What the server at this port answers to a request as it is, but for its connection, which ends with it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    fields = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
    writer.write(b"\r\n".join((fields[0], b"Connection: close", *fields[1:])) + body)
    answer = await reader.read()
    writer.close()
    return answer


@asynccontextmanager
async def serve_site(behind: int | None = None) -> AsyncIterator[Site]:
    """A site on loopback."""
    site = Site(behind=behind)
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()


async def dom_of(url: str, folder: Path) -> str:
    """What Chromium makes of a page, as HTML."""
    process = await asyncio.create_subprocess_exec(
        *chromium_command(folder, _FOLLOWED, "--dump-dom", url), stdout=PIPE, stderr=DEVNULL, stdin=DEVNULL
    )
    async with ended(process), asyncio.timeout(WAIT_SECONDS):
        return (await process.communicate())[0].decode()


async def picture_of(url: str, folder: Path, width: int, height: int) -> bytes:
    """A page as Chromium draws it in a window of this size, as PNG."""
    target = folder / "page.png"
    process = await asyncio.create_subprocess_exec(
        *chromium_command(
            folder, _FOLLOWED, "--hide-scrollbars", f"--window-size={width},{height}", f"--screenshot={target}", url
        ),
        stdout=DEVNULL, stderr=DEVNULL, stdin=DEVNULL,
    )  # fmt: skip
    async with ended(process), asyncio.timeout(WAIT_SECONDS):
        await process.wait()
    return target.read_bytes()


@asynccontextmanager
async def browsing(url: str, folder: Path) -> AsyncIterator[None]:
    """Chromium with this page open; names that end in .example lead to loopback. ``folder`` holds its profile."""
    process = await asyncio.create_subprocess_exec(
        *chromium_command(folder, "--remote-debugging-port=0", url), stdout=DEVNULL, stderr=DEVNULL, stdin=DEVNULL
    )
    async with ended(process):
        yield


def chromium_command(folder: Path, *arguments: str) -> list[str]:
    """The command line of Chromium without a screen; raises MissingServerError where there is none."""
    program = shutil.which("chromium")
    if program is None:
        raise MissingServerError("Chromium is missing: run scripts/install-servers.")
    return [
        program, "--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        "--disable-dev-shm-usage", f"--user-data-dir={folder}", "--host-resolver-rules=MAP *.example 127.0.0.1",
        *(["--no-sandbox"] if os.geteuid() == 0 else []), *arguments,
    ]  # fmt: skip


@asynccontextmanager
async def ended(process: Process) -> AsyncIterator[None]:
    """End the process behind the block."""
    try:
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()

"""A browser that a test operates: Chromium by its DevTools protocol, over two pipes. One runs for all cases of a test.

It clicks where a link or a button is drawn, so what is hidden or covered cannot be clicked. It notes each address that
it asks for, and what the page's script throws.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from asyncio.subprocess import DEVNULL
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.hostile.browser import WAIT_SECONDS, chromium_command, ended
from tests.waiting import until

_PLACE = """
(text, within) => {
  const named = one => [one.innerText, one.value, one.getAttribute("aria-label")].some(words => words?.trim() === text);
  const all = [...document.querySelectorAll(within + " a, " + within + " button, " + within + " summary")];
  const found = all.find(one => named(one) && one.checkVisibility());
  if (!found) return null;
  found.scrollIntoView({block: "center"});
  const box = found.getClientRects()[0];
  const place = [box.x + box.width / 2, box.y + box.height / 2];
  const top = document.elementFromPoint(...place);
  return found.contains(top) || top?.contains(found) ? place : null;
}"""
_FILL = """
(name, value) => {
  const field = document.querySelector(`main [name="${name}"]`);
  if (field.type === "checkbox") field.checked = Boolean(value); else field.value = value;
}"""


@dataclass
class Tab:
    """One page. ``clicks`` counts since the last :meth:`open`; ``asked`` has the address of each request."""

    browser: Chromium
    session: str
    clicks: int = 0
    asked: list[str] = field(default_factory=list)
    thrown: list[str] = field(default_factory=list)
    loads: int = 0

    async def call(self, method: str, **parameters: Any) -> Any:
        """The result of a method of the protocol."""
        return await self.browser.call(method, self.session, **parameters)

    async def open(self, url: str) -> None:
        """Open a page as if its address had been typed, and wait until it is there."""
        self.clicks = 0
        before = self.loads
        await self.call("Page.navigate", url=url)
        await until(lambda: _true(self.loads > before))

    async def shaped(self, width: int, *, scripts: bool = True) -> None:
        """Have a screen of this width, and scripts or none."""
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500
        )
        await self.call("Emulation.setScriptExecutionDisabled", value=not scripts)

    async def run(self, function: str, *arguments: Any) -> Any:
        """The result of a JavaScript function in the page."""
        given = ", ".join(json.dumps(one) for one in arguments)
        answer = await self.call(
            "Runtime.evaluate", expression=f"({function})({given})", returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def text(self) -> str:
        """The visible words of the page, in one line."""
        return " ".join((await self.run("() => document.body?.innerText ?? ''")).split())

    async def path(self) -> str:
        """Path and query of the page."""
        found: str = await self.run("() => location.pathname + location.search")
        return found

    async def fill(self, **fields: str) -> None:
        """Fill in the fields of the form of an act."""
        for name, value in fields.items():
            await self.run(_FILL, name, value)

    async def click(self, text: str, within: str = "body") -> str:
        """Click the link or button with exactly this text, wait for the page behind it, and return its words."""
        before = self.loads
        place: list[float] = []

        async def is_seen() -> bool:  # the page may be replacing it at this moment
            place[:] = await self.run(_PLACE, text, within) or []
            return bool(place)

        await until(is_seen, WAIT_SECONDS)
        for kind in ("mousePressed", "mouseReleased"):
            await self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)
        self.clicks += 1
        await until(lambda: _true(self.loads > before))
        return await self.text()

    async def until_shows(self, words: str) -> None:
        """Wait until the page, which refreshes itself, shows these words."""

        async def shows() -> bool:
            return words in await self.text()

        await until(shows, WAIT_SECONDS)

    async def open_until_it_shows(self, url: str, words: str) -> None:
        """Open a page again and again until it shows these words: a page that is opened is younger than one that has
        refreshed itself.
        """

        async def shows() -> bool:
            await self.open(url)
            return words in await self.text()

        await until(shows, WAIT_SECONDS)

    async def picture(self) -> bytes:
        """The page as it is drawn, from its top to its end, as PNG."""
        return b64decode((await self.call("Page.captureScreenshot", captureBeyondViewport=True))["data"])


async def _true(found: bool) -> bool:
    return found


class Chromium:
    """The browser. ``call`` asks it; its events go to the tab that they are about."""

    def __init__(self, reader: asyncio.StreamReader, writer: Any) -> None:
        self._reader = reader
        self._writer = writer
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._tabs: dict[str, Tab] = {}

    async def call(self, method: str, session: str = "", **parameters: Any) -> Any:
        """The result of a method of the protocol."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        self._waiting[number] = asyncio.get_running_loop().create_future()
        self._writer.write(json.dumps(message).encode() + b"\0")
        async with asyncio.timeout(WAIT_SECONDS):
            answer = await self._waiting[number]
        del self._waiting[number]
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    async def tab(self) -> Tab:
        """A new page, with cookies of its own."""
        context = (await self.call("Target.createBrowserContext"))["browserContextId"]
        target = (await self.call("Target.createTarget", url="about:blank", browserContextId=context))["targetId"]
        session = (await self.call("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
        tab = self._tabs[session] = Tab(self, session)
        for domain in ("Page", "Network", "Runtime"):
            await tab.call(f"{domain}.enable")
        return tab

    async def listen(self) -> None:
        """Take answers and events until the browser ends."""
        while message := await self._next():
            if "id" in message:
                self._waiting[message["id"]].set_result(message)
            elif (tab := self._tabs.get(message.get("sessionId", ""))) is not None:
                _note(tab, message["method"], message["params"])

    async def _next(self) -> Any:
        try:
            return json.loads((await self._reader.readuntil(b"\0"))[:-1])
        except asyncio.IncompleteReadError:
            return None


def _note(tab: Tab, method: str, about: Any) -> None:
    if method == "Page.loadEventFired":
        tab.loads += 1
    elif method == "Network.requestWillBeSent":
        tab.asked.append(about["request"]["url"])
    elif method == "Runtime.exceptionThrown":
        tab.thrown.append(about["exceptionDetails"]["text"])


@asynccontextmanager
async def operated(folder: Path) -> AsyncIterator[Chromium]:
    """A browser without a screen. ``folder`` holds its profile."""
    loop = asyncio.get_running_loop()
    (its_input, our_output), (our_input, its_output) = os.pipe(), os.pipe()

    def keep_pipes() -> None:  # the protocol's pipes are 3 and 4 there
        kept = os.dup(its_output)
        os.dup2(its_input, 3)
        os.dup2(kept, 4)

    process = await asyncio.create_subprocess_exec(
        *chromium_command(folder, "--remote-debugging-pipe"), preexec_fn=keep_pipes, pass_fds=(3, 4),
        stdout=DEVNULL, stderr=DEVNULL, stdin=DEVNULL,
    )  # fmt: skip
    os.close(its_input)
    os.close(its_output)
    reader = asyncio.StreamReader(limit=2**26)
    inward, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(our_input, "rb"))
    outward, _ = await loop.connect_write_pipe(asyncio.Protocol, os.fdopen(our_output, "wb"))
    browser = Chromium(reader, outward)
    listening = asyncio.create_task(browser.listen())
    async with ended(process):
        try:
            yield browser
        finally:
            listening.cancel()
            inward.close()
            outward.close()

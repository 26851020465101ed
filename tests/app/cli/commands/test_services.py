"""``hookwire call``, ``services`` and ``requests``, as a person at a shell has them."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import sys
import termios
from pathlib import Path
from typing import Any

from tests.app.conftest import RunHub, RunningHub
from tests.app.web.test_services import work

HOOKWIRE = Path(sys.executable).with_name("hookwire")


async def hookwire(hub: RunningHub, *words: str, data: bytes = b"") -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        HOOKWIRE, *words, "--url", hub.url,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(60):
        out, err = await process.communicate(data)
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def printed(hub: RunningHub, *words: str) -> Any:
    code, out, err = await hookwire(hub, *words)
    assert code == 0, err
    return json.loads(out)


async def test_a_call_prints_the_reply(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        working = asyncio.ensure_future(work(hub, body="done\n"))
        called = await hookwire(hub, "call", "echo", "-", "--content-type", "text/plain", data=b"hello")
        item = await working
        again = await hookwire(hub, "requests", "show", item["request"]["id"])
        as_json = await printed(hub, "requests", "show", item["request"]["id"], "--json")

        assert (called[:2], again[:2], item["request"]["payload"], as_json["body"]) == (
            (0, "done\n"), (0, "done\n"), "hello", "done\n",
        )  # fmt: skip


async def test_a_call_without_a_reply_says_where_it_will_be(running_hub: RunHub) -> None:
    """Exit code 0 with --wait 0, 1 where the reply was waited for."""
    async with running_hub() as hub:
        code, request_id, _ = await hookwire(hub, "call", "echo", "--wait", "0", "--idempotency-key", "k")
        waited = await hookwire(hub, "call", "echo", "--wait", "1", "--idempotency-key", "k")
        shown = await hookwire(hub, "requests", "show", request_id.strip())
        listed = await printed(hub, "requests", "list", "--service", "echo", "--state", "waiting", "--json")
        table = await hookwire(hub, "requests", "list")
        closed = await hookwire(hub, "requests", "close", request_id.strip())
        gone = await hookwire(hub, "requests", "show", request_id.strip())

        assert ((code, waited[0], waited[1] == request_id), [one["id"] for one in listed]) == (
            (0, 1, True), [request_id.strip()],
        )  # fmt: skip
        assert (request_id.strip() in table[1], closed[:2], gone[0]) == (True, (0, "1 closed\n"), 2)
        assert (shown[:2], "no reply yet" in shown[2]) == ((1, ""), True)


async def test_a_reply_cannot_command_the_terminal_of_its_reader(running_hub: RunHub) -> None:
    """A worker could set the title, or hide lines. A pipe gets the bytes as they are."""
    reply = "first\r\n\tsecond\x1b]0;title\x07\rhidden\x9b2J\n"
    async with running_hub() as hub:
        working = asyncio.ensure_future(work(hub, body=reply))
        piped = await hookwire(hub, "call", "echo")
        request = (await working)["request"]["id"]
        on_terminal = await on_a_terminal(hub, "requests", "show", request)

    assert (piped[1], on_terminal) == (reply, "first\r\n\tsecond\\x1b]0;title\\x07\\rhidden\\x9b2J\n")


async def on_a_terminal(hub: RunningHub, *words: str) -> str:
    """Return what a command writes to a terminal, which changes nothing in it."""
    ours, theirs = pty.openpty()
    settings = termios.tcgetattr(theirs)
    settings[1] &= ~termios.OPOST
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    try:
        process = await asyncio.create_subprocess_exec(HOOKWIRE, *words, "--url", hub.url, stdout=theirs)
        async with asyncio.timeout(60):
            assert await process.wait() == 0
        return os.read(ours, 65_536).decode()
    finally:
        os.close(ours)
        os.close(theirs)


async def test_a_request_that_was_given_up_is_a_failure_and_no_outage(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        code, out, err = await hookwire(hub, "call", "late", "--expiry", "1", "--wait", "30")

        assert (code, out, "No worker has answered in time" in err) == (1, "", True)


async def test_services_are_listed_set_and_disabled(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        made = await printed(hub, "services", "set", "echo", "tries_max=3", "without_workers=refuse", "--json")
        changed = await printed(hub, "services", "set", "echo", "concurrency_max=2", "--json")
        disabled = await hookwire(hub, "services", "disable", "echo", "--why", "moving")
        refused = await hookwire(hub, "call", "echo")
        listed = await printed(hub, "services", "list", "--json")
        enabled = await hookwire(hub, "services", "enable", "echo")
        shown = await printed(hub, "services", "show", "echo")
        bad = await hookwire(hub, "services", "set", "echo", "colour=red")

        assert [(one["tries_max"], one["without_workers"], one["concurrency_max"]) for one in (made, changed)] == [
            (3, "refuse", None), (3, "refuse", 2),
        ]  # fmt: skip
        assert ([one["disabled"] for one in (*listed, shown)], refused[0], disabled[:2], enabled[0], bad[0]) == (
            [True, False], 3, (0, "echo: disabled\n"), 0, 2,
        )  # fmt: skip

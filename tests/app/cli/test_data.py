"""Arguments of commands: text that is no UTF-8, data from standard input, moments, addresses."""

from __future__ import annotations

import asyncio

import pytest
from typer.testing import CliRunner

from app.cli.data import segment
from app.cli.failure import CommandFailed
from app.cli.main import application
from app.cli.moment import moment
from tests.app.cli.commands.test_services import HOOKWIRE, hookwire
from tests.app.cli.test_main import hookwire as alone
from tests.app.conftest import RunHub

NO_TEXT = "\udcff"
"""The byte FF of a command line, as Python shows it."""
NAMING = (
    "topics show", "queues show", "queues submit", "queues peek", "queues dead", "queues purge", "queues pause",
    "events show", "attempts", "jobs show", "jobs assign", "jobs kind --set a=1", "jobs pause", "jobs periodic remove",
    "tasks show", "tasks cancel", "tasks kind --set a=1", "requests show", "requests close", "services show",
    "services disable", "subscriptions show", "subscriptions end", "holds show", "deadletters show",
    "deadletters purge", "publish", "call",
)  # fmt: skip


@pytest.mark.parametrize("command", NAMING)
def test_a_name_that_is_no_utf_8_is_one_sentence(command: str) -> None:
    """A traceback of UnicodeEncodeError came from most of them."""
    prefix = "evt_" if command == "attempts" else ""
    finished = CliRunner().invoke(
        application(command.split(maxsplit=1)[0]),
        [*command.split(), f"{prefix}{NO_TEXT}", "--url", "http://127.0.0.1:9"],
    )

    assert isinstance(finished.exception, CommandFailed)
    assert (str(finished.exception), finished.exception.code) == (f"{prefix + NO_TEXT!r} is not UTF-8", 2)


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_leads_to_another_address_is_refused(name: str) -> None:
    with pytest.raises(CommandFailed, match="is not a name or an id"):
        segment(name)


async def test_a_message_is_read_as_an_event_is(running_hub: RunHub) -> None:
    """`queues submit` ended in tracebacks for a closed standard input and for bytes that are no UTF-8."""
    async with running_hub() as hub:
        piped = await hookwire(hub, "queues", "submit", "mail", data=b"\xff\x00")
        given = await hookwire(hub, "queues", "submit", "mail", NO_TEXT, "--content-type", "x/y")
        shell = await asyncio.create_subprocess_shell(
            f"{HOOKWIRE} queues submit mail --url {hub.url} <&-", stderr=asyncio.subprocess.PIPE
        )
        _, closed = await shell.communicate()
        stored = await hub.sql("SELECT content_type, payload FROM hookwire.messages ORDER BY id")

    assert ((piped[0], given[0], shell.returncode), closed) == ((0, 0, 2), b"hookwire: standard input is closed\n")
    assert stored == [(None, b"\xff\x00"), ("x/y", b"\xff")]


@pytest.mark.parametrize("text", ["999999d", "soon", "10000-01-01"])
def test_a_time_that_cannot_be_is_one_sentence(text: str) -> None:
    with pytest.raises(CommandFailed, match=f"^--since: '?{text}") as caught:
        moment("--since", text)
    assert caught.value.code == 2


@pytest.mark.parametrize("address", ["127.0.0.1:99999", "127.0.0.1:²"])
async def test_a_port_that_cannot_be_is_one_sentence(address: str) -> None:
    """A port above 65,535 was a traceback, and a digit that is no ASCII a message of Python."""
    finished = await alone("broker", "--bind", "tcp://127.0.0.1:*", "--metrics", address)

    assert (finished.code, finished.stderr) == (2, f"hookwire: --metrics {address!r} is not HOST:PORT\n")

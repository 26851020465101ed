"""``--json``: every command that prints or changes something prints one line of JSON with it (EC-31)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import typer

from app.cli.main import application
from tests.app.cli.commands.test_services import hookwire
from tests.app.conftest import RunHub

RUNS_UNTIL_IT_IS_STOPPED = {"serve", "deliver", "monitor", "chat", "work", "scale"}
"""These print a log, whose form is HOOKWIRE_LOG_FORMAT."""


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, set[str]]]:
    """The words of each command, and its options."""
    below: Mapping[str, Any] = getattr(command, "commands", {})
    for name, one in below.items():
        yield from commands(one, (*path, name))
    if not below:
        yield " ".join(path), {option for parameter in command.params for option in parameter.opts}


def test_each_command_has_the_option() -> None:
    found = dict(commands(typer.main.get_command(application())))
    without = {name for name, options in found.items() if "--json" not in options}

    assert (without, len(found) > 100) == (RUNS_UNTIL_IT_IS_STOPPED, True)


async def test_commands_that_change_something_print_one_line_of_json(running_hub: RunHub) -> None:
    """Twenty of them printed words only, so that a script had to read sentences."""
    async with running_hub() as hub:
        job = (await hub.client.post("/jobs", json={"kind": "mail"})).json()["id"]
        await hub.client.post("/queues", json={"queue": "q"})
        await hub.client.post("/queues/q/messages", content=b"x")
        await hub.client.put("/services/echo", json={})
        subscription = (await hub.subscribe("orders", "http://127.0.0.1:9000/"))["id"]
        printed = [
            await hookwire(hub, *words, "--json")
            for words in (
                ("jobs", "enqueue", "mail"),
                ("jobs", "cancel", job),
                ("jobs", "pause", "mail"),
                ("queues", "pause", "q"),
                ("queues", "purge", "q"),
                ("tasks", "redrive"),
                ("services", "disable", "echo"),
                ("subscriptions", "end", subscription),
            )
        ]

    assert [(code, err) for code, _, err in printed] == [(0, "")] * len(printed)
    assert [(out.count("\n"), type(json.loads(out))) for _, out, _ in printed] == [(1, dict)] * len(printed)

"""The page of commands is complete: each command has a row, and each command of a group stands in its row."""

from __future__ import annotations

import re
from collections.abc import Iterator

import typer
from typer.main import get_group

from app.cli.main import application
from tests.docs.doc_runner import ROOT

PAGE = ROOT / "docs" / "reference" / "exit-codes.md"
_CODE = re.compile(r"`([a-z-]+)`")


def rows() -> dict[str, set[str]]:
    """The words in code of a row, by each command in its first cell."""
    lines = [line.removeprefix("| ") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    cells = [line.split(" | ", 1) for line in lines]
    return {command: set(_CODE.findall(rest)) for first, rest in cells for command in _CODE.findall(first)}


def paths(group: typer.core.TyperGroup, *before: str) -> Iterator[tuple[str, ...]]:
    """Each command below a group, as its words."""
    for name, command in group.commands.items():
        if not command.hidden:
            yield (*before, name)
            if isinstance(command, typer.core.TyperGroup):
                yield from paths(command, *before, name)


def test_each_command_stands_on_the_page_of_commands() -> None:
    """Twelve commands had no row, and the row of `pipeline` lacked three."""
    told = rows()
    commands = list(paths(get_group(application())))
    missing = [path for path in commands if path[0] not in told or not set(path[1:]) <= told[path[0]]]

    assert (missing, set(told) - {path[0] for path in commands}) == ([], set())

"""The help of a command as framed panels. Rich would draw them too, at twice the time of the whole command."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, Final

__all__ = ["write_help"]

_WIDTHS: Final = (40, 120)
_FRAME: Final = 4
_GAP: Final = 2
_BOLD_CYAN, _PLAIN = "\x1b[1;36m", "\x1b[0m"


def write_help(command: Any, context: Any, formatter: Any) -> None:
    """Write usage, help and panels of arguments, options and commands, as wide as the terminal.

    What prints the page leaves the colours out where it does not print to a terminal.
    """
    width = min(max(shutil.get_terminal_size().columns, _WIDTHS[0]), _WIDTHS[1])
    usage = " ".join((context.command_path, *command.collect_usage_pieces(context)))
    lines = ["", *_wrapped(f"Usage: {usage}", width), ""]
    for paragraph in filter(None, (command.help or "").split("\n\n")):
        lines += [*_wrapped(" ".join(paragraph.split()), width), ""]
    for title, rows in _panels(command, context).items():
        lines += _panel(title, rows, width)
    formatter.write("\n".join(lines) + "\n")


def _panels(command: Any, context: Any) -> dict[str, list[tuple[str, str]]]:
    """Return the names and the words of what a command takes, by the titles of the panels."""
    found: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(context):
        if (record := parameter.get_help_record(context)) is not None:
            kind = "Arguments" if parameter.param_type_name == "argument" else "Options"
            found.setdefault(parameter.rich_help_panel or kind, []).append(record)
    for name, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            words = " ".join((inner.help or "").split("\n\n")[0].split())
            found.setdefault(inner.rich_help_panel or "Commands", []).append((name, words))
    return {title: rows for title, rows in found.items() if rows}


def _panel(title: str, rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    inner = width - _FRAME
    # A column of names that takes half of the width leaves no room for words: then these begin on the next line.
    column = max((len(name) for name, _ in rows if len(name) <= inner // 2), default=0)
    yield f"╭─ {title} {'─' * (width - len(title) - 5)}╮"
    for name, words in rows:
        beside = textwrap.wrap(words, inner - column - _GAP) or [""]
        is_long = len(name) > column
        if is_long:
            yield from (f"│ {_bold(part)}{' ' * (inner - len(part))} │" for part in textwrap.wrap(name, inner))
        for shown, line in zip_longest(["" if is_long else name], beside, fillvalue=""):
            yield f"│ {_bold(shown)}{' ' * (column + _GAP - len(shown))}{line:{inner - column - _GAP}} │"
    yield f"╰{'─' * (width - 2)}╯"


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width - 2, initial_indent=" ", subsequent_indent=" ", break_on_hyphens=False)


def _bold(text: str) -> str:
    """Return the text for a terminal, unless NO_COLOR is set to anything (no-color.org)."""
    return f"{_BOLD_CYAN}{text}{_PLAIN}" if text and not os.environ.get("NO_COLOR") else text

"""Tables on standard output: on a terminal they fit its width, anywhere else a row is a line.

A terminal that is too narrow for a table gets two lines or more an item. No id is broken, and no line is wider than the
terminal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from app.cli.entry import say

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from app.cli.lines.narrow import Narrow

__all__ = ["console", "show", "table"]

_ENDLESS: Final = 10_000
_GAP: Final = 2
_FOLDED_WIDTH_MIN: Final = 24
"""A narrower column of text is hard to read."""


def console() -> Console:
    """Return the console for tables and sentences."""
    from rich.console import Console

    return Console(width=None if _is_terminal() else _ENDLESS, emoji=False)


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def table(heads: Sequence[str], folds: Collection[str] = (), title: str | None = None) -> Table:
    """Return an empty table. The columns in ``folds`` are folded if the width is not enough."""
    from rich.table import Table

    made = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="dim")
    for head in heads:
        made.add_column(head, overflow="fold", no_wrap=head not in folds)
    return made


def show(
    heads: Sequence[str], rows: Sequence[Sequence[str]], folds: Collection[str] = (), title: str | None = None,
    narrow: Narrow | None = None,
) -> None:  # fmt: skip
    """Print texts as they are, brackets too, except line ends and control characters of a terminal.

    Where the texts do not fit beside each other, an item has the two lines of ``narrow``, or as many as it needs.
    """
    if title is None and (plain := _plain_lines(heads, rows)):
        say("\n".join(plain))
        return
    from rich.markup import escape

    from app.cli.lines.one_line import on_one_line

    where = console()
    cells = [[on_one_line(cell, is_terminal=where.is_terminal) for cell in row] for row in rows]
    widths = _widths(heads, cells, folds if narrow is None else (), where.width - _GAP * (len(heads) - 1))
    if widths is None:
        lines = _items(heads, cells, folds, where.width) if narrow is None else narrow.lines(heads, cells, where.width)
        for line in (*filter(None, (title,)), *lines):
            where.print(line, markup=False, highlight=False, soft_wrap=True)
        return
    made = table(heads, folds, title)
    for column, width in zip(made.columns, widths, strict=True):
        column.width = width  # otherwise Rich takes room from columns in proportion, and breaks words
    for row in cells:
        made.add_row(*map(escape, row))
    where.print(made)


def _plain_lines(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return what Rich prints of a table outside of a terminal, without its import, which is slow.

    The list is empty where Rich has to look at the texts, or has been told by the environment to write to a terminal.
    """
    table = [heads, *rows]
    is_told = _is_terminal() or not {"FORCE_COLOR", "TTY_COMPATIBLE"}.isdisjoint(os.environ)
    if is_told or not all(cell.isascii() and cell.isprintable() for row in table for cell in row):
        return []
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    if sum(widths) + _GAP * (len(heads) - 1) > _ENDLESS:
        return []
    return [(" " * _GAP).join(map(str.ljust, row, widths)) for row in table]


def _widths(heads: Sequence[str], rows: Sequence[Sequence[str]], folds: Collection[str], room: int) -> list[int] | None:
    """Return the widths of the columns of a table that breaks no word; None if there is no room for it."""
    from rich.cells import cell_len

    whole, least = [], []
    for head, *column in zip(heads, *rows, strict=True):
        width = max(map(cell_len, (head, *column)))
        whole.append(width)
        words = max((cell_len(word) for cell in (head, *column) for word in cell.split()), default=0)
        least.append(min(width, max(words, _FOLDED_WIDTH_MIN)) if head in folds else width)
    free = room - sum(least)
    if free < 0:
        return None
    for place, width in enumerate(whole):
        more = min(free, width - least[place])
        least[place] += more
        free -= more
    return least


def _items(heads: Sequence[str], rows: Sequence[Sequence[str]], folds: Collection[str], width: int) -> Iterator[str]:
    """Yield the lines of each row: what it is with the short cells, then each text. All but the first have headings."""
    from app.cli.lines.narrow import wrapped

    for row in rows:
        (_, name), *others = zip(heads, row, strict=True)
        short = [f"{head}: {cell}" for head, cell in others if cell and head not in folds]
        if heads[0] in folds:
            yield from wrapped(name.split(), width, "", "  ")
            yield from wrapped(short, width, "    ", "      ", "  ")
        else:
            yield from wrapped([name, *short], width, "", "  ", "  ")
        for head, cell in others:
            if cell and head in folds:
                yield from wrapped([f"{head}:", *cell.split()], width, "    ", "      ")

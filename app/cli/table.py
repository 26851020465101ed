"""Tables on standard output: on a terminal they fit its width, anywhere else a row is a line.

A terminal that is too narrow for a table gets two lines or more an item, so that no id and no word is broken.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from app.cli.one_line import on_one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["console", "show", "table"]

_ENDLESS: Final = 10_000
_GAP: Final = 2
_FOLDED_WIDTH_MIN: Final = 24
"""A narrower column of text is hard to read."""


def console() -> Console:
    """Return the console for tables and sentences."""
    from rich.console import Console

    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return Console(width=None if is_terminal else _ENDLESS, emoji=False)


def table(heads: Sequence[str], folds: Collection[str] = (), title: str | None = None) -> Table:
    """Return an empty table. The columns in ``folds`` are folded if the width is not enough."""
    from rich.table import Table

    made = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="dim")
    for head in heads:
        made.add_column(head, overflow="fold", no_wrap=head not in folds)
    return made


def show(
    heads: Sequence[str], rows: Sequence[Sequence[str]], folds: Collection[str] = (), title: str | None = None
) -> None:
    """Print texts as they are, brackets too, except line ends and control characters of a terminal."""
    from rich.markup import escape

    where = console()
    cells = [[on_one_line(cell, is_terminal=where.is_terminal) for cell in row] for row in rows]
    if _width_min(heads, cells, folds) > where.width:
        for line in _items(heads, cells, folds, title, where.width):
            where.print(line, markup=False, highlight=False, soft_wrap=True)
        return
    made = table(heads, folds, title)
    for row in cells:
        made.add_row(*map(escape, row))
    where.print(made)


def _width_min(heads: Sequence[str], rows: Sequence[Sequence[str]], folds: Collection[str]) -> int:
    """Return the width of the narrowest table that breaks no word."""
    from rich.cells import cell_len

    widths = [_GAP * (len(heads) - 1)]
    for head, *column in zip(heads, *rows, strict=True):
        width = max(map(cell_len, (head, *column)))
        if head in folds:
            words = max((cell_len(word) for cell in column for word in cell.split()), default=0)
            width = min(width, max(words, _FOLDED_WIDTH_MIN))
        widths.append(width)
    return sum(widths)


def _items(
    heads: Sequence[str], rows: Sequence[Sequence[str]], folds: Collection[str], title: str | None, width: int
) -> Iterator[str]:
    """Yield the lines of each row: what it is with the short cells, then each text. All but the first have headings."""
    if title:
        yield title
    for row in rows:
        (_, name), *others = zip(heads, row, strict=True)
        short = [f"{head}: {cell}" for head, cell in others if cell and head not in folds]
        if heads[0] in folds:
            yield from _wrapped(name, width, "", "  ")
            yield from _wrapped("  ".join(short), width, "    ", "      ")
        else:
            yield from _wrapped("  ".join(filter(None, (name, *short))), width, "", "  ")
        for head, cell in others:
            if cell and head in folds:
                yield from _wrapped(cell, width, f"    {head}: ", "      ")


def _wrapped(text: str, width: int, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False,
        drop_whitespace=True,
    )  # fmt: skip

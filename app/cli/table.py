"""Tables on standard output: on a terminal they fit its width, anywhere else a row is a line."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from app.cli.one_line import on_one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["console", "show", "table"]

_ENDLESS = 10_000


def console() -> Console:
    """Return the console for tables and sentences."""
    from rich.console import Console

    return Console() if sys.stdout is not None and sys.stdout.isatty() else Console(width=_ENDLESS)


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

    made, where = table(heads, folds, title), console()
    for row in rows:
        made.add_row(*(escape(on_one_line(cell, is_terminal=where.is_terminal)) for cell in row))
    where.print(made)

"""Markup: tables, times and durations in words. Text is escaped, unless it is :class:`Html`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from html import escape
from typing import Final, TypeVar

from pipeline.report.chart import number

__all__ = ["Html", "counted", "duration", "first", "moment", "nothing", "table"]

T = TypeVar("T")

_UNITS: Final = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; a head that begins with # is that of numbers."""
    names = [(head.removeprefix("#"), ' class="n"' if head.startswith("#") else "") for head in heads]
    head = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in names)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td{kind} data-head="{escape(name)}">{_cell(cell)}</td>'
            for (name, kind), cell in zip(names, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def nothing(words: str) -> str:
    """Return a sentence in place of a table or chart without data."""
    return f"<p>{escape(words)}</p>"


def first(rows: Sequence[T], most: int) -> tuple[Sequence[T], str]:
    """Return at most so many rows, and a sentence if there are more."""
    return rows[:most], nothing(f"only the first {most} are shown") if len(rows) > most else ""


def counted(number: int, noun: str) -> str:
    """Write a number of things.

    >>> counted(1, "cell"), counted(1024, "cell")
    ('1 cell', '1,024 cells')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def moment(at: datetime) -> str:
    """Write a time to the minute."""
    return f"{at:%Y-%m-%d %H:%M}"


def duration(seconds: float) -> str:
    """Write a duration in its one or two largest units.

    >>> [duration(seconds) for seconds in (0.34, 7.25, 95, 90_000)]
    ['340 ms', '7.25 s', '1 min 35 s', '1 d 1 h']
    """
    for size, unit, small_size, small_unit in _UNITS:
        if seconds >= size:
            rest = int(seconds % size // small_size)
            return f"{int(seconds // size)} {unit}{f' {rest} {small_unit}' if rest else ''}"
    return f"{number(round(seconds, 2))} s" if abs(seconds) >= 1 else f"{seconds * 1000:.0f} ms"


def _cell(value: object) -> str:
    if isinstance(value, Html):
        return value
    words = escape(_words(value))
    return f"<time>{words}</time>" if isinstance(value, date) else words


def _words(value: object) -> str:
    match value:
        case None:
            return "–"
        case datetime():
            return moment(value)
        case int() | float():
            return number(value)
    return str(value)

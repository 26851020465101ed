"""Small pieces of the pages: escaped text, tables, pills, moments in words; untrusted text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from urllib.parse import urlsplit

__all__ = [
    "ago",
    "callback",
    "code",
    "count",
    "exact_count",
    "facts",
    "lines",
    "link",
    "moment",
    "pill",
    "section",
    "table",
    "tile",
]

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def code(text: str) -> str:
    """Return a name as code, unchanged."""
    return f"<code>{escape(text)}</code>"


def lines(text: str, more: str = "") -> str:
    """Return text as it is, line by line; it can be scrolled by the keyboard. ``more`` is markup behind it."""
    return f'<pre tabindex="0">{escape(text)}{more}</pre>'


def link(path: str, text: str) -> str:
    """Return a link inside this service; ``path`` is relative, so that it works behind any prefix."""
    return f'<a href="{escape(path)}">{code(text)}</a>'


def pill(text: str, tone: str = "") -> str:
    """Return a state; ``tone`` is good, warn, bad or nothing."""
    return f'<span class="pill {tone}">{escape(text)}</span>'


def count(number: int, counted_max: int) -> str:
    """Return a number that was counted up to a bound: ``1,000+`` at it."""
    return f"{counted_max:,}+" if number >= counted_max else f"{number:,}"


def exact_count(bounded: int, bound: int, exact: int | None, most: int) -> str:
    """Return a number that was counted up to ``bound``, and up to ``most`` where that did not suffice.

    ``exact`` above ``most`` stands for any larger number; None: it was not counted. It may be older than ``bounded``.
    """
    if bounded < bound or exact is None or exact < bound:
        return count(bounded, bound)
    return f"more than {most:,}" if exact > most else f"{exact:,}"


def ago(then: datetime | None, now: datetime) -> str:
    """Return how long ago, or in how long, in one unit; a dash for never."""
    if then is None:
        return "&ndash;"
    seconds = (now - then).total_seconds()
    size = abs(seconds)
    unit_seconds, unit = next(((s, u) for s, u in _UNITS if size >= s), (1, "s"))
    words = f"{int(size // unit_seconds)} {unit}"
    return f"{words} ago" if seconds >= 0 else f"in {words}"


def moment(then: datetime | None, now: datetime) -> str:
    """Return :func:`ago`, with the exact time when the pointer rests on it."""
    if then is None:
        return ago(None, now)
    exact = then.isoformat(sep=" ", timespec="seconds")
    return f'<time datetime="{then.isoformat()}" title="{exact}">{ago(then, now)}</time>'


def callback(url: str) -> str:
    """Return a callback without its query, which may hold a capability; a pull subscription has none."""
    if not url:
        return '<span class="soft">fetched by its subscriber</span>'
    parts = urlsplit(url)
    hidden = "?…" if parts.query else ""
    return code(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}{hidden}")


def tile(value: str, words: str) -> str:
    """Return a tile with one number."""
    return f'<div class="tile"><b>{value}</b><span>{words}</span></div>'


def section(title: str, content: str, aside: str = "") -> str:
    """Return a titled block."""
    return (
        f'<section><div class="head"><h2>{escape(title)}</h2><span class="soft">{aside}</span></div>{content}</section>'
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose cells are markup already.

    In a head ``#`` makes a column of numbers, ``~`` one that narrow screens omit. There each row is a card, and each
    cell shows its head, which it has as an attribute.
    """
    classes = [_classes(head) for head in heads]
    names = [escape(head.lstrip("#~")) for head in heads]
    top = "".join(f"<th{c}>{name}</th>" for name, c in zip(names, classes, strict=True))
    marks = [f'{c} data-head="{name}"' if name else c for name, c in zip(names, classes, strict=True)]
    body = "".join(
        "<tr>" + "".join(f"<td{mark}>{cell}</td>" for cell, mark in zip(row, marks, strict=True)) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{top}</tr>{body}</table>"


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Return a table of names and values; each name is the head of its row."""
    body = "".join(f'<tr><th scope="row">{escape(name)}</th><td>{value}</td></tr>' for name, value in rows)
    return f"<table>{body}</table>"


def _classes(head: str) -> str:
    names = [name for mark, name in (("#", "number"), ("~", "detail")) if mark in head]
    return f' class="{" ".join(names)}"' if names else ""

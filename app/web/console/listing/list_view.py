"""ListView: one list of the console, as data; and its page. Rows in, HTML out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final
from urllib.parse import urlencode

from app.web.console.cells import address
from app.web.console.menu import TITLES
from app.web.pages.markup import section, table

__all__ = ["ROWS", "Column", "Filter", "Item", "ListView", "list_content", "rows_table"]

Item = Mapping[str, Any]
ROWS: Final = 40
"""The rows of a page, so that it stays below 60 kB."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its head, as ``app.web.pages.markup.table`` reads it, and its cell of a row, as markup."""

    head: str
    cell: Callable[[Item], str]


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of the query. With ``choices`` it is one of these; else any text."""

    name: str
    label: str
    choices: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ListView:
    """A list. ``source`` is the path of the API that it reads; ``command`` prints the same; ``order`` says how it is
    sorted. ``new`` is the address and the label of the page that adds one; its form begins with the filters.
    """

    name: str
    source: str
    columns: Sequence[Column]
    order: str
    command: str
    filters: Sequence[Filter] = ()
    empty: str = "There is none."
    new: tuple[str, str] | None = None

    @property
    def title(self) -> str:
        """Return its title in the menu."""
        return TITLES[self.name]


def list_content(
    view: ListView, asked: Mapping[str, str], items: Sequence[Item], next_cursor: str | None, notice: str = "",
    *, may_act: bool = False,
) -> str:  # fmt: skip
    """Return the filters, the rows and the way to the next ones."""
    told = f'<p class="notice bad" role="alert">{escape(notice)}</p>' if notice else ""
    new = view.new if may_act else None
    chosen = {name: value for name, value in asked.items() if name != "cursor"}
    where = f"{new[0]}?{urlencode(chosen)}" if new and chosen else new[0] if new else ""
    button = f'<div class="buttons"><a class="button" href="{escape(where)}">{escape(new[1])}</a></div>' if new else ""
    rows = (
        rows_table(view, items)
        if items
        else f'<p class="soft">{"" if notice else escape(_none(view, asked, next_cursor))}</p>'
    )
    content = f"{told}{button}{_filters(view, asked)}{rows}{_ways(view, asked, next_cursor)}"
    aside = f"{escape(view.order)}; <code>{escape(view.command)}</code>"
    return section(view.title, content, aside)


def rows_table(view: ListView, items: Sequence[Item]) -> str:
    """Return the rows alone."""
    return table(
        [column.head for column in view.columns], [[column.cell(one) for column in view.columns] for one in items]
    )


def _none(view: ListView, asked: Mapping[str, str], next_cursor: str | None) -> str:
    if next_cursor is not None:
        return "None of these may be shown to your key; the next page may have some."
    return "None matches." if asked else view.empty


def _filters(view: ListView, asked: Mapping[str, str]) -> str:
    if not view.filters:
        return ""
    fields = "".join(
        f"<label>{escape(one.label)}{_field(one, asked.get(one.name, ''))}</label>" for one in view.filters
    )
    return (
        f'<form class="filters" action="{view.name}">{fields}<button>Filter</button>'
        f'<a href="{view.name}">all</a></form>'
    )


def _field(one: Filter, value: str) -> str:
    if not one.choices:
        return f'<input type="text" name="{one.name}" value="{escape(value)}" maxlength="300">'
    options = "".join(
        f'<option value="{escape(choice)}"{" selected" if choice == value else ""}>{escape(choice or "any")}</option>'
        for choice in ("", *one.choices)
    )
    return f'<select name="{one.name}">{options}</select>'


def _ways(view: ListView, asked: Mapping[str, str], next_cursor: str | None) -> str:
    filters = {name: value for name, value in asked.items() if name != "cursor"}
    first = f'<a href="{escape(address(view.name, **filters))}">First page</a>' if "cursor" in asked else ""
    following = (
        f'<a rel="next" href="{escape(address(view.name, **filters, cursor=next_cursor))}">Next page</a>'
        if next_cursor is not None
        else ""
    )
    return f'<nav class="buttons" aria-label="Pages">{first} {following}</nav>' if first or following else ""

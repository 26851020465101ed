"""ListView: one list of the console, as data; and its page. Rows in, HTML out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Final
from urllib.parse import urlencode

from app.web.console.cells import address
from app.web.console.menu import TITLES
from app.web.pages.markup import section, table
from hub.keys import Scope

__all__ = ["ROWS", "Column", "Filter", "Item", "ListView", "Way", "list_content", "rows_table"]

Item = Mapping[str, Any]
ROWS: Final = 40
"""The rows of a page, so that it stays below 60 kB."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its head, as ``app.web.pages.markup.table`` reads it, and its cell of a row, as markup.

    ``scope``: it has links to acts, for readers whose key has this scope.
    """

    head: str
    cell: Callable[[Item], str]
    scope: Scope | None = None


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of the query. With ``choices`` it is one of these; else any text."""

    name: str
    label: str
    choices: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Way:
    """A button to a form that begins with the filters of the list.

    ``knows``: filters that the form has, too, each with the values that it takes; () for any. With another filter
    there is no button: the form would reach further than the list.
    """

    address: str
    label: str
    knows: Mapping[str, Sequence[str]] = field(default_factory=dict)
    is_danger: bool = False

    def takes(self, chosen: Mapping[str, str]) -> bool:
        """Return whether the form has all these filters."""
        return all(name in self.knows and value in (self.knows[name] or (value,)) for name, value in chosen.items())


@dataclass(frozen=True, slots=True)
class ListView:
    """A list. ``source`` is the path of the API that it reads; ``command`` prints the same; ``order`` says how it is
    sorted. ``ways`` lead to the forms that add one, or that change everything that matches. ``fixed`` is the part of
    the query that makes the list what it is; its reader cannot change it.
    """

    name: str
    source: str
    columns: Sequence[Column]
    order: str
    command: str
    filters: Sequence[Filter] = ()
    empty: str = "There is none."
    ways: Sequence[Way] = ()
    fixed: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Return its title in the menu."""
        return TITLES[self.name]


def list_content(
    view: ListView, asked: Mapping[str, str], items: Sequence[Item], next_cursor: str | None, notice: str = "",
    *, may_act: bool = False, rights: Collection[Scope] = (),
) -> str:  # fmt: skip
    """Return the filters, the rows and the way to the next ones."""
    told = f'<p class="notice bad" role="alert">{escape(notice)}</p>' if notice else ""
    chosen = {name: value for name, value in asked.items() if name != "cursor"}
    buttons = "".join(_button(way, chosen) for way in view.ways if may_act and way.takes(chosen))
    buttons = f'<div class="buttons">{buttons}</div>' if buttons else ""
    rows = (
        rows_table(view, items, rights)
        if items
        else f'<p class="soft">{"" if notice else escape(_none(view, asked, next_cursor))}</p>'
    )
    content = f"{told}{buttons}{_filters(view, asked)}{rows}{_ways(view, asked, next_cursor)}"
    aside = f"{escape(view.order)}; <code>{escape(view.command)}</code>"
    return section(view.title, content, aside)


def _button(way: Way, chosen: Mapping[str, str]) -> str:
    where = f"{way.address}?{urlencode(chosen)}" if chosen else way.address
    danger = " danger" if way.is_danger else ""
    return f'<a class="button{danger}" href="{escape(where)}">{escape(way.label)}</a>'


def rows_table(view: ListView, items: Sequence[Item], rights: Collection[Scope] = ()) -> str:
    """Return the rows alone. ``rights``: the scopes whose acts are offered."""
    columns = [column for column in view.columns if column.scope is None or column.scope in rights]
    return table([column.head for column in columns], [[column.cell(one) for column in columns] for one in items])


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

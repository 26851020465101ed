"""Detail: the page of one thing, as data: its facts, its parts, and what can be done with it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Final

from app.web.console.acting.act import Act
from app.web.console.cells import address, value_cell
from app.web.console.listing.list_view import Item, rows_table
from app.web.console.listing.lists import LISTS
from app.web.pages.markup import code, facts, section
from hub.keys import Scope

__all__ = [
    "SHORT_ROWS",
    "Detail",
    "Figure",
    "ShortList",
    "acts_content",
    "facts_content",
    "settings_content",
    "short_content",
]

SHORT_ROWS: Final = 10


@dataclass(frozen=True, slots=True)
class ShortList:
    """A short list within a page: the list ``view``, narrowed by a query that the thing itself gives."""

    title: str
    view: str
    query: Callable[[Item], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Figure:
    """A part with an answer of its own: ``source`` is its path with ``{}`` for the encoded id."""

    source: str
    content: Callable[[Item], str]


@dataclass(frozen=True, slots=True)
class Detail:
    """A page. ``source`` is the path of the API with ``{}`` for the encoded id; ``command`` prints the same.

    ``first`` members come first, the others below the lists. ``hidden`` members are shown elsewhere on the page.
    ``more`` returns further content, and ``figures`` do from other answers.
    """

    kind: str
    title: str
    source: str
    command: str
    lists: Sequence[ShortList] = ()
    acts: Sequence[Act] = ()
    first: Sequence[str] = ()
    hidden: frozenset[str] = frozenset()
    more: Callable[[Item], str] = field(default=lambda _: "")
    figures: Sequence[Figure] = ()


def facts_content(detail: Detail, identity: str, one: Item, acts: str) -> str:
    """Return the buttons and the most important members of an answer; all of them where none is named."""
    names = detail.first or [name for name in one if name not in detail.hidden]
    aside = code(detail.command.replace("{}", identity)) if detail.command else ""
    return section(f"{detail.title} {identity}", acts + _facts(one, names), aside)


def settings_content(detail: Detail, one: Item) -> str:
    """Return the other members."""
    names = [name for name in one if name not in detail.hidden and name not in detail.first]
    return section("Everything else", _facts(one, names)) if detail.first else ""


def _facts(one: Item, names: Sequence[str]) -> str:
    """Return the members that have a value."""
    chosen = [(name, one.get(name)) for name in names]
    return facts(
        (name.replace("_", " ").capitalize(), value_cell(name, value))
        for name, value in chosen
        if value not in (None, "", [], {})
    )


def acts_content(kind: str, identity: str, one: Item, acts: Sequence[Act]) -> str:
    """Return a button for each act that is possible now."""
    buttons = "".join(
        f'<a class="button{" danger" if act.is_danger else ""}" '
        f'href="{escape(address(kind, identity, act.name))}">{escape(act.label)}</a>'
        for act in acts
        if act.applies(one)
    )
    return f'<div class="buttons">{buttons}</div>' if buttons else ""


def short_content(
    part: ShortList, query: Mapping[str, str], found: Mapping[str, Any], rights: Collection[Scope] = ()
) -> str:
    """Return a short list with the way to the whole one."""
    view = LISTS[part.view]
    items = found["items"][:SHORT_ROWS]
    rows = rows_table(view, items, rights) if items else '<p class="soft">None.</p>'
    return section(part.title, rows, f'<a href="{escape(address(view.name, **query))}">all</a>')

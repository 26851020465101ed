"""The columns that many lists have: a member of each row as text, name, moment, link or state."""

from __future__ import annotations

from app.web.console.cells import link_to, moment_cell, plain, state_cell
from app.web.console.listing.list_view import Column
from app.web.pages.markup import code

__all__ = ["coded", "link", "state", "text", "when"]


def text(head: str, name: str) -> Column:
    """Return a column of short texts."""
    return Column(head, lambda one: plain(one[name]))


def coded(head: str, name: str) -> Column:
    """Return a column of names, as they are written in requests."""
    return Column(head, lambda one: code(one[name]) if one[name] else plain(None))


def when(head: str, name: str) -> Column:
    """Return a column of moments."""
    return Column(head, lambda one: moment_cell(one[name]))


def link(head: str, name: str, kind: str) -> Column:
    """Return a column of links to the pages of this kind."""
    return Column(head, lambda one: link_to(kind, one[name]))


def state(head: str, name: str) -> Column:
    """Return a column of states."""
    return Column(head, lambda one: state_cell(one[name]))

"""The lists of people who work on jobs: their own jobs, the pool from which they take some, and results to review."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Final

from app.web.console.cells import address, plain, plain_text
from app.web.console.listing.columns import coded, link, text, when
from app.web.console.listing.list_view import Column, Filter, Item, ListView
from app.web.pages.markup import code

__all__ = ["WORK_LISTS"]


def _content(name: str) -> Callable[[Item], str]:
    """Return the cell of a content; a dash where there is none, or where the reader may not read it."""
    return lambda one: plain(None) if one[name] in (None, {}, []) else code(plain_text(one[name]))


def _acts(*acts: tuple[str, str]) -> Column:
    """Return a column of links to the forms of these acts, each with its name and its words."""

    def cell(one: Item) -> str:
        ways = (f'<a href="{escape(address("jobs", one["id"], name))}">{words}</a>' for name, words in acts)
        return " &middot; ".join(ways)

    return Column("Act", cell, "work")


_JOB: Final = (
    link("Job", "id", "jobs"), coded("Kind", "kind"), Column("Arguments", _content("args")),
)  # fmt: skip
_KIND: Final = (Filter("kind", "Kind"),)

WORK_LISTS: Final[Sequence[ListView]] = (
    ListView(
        "my-work", "/jobs",
        (
            *_JOB, when("Due", "due_at"), when("Created", "created_at"),
            _acts(("finish", "finish"), ("delay", "delay"), ("unassign", "give back")),
        ),
        "newest first", "hookwire jobs list --assignee me --state assigned", _KIND,
        "No job is assigned to you. The pool has those that wait for a person.",
        fixed={"assignee": "me", "state": "assigned"},
    ),
    ListView(
        "pool", "/jobs",
        (
            *_JOB, text("#Priority", "priority"), when("Created", "created_at"),
            _acts(("assign", "take"),),
        ),
        "newest first", "hookwire jobs list --pool", _KIND, "No job waits for a person.", fixed={"pool": "true"},
    ),
    ListView(
        "review", "/jobs",
        (
            *_JOB, Column("Result", _content("result")), text("By", "performer"),
            when("Created", "created_at"), _acts(("approve", "approve"), ("send-back", "send back")),
        ),
        "newest first", "hookwire jobs list --state review", _KIND, "No result waits for a review.",
        fixed={"state": "review"},
    ),
)  # fmt: skip

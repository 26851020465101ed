"""Words of a room stand in docs/glossary.md (HO-06): public classes with a name of one word that is no plain word."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest

from tests.project.test_words import ROOT, public_classes, words_of

ROOMS = ("hub/", "relay/", "webhooks/", "jobs/", "reqrep/", "egress/", "runtime/", "db/", "event/", "pipeline/",
         "app/chaos/", "app/maintenance/")  # fmt: skip
"""Rooms with words of their own. `app` and the SDK name things of HTTP, of a command line and of Python."""

PLAIN_WORDS = {
    "account", "activate", "ask", "bounds", "change", "chart", "child", "claimer", "cleanup", "cluster", "command",
    "connection", "confirm", "connector", "content", "counter", "database", "deadline", "decision", "direct", "done",
    "due", "fetching", "figure", "folder", "frame", "harvest", "header", "hub", "inspection", "left", "link",
    "management", "member", "method",
    "migration", "mode", "observer", "option", "overdue", "overtaken", "part", "periodic", "pinging",
    "poll", "postmaster", "process", "property", "proxy", "publisher", "pull", "python", "range", "reactor", "reader",
    "receiver", "relay", "report", "resolver", "response", "result", "retention", "run", "session", "socket", "stale",
    "state", "subscriber", "subscribing", "table", "target", "tick", "transport", "unavailable", "unsendable",
    "unusable", "verify", "waiting", "withdraw", "writer", "kept", "heard", "busy", "bound",
}  # fmt: skip
"""Words of English, Python or a protocol in their usual meaning. A word with our own meaning is a row of the page."""


@cache
def terms() -> tuple[str, ...]:
    """Return the terms of the page; a row may hold several."""
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", (ROOT / "docs/glossary.md").read_text("utf-8"), re.MULTILINE)
    return tuple(term.strip().lower() for row in rows for term in row.split(",") if row not in ("Term", "---"))


def singular(word: str) -> str:
    """Return a noun without the ending of its plural."""
    for ending, instead in (("ies", "y"), ("ches", "ch"), ("ss", "ss"), ("s", "")):
        if word.endswith(ending):
            return word.removesuffix(ending) + instead
    return word


def unknown(name: str) -> bool:
    """Return whether a class has a name of one word that no row explains. A participle is the end of a verb's work."""
    word, *others = words_of(name)
    known = {singular(term) for term in terms()}
    return not others and not word.endswith("ed") and singular(word) not in known | PLAIN_WORDS


def own_words() -> Iterator[tuple[str, str]]:
    for name, places in sorted(public_classes().items()):
        yield from ((name, place) for place in places if place.startswith(ROOMS))


def test_each_word_of_a_room_is_in_the_glossary() -> None:
    assert [f"{place}: {name}" for name, place in own_words() if unknown(name)] == []


def test_each_term_of_the_glossary_has_one_row() -> None:
    assert [term for term, rows in Counter(terms()).items() if rows > 1] == []


def test_each_plain_word_is_still_the_name_of_a_class() -> None:
    used = {singular(name.lower()) for name, _ in own_words()}
    assert {word for word in PLAIN_WORDS if singular(word) not in used} == set()


@pytest.mark.parametrize("name", ["Lookout", "Seats", "Walk"])
def test_a_planted_word_is_found(name: str) -> None:
    assert unknown(name)


@pytest.mark.parametrize("name", ["Lease", "Holds", "Batches", "Refused", "HarvesterOptions", "Process"])
def test_a_term_a_participle_and_a_compound_pass(name: str) -> None:
    assert not unknown(name)

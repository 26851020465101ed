"""A document that a text cites is in the repository, and current (GH-02, GH-05)."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.project.test_style import named, text_files

PAGES_OF_CLOUDEVENTS = {"spec.md", "http-protocol-binding.md", "http-webhook.md"}
PLANTED = {"tests/project/test_citations.py", "tests/project/test_facts.py", "tests/docs/test_doc_runner.py"}
OTHER_PROJECTS = "docs/conformance/request-reply.md"
"""Its rows cite issues of the projects that they come from."""

NOWHERE = re.compile(
    r"\bDESIGN\b|(?i:(?<!CPython )\bissues? \d+|\bdecision \d+|\(section \d+[;)])"
    r"|(?i:\b(?:the hub's|hardening|webhooks) (?:requirements|section \d)|\.md section \d)"
)
"""Plans, tasks and drafts that no reader of the repository can open."""
WORDS_OF_NOWHERE = ("design", "issue", "decision", "section", "requirements")
"""One of them is in each such citation, and in few texts. To look for a word costs much less than for an expression."""
PAGE = re.compile(r"(?<![\w/])[\w./-]+\.md\b")
MIGRATION = re.compile(r"\b0\d{3}_\w+\.sql")
MAY_CITE_MIGRATIONS = ("CHANGELOG.md", "db/migrate.py", "db/migrations/", "docs/adr/", "tests/")


@cache
def texts() -> tuple[tuple[str, str], ...]:
    """Each text of the repository, by its path."""
    found = ((named(path), path.read_text(encoding="utf-8", errors="replace")) for path in text_files())
    return tuple((name, text) for name, text in found if name not in PLANTED)


def nowhere(text: str) -> list[str]:
    """Return the citations that lead nowhere."""
    lowered = text.lower()
    return NOWHERE.findall(text) if any(word in lowered for word in WORDS_OF_NOWHERE) else []


@cache
def pages() -> frozenset[str]:
    """The names of our pages, and of those of CloudEvents."""
    return frozenset(path.name for path in text_files() if path.suffix == ".md") | PAGES_OF_CLOUDEVENTS


def missing_pages(text: str) -> Iterator[str]:
    """Yield the pages that are cited and not in the repository."""
    if ".md" in text:
        yield from (page for page in PAGE.findall(text) if Path(page).name not in pages())


def test_no_text_cites_a_document_that_no_reader_can_open() -> None:
    """GH-05."""
    assert [(name, cited) for name, text in texts() if name != OTHER_PROJECTS for cited in nowhere(text)] == []


def test_each_page_that_is_cited_exists() -> None:
    """GH-05."""
    assert [(name, page) for name, text in texts() for page in missing_pages(text)] == []


def test_no_reader_is_sent_to_a_migration() -> None:
    """GH-02: a function's text may have been replaced since; `db/functions` has the current one."""
    assert [
        (name, cited)
        for name, text in texts()
        if not name.startswith(MAY_CITE_MIGRATIONS)
        for cited in MIGRATION.findall(text)
    ] == []


@pytest.mark.parametrize(
    "text", ["DESIGN 12", "issue 4 item 10", "Decision 13", "section 2.6 of the hub's requirements"]
)
def test_a_planted_citation_is_found(text: str) -> None:
    assert len(nowhere(f"The relay ({text})")) == 1


def test_a_planted_page_is_found() -> None:
    assert [*missing_pages("See docs/adr/0099-planted.md and docs/glossary.md.")] == ["docs/adr/0099-planted.md"]


def test_an_issue_of_another_project_is_no_finding() -> None:
    assert nowhere("CPython issue 86296") == []

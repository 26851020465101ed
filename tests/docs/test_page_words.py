"""Pages name the process or the person, and use the terms of the glossary (HO-06)."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_prose import PAGES, ROOT

ALL_PAGES = [
    *PAGES,
    *sorted((ROOT / "docs" / "adr").glob("*.md")),
    *sorted((ROOT / "docs" / "conformance").glob("*.md")),
]
_RIDDLES = re.compile(
    r"\b(?:who(?:m)?ever|whatever|nobody|somebody|anybody|everybody|deposed|front door|anew|of (?:ours|yours|theirs)"
    r"|(?:is|are|was|were|be) (?:told|owed)|goes on|decision \d+)\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"```.*?```|<!--.*?-->|`[^`]*`|\]\([^)]*\)|\btest_\w+", re.DOTALL)


def riddles(text: str) -> Iterator[str]:
    """Yield each word of a page that hides its subject or is no term; code, links and names of tests are left out."""
    for found in _RIDDLES.finditer(" ".join(_QUOTED.sub(" ", text).split())):
        yield found[0]


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_names_the_process_or_the_person(page: Path) -> None:
    assert list(riddles(page.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("text", ["Nobody leads.", "It is\ntold.", "Whoever comes.", "see decision 4"])
def test_a_planted_riddle_is_found(text: str) -> None:
    assert len(list(riddles(text))) == 1


def test_code_links_and_names_of_tests_are_no_prose() -> None:
    assert list(riddles("`nobody`, [x](nobody.md), test_nobody_leads\n```\nnobody\n```\n")) == []

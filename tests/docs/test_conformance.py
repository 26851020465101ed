"""The pages of docs/conformance lead from each requirement to its tests, or to a decision.

Each row is unique, and the tests that its last column names are those that cite its id.
"""

import re
from collections import Counter
from pathlib import Path

import pytest

from scripts.conformance import NAMED_MAX, PAGES, ROOT, ROW, Shown, cited, shown_by, written

NAMED = re.compile(r"`([\w/]+\.py)`(?: (test_\w+))?")


def rows() -> list[tuple[str, str]]:
    """Each page and id with the last column."""
    found = (
        (path.stem, ROW.match(line))
        for path in sorted(PAGES.glob("*.md"))
        for line in path.read_text("utf-8").split("\n")
    )
    return [(f"{page}: {row[1]}{row[2] or ''}", row[4]) for page, row in found if row is not None]


@pytest.fixture(scope="module")
def shown() -> Shown:
    return shown_by()


@pytest.mark.parametrize("path", sorted(PAGES.glob("*.md")), ids=lambda path: path.stem)
def test_the_page_names_the_tests_that_cite_its_ids(path: Path, shown: Shown) -> None:
    """After a change of a test's name or docstring, and for a new row: `make conformance`."""
    page = path.read_text(encoding="utf-8")
    assert written(page, shown) == page


def test_each_requirement_has_one_row_with_a_test_or_a_decision() -> None:
    """FM-01 to FM-14, FT-01 to FT-21, FX-01 to FX-08, and all others."""
    found = rows()
    twice = [one for one, count in Counter(one for one, _ in found).items() if count > 1]
    without = [one for one, cell in found if not (NAMED.match(cell) or cell.startswith("Decision: "))]

    assert (twice, without) == ([], [])


def test_each_test_that_is_named_in_a_decision_or_a_note_exists() -> None:
    named = [(one, file, test) for one, cell in rows() for file, test in NAMED.findall(cell)]
    texts = {file: _text(file) for _, file, _ in named}

    assert [one for one, file, test in named if not texts[file] or (test and f"def {test}(" not in texts[file])] == []


def _text(file: str) -> str:
    """The text of a test, or of a benchmark; empty if there is none."""
    found = [path for path in (ROOT / "tests" / file, ROOT / file) if path.exists()]
    return found[0].read_text(encoding="utf-8") if found else ""


def test_a_docstring_may_cite_a_range_and_a_part() -> None:
    assert cited("FL-01 to FL-03, EC-P07..P08, FS-17 a: and no word") == {
        "FL-01", "FL-02", "FL-03", "EC-P07", "EC-P08", "FS-17", "FS-17 a",
    }  # fmt: skip


def test_the_first_named_tests_are_the_most_particular_and_a_note_stays() -> None:
    shown = {"XX-01": "`a/test_a.py` test_a; and 3 more"}
    page = "| Id | Requirement | Shown by |\n| XX-01 | a rule | `old.py` test_b, test_c; and 9 more. A note |\n"
    decision = "| XX-01 | a rule | Decision: not built |"

    assert (written(page, shown), written(decision, shown), NAMED_MAX) == (
        "| Id | Requirement | Shown by |\n| XX-01 | a rule | `a/test_a.py` test_a; and 3 more. A note |\n",
        decision,
        2,
    )

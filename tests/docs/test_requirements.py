"""The page "WebSub section by section": every test that it names exists, and says which requirement it shows."""

import re
from pathlib import Path

PAGE = Path("docs/reference/websub-requirements.md")
_ROW = re.compile(r"^\| ([A-Z]{2}-\d+) \| .* \| (.*) \|$", re.MULTILINE)
_TEST = re.compile(r"`([\w/]+\.py)` (test_\w+)")


def test_every_test_that_is_named_exists() -> None:
    named = {test for _, cell in _ROW.findall(PAGE.read_text()) for test in _TEST.findall(cell)}

    assert not {(file, test) for file, test in named if f"def {test}(" not in (Path("tests") / file).read_text()}


def test_every_requirement_has_a_test_or_a_decision() -> None:
    rows = _ROW.findall(PAGE.read_text())

    assert len(rows) == len(dict(rows)) == 202
    assert not [one for one, cell in rows if not (_TEST.search(cell) or cell.startswith("Decision: "))]

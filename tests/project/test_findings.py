"""Each finding of the families below has a test that names its id, or a Decision on the page of findings."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/conformance/findings.md").read_text("utf-8")
ROWS = dict(re.findall(r"^\| (F[MTX]-\d\d) \| .* \| (.*) \|$", PAGE, re.MULTILINE))


def docstrings(file: Path) -> dict[str, str]:
    """What each test of a file, with its module, says of itself."""
    module = ast.parse(file.read_text("utf-8"))
    functions = (one for one in module.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
    about = ast.get_docstring(module) or ""
    return {one.name: f"{about}\n{ast.get_docstring(one) or ''}" for one in functions}


def named_in(cell: str) -> list[tuple[str, str]]:
    """The files of a cell with each test that it names: several tests may follow one file."""
    return [
        (file, test)
        for file, names in re.findall(r"`([\w/]+\.py)` ((?:test_\w+(?:, )?)+)", cell)
        for test in names.split(", ")
        if test
    ]


@pytest.mark.parametrize("finding", sorted(ROWS))
def test_a_finding_has_a_test_that_names_it_or_a_decision(finding: str) -> None:
    """FM-01 to FM-14, FT-01 to FT-21, FX-01 to FX-08: a row without a test says why nothing was changed."""
    named = named_in(ROWS[finding])
    shown = {test: docstrings(ROOT / "tests" / file).get(test, "no such test") for file, test in named}

    assert named or "Decision: " in ROWS[finding]
    assert [test for test, told in shown.items() if told == "no such test"] == []
    assert not named or any(finding in told for told in shown.values())

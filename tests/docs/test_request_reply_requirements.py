"""docs/conformance/request-reply.md leads from each requirement to its test, whose docstring names it."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_ROW = re.compile(r"^\| ([A-Z][A-Z0-9]-\d\d) \| (.+?) \| (.+) \|$", re.MULTILINE)
_TEST = re.compile(r"`([\w/]+\.py)` (test_\w+)")
_RANGE = re.compile(r"\b([A-Z][A-Z0-9])-(\d\d) to \1-(\d\d)\b")
ROWS = _ROW.findall((ROOT / "docs" / "conformance" / "request-reply.md").read_text())


@cache
def docstrings(file: str) -> dict[str, str]:
    tree = ast.parse((ROOT / "tests" / file).read_text())
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {function.name: ast.get_docstring(function) or "" for function in functions}


def cited(text: str) -> set[str]:
    """The ids in a docstring; `FL-01 to FL-03` names three."""
    ranges = {
        f"{room}-{number:02d}"
        for room, first, last in _RANGE.findall(text)
        for number in range(int(first), int(last) + 1)
    }
    return ranges | set(re.findall(r"\b[A-Z][A-Z0-9]-\d\d\b", text))


def test_each_requirement_stands_once_with_a_test_or_a_decision() -> None:
    ids = [one for one, _, _ in ROWS]
    assert len(ids) == len(set(ids)) > 0
    assert [one for one, _, cell in ROWS if not _TEST.search(cell) and not cell.startswith("Decision: ")] == []


def test_each_test_that_is_named_exists_and_names_the_requirement() -> None:
    named = [(one, file, test) for one, _, cell in ROWS for file, test in _TEST.findall(cell)]
    wrong = [(one, file, test) for one, file, test in named if one not in cited(docstrings(file).get(test, ""))]
    assert (len(named) > 100, wrong) == (True, [])

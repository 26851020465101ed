"""The pages that lead from a requirement or a fault to its test: what they name exists, and no row is without."""

import ast
import re
from pathlib import Path

import pytest

PAGES = ("websub.md", "faults.md", "pipeline.md", "relay.md", "jobs.md")
_ROW = re.compile(r"^\| ([A-Z]{2}-[A-Z]?\d+[a-z]?|F\d+) \| .* \| (.*) \|$", re.MULTILINE)
_TEST = re.compile(r"`([\w/]+\.py)` (test_\w+)")


def rows(page: str) -> list[tuple[str, str]]:
    return _ROW.findall((Path("docs/conformance") / page).read_text())


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_is_named_exists(page: str) -> None:
    named = {test for _, cell in rows(page) for test in _TEST.findall(cell)}

    assert not {(file, test) for file, test in named if f"def {test}(" not in (Path("tests") / file).read_text()}


@pytest.mark.parametrize("page", PAGES)
def test_every_row_has_a_test_or_a_decision(page: str) -> None:
    found = rows(page)

    assert len(found) == len(dict(found)) > 0
    assert not [one for one, cell in found if not (_TEST.search(cell) or cell.startswith("Decision: "))]


@pytest.mark.parametrize("page", ["faults.md", "relay.md", "jobs.md"])
def test_each_of_them_is_cited_by_the_tests_that_show_it(page: str) -> None:
    """Else `grep -rw F05 tests` would not find it."""
    shown = [(one, *test) for one, cell in rows(page) if _is_shown(cell) for test in _TEST.findall(cell)]

    assert not [(one, file, test) for one, file, test in shown if not re.search(rf"\b{one}\b", says(file, test))]


def test_every_rule_of_the_pipeline_is_cited_where_it_is_shown() -> None:
    shown = {(one, file) for one, cell in rows("pipeline.md") for file, _ in _TEST.findall(cell)}

    assert not {(one, file) for one, file in shown if not re.search(rf"{one}\b", (Path("tests") / file).read_text())}


def _is_shown(cell: str) -> bool:
    return not cell.startswith("Decision: ")


def says(file: str, test: str) -> str:
    """The docstring of a test."""
    tree = ast.parse((Path("tests") / file).read_text())
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return ast.get_docstring(next(function for function in functions if function.name == test)) or ""

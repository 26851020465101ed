"""Write the last column of the pages in `docs/conformance`: the tests whose docstrings cite the row's id.

A row with a decision keeps it, and so does a note behind the tests: both are written by hand. Where no test's docstring
cites the id, the column names the files of tests that do. A test proves the pages fresh.
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "conformance"
TESTS = ROOT / "tests"

NAMED_MAX = 2
"""How many tests a row names: first those whose docstring names its id first, and the fewest other ids."""

ROW = re.compile(r"^\| ([A-Z][A-Z0-9]{0,2}-?[A-Z]?\d+[a-z]?)( [a-z])? \| (.*) \| (.*) \|$")
_ID = r"[A-Z][A-Z0-9]{0,2}-?[A-Z]?\d+[a-z]?"
_CITED = re.compile(rf"(?<![\w./#-])({_ID})( [a-z](?=[:.,]))?(?![\w-])")
_RANGE = re.compile(r"(?<![\w./#-])([A-Z][A-Z0-9]{0,2}-?[A-Z]?)(\d+)(?: to |\.\.)(?:\1|[A-Z])(\d+)(?!\w)")
_TESTS = re.compile(r"(?:`[\w/]+\.py`(?: \(all\)| test_\w+(?:, test_\w+)*)?(?:[;,] | and )?|and \d+ more)+")

Shown = Mapping[str, str]


def cited(text: str) -> set[str]:
    """Return the ids in a text; `FL-01 to FL-03` and `B-51..B-57` name those between, too."""
    ranges = {
        f"{family}{number:0{len(first)}}"
        for family, first, last in _RANGE.findall(text)
        for number in range(int(first), int(last) + 1)
    }
    return ranges | {name for one, part in _CITED.findall(text) for name in (one, one + part)}


def shown_by() -> Shown:
    """Return the text of the last column for each id that a test cites."""
    by_test: dict[str, list[tuple[int, int, str, str]]] = {}
    by_file: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("*.py")):
        text, file = path.read_text(encoding="utf-8"), path.relative_to(TESTS).as_posix()
        for one in cited(text):
            by_file.setdefault(one, []).append(f"`{file}`")
        for test, about in _tests(text) if path.name.startswith("test_") else ():
            ids = cited(about)
            for one in ids:
                by_test.setdefault(one, []).append((about.find(one), len(ids), file, test))
    files = {one: _listed(names) for one, names in by_file.items()}
    return files | {one: _named(tests) for one, tests in by_test.items()}


def _tests(text: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name, ast.get_docstring(node) or ""


def _named(tests: list[tuple[int, int, str, str]]) -> str:
    files: dict[str, list[str]] = {}
    for *_, file, test in sorted(tests)[:NAMED_MAX]:
        files.setdefault(file, []).append(test)
    return _more("; ".join(f"`{file}` {', '.join(names)}" for file, names in sorted(files.items())), len(tests))


def _listed(files: list[str]) -> str:
    return _more(", ".join(files[:NAMED_MAX]), len(files))


def _more(text: str, count: int) -> str:
    return f"{text}; and {count - NAMED_MAX} more" if count > NAMED_MAX else text


def written(page: str, shown: Shown) -> str:
    """Return the text of a page with its last column."""
    return "\n".join(_row(line, shown) for line in page.split("\n"))


def _row(line: str, shown: Shown) -> str:
    row = ROW.match(line)
    if row is None or row[4].startswith("Decision: "):
        return line
    one, part, sentence, cell = row.groups()
    tests = shown.get(f"{one}{part}") or shown.get(one, "")
    return f"| {one}{part or ''} | {sentence} | {tests}{_TESTS.sub('', cell, count=1)} |"


def main() -> int:
    """Write the pages."""
    shown = shown_by()
    for path in sorted(PAGES.glob("*.md")):
        path.write_text(written(path.read_text(encoding="utf-8"), shown), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Numbers with their nouns: "1 event", never "1 events"."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.counted import counted, were

ROOT = Path(__file__).parents[3]
NOUNS = (
    "event", "job", "row", "record", "delivery", "key", "dead letter", "check", "file", "day", "batch", "topic", "task",
    "message", "request", "group", "replay", "hour", "offset", "attempt", "table", "process", "partition", "finding",
    "subscription", "worker", "cell", "excerpt",
)  # fmt: skip
PLURAL = re.compile(rf" ({'|'.join(counted(0, noun)[2:] for noun in NOUNS)})\b")
LIMIT = re.compile(r"MAX|max|most|limit|MIN", re.ASCII)
"""A limit is never one."""


@pytest.mark.parametrize(
    ("number", "noun", "told"),
    [(0, "event", "0 events"), (1, "event", "1 event"), (2, "delivery", "2 deliveries"),
     (1234, "batch", "1,234 batches"),
     (2, "key", "2 keys"), (1, "dead letter", "1 dead letter"), (2, "process", "2 processes")],
)  # fmt: skip
def test_a_noun_follows_its_number(number: int, noun: str, told: str) -> None:
    assert counted(number, noun) == told


def test_a_verb_follows_its_number() -> None:
    assert [were(number) for number in (0, 1, 2)] == ["were", "was", "were"]


def test_no_text_for_people_has_a_plural_behind_a_bare_number() -> None:
    """`hookwire erase --dry-run` said "1 events would be erased"."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for folder in ("app/cli", "app/web/console", "app/bridges", "app/verdict")
        for path in sorted({*(ROOT / folder).rglob("*.py")} - {ROOT / "app/cli/pipeline/checks.py"})  # sizes of a lake
        for line, text in bare_plurals(ast.parse(path.read_text("utf-8")))
    ]
    assert found == []


def test_a_bare_plural_is_found() -> None:
    tree = ast.parse('f"{n:,} events"; f"{EVENTS_MAX} events"; f"{n} of 3 events"')
    assert [text for _, text in bare_plurals(tree)] == ["{n} events"]


def bare_plurals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and text of each number in a text that is not ``counted``, and no limit."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            for value, after in zip(node.values, node.values[1:], strict=False):
                if isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant):
                    told, match = ast.unparse(value.value), PLURAL.match(str(after.value))
                    if match and not LIMIT.search(told):
                        yield node.lineno, f"{{{told}}}{match[0]}"

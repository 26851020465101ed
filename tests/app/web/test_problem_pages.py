"""Pages of problems that say that nothing was stored, and the code that raises them (GH-01)."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from app.web.problem_kinds import KINDS

ROOT = Path(__file__).parents[3]
RAISES = sorted(path for path in (ROOT / "app" / "web").rglob("*.py"))
SAYS_NOTHING = re.compile(r"[Nn]othing was (?:stored|changed|done)|[Nn]o item was stored")
UNKNOWN = frozenset({"outcome-unknown", "internal-error", "idempotency-key-in-flight"})
"""Kinds raised while the outcome is not known."""


def slugs_of(path: Path) -> set[str]:
    """The kinds that a file raises by name."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call) and node.args]
    named = [call.args[0] for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Problem"]
    return {name.value for name in named if isinstance(name, ast.Constant)}


def test_each_kind_that_is_raised_by_name_has_a_page() -> None:
    """GH-01: a misspelt kind would be a KeyError while a request is refused."""
    assert set().union(*map(slugs_of, RAISES)) - KINDS.keys() == set()


@pytest.mark.parametrize("slug", sorted(UNKNOWN))
def test_a_page_of_an_unknown_outcome_does_not_say_that_nothing_was_stored(slug: str) -> None:
    """GH-01: who obeyed would make a double."""
    assert not SAYS_NOTHING.search(KINDS[slug].cause)
    assert "Idempotency-Key" in KINDS[slug].cure or "same key" in KINDS[slug].cure

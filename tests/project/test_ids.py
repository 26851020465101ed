"""Each row of docs/conformance leads to a test that exists, or to a decision (HO-07)."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["webhooks.md", "hardening.md", "laboratory.md", "request-reply.md"])
def test_every_row_names_a_test_that_exists_or_a_decision(page: str) -> None:
    rows = re.findall(
        r"^\| (\S+) \| .* \| (.*) \|$", (ROOT / "docs/conformance" / page).read_text("utf-8"), re.MULTILINE
    )

    assert [name for name, cell in rows if name not in ("Id", "---") and not is_shown(cell)] == []


def is_shown(cell: str) -> bool:
    """Return whether a cell names a decision, or files and tests that exist."""
    named = re.findall(r"`([\w/]+\.py)`(?: (test_\w+))?", cell)
    found = ((ROOT / "tests" / file, test) for file, test in named)
    return cell.startswith("Decision: ") or (
        bool(named) and all(file.exists() and f"def {test}" in file.read_text("utf-8") for file, test in found)
    )

"""The page "Features beside those of others": our column is complete, and each cell says where to read on (WH-21)."""

import re
from pathlib import Path

PAGE = Path("docs/reference/webhook-features.md")
FEATURES = 31


def rows() -> dict[str, str]:
    """Our cell of each feature."""
    found = re.findall(r"^\| ([^|]+?) \| ([^|]*?) \| .* \|$", PAGE.read_text(), re.MULTILINE)
    return {feature: ours for feature, ours in found if feature not in ("Feature", "---")}


def test_every_feature_of_the_field_has_our_cell_with_a_link() -> None:
    table = rows()

    assert (len(table), [feature for feature, ours in table.items() if not re.search(r"\[[^]]+\]\([^)]+\)", ours)]) == (
        FEATURES, [],
    )  # fmt: skip

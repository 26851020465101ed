"""The page "Features beside those of others": our column is complete, and each cell says where to read on and which
test shows it (WH-21). That links lead somewhere is shown for all pages."""

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


def test_every_cell_of_ours_has_a_test() -> None:
    untested = [feature for feature, ours in rows().items() if "](../../tests/" not in ours]

    assert untested == ["Licence"]

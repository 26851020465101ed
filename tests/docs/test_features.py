"""The page "Features beside those of others": our column is complete, and each cell says where to read on and which
test shows it (WH-21). That links lead somewhere is shown for all pages."""

import re
from pathlib import Path

PAGE = Path("docs/reference/webhook-features.md")
FEATURES = 31
RELAYS = Path("docs/reference/outbox-relays.md")
RELAY_FEATURES = 21
JOBS = Path("docs/reference/jobs-features.md")
JOB_FEATURES = 43


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


def relay_tables() -> list[dict[str, list[str]]]:
    """The tables of the page about relays: the cells of each feature."""
    tables: list[dict[str, list[str]]] = []
    for line in RELAYS.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == "Feature":
            tables.append({})
        elif line.startswith("| "):
            tables[-1][cells[0]] = cells[1:]
    return tables


def test_a_relays_features_are_told_of_every_relay() -> None:
    """The rows of the field's table, for us and for all others."""
    ours, *others = relay_tables()

    assert len(ours) == RELAY_FEATURES
    assert [set(ours) - set(other) for other in others] == [{"partitioner", "writers"}] * 2


def test_each_of_our_cells_names_a_test_that_is_there() -> None:
    """A file alone proves little: the link's title is the test that shows what the cell claims."""
    ours = relay_tables()[0]
    unlinked = [feature for feature, (hub, *_) in ours.items() if "](../../tests/" not in hub]
    named = [
        (RELAYS.parent / path, test)
        for hub, compat, *_ in ours.values()
        for path, test in re.findall(r"\]\((\S+)(?: \"(\w+)\")?\)", hub + compat)
    ]
    missing = [
        (path.name, test)
        for path, test in named
        if not test or not re.search(rf"^(async )?def {test}\(", path.read_text(), re.MULTILINE)
    ]
    assert (unlinked, missing, len(named) > 2 * RELAY_FEATURES - 5) == ([], [], True)


def test_every_feature_of_job_queues_has_our_cell_with_a_page_and_a_test() -> None:
    found = re.findall(r"^\| ([^|]+?) \| ([^|]*?) \| .* \|$", JOBS.read_text(), re.MULTILINE)
    table = {feature: ours for feature, ours in found if feature != "Feature"}
    incomplete = [
        feature for feature, ours in table.items() if "[page](" not in ours or "[test](../../tests/" not in ours
    ]

    assert (len(table), incomplete) == (JOB_FEATURES, [])

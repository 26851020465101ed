"""The page "What grows": every table of the database has one line, and every setting on it exists."""

import re
from pathlib import Path

from app.settings.settings import Settings

PAGE = Path("docs/reference/growth.md").read_text()
SCHEMA = Path("db/schema.sql").read_text()


def test_every_table_has_one_line() -> None:
    """A new table comes with an answer to what takes rows from it again."""
    made = re.findall(r"^CREATE TABLE hookwire\.(\w+)", SCHEMA, re.MULTILINE)
    told = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)

    assert (sorted(told), len(made) > 30) == (sorted(made), True)


def test_every_line_says_when_rows_go() -> None:
    lines = re.findall(r"^\| `(\w+)` \|(.*)\|$", PAGE, re.MULTILINE)

    assert [table for table, cells in lines if not all(cell.strip() for cell in cells.split("|"))] == []


def test_every_setting_of_it_exists() -> None:
    named = {name.lower() for name in re.findall(r"HOOKWIRE_([A-Z_]+)", PAGE)}

    assert (named - Settings.model_fields.keys(), "gold_retention_days" in named) == (set(), True)

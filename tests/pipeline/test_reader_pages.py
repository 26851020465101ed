"""The Python of the pages on bronze and on typed rows runs as it is written, but for the lake's folder."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline.delta.snapshot import Change
from pipeline.storage import LakeStorage
from pipeline.typed.shape import shape_of
from pipeline.typed.tables import TAKEN, columns_of, typed_table
from tests.pipeline.foreign import AT, table_of

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = {"type": "object", "properties": {"order": {"type": "integer"}}}


def python_of(page: str, lake: LakeStorage) -> list[str]:
    """The blocks of a page in Python, with this lake."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    return [block.replace("/var/lib/hookwire/lake", lake.uri.removeprefix("file://")) for block in blocks]


@pytest.fixture
def lake(tmp_path: Path) -> LakeStorage:
    return LakeStorage(str(tmp_path / "lake"))


def test_bronze_is_read_by_duckdb_and_by_our_own_reader(
    spark: SparkSession, lake: LakeStorage, capfd: pytest.CaptureFixture[str]
) -> None:
    table_of(lake, 2, 1)
    by_duckdb, by_spark = python_of("reference/lake.md", lake)
    exec(by_duckdb, {})
    printed = capfd.readouterr().out
    assert re.search(r"2026-01-15 +│ +orders +│ +3 ", printed), printed
    names: dict[str, Any] = {"spark": spark}
    exec(by_spark, names)
    assert names["frame"].count() == 3


def test_typed_rows_are_read_by_duckdb(lake: LakeStorage, capfd: pytest.CaptureFixture[str]) -> None:
    table = typed_table(lake, "orders", 1, columns_of(shape_of(SCHEMA, TAKEN)))
    rows = [{"event_id": f"evt_a_{n}", "event_number": n, "accepted_at": AT, "order": n} for n in (7, 8)]
    file = table.write_rows(rows, {"dt": date(2026, 1, 15).isoformat(), "topic": "orders"}, 1)
    table.commit(table.snapshot(), Change("typed", "run", (file,)))
    [block] = python_of("how-to/lake-typed.md", lake)
    exec(block, {})
    printed = capfd.readouterr().out
    assert re.search(r"2026-01-15 +│ +2 +│ +8 ", printed), printed

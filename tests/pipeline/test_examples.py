"""The programs of examples/lake on a lake that was compacted: they count what the log names."""

import importlib.util
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline.compaction import compact, crowded
from pipeline.storage import LakeStorage
from tests.pipeline.test_maintenance import LARGE, records, written
from tests.pipeline.test_typed import ORDERS, filled, order

EXAMPLES = Path(__file__).parents[2] / "examples" / "lake"


def loaded(name: str) -> Any:
    """The program of an example."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return program


@pytest.mark.parametrize("name", ["with_duckdb", "with_pyspark"])
def test_an_example_counts_each_event_once(
    name: str, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """FP-08: the old files lie beside the new one. The session of the tests is the example's."""
    lake = LakeStorage(str(tmp_path))
    table = written(lake, records(1, 2), records(3), records(3))
    compact(spark, table, crowded(table.snapshot(), date(2026, 1, 16), LARGE), "run", LARGE)
    loaded(name).main(str(tmp_path))
    assert capsys.readouterr().out == "2026-01-15 orders: 3 events in 4 records, 36 bytes\n"


def test_the_example_of_typed_tables_shows_the_newest_of_each_topic(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """GP-13."""
    lake = LakeStorage(str(tmp_path))
    written(lake, [order(1), order(2), replace(order(3), value=b"")])
    for version in (2, 10):
        filled(spark, lake, replace(ORDERS, version=version))
    loaded("typed_with_duckdb").main(str(tmp_path))
    assert capsys.readouterr().out == (
        "orders_made: 2 rows of 15 columns\norders_made_rejected: 1 rows of 11 columns\n"
    )

"""The programs of examples/lake on a lake that was compacted: they count what the log names."""

import importlib.util
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.compaction import compact, crowded
from pipeline.storage import LakeStorage
from tests.pipeline.test_maintenance import LARGE, records, written

EXAMPLES = Path(__file__).parents[2] / "examples" / "lake"


@pytest.mark.parametrize("name", ["with_duckdb", "with_pyspark"])
def test_an_example_counts_each_event_once(
    name: str, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """FP-08: the old files lie beside the new one. The session of the tests is the example's."""
    lake = LakeStorage(str(tmp_path))
    table = written(spark, lake, records(1, 2), records(3), records(3))
    compact(spark, table, crowded(table.snapshot(), date(2026, 1, 16), LARGE), "run", LARGE)
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    program.main(str(tmp_path))
    assert capsys.readouterr().out == "2026-01-15 orders: 3 events in 4 records, 36 bytes\n"

"""What seven readers see of bronze: ours, Delta's package for Spark, deltalake, pyarrow, pandas, DuckDB and Polars.

pyarrow, pandas and DuckDB go through deltalake, which names the files. DuckDB's own extension would be a download.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from pipeline.storage import LakeStorage
from tests.pipeline.fetched import polars_folder
from tests.pipeline.long_storey import Archiver

_QUERY = "SELECT event_number FROM bronze"


def through_deltalake(lake: LakeStorage) -> dict[str, list[int]]:
    """The event numbers that deltalake's own engine sees, and those of three readers to which it gives the files."""
    table = DeltaTable(f"{lake.uri}/bronze", storage_options=lake.delta_options)
    dataset = table.to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("bronze", dataset)
        of_duckdb = [number for (number,) in connection.sql(_QUERY).fetchall()]
    of_engine = pa.table(QueryBuilder().register("bronze", table).execute(_QUERY).read_all())
    of_pyarrow = dataset.to_table(["event_number"])
    of_pandas = table.to_pandas(columns=["event_number"])
    return {
        "deltalake": sorted(of_engine["event_number"].to_pylist()),
        "pyarrow": sorted(of_pyarrow["event_number"].to_pylist()),
        "pandas": sorted(map(int, of_pandas["event_number"])),
        "duckdb": sorted(of_duckdb),
    }


def by_polars(lake: LakeStorage) -> list[int] | str:
    """The event numbers that Polars sees, or the end of its error."""
    environment = os.environ | {"PYTHONPATH": str(polars_folder())}
    words = [f"{lake.uri.removeprefix('file://')}/bronze", "event_number", json.dumps(lake.delta_options)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.polars_reader", *words], env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr[-200:]


def agreed_by_others(lake: LakeStorage, drivers: Archiver) -> list[int]:
    """What the six others see; fails when one sees something else."""
    found = {
        **through_deltalake(lake), "polars": by_polars(lake), "delta-spark": drivers.ask("read", lake=lake.uri),
    }  # fmt: skip
    seen = found["pyarrow"]
    assert found == dict.fromkeys(found, seen), found
    return seen

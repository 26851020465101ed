"""Every reader counts the same rows of a lake, after each thing that is done to it (FP-08)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, date, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from app.cli.main import application
from pipeline.audit.selftest import bronze_of
from pipeline.compaction import compact, crowded
from pipeline.delta.snapshot import Change, DataFile, State
from pipeline.erasure import Subject, erase
from pipeline.lake import LakeConflict, LakeDamaged, bronze
from pipeline.metric import metric_table
from pipeline.retention import forgotten, retain
from pipeline.service import stale_days
from pipeline.storage import LakeStorage
from tests.pipeline.seven_readers import through_deltalake
from tests.pipeline.test_maintenance import LARGE, records, written

DAY = date(2026, 1, 15)


@pytest.fixture
def lake(tmp_path: Path) -> LakeStorage:
    return LakeStorage(str(tmp_path))


def counted(spark: SparkSession, lake: LakeStorage) -> dict[str, list[int]]:
    """The event numbers of bronze, as each reader sees them."""
    own = bronze(lake).read(spark).select("event_number").collect()
    return {"own": sorted(row.event_number for row in own), **through_deltalake(lake)}


def agreed(spark: SparkSession, lake: LakeStorage) -> list[int]:
    """What all of them see; fails when one sees something else."""
    found = counted(spark, lake)
    assert found == dict.fromkeys(found, found["own"]), found
    footers = [pq.read_metadata(path).num_rows for path in DeltaTable(lake.spark_path("bronze")).file_uris()]
    assert sum(footers) == len(found["own"]), "the log says how many rows there are"
    return found["own"]


def test_every_reader_counts_the_same_after_kills_compact_erase_and_retain(
    spark: SparkSession, lake: LakeStorage, tmp_path: Path
) -> None:
    """FP-08: also while files lie there that no commit names, or none any more."""
    table = written(lake, records(1, 2), [*records(3, key="b")], records(4), records(5, key="c"))
    killed = table.write(bronze_of(spark, records(6)).coalesce(1), table.snapshot().version + 1)
    half = tmp_path / "bronze/data/batch=000009-dead/_temporary/0/part-0.parquet"
    half.parent.mkdir(parents=True)
    half.write_bytes(b"PAR1 half")
    after_kill = agreed(spark, lake)
    compact(spark, table, crowded(table.snapshot(), date(2026, 1, 16), LARGE), "run", LARGE)
    after_compact = agreed(spark, lake)
    erase(spark, lake, table, Subject(("a",)), "run")
    after_erase = agreed(spark, lake)
    retain(lake, table, date(2026, 1, 16), "run")
    assert (after_kill, after_compact, after_erase, agreed(spark, lake)) == ([1, 2, 3, 4, 5],) * 2 + ([3, 5], [])
    assert [(tmp_path / "bronze" / file.path).exists() for file in killed] == [False], "a subject was in it"


def test_nothing_holds_a_key_that_was_erased(spark: SparkSession, lake: LakeStorage, tmp_path: Path) -> None:
    """No file, no history and no killed batch, by a search of every byte."""
    name = "customer-of-the-test"
    table = written(lake, [*records(1, key=name), *records(2)], records(3, key=name))
    compact(spark, table, crowded(table.snapshot(), date(2026, 1, 16), LARGE), "run", LARGE)
    table.write(bronze_of(spark, records(4, key=name)).coalesce(1), table.snapshot().version + 1)
    before = holding(tmp_path, name)
    erase(spark, lake, table, Subject((name,)), "run")
    assert (len(before), holding(tmp_path, name), agreed(spark, lake)) == (4, [], [2])


def holding(folder: Path, text: str) -> list[Path]:
    """Files whose bytes hold it; a Parquet file is compressed, and its key column is searched."""
    found = []
    for path in (path for path in folder.rglob("*") if path.is_file()):
        values = (
            pq.ParquetFile(path).read().to_pylist() if path.suffix == ".parquet" and "_log" not in str(path) else []
        )
        if text.encode() in path.read_bytes() or text in repr(values):
            found.append(path)
    return found


def old_entry(number: int, **values: Any) -> bytes:
    """An entry of the log that lakes had before."""
    entry = {"format": 1, "version": number, "whole": False, "at": datetime.now(UTC).isoformat(), "run": "r",
             "offsets": {}, "incarnations": {}, "notes": {}, "added": [], "removed": []} | values  # fmt: skip
    text = json.dumps(entry, sort_keys=True)
    return f'{{"entry": {text}, "sha256": "{sha256(text.encode()).hexdigest()}"}}\n'.encode()


def old_lake(spark: SparkSession, lake: LakeStorage, tmp_path: Path) -> list[DataFile]:
    """Bronze with two batches, one of which was compacted, and a day of metrics; its files have INT96."""
    ours = spark.conf.get("spark.sql.parquet.outputTimestampType")
    assert ours is not None
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    try:
        table = bronze(lake)
        files = [*table.write(bronze_of(spark, records(1, 2)).coalesce(1), 1),
                 *table.write(bronze_of(spark, records(3)).coalesce(1), 2)]  # fmt: skip
    finally:
        spark.conf.set("spark.sql.parquet.outputTimestampType", ours)
    for path in (tmp_path / "bronze" / "_delta_log").iterdir():
        path.unlink()
    (tmp_path / "bronze" / "_delta_log").rmdir()
    added = [{"path": file.path, "rows": file.rows, "bytes": file.bytes} for file in files]
    gone = {"path": f"data/batch=000001-0/dt={DAY}/topic=orders/gone.parquet", "rows": 9, "bytes": 9}
    offsets = {"offsets": {"orders": {"0": 4, "10": 7}}, "incarnations": {"orders": "id"}}
    lake.replace("bronze/log/000000000001.json", old_entry(1, job="archive", added=[gone, added[0]], **offsets))
    notes = {"before": "2026-01-01", "topic": None}
    retained = old_entry(2, job="retain", added=[added[1]], removed=[gone["path"]], notes=notes, **offsets)
    lake.replace("bronze/log/000000000002.json", retained)
    lake.replace("metrics/log/000000000001.json", old_entry(1, job="metrics", notes={"days": {str(DAY): 5}}))
    return files


def test_a_lake_of_before_is_refused_until_it_is_converted_and_no_file_is_copied(
    spark: SparkSession, lake: LakeStorage, tmp_path: Path
) -> None:
    """Files, offsets, incarnations, retention and days are as they were; it may run again."""

    def convert(*options: str) -> Any:
        words = ["pipeline", "convert", "--lake", lake.uri, "--json", *options]
        return json.loads(CliRunner().invoke(application("pipeline"), words, catch_exceptions=False).stdout)["tables"]

    files = old_lake(spark, lake, tmp_path)
    inodes = [(tmp_path / "bronze" / file.path).stat().st_ino for file in files]
    with pytest.raises(LakeDamaged, match="bronze is a table of an older version: run hookwire pipeline convert"):
        bronze(lake).snapshot()
    tables = {"bronze": {"files": 2, "rows": 3}, "metrics": {"files": 0, "rows": 0}}
    assert [convert("--dry-run"), convert(), convert()] == [tables, tables, {}]
    snapshot = bronze(lake).snapshot()
    assert snapshot.state == State({"orders": {0: 4, 10: 7}}, {"orders": "id"}, {"": "2026-01-01"})
    assert ([(tmp_path / "bronze" / file.path).stat().st_ino for file in files], agreed(spark, lake)) == (
        inodes, [1, 2, 3],
    )  # fmt: skip
    assert forgotten(snapshot)("orders", datetime(2025, 12, 31, tzinfo=UTC))
    assert (metric_table(lake).snapshot().state.days, stale_days(lake, DAY, DAY)) == ({str(DAY): 5}, {})


def test_a_conversion_that_was_killed_before_the_old_log_was_moved_is_run_again(
    spark: SparkSession, lake: LakeStorage, tmp_path: Path
) -> None:
    from pipeline.conversion import convert

    old_lake(spark, lake, tmp_path)
    log = {path: lake.read(path) for path in lake.files("bronze/log")}
    convert(lake, bronze(lake), "killed")
    for path, content in log.items():
        lake.replace(path, content)
    convert(lake, bronze(lake), "again")
    assert (agreed(spark, lake), bronze(lake).snapshot().number, list(lake.files("bronze/log"))) == ([1, 2, 3], 1, [])


def test_a_file_that_was_altered_and_keeps_its_size_and_rows_is_found_by_a_deep_check(
    spark: SparkSession, lake: LakeStorage, tmp_path: Path
) -> None:
    """FP-06: the hash of each file is in the metadata of its commit."""
    from pipeline.repair.damage import inspect

    table = written(lake, records(1), records(2))
    victim = table.snapshot().files[0]
    path = tmp_path / "bronze" / victim.path
    content = bytearray(path.read_bytes())
    content[20] ^= 1
    path.write_bytes(content)
    found = [inspect(lake, table, deep=deep) for deep in (False, True)]
    assert [[damage.reason for damage in one.damages] for one in found] == [
        [], ["its bytes differ from those that were written"],
    ]  # fmt: skip
    assert found[1].without_hash == 0


def test_files_of_the_lake_carry_minimum_and_maximum_of_their_times(
    spark: SparkSession, lake: LakeStorage, tmp_path: Path
) -> None:
    """FP-11: so that every reader skips row groups by time."""
    [file] = written(lake, records(1, 2)).snapshot().files
    metadata = pq.read_metadata(tmp_path / "bronze" / file.path)
    column = metadata.row_group(0).column(_place(metadata))
    assert (column.physical_type, column.is_stats_set) == ("INT64", True)


def _place(metadata: pq.FileMetaData) -> int:
    """Which leaf is `accepted_at`: nested columns have several."""
    group = metadata.row_group(0)
    return next(n for n in range(metadata.num_columns) if group.column(n).path_in_schema == "accepted_at")


LOOKS = """
import sys; from app.cli.main import main
for words in (["check"], ["convert", "--dry-run"], ["retain", "--days", "1", "--dry-run"]):
    sys.argv = ["hookwire", "pipeline", *words]
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise
    print(words[0], file=sys.stderr)
"""


def test_what_only_looks_needs_no_java(tmp_path: Path) -> None:
    """A dry run and a check start no JVM."""
    environment = {"PATH": "/nowhere", "HOME": str(tmp_path), "HOOKWIRE_PIPELINE_LAKE": str(tmp_path / "lake")}
    done = subprocess.run(
        [sys.executable, "-c", LOOKS], env=environment, cwd=os.getcwd(), capture_output=True, text=True, timeout=240,
        check=False,
    )  # fmt: skip
    ended = [line for line in done.stderr.splitlines() if line in ("check", "convert", "retain")]
    assert (done.returncode, ended, "java" in done.stderr.lower()) == (0, ["check", "convert", "retain"], False), done


def test_two_archivers_of_the_same_batch_leave_one_batch(spark: SparkSession, lake: LakeStorage) -> None:
    """FP-09: the one that loses says so, and every reader counts the records once."""
    table = written(lake, records(1))
    basis = table.snapshot()
    batches = [table.write(bronze_of(spark, records(2)).coalesce(1), 2) for _ in range(2)]
    table.commit(basis, Change("archive", "one", batches[0]))
    with pytest.raises(LakeConflict, match=r"bronze was changed .* \(commit 2, archive of run one\)"):
        table.commit(basis, Change("archive", "two", batches[1]))
    assert agreed(spark, lake) == [1, 2]

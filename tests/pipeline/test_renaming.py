"""A lake of an older version, upgraded in place: its folders, its columns, its state (GP-07, GP-08)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.schema import Schema

from pipeline.delta.snapshot import State
from pipeline.erasure import erased_table
from pipeline.lake import Table, bronze
from pipeline.repair.renaming import rename
from pipeline.schema import BRONZE_PARTITIONS
from pipeline.storage import LakeStorage
from tests.pipeline.foreign import append, batch, delta, pipeline, row
from tests.pipeline.seven_readers import by_polars

OLD = Path(__file__).parent / "lake-of-0.1"
"""Bronze with two batches and a row of `erased`, as the release before this layout wrote them."""


@pytest.fixture
def lake(tmp_path: Path) -> LakeStorage:
    """A lake that the code of before wrote."""
    shutil.copytree(OLD, tmp_path / "lake")
    return LakeStorage(str(tmp_path / "lake"))


def contents(lake: LakeStorage) -> list[int]:
    return sorted(delta(lake).to_pyarrow_table(columns=["event_number"])["event_number"].to_pylist())


def test_a_lake_of_today_is_used_in_place(lake: LakeStorage) -> None:
    """GP-08: without a command: offsets and files are as they were, and the next batch adds the column."""
    table = bronze(lake)
    before = table.snapshot()
    assert (before.rows, before.state) == (3, State({"orders": {0: 4}}, {"orders": "an-id"}))
    assert pipeline(lake, "check", "--deep")[0] == 0
    table.upgrade()
    table.upgrade()
    batch(table, row(4, kafka_topic_id="an-id"))
    ids = delta(lake).to_pyarrow_table(columns=["kafka_topic_id"])["kafka_topic_id"].to_pylist()
    assert (ids.count(None), ids.count("an-id"), contents(lake)) == (3, 1, [1, 2, 3, 4])
    code, found = pipeline(lake, "check", "--deep")
    assert (code, found["notes"], table.snapshot().version) == (0, [], before.version + 2)


def test_compact_renames_what_polars_cannot_read(lake: LakeStorage) -> None:
    """GP-07: in every table, with the same bytes, hashes and rows; again, it does nothing."""
    tables = (bronze(lake), erased_table(lake))
    before = [table.snapshot() for table in tables]
    assert [file.is_of_before for at in before for file in at.files] == [True] * 3
    assert [rename(lake, table, "run") for table in tables] == [2, 1]
    after = [table.snapshot() for table in tables]
    assert [(at.rows, at.state) for at in after] == [(at.rows, at.state) for at in before]
    assert not any("=" in file.path.split("/")[1] for at in after for file in at.files)
    code, found = pipeline(lake, "check", "--deep")
    assert (code, found["without_hash"], contents(lake)) == (0, 0, [1, 2, 3])
    assert [rename(lake, table, "run") for table in tables] == [0, 0]


def test_files_with_the_same_name_in_two_folders_stay_two(lake: LakeStorage) -> None:
    """GP-07: `write_rows` calls each of its files part-0."""
    table = bronze(lake)
    rename(lake, table, "run")
    assert len({file.path for file in table.snapshot().files}) == 2


def test_a_new_file_has_no_equals_sign_outside_its_partition_columns(lake: LakeStorage) -> None:
    """GP-07: `batch=` was taken for a column of the table."""
    table = bronze(lake)
    batch(table, row(4))
    new = next(file for file in table.snapshot().files if not file.is_of_before)
    names = [part.partition("=")[0] for part in new.path.split("/") if "=" in part]
    assert names == list(BRONZE_PARTITIONS)


@pytest.mark.slow
def test_polars_reads_what_the_others_read(lake: LakeStorage) -> None:
    """GP-07: it read no table; of before only once it is compacted."""
    before = by_polars(lake)
    rename(lake, bronze(lake), "run")
    batch(bronze(lake), row(4))
    append(lake, row(5))
    assert (before != [1, 2, 3], by_polars(lake)) == (True, [1, 2, 3, 4, 5])


def test_an_upgrade_beside_another_is_harmless(lake: LakeStorage) -> None:
    """GP-08: another job may have added the column after this one looked."""
    first, second = bronze(lake), bronze(lake)
    opened = DeltaTable(f"{lake.uri.removeprefix('file://')}/bronze")
    first.upgrade()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "opened", lambda _: opened)
        second.upgrade()
    wanted = {field.name for field in Schema.from_json(first.schema.json()).fields}
    assert {field.name for field in delta(lake).schema().fields} == wanted

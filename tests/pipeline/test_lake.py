"""A table's log: files and offsets are part of it together or not at all; damage is named, never passed over."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.lake import Change, DataFile, LakeConflict, LakeDamaged, Snapshot, Table, bronze
from pipeline.storage import LakeStorage


@pytest.fixture
def table(lake_uri: str) -> Table:
    return bronze(LakeStorage(lake_uri))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "lake" / "bronze" / "log"


def file(number: int) -> DataFile:
    return DataFile(f"data/batch={number:06d}-aaaaaa/dt=2026-01-15/topic=a.b/part-0.parquet", rows=number, bytes=10)


def committed(table: Table, count: int) -> Snapshot:
    """So many entries, each with one file."""
    snapshot = table.snapshot()
    for number in range(snapshot.version + 1, snapshot.version + 1 + count):
        snapshot = table.commit(
            snapshot, Change("archive", "run", (file(number),), offsets={"a.b": {0: number, 10: 1}})
        )
    return snapshot


def test_a_table_is_empty_before_its_first_entry(table: Table) -> None:
    assert table.snapshot() == Snapshot()


def test_files_and_offsets_become_part_of_it_together(table: Table) -> None:
    """PL-X09: what is in the log is all there is."""
    made = committed(table, 2)
    assert (made, table.snapshot()) == (Snapshot(2, (file(1), file(2)), {"a.b": {0: 2, 10: 1}}),) * 2
    assert file(1).values == {"batch": "000001-aaaaaa", "dt": "2026-01-15", "topic": "a.b"}


def test_files_are_replaced_in_one_step_and_the_offsets_stay(table: Table) -> None:
    after = table.commit(committed(table, 3), Change("compact", "run", (file(9),), (file(1).path, file(2).path)))
    assert table.snapshot() == after == Snapshot(4, (file(3), file(9)), {"a.b": {0: 3, 10: 1}})


def test_of_two_writers_one_is_told_so(table: Table) -> None:
    basis = committed(table, 1)
    committed(table, 1)
    with pytest.raises(LakeConflict, match="bronze"):
        table.commit(basis, Change("archive", "late", (file(7),)))
    assert len(table.snapshot().files) == 2


def test_a_long_log_is_read_from_its_last_whole_entry(table: Table, log: Path) -> None:
    """Entry 100 names all files; what is older is history."""
    last = committed(table, 103)
    for number in range(1, 100):
        (log / f"{number:012d}.json").unlink()
    assert (table.snapshot(), len(last.files)) == (last, 103)


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: entry.write_bytes(entry.read_bytes()[:-20]),
        lambda entry: entry.write_bytes(entry.read_bytes().replace(b'"0": 2', b'"0": 1')),
        lambda entry: entry.write_bytes(b"\xff\x00"),
        lambda entry: entry.write_text("[]"),
        lambda entry: entry.unlink(),
    ],
    ids=["torn", "another offset", "no text", "another shape", "missing"],
)
def test_a_damaged_log_is_refused_by_name(table: Table, log: Path, damage: object) -> None:
    """PL-X09: a corrupted checkpoint is a clear error."""
    committed(table, 3)
    damage(log / "000000000002.json")  # type: ignore[operator]
    with pytest.raises(LakeDamaged, match=r"bronze/log/000000000002\.json"):
        table.snapshot()


def test_what_no_entry_names_is_found(table: Table, tmp_path: Path) -> None:
    """The files of a batch that was killed."""
    left = tmp_path / "lake" / "bronze" / "data" / "batch=000001-bbbbbb" / "half.parquet"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"PAR1")
    assert (table.snapshot().files, table.unlisted(table.snapshot())) == (
        (),
        ["bronze/data/batch=000001-bbbbbb/half.parquet"],
    )


def test_a_folder_is_a_uri_and_a_store_elsewhere_keeps_the_same_promises(tmp_path: Path) -> None:
    """PL-C02: pyarrow's store in memory stands in for `s3a:` and `hdfs:`."""
    store = LakeStorage("mock://bucket/lake")
    store.move("nothing", "log/1.json")  # makes the folder, which a store of objects has no need of
    store.create("log/1.json", b"1")
    with pytest.raises(FileExistsError):
        store.create("log/1.json", b"2")
    store.replace("log/2.json", b"22")
    store.move("log/1.json", "old/1.json")
    assert (store.files("log"), store.read("old/1.json"), store.is_local) == ({"log/2.json": 2}, b"1", False)
    assert store.spark_path("log/2.json") == "mock://bucket/lake/log/2.json"
    store.delete(["log/2.json", "log/3.json"])
    assert (store.files("log"), LakeStorage(str(tmp_path)).spark_path("x")) == ({}, f"file://{tmp_path}/x")

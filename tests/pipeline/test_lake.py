"""A table's log: files and offsets are part of it together or not at all; damage is named, never passed over."""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema, TableFeatures
from deltalake.exceptions import CommitFailedError
from deltalake.table import TableAlterer

from pipeline import lake
from pipeline.delta import head
from pipeline.delta.snapshot import Change, DataFile, Snapshot, State
from pipeline.lake import LakeConflict, LakeDamaged, Table, bronze
from pipeline.s3 import S3Options
from pipeline.schema import BRONZE_PARTITIONS
from pipeline.storage import LakeStorage, StorageError
from tests.pipeline import foreign

DAY = date(2026, 1, 15)


@pytest.fixture
def table(lake_uri: str) -> Table:
    return bronze(LakeStorage(lake_uri))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "lake" / "bronze" / "_delta_log"


def file(number: int) -> DataFile:
    return DataFile(f"data/batch={number:06d}-aaaaaa/dt=2026-01-15/topic=a.b/part-0.parquet", rows=number, bytes=10)


def state(number: int) -> State:
    return State({"a.b": {0: number, 10: 1}}, {"a.b": "id"}, {"": "2026-01-01"}, {"2026-01-15": 3})


def committed(table: Table, count: int) -> Snapshot:
    """So many commits, each with one file."""
    snapshot = table.snapshot()
    for number in range(snapshot.version + 1, snapshot.version + 1 + count):
        snapshot = table.commit(snapshot, Change("archive", "run", (file(number),), state=state(number)))
    return snapshot


def shortened(table: Table) -> bool:
    """Write a checkpoint, if one is due; return whether it was."""
    return table.needs_checkpoint() and table.checkpoint()


def by_path(snapshot: Snapshot) -> tuple[int, list[DataFile], State]:
    return snapshot.version, sorted(snapshot.files, key=lambda each: each.path), snapshot.state


def test_a_table_is_empty_before_its_first_commit(table: Table) -> None:
    assert table.snapshot() == Snapshot()


def test_files_and_offsets_become_part_of_it_together(table: Table) -> None:
    """PL-X09: what is in the log is all there is."""
    made = committed(table, 2)
    assert by_path(made) == by_path(table.snapshot()) == (2, [file(1), file(2)], state(2))
    assert file(1).values == {"dt": "2026-01-15", "topic": "a.b"}


def test_files_are_replaced_in_one_step_and_the_state_stays(table: Table) -> None:
    after = table.commit(committed(table, 3), Change("compact", "run", (file(9),), (file(1).path, file(2).path)))
    assert by_path(after) == by_path(table.snapshot()) == (4, [file(3), file(9)], state(3))


def test_of_two_writers_one_gets_a_conflict(table: Table) -> None:
    """GP-15: every refused commit was "another job changed bronze"."""
    basis = committed(table, 1)
    committed(table, 1)
    with pytest.raises(LakeConflict, match=r"bronze was changed .* \(commit 2, archive of run run\)"):
        table.commit(basis, Change("archive", "late", (file(7),)))
    assert len(table.snapshot().files) == 2


def test_of_two_jobs_that_create_the_table_at_once_one_commits(table: Table, log: Path) -> None:
    """FP-09: deltalake then adds a second empty version, with which both first commits conflicted."""
    schema = Schema.from_json(table.schema.json())
    DeltaTable.create(str(log.parent), schema, "error", list(BRONZE_PARTITIONS), "bronze")
    (log / f"{1:020d}.json").write_bytes((log / f"{0:020d}.json").read_bytes())

    made = table.commit(Snapshot(), Change("archive", "run", (file(1),), state=state(1)))
    with pytest.raises(LakeConflict, match="bronze"):
        table.commit(Snapshot(), Change("archive", "late", (file(2),)))
    assert by_path(made) == by_path(table.snapshot()) == (2, [file(1)], state(1))


def test_of_many_writers_at_once_exactly_one_wins(table: Table) -> None:
    """FP-09: appends do not conflict in Delta by themselves; our transaction makes them."""
    basis, start, won = committed(table, 1), threading.Barrier(4), []

    def race(number: int) -> None:
        start.wait()
        with suppress(LakeConflict):
            won.append(table.commit(basis, Change("archive", str(number), (file(number),))).version)

    racers = [threading.Thread(target=race, args=(number,)) for number in range(2, 6)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert (won, len(table.snapshot().files)) == ([2], 2)


def test_a_commit_of_another_tool_neither_disturbs_nor_hides_ours(table: Table, log: Path) -> None:
    """FP-08: everybody may work on a Delta table."""
    basis = committed(table, 2)
    DeltaTable(str(log.parent)).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 9 days"})
    between = table.snapshot()
    after = table.commit(between, Change("archive", "run", (file(7),), state=state(7)))
    assert (between.version, between.number, replace(between.state, foreign=())) == (3, basis.number, basis.state)
    assert by_path(after) == (4, [file(1), file(2), file(7)], state(7))


def test_a_long_log_is_read_from_its_checkpoint(table: Table, log: Path) -> None:
    """FP-10: what lies before a checkpoint is history."""
    last = committed(table, 103)
    shortened(table)
    for number in range(90):
        (log / f"{number:020d}.json").unlink()
    assert (by_path(table.snapshot()), len(last.files)) == (by_path(last), 103)


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: entry.write_bytes(entry.read_bytes()[:-20]),
        lambda entry: entry.write_bytes(b"\xff\x00"),
        lambda entry: entry.write_bytes(b""),
        lambda entry: entry.write_text("[]"),
        lambda entry: entry.unlink(),
    ],
    ids=["torn", "no text", "empty", "another shape", "missing"],
)
def test_a_damaged_log_is_refused_by_name(table: Table, log: Path, damage: Callable[[Path], object]) -> None:
    """PL-X09: a corrupted log is a clear error of one line."""
    committed(table, 3)
    damage(log / f"{2:020d}.json")
    with pytest.raises(LakeDamaged, match=r"^bronze/_delta_log .*restore it from a backup$"):
        table.snapshot()


def test_files_without_a_log_are_no_empty_table(table: Table, log: Path) -> None:
    """FP-04: the log is gone, the data are there."""
    committed(table, 2)
    (log.parent / file(1).path).parent.mkdir(parents=True)
    (log.parent / file(1).path).write_bytes(b"PAR1")
    shutil.rmtree(log)
    with pytest.raises(LakeDamaged, match="bronze has files and no log"):
        table.snapshot()


def test_a_commit_made_while_a_snapshot_is_read_is_no_damage(
    table: Table, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FP-16: a reader beside the archive took a commit made since for lost ones."""
    basis = committed(table, 2)
    opened = DeltaTable(str(log.parent))
    last = committed(table, 2)
    with monkeypatch.context() as patch:
        patch.setattr(table, "opened", lambda: opened)
        seen, history = table.snapshot(), [(entry["version"], entry["number"]) for entry in table.history()]
    assert (by_path(seen), history, last.number) == (by_path(basis), [(2, 2), (1, 1)], 4)


def test_a_first_batch_written_while_a_snapshot_is_read_is_no_lost_log(
    table: Table, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FP-16: the table was not there when it was opened, and its first files were when they were looked for."""
    DeltaTable.create(str(log.parent), Schema.from_json(table.schema.json()), partition_by=list(BRONZE_PARTITIONS))
    (log.parent / file(1).path).parent.mkdir(parents=True)
    (log.parent / file(1).path).write_bytes(b"PAR1")
    answers = iter([None, DeltaTable(str(log.parent))])
    monkeypatch.setattr(table, "opened", lambda: next(answers))
    assert table.snapshot() == Snapshot()


def test_what_no_commit_names_is_found(table: Table, tmp_path: Path) -> None:
    """The files of a batch that was killed."""
    committed(table, 1)
    left = tmp_path / "lake" / "bronze" / "data" / "batch=000002-bbbbbb" / "half.parquet"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"PAR1")
    assert table.unlisted(table.snapshot()) == ["bronze/data/batch=000002-bbbbbb/half.parquet"]


def test_a_commit_behind_our_own_looks_at_no_file_and_is_what_a_reader_sees(
    table: Table, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GP-11: deltalake's commit reads the words on all files, so the archive's work grew with the lake."""
    basis = committed(table, 1)
    odd = "data/000002-aaaaaa/dt=2026-01-15/topic=a%20b/part-0.parquet"
    added = (
        DataFile(odd, 2, 10, "0" * 64, (5, 9)),
        DataFile(odd.replace("2026-01-15", "__HIVE_DEFAULT_PARTITION__"), 1, 9),
    )
    with monkeypatch.context() as patch:
        patch.setattr(lake, "DeltaTable", None)
        seen = table.commit(basis, Change("archive", "run", added, state=state(2)))
        last = table.commit(table.refreshed(), Change("archive", "run", (file(3),), state=state(3), notes={"a": [1]}))
    read = bronze(LakeStorage(str(log.parents[1]))).snapshot()
    assert by_path(last) == by_path(read)
    assert [dict(each.values) for each in read.files] == [dict(each.values) for each in last.files]
    assert [each.numbers for each in read.files] == [each.numbers for each in last.files]
    assert (read.number, next(table.history())["notes"], seen.version) == (3, {"a": [1]}, 2)
    actions = pa.table(DeltaTable(str(log.parent)).get_add_actions(flatten=True)).to_pylist()
    values = {(row["partition.dt"], row["partition.topic"]) for row in actions}
    assert values == {(DAY, "a.b"), (DAY, "a b"), (None, "a b")}


@pytest.mark.parametrize("of", ["ours", "another tool's", "removed"])
def test_a_commit_behind_which_the_log_was_changed_is_made_by_deltalake(table: Table, log: Path, of: str) -> None:
    """GP-11: what this process knows counts only while its own commit is the newest one."""
    basis = committed(table, 2)
    newest = log / f"{basis.version:020d}.json"
    change = Change("archive", "late", (file(7),))
    if of == "ours":
        committed(bronze(LakeStorage(str(log.parents[1]))), 1)
    elif of == "another tool's":
        foreign.append(LakeStorage(str(log.parents[1])), foreign.row(1))
    else:
        newest.unlink()
    if of != "another tool's":
        with pytest.raises((LakeConflict, LakeDamaged), match="bronze"):
            table.commit(basis, change)
        assert file(7) not in bronze(LakeStorage(str(log.parents[1]))).snapshot().files
    else:
        assert by_path(table.commit(basis, change)) == by_path(bronze(LakeStorage(str(log.parents[1]))).snapshot())


def test_a_batch_behind_a_commit_that_was_overwritten_is_not_stored(table: Table, log: Path) -> None:
    """GP-11: delta-spark renames over our commit in a folder. The offsets of a next one would skip its records."""
    basis = committed(table, 2)
    newest = log / f"{basis.version:020d}.json"
    theirs = {"commitInfo": {"timestamp": 1, "operation": "OPTIMIZE", "engineInfo": "Apache-Spark"}}
    newest.write_text(json.dumps(theirs, separators=(",", ":")) + "\n")
    with pytest.raises(LakeConflict, match=r"lacks our commit 2, in whose place is commit 2, OPTIMIZE"):
        table.commit(basis, Change("archive", "late", (file(7),), state=state(7)))
    present = table.refreshed()
    assert (present.version, [each.path for each in present.files], present.state.offsets) == (
        2, [file(1).path], state(1).offsets,
    )  # fmt: skip


def test_a_commit_that_was_altered_under_us_is_read_again(table: Table, log: Path) -> None:
    """GP-11: its id was still the same, so the process went on with the files that it had named."""
    basis = committed(table, 2)
    newest = log / f"{basis.version:020d}.json"
    newest.write_bytes(newest.read_bytes().replace(b'"size":10', b'"size":11'))
    assert [each.bytes for each in table.refreshed().files] == [10, 11]


def test_a_commit_before_a_checkpoint_that_others_made_ahead_of_it_is_no_newest_commit(table: Table, log: Path) -> None:
    """GP-11: other readers see that checkpoint, and none of the commits before it."""
    committed(table, 2)
    DeltaTable(str(log.parent)).create_checkpoint()
    shutil.copy(log / f"{2:020d}.checkpoint.parquet", log / f"{9:020d}.checkpoint.parquet")
    (log / "_last_checkpoint").write_text(json.dumps({"version": 9, "size": 4}))
    with pytest.raises(LakeDamaged, match="lacks our newest commits"):
        table.refreshed()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": "x"}', '{"version": Infinity}', "\udcff"])
def test_a_note_on_the_checkpoint_that_nobody_can_read_ends_no_archive(table: Table, log: Path, text: str) -> None:
    """It was a traceback, and whoever may write into the lake can write it."""
    basis = committed(table, 2)
    (log / "_last_checkpoint").write_bytes(text.encode(errors="surrogateescape"))
    assert (table.refreshed(), shortened(table)) == (basis, False)


def test_without_hard_links_deltalake_makes_the_commit(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    assert by_path(committed(table, 3)) == by_path(table.snapshot())


def test_a_link_whose_answer_was_lost_is_no_conflict(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS repeats the request, and finds its own link. A caller that saw a conflict would delete its files."""
    basis, link = committed(table, 1), os.link

    def answer_lost(*arguments: Any) -> None:
        link(*arguments)
        raise FileExistsError(errno.EEXIST, "File exists")

    monkeypatch.setattr(os, "link", answer_lost)
    assert by_path(committed(table, 1)) == (basis.version + 1, [file(1), file(2)], state(2))


def test_a_rule_for_writers_that_came_at_the_same_time_holds_for_the_next_commit(table: Table, log: Path) -> None:
    """GP-01: an unknown feature is refused. Behind our own commit nobody looks at the features again."""
    committed(table, 1)
    DeltaTable(str(log.parent)).alter.add_feature(TableFeatures.AppendOnly, allow_protocol_versions_increase=True)
    basis = committed(table, 1)
    DeltaTable(str(log.parent)).alter.add_feature(TableFeatures.DomainMetadata)
    with suppress(LakeConflict):  # deltalake compares the versions of the protocol alone, and they are the same
        table.commit(basis, Change("archive", "run", (file(7),)))
    with pytest.raises(LakeDamaged, match="feature domainMetadata, which hookwire does not write"):
        table.commit(table.refreshed(), Change("archive", "run", (file(8),)))


def test_columns_are_added_although_another_tool_commits_at_the_same_time(
    table: Table, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file with columns that the log lacks shows them to no other reader."""
    older = [field for field in Schema.from_json(table.schema.json()).fields if field.name != "seal"]
    DeltaTable.create(str(log.parent), Schema(older), "error", list(BRONZE_PARTITIONS), "bronze")
    add = TableAlterer.add_columns
    refused = [CommitFailedError("another tool was faster")]

    def added(*arguments: Any, **named: Any) -> None:
        if refused:
            raise refused.pop()
        add(*arguments, **named)

    monkeypatch.setattr(TableAlterer, "add_columns", added)
    table.upgrade()
    assert "seal" in [field.name for field in DeltaTable(str(log.parent)).schema().fields]


def test_a_checkpoint_is_on_the_disk_before_old_commits_are_deleted(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash of the machine would otherwise leave neither."""
    committed(table, 1)
    monkeypatch.setitem(lake._CONFIGURATION, "delta.checkpointInterval", "1")
    order: list[str] = []
    monkeypatch.setattr(DeltaTable, "cleanup_metadata", lambda _: order.append("cleaned"))
    sync = LakeStorage._sync

    def synced(path: Path) -> None:
        order.append(path.name)
        sync(path)

    monkeypatch.setattr(LakeStorage, "_sync", staticmethod(synced))
    assert shortened(table)
    names = f"{1:020d}.checkpoint.parquet", "_last_checkpoint", "_delta_log"
    assert set(names) <= set(order[: order.index("cleaned")])


def test_the_new_folders_of_a_small_file_are_on_the_disk(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit named a file whose folder was lost in a crash of the machine."""
    synced: list[str] = []
    monkeypatch.setattr(LakeStorage, "_sync", staticmethod(lambda path: synced.append(path.name)))
    made = table.write_rows([foreign.row(1)], {"dt": "2026-01-15", "topic": "orders"}, 1)
    assert set(made.path.split("/")) <= set(synced)


def test_a_log_gets_its_checkpoint_without_deltalakes_commits(
    table: Table, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GP-11: the more files there are, the rarer."""
    snapshot = committed(table, 1)
    monkeypatch.setitem(lake._CONFIGURATION, "delta.checkpointInterval", "3")
    seen = []
    for number in range(2, 8):
        snapshot = table.commit(snapshot, Change("archive", "run", (file(number),)))
        shortened(table)
        seen.append(sorted(int(each.name[:20]) for each in log.glob("*.checkpoint.parquet")))
        if number == 6:
            monkeypatch.setattr(head, "_FILES_PER_COMMIT", 1)
    for number in range(8, 12):
        snapshot = table.commit(snapshot, Change("archive", "run", (file(number),)))
        shortened(table)
    assert seen == [[], [3], [3], [3], [3, 6], [3, 6]]
    assert len(list(log.glob("*.checkpoint.parquet"))) == 2, "11 files are named after 11 commits"


def test_other_readers_of_delta_see_the_same_files(table: Table, log: Path) -> None:
    """FP-08: paths, sizes, rows and the values of their folders."""
    committed(table, 2)
    actions = pa.table(DeltaTable(str(log.parent)).get_add_actions(flatten=True)).to_pylist()
    found = {(row["path"], row["size_bytes"], row["num_records"], row["partition.topic"]) for row in actions}
    assert found == {(file(n).path, 10, n, "a.b") for n in (1, 2)}


def test_a_file_says_which_events_are_in_it(table: Table) -> None:
    """FP-10: so that a search by number opens no other file."""
    known = replace(file(1), numbers=(5, 9))
    snapshot = table.commit(Snapshot(), Change("archive", "run", (known, file(2))))
    found = {each.path: each.numbers for each in snapshot.files}
    assert found == {known.path: (5, 9), file(2).path: None}
    assert snapshot.where(lambda each: each.numbers is None).files == (file(2),)


def test_a_folder_is_a_uri_and_a_store_elsewhere_keeps_the_same_promises(tmp_path: Path) -> None:
    """PL-C02: pyarrow's store in memory stands in for `s3a:` and `hdfs:`."""
    store = LakeStorage("mock://bucket/lake")
    store.move("nothing", "log/1.json")  # makes the folder, which a store of objects has no need of
    store.replace("log/1.json", b"1")
    store.replace("log/2.json", b"22")
    store.move("log/1.json", "old/1.json")
    assert (store.files("log"), store.read("old/1.json"), store.is_local) == ({"log/2.json": 2}, b"1", False)
    assert store.spark_path("log/2.json") == "mock://bucket/lake/log/2.json"
    store.delete(["log/2.json", "log/3.json"])
    assert (store.files("log"), LakeStorage(str(tmp_path)).spark_path("x")) == ({}, f"file://{tmp_path}/x")


def test_a_commit_whose_answer_was_lost_is_no_conflict(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """FP-13: an object store stored it and answered 503; a caller that saw a conflict would delete its files."""
    basis, commit = committed(table, 1), DeltaTable.create_write_transaction

    def answer_lost(*arguments: Any, **named: Any) -> None:
        commit(*arguments, **named)
        raise CommitFailedError("the repeated request found version 2 there")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", answer_lost)
    assert by_path(committed(table, 1)) == (basis.version + 1, [file(1), file(2)], state(2))


def test_a_clock_that_jumped_ahead_costs_no_commit_that_is_needed(
    table: Table, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By that clock all commits are older than 90 days, and the next checkpoint deletes them."""
    monkeypatch.setitem(lake._CONFIGURATION, "delta.checkpointInterval", "3")
    committed(table, 3)
    shortened(table)
    for entry in log.iterdir():
        os.utime(entry, (0, 0))
    last = committed(table, 3)
    shortened(table)
    assert not (log / f"{1:020d}.json").exists()
    assert (len(last.files), by_path(table.snapshot()), next(table.history())["number"]) == (6, by_path(last), 6)


def test_a_store_that_does_not_answer_is_one_sentence(free_port: int) -> None:
    """FP-13: no page of a foreign client, and no word of damage or of a backup."""
    s3 = S3Options(f"http://127.0.0.1:{free_port}", access_key="a", secret_key="b")
    with pytest.raises(StorageError, match=r"^the lake cannot be read or written: .*Could not connect") as error:
        LakeStorage("s3a://bucket/lake", s3).files("bronze")
    assert "\n" not in str(error.value)

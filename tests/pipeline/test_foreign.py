"""Other tools may work on the lake: what rearranges is a note, what changes rows is named, and nothing good is lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, cast

import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.schema import Field, PrimitiveType
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

from app.cli.failure import CommandFailed
from app.cli.main import application
from pipeline.compaction import compact, crowded
from pipeline.delta.snapshot import Change
from pipeline.erasure import Subject, erase
from pipeline.lake import LakeConflict, LakeDamaged
from pipeline.retention import retain
from pipeline.rewrite import rewrite
from pipeline.storage import LakeStorage
from tests.pipeline.foreign import AT, append, batch, delta, edit, pipeline, row, table_of
from tests.pipeline.test_maintenance import LARGE
from tests.pipeline.test_readers import agreed, holding

LATER = date(2026, 1, 16)


@pytest.fixture
def lake(tmp_path: Path) -> LakeStorage:
    return LakeStorage(str(tmp_path / "lake"))


def optimize(lake: LakeStorage) -> None:
    delta(lake).optimize.compact()


def z_order(lake: LakeStorage) -> None:
    delta(lake).optimize.z_order(["offset"])


def vacuum(lake: LakeStorage) -> None:
    optimize(lake)
    delta(lake).vacuum(0, dry_run=False, enforce_retention_duration=False)


def checkpoint(lake: LakeStorage) -> None:
    delta(lake).create_checkpoint()
    delta(lake).cleanup_metadata()


def add_column(lake: LakeStorage) -> None:
    delta(lake).alter.add_columns([Field("note", PrimitiveType("string"))])


def set_property(lake: LakeStorage) -> None:
    delta(lake).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 9 days"})


Act = Callable[[LakeStorage], None]


@pytest.mark.parametrize("act", [optimize, z_order, vacuum, checkpoint, add_column, set_property])
def test_what_rearranges_is_a_note_and_takes_no_record_out(lake: LakeStorage, act: Act) -> None:
    """GP-01: an OPTIMIZE made `check` call good files missing, and `--quarantine` took their records out."""
    table = table_of(lake, 2, 3)
    act(lake)
    code, found = pipeline(lake, "check", "--deep", "--quarantine")
    assert (code, found["damaged"], table.snapshot().rows) == (0, [], 5)
    batch(table, row(6))
    assert found["foreign"] == []
    assert (len(found["notes"]) > 0) == (act is not checkpoint)
    assert (table.snapshot().rows, delta(lake).to_pyarrow_dataset().count_rows()) == (6, 6)


def delete(lake: LakeStorage) -> None:
    delta(lake).delete("event_number = 2")


def update(lake: LakeStorage) -> None:
    delta(lake).update({"value": "arrow_cast('forged', 'Binary')"}, predicate="event_number = 2")


def append_two(lake: LakeStorage) -> None:
    append(lake, row(8), row(9))


def restore(lake: LakeStorage) -> None:
    delta(lake).delete("event_number = 2")
    delta(lake).restore(2)


@pytest.mark.parametrize(
    ("act", "added", "removed", "numbers"),
    [(delete, 0, 1, [2]), (update, 1, 1, [2]), (append_two, 2, 0, [8, 9])],
)
def test_what_changes_rows_is_named_with_its_ids_until_it_is_accepted(
    lake: LakeStorage, act: Act, added: int, removed: int, numbers: list[int]
) -> None:
    """GP-01: DELETE, UPDATE and append ended audit, erase and usage with "Wrong basePath"; also after later commits."""
    table = table_of(lake, 3, 2)
    act(lake)
    version = delta(lake).version()
    for offset in (20, 21):
        code, found = pipeline(lake, "check", "--quarantine")
        assert (code, found["damaged"]) == (1, []), "no good file is called damaged"
        [change] = found["foreign"]
        assert change["commit"] == version
        assert (change["added"], change["removed"]) == (added, removed)
        assert change["examples"] == [f"evt_selftest_{number}" for number in numbers]
        batch(table, row(offset))
    words = ["pipeline", "accept-commit", str(version), "--lake", lake.uri]
    assert CliRunner().invoke(application("pipeline"), words, catch_exceptions=False).exit_code == 0
    assert pipeline(lake, "check")[0] == 0
    with pytest.raises(CommandFailed, match=f"bronze has no commit {version} of another tool that waits"):
        CliRunner().invoke(application("pipeline"), words, catch_exceptions=False)


def test_what_was_changed_and_changed_back_is_named_twice(lake: LakeStorage) -> None:
    """GP-01: a restore is a commit like any other."""
    table_of(lake, 3, 2)
    restore(lake)
    code, found = pipeline(lake, "check")
    assert (code, found["damaged"]) == (1, [])
    assert [(each["added"], each["removed"]) for each in found["foreign"]] == [(0, 1), (1, 0)]


def test_a_commit_of_another_tool_during_ours_is_found(lake: LakeStorage) -> None:
    """GP-01: another tool commits between our snapshot and our commit, which does not conflict with it."""
    table = table_of(lake, 2, 2)
    basis = table.snapshot()
    file = table.write_rows([row(9)], {"dt": "2026-01-15", "topic": "orders"}, basis.number + 1)
    append(lake, row(8))
    table.commit(basis, Change("archive", "run", (file,)))
    code, found = pipeline(lake, "check")
    assert (code, [each["examples"] for each in found["foreign"]]) == (1, [["evt_selftest_8"]])
    assert table.snapshot().rows == 6


def test_an_optimize_during_our_commit_is_no_damage(lake: LakeStorage) -> None:
    """GP-01: the number of files in our commit is not that of the table then."""
    table = table_of(lake, 2, 2)
    basis = table.snapshot()
    file = table.write_rows([row(9)], {"dt": "2026-01-15", "topic": "orders"}, basis.number + 1)
    optimize(lake)
    table.commit(basis, Change("archive", "run", (file,)))
    assert (pipeline(lake, "check")[0], len(table.snapshot().files), table.snapshot().rows) == (0, 2, 5)


def test_every_job_goes_on_before_and_after_other_tools(spark: SparkSession, lake: LakeStorage) -> None:
    """GP-01: archive, usage, erase, compact and retain on files of deltalake, in folders of its own."""
    table = table_of(lake, 3, 2)
    batch(table, row(6, "b", accepted_at=AT), topic="carts")
    optimize(lake)
    append(lake, row(7, "b"), row(8))
    append(lake, row(10, "b"), topic=None, day=None)
    seen = [agreed(spark, lake)]
    rows = pipeline(lake, "usage", "--since", "2026-01-15", "--until", "2026-01-15")[1]
    assert [(each["topic"], each["events"]) for each in rows] == [("carts", 1), ("orders", 7)]
    erase(spark, lake, table, Subject(("a",)), "run")
    seen.append(agreed(spark, lake))
    batch(table, row(9, "b"))
    compact(spark, table, crowded(table.snapshot(), LATER, LARGE), "run", LARGE)
    seen.append(agreed(spark, lake))
    retain(lake, table, LATER, "run")
    assert seen == [[1, 2, 3, 4, 5, 6, 7, 8, 10], [6, 7, 10], [6, 7, 9, 10]]
    assert table.snapshot().rows == 1, "rows of another tool that have no day are kept"


def test_a_subject_is_erased_from_what_other_tools_left(spark: SparkSession, lake: LakeStorage) -> None:
    """GP-01: replaced files of other tools, and files that none of their commits names."""
    folder = Path(lake.uri.removeprefix("file://"))
    table = table_of(lake, 2)
    append(lake, row(3, "b"))
    optimize(lake)
    delete(lake)
    [kept] = table.snapshot().files
    left = folder / "bronze" / "dt=2026-01-15" / "topic=orders" / "part-left.parquet"
    left.write_bytes((folder / "bronze" / kept.path).read_bytes())
    young = erase(spark, lake, table, Subject(("a",)), "run")
    os.utime(left, (0, 0))
    old = erase(spark, lake, table, Subject(("a",)), "run")
    assert (young.remaining, old.remaining, agreed(spark, lake)) == (1, 0, [3])
    assert holding(folder / "bronze", "payload 1") == []


def test_a_file_may_lie_anywhere_in_the_store(spark: SparkSession, lake: LakeStorage, tmp_path: Path) -> None:
    """GP-01: the log names it by its URI, and gives it its day and topic."""
    table = table_of(lake, 1, 2)
    file = next(each for each in table.snapshot().files if each.rows == 2)
    inside = Path(lake.uri.removeprefix("file://")) / "bronze" / file.path
    elsewhere = tmp_path / "elsewhere" / "file %41.parquet"
    elsewhere.parent.mkdir()
    inside.rename(elsewhere)

    def moved(action: dict[str, dict[str, str]]) -> None:
        if "add" in action:
            action["add"]["path"] = f"file://{elsewhere.as_posix()}".replace("%", "%25").replace(" ", "%20")

    edit(lake, 2, moved)
    rows = table.read(spark).select("event_number", "topic").collect()
    assert sorted((each.event_number, each.topic) for each in rows) == [(n, "orders") for n in (1, 2, 3)]
    assert pipeline(lake, "check", "--quarantine")[:1] == (0,)
    erased = erase(spark, lake, table, Subject(("a",)), "run")
    assert (erased.records, erased.remaining, table.snapshot().rows, elsewhere.exists()) == (3, 0, 0, False)


def test_a_table_of_another_schema_is_refused_by_its_column(lake: LakeStorage) -> None:
    """GP-01: never read in silence with another meaning."""
    table = table_of(lake, 1)
    folder = Path(lake.uri.removeprefix("file://")) / "bronze"
    rows = DeltaTable(str(folder)).to_pyarrow_table()
    index = rows.schema.get_field_index("offset")
    other = rows.set_column(index, "offset", rows["offset"].cast("string"))
    write_deltalake(str(folder), other, mode="overwrite", schema_mode="overwrite", partition_by=["dt", "topic"])
    with pytest.raises(LakeDamaged, match='bronze has another type in the column offset: "string"'):
        table.snapshot()


def test_a_refused_commit_names_who_was_faster(lake: LakeStorage) -> None:
    """GP-15: it was "another job changed bronze", whoever it was."""
    table = table_of(lake, 1)
    basis = table.snapshot()
    add_column(lake)
    with pytest.raises(LakeConflict, match=r"bronze was changed .* \(commit 2, ADD COLUMN by delta-rs:"):
        table.commit(basis, Change("archive", "late"))


def test_a_commit_that_nobody_disturbed_says_why_it_was_refused(lake: LakeStorage) -> None:
    """GP-15: a table that takes no commit was called a conflict, for ever."""
    table = table_of(lake, 1)
    delta(lake).alter.set_table_properties({"delta.appendOnly": "true"})
    with pytest.raises(LakeDamaged, match=r"bronze is append-only by the property delta\.appendOnly: unset it"):
        table.commit(table.snapshot(), Change("compact", "run", (), tuple(f.path for f in table.snapshot().files)))


def test_a_commit_that_says_it_rearranges_and_loses_a_row_is_a_finding(lake: LakeStorage) -> None:
    """GP-01: a tool's own account is compared with the numbers of rows."""
    table_of(lake, 3, 2)
    delete(lake)

    def hidden(action: dict[str, Any]) -> None:
        for kind in {"add", "remove"} & action.keys():
            action[kind]["dataChange"] = False

    edit(lake, delta(lake).version(), hidden)
    code, found = pipeline(lake, "check")
    assert (code, [each["examples"] for each in found["foreign"]]) == (1, [["evt_selftest_2"]])


def test_a_batch_whose_files_a_vacuum_deleted_is_not_committed(
    lake: LakeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GP-01: a VACUUM without retention deletes files that no commit names yet; their records would be lost."""
    table = table_of(lake, 2)
    old = table.snapshot().files
    file = table.write_rows([row(1), row(2)], {"dt": "2026-01-15", "topic": "orders"}, 2)
    delta(lake).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    monkeypatch.setattr(table, "write_whole", lambda *_: (file,))
    with pytest.raises(LakeConflict, match=r"part-0\.parquet was deleted before its commit"):
        rewrite(table, old, cast(DataFrame, None), "compact", "run")
    assert table.snapshot().files == old

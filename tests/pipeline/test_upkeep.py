"""What the archive does behind a round: the next batch must not wait long for it, and no job be disturbed by it."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from threading import Event
from typing import Any, cast

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from pipeline import compaction, lake
from pipeline.compaction import Upkeep, scattered
from pipeline.delta.snapshot import Change, DataFile, Snapshot
from pipeline.lake import LakeConflict, Table, bronze
from pipeline.storage import LakeStorage

DAY = date(2026, 1, 15)
HELD_SECONDS = 60
NO_SPARK = cast(SparkSession, None)


def files(count: int, topic: str, day: date = DAY, size: int = 10) -> list[DataFile]:
    return [
        DataFile(f"data/{n:06d}-aaaaaa/dt={day}/topic={topic}/part-0.parquet", rows=1, bytes=size) for n in range(count)
    ]


def test_files_of_days_before_are_left_to_compact() -> None:
    """GP-12: an archive behind an upgrade merged the lake of years in one job, and read proved days again."""
    before, present = files(70, "a", DAY - timedelta(1)), files(70, "a")
    undated = [DataFile("data/000001-aaaaaa/dt=__HIVE_DEFAULT_PARTITION__/topic=a/part-0.parquet", 1, 10)] * 70
    found = scattered(Snapshot(1, (*before, *present, *undated)), DAY)
    assert sorted(file.path for file in found) == sorted(file.path for file in present)


def test_a_merge_reads_no_more_than_one_job_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """GP-12: the next batch waits for it, and records in Kafka do not wait."""
    monkeypatch.setattr(compaction, "_MERGED_BYTES", 500)
    monkeypatch.setattr(compaction, "_JOB_BYTES", 1_205)
    many = Snapshot(1, tuple(file for topic in "abcd" for file in files(60, topic)))
    taken = [file.values["topic"] for file in scattered(many, DAY)]
    assert {topic: taken.count(topic) for topic in "abcd"} == {"a": 50, "b": 50, "c": 20, "d": 0}


def test_a_merge_that_failed_is_not_tried_again_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GP-12: with a file that cannot be read, each round ran a job in vain and said so."""
    table = bronze(LakeStorage(str(tmp_path)))
    table.commit(Snapshot(), Change("archive", "run", tuple(files(60, "a"))))
    tried: list[int] = []

    def refused(_: Any, of: Table, some: list[DataFile], run: str) -> int:
        tried.append(len(some))
        raise LakeConflict(f"{of.name} of {run}")

    monkeypatch.setattr(compaction, "merge", refused)
    upkeep = Upkeep(lambda: NO_SPARK, table, "run")
    said = [upkeep.done(DAY) for _ in range(122)]
    assert [number for number, text in enumerate(said) if text is not None] == [0, 61]
    assert (tried, said[61]) == ([60, 60], "bronze of run")


def test_batches_do_not_wait_for_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GP-11: one of 100,000 files took seven seconds, and the next batch waited for it."""
    begun, may_end = Event(), Event()
    write = DeltaTable.create_checkpoint

    def held(table: DeltaTable) -> None:
        begun.set()
        assert may_end.wait(HELD_SECONDS), "the round waits for the checkpoint"
        write(table)

    monkeypatch.setattr(DeltaTable, "create_checkpoint", held)
    table, named = bronze(LakeStorage(str(tmp_path))), files(6, "a")
    upkeep, said = Upkeep(lambda: NO_SPARK, table, "run"), []
    snapshot = table.commit(Snapshot(), Change("archive", "run", (named[0],)))
    monkeypatch.setitem(lake._CONFIGURATION, "delta.checkpointInterval", "2")
    for file in named[1:]:
        snapshot = table.commit(snapshot, Change("archive", "run", (file,)))
        said.append(upkeep.done(DAY))
        assert begun.wait(HELD_SECONDS)
    log = tmp_path / "bronze" / "_delta_log"
    before = [*log.glob("*.checkpoint.parquet")]
    may_end.set()
    said.append(upkeep.ended())
    assert (before, said, [*log.glob("*.checkpoint.parquet")]) == (
        [],
        [None] * 6,
        [log / f"{2:020d}.checkpoint.parquet"],
    )
    of_readers = {*DeltaTable(str(log.parent)).get_add_actions()["path"].to_pylist()}
    assert of_readers == {file.path for file in table.snapshot().files} == {file.path for file in named}


def test_a_checkpoint_that_failed_is_told_in_a_later_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GP-11: a thread that fails would else be heard by nobody."""

    def refused(_: DeltaTable) -> None:
        raise DeltaError("no room")

    monkeypatch.setattr(DeltaTable, "create_checkpoint", refused)
    table = bronze(LakeStorage(str(tmp_path)))
    table.commit(Snapshot(), Change("archive", "run", tuple(files(2, "a"))))
    monkeypatch.setitem(lake._CONFIGURATION, "delta.checkpointInterval", "1")
    upkeep = Upkeep(lambda: NO_SPARK, table, "run")
    said = [upkeep.done(DAY), upkeep.ended(), upkeep.done(DAY), upkeep.ended()]
    assert [text is not None and "no room" in text for text in said] == [False, True, False, False]

"""The long storey: delta-rs and delta-spark work on the lake before, during and after each job, on a disk and on S3."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from pipeline.lake import bronze
from pipeline.repair.damage import inspect
from pipeline.repair.foreign_rows import accept, changes
from pipeline.storage import LakeStorage
from scripts.servers.kafka import KafkaServer
from tests.pipeline.broker import make, ours, write
from tests.pipeline.long_storey import Archiver, archiver, s3_server
from tests.pipeline.seven_readers import agreed_by_others

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

Place = tuple[LakeStorage, dict[str, str], dict[str, str]]


@pytest.fixture(params=["disk", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A lake, what Spark needs to know of its store, and what a driver needs to know."""
    if request.param == "disk":
        yield LakeStorage(str(tmp_path / "lake")), {}, {}
        return
    with s3_server(tmp_path) as (options, _):
        names = {"endpoint": options.endpoint, "region": options.region, "access_key": options.access_key,
                 "secret_key": options.secret_key}  # fmt: skip
        yield LakeStorage("s3a://lakes/hookwire", options), options.spark(), names


@pytest.fixture
def lake(place: Place) -> LakeStorage:
    return place[0]


@pytest.fixture
def drivers(kafka: KafkaServer, topic: str, place: Place) -> Iterator[Archiver]:
    lake, conf, s3 = place
    with archiver(conf, kafka=kafka.bootstrap, topic=topic, lake=lake.uri, s3=s3) as started:
        yield started


def seen(lake: LakeStorage, drivers: Archiver) -> list[int]:
    """What all seven readers see."""
    found = agreed_by_others(lake, drivers)
    assert found == drivers.ask("run", job="read")
    return found


def judged(lake: LakeStorage) -> tuple[list[Any], list[tuple[int, int]]]:
    """The damages of a check, and the rows that each commit of another tool added and removed."""
    table = bronze(lake)
    found = inspect(lake, table, deep=True)
    return found.damages, [(each.added, each.removed) for each in changes(lake, table, found.foreign, 10)]


def test_other_tools_work_before_during_and_after_each_job(
    kafka: KafkaServer, topic: str, lake: LakeStorage, drivers: Archiver
) -> None:
    """GP-01: what rearranges changes nothing for us, what changes rows is named, and every reader sees the same."""
    name = f"delta.`{lake.uri}/bronze`"
    optimize, delete = f"OPTIMIZE {name}", f"DELETE FROM {name} WHERE event_number = 1"

    def delta_rs() -> DeltaTable:
        return DeltaTable(f"{lake.uri}/bronze", storage_options=lake.delta_options)

    make(kafka, topic)
    for first in (1, 4):
        write(kafka, topic, [ours(n) for n in range(first, first + 3)])
        drivers.ask("run")
    drivers.ask("sql", sql=optimize)
    write(kafka, topic, [ours(n) for n in range(7, 10)])
    during = drivers.ask("run", point="durable", occurrence=1, sql=f"OPTIMIZE {name} ZORDER BY (offset)")
    delta_rs().optimize.compact()
    delta_rs().vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert (during, seen(lake, drivers), judged(lake)) == (3, [*range(1, 10)], ([], []))

    drivers.ask("sql", sql=delete)
    delta_rs().delete("event_number = 2")
    damages, changed = judged(lake)
    assert (damages, changed, seen(lake, drivers)) == ([], [(0, 1), (0, 1)], [*range(3, 10)])
    for commit in bronze(lake).snapshot().state.foreign:
        accept(bronze(lake), commit.version, "run")
    assert judged(lake) == ([], [])

    write(kafka, topic, [ours(10)])
    drivers.ask("run")
    conflict = drivers.ask("run", job="compact", point="durable", occurrence=1, sql=optimize)
    assert "OPTIMIZE" in str(conflict), "the sentence names who was faster"
    drivers.ask("run", job="compact")
    erased = drivers.ask("run", job="erase", key="key-0")
    drivers.ask("sql", sql=f"INSERT INTO {name} SELECT * FROM {name} WHERE event_number = 4")
    assert (erased, judged(lake), seen(lake, drivers)) == (3, ([], [(1, 0)]), [4, 4, 5, 7, 8, 10])
    kept = drivers.ask("run", job="retain")
    drivers.ask("sql", sql=optimize)
    write(kafka, topic, [ours(11)])
    assert (kept, drivers.ask("run"), seen(lake, drivers)) == (6, 1, [11])


def test_a_checkpoint_that_is_written_beside_a_commit_is_read_by_all(
    kafka: KafkaServer, topic: str, lake: LakeStorage, drivers: Archiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GP-11: the archive goes on while a thread writes the checkpoint of an earlier version."""
    make(kafka, topic)
    write(kafka, topic, [ours(n) for n in range(1, 4)])
    drivers.ask("run")
    whole, made = DeltaTable.create_checkpoint, []

    def beside(table: DeltaTable) -> None:
        write(kafka, topic, [ours(n) for n in range(4, 7)])
        drivers.ask("run")
        whole(table)
        made.append(table.version())

    monkeypatch.setattr(DeltaTable, "create_checkpoint", beside)
    bronze(lake).checkpoint()
    assert (made, f"bronze/_delta_log/{1:020d}.checkpoint.parquet" in lake.files("bronze/_delta_log")) == ([1], True)
    assert (seen(lake, drivers), judged(lake)) == ([*range(1, 7)], ([], []))
    write(kafka, topic, [ours(7)])
    assert (drivers.ask("run"), seen(lake, drivers)) == (1, [*range(1, 8)])


def test_a_deletion_vector_of_delta_spark_is_refused_by_its_name(
    kafka: KafkaServer, topic: str, lake: LakeStorage, drivers: Archiver
) -> None:
    """GP-03: no job of ours counts rows that others do not see; once it is purged and dropped, all goes on."""
    name = f"delta.`{lake.uri}/bronze`"
    make(kafka, topic)
    write(kafka, topic, [ours(n) for n in range(1, 6)])
    drivers.ask("run")
    drivers.ask("sql", sql=f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    drivers.ask("sql", sql=f"DELETE FROM {name} WHERE event_number = 2")
    write(kafka, topic, [ours(6)])
    said = [drivers.ask("run"), drivers.ask("run", job="erase", key="key-0")]
    assert ["bronze uses Delta's feature deletionVectors" in str(each) for each in said] == [True, True], said
    assert drivers.ask("read") == [1, 3, 4, 5]

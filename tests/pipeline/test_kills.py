"""The long storey on a disk: drivers killed at each step, clocks that jump, topics made anew; seven readers agree."""

from __future__ import annotations

import random
import re
import secrets
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from pipeline.compaction import compact, crowded
from pipeline.conversion import convert
from pipeline.erasure import Subject, erase
from pipeline.lake import bronze
from pipeline.retention import retain
from pipeline.storage import LakeStorage
from scripts.servers.kafka import KafkaServer
from tests.pipeline.broker import make, make_anew, ours, write
from tests.pipeline.long_storey import Archiver, archiver, small_disk
from tests.pipeline.seven_readers import agreed_by_others
from tests.pipeline.test_maintenance import LARGE
from tests.pipeline.test_readers import agreed, old_lake

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

BETWEEN = ("written", "durable", "committing")
"""Points between data and commit."""
BESIDE = ("planned", "committed", "noted")
AIMED, AT_RANDOM = 42, 6
EVENTS = 2_000
Readers = Callable[..., list[int]]
FULL = "the disk is full: nothing of this batch is part of the lake; make room and run it again"


@pytest.fixture
def lake(tmp_path: Path) -> LakeStorage:
    return LakeStorage(str(tmp_path / "lake"))


@pytest.fixture
def drivers(kafka: KafkaServer, topic: str, lake: LakeStorage) -> Iterator[Archiver]:
    with archiver({}, kafka=kafka.bootstrap, topic=topic, lake=lake.uri) as started:
        yield started


@pytest.fixture
def seen(spark: SparkSession, lake: LakeStorage, drivers: Archiver) -> Readers:
    """What all seven readers see of this lake or another."""

    def numbers(of: LakeStorage = lake) -> list[int]:
        found = agreed(spark, of)
        assert agreed_by_others(of, drivers) == found
        return found

    return numbers


def without_spark(lake: LakeStorage) -> list[int]:
    """The event numbers that deltalake sees, as many as our log says: the readers that cost no job of Spark's."""
    found = DeltaTable(lake.spark_path("bronze")).to_pyarrow_table(columns=["event_number"])
    assert found.num_rows == bronze(lake).snapshot().rows
    return sorted(found["event_number"].to_pylist())


def is_beginning(numbers: list[int]) -> bool:
    """Whether they are the first events of each of two partitions, each once."""
    parts = [[n for n in numbers if n % 2 == rest] for rest in (0, 1)]
    return all(part == list(range(first, first + 2 * len(part), 2)) for part, first in zip(parts, (2, 1), strict=True))


def test_a_driver_that_is_killed_at_any_step_loses_and_doubles_nothing(
    kafka: KafkaServer, topic: str, lake: LakeStorage, drivers: Archiver, seen: Readers
) -> None:
    """PL-X09, FP-08: 42 kills between data and commit, 6 before and after, and 6 at random; then to the end."""
    seed = secrets.randbelow(1_000_000)
    print(f"seed {seed}")
    chance = random.Random(seed)
    make(kafka, topic, 2)
    write(kafka, topic, [ours(n, n % 2) for n in range(1, EVENTS + 1)], [ours(EVENTS + n) for n in (2, 4)], abort=[1])
    points = (*BETWEEN * (AIMED // len(BETWEEN)), *BESIDE * 2)
    kills: list[dict[str, Any]] = [{"point": point, "occurrence": chance.choice((1, 2))} for point in points]
    kills += [{"seconds": chance.uniform(0.1, 4)} for _ in range(AT_RANDOM)]
    chance.shuffle(kills)
    assert drivers.ask("run", point="committed", occurrence=1) is None
    for number, kill in enumerate(kills):
        assert drivers.ask("run", **kill) is None, kill
        assert is_beginning(without_spark(lake)), kill
        assert is_beginning(seen() if number % 8 == 0 else []), kill
    drivers.ask("run", batch=1_000_000)
    assert seen() == list(range(1, EVENTS + 1))


def test_seven_readers_agree_whatever_is_done_to_lake_clock_and_topic(
    kafka: KafkaServer, topic: str, spark: SparkSession, lake: LakeStorage, drivers: Archiver, seen: Readers
) -> None:
    """FP-08: clocks that jump, a topic made anew, compact, erase, retain."""
    make(kafka, topic)
    table, after = bronze(lake), {}

    def archived(step: str, *numbers: int, **order: object) -> None:
        write(kafka, topic, [ours(n) for n in numbers])
        drivers.ask("run", **order)
        after[step] = seen()

    archived("first", 1, 2, 3)
    archived("clock back", 4, 5, clock="1999-12-31T23:59:59+00:00")
    archived("clock ahead", 6, 7, clock="2029-01-01T00:00:00+00:00")
    make_anew(kafka, topic)
    archived("made anew", 8, 9, accept_loss=True)
    compact(spark, table, crowded(table.snapshot(), date(2026, 1, 16), LARGE), "run", LARGE)
    after["compact"] = seen()
    erase(spark, lake, table, Subject(("key-1",)), "run")
    after["erase"] = seen()
    retain(lake, table, date(2026, 1, 1), "run")
    assert (after, seen()) == (
        {
            "first": [1, 2, 3], "clock back": [1, 2, 3, 4, 5], "clock ahead": [1, 2, 3, 4, 5, 6, 7],
            "made anew": [*range(1, 10)], "compact": [*range(1, 10)], "erase": [2, 3, 5, 6, 8, 9],
        },
        [2, 3, 6, 8, 9],
    )  # fmt: skip


def test_of_two_archivers_one_commits_and_the_other_says_so(
    kafka: KafkaServer, topic: str, drivers: Archiver, seen: Readers
) -> None:
    """FP-09, on a disk: both have written their files before one of them commits."""
    make(kafka, topic)
    write(kafka, topic, [ours(n) for n in range(1, 6)])
    outcomes = drivers.ask("race")
    rows, said = sorted(outcomes, key=str)
    assert (rows, seen()) == (5, [1, 2, 3, 4, 5])
    assert re.fullmatch(r"bronze was changed at the same time \(commit \d, archive of run run\): run .* again", said)


def test_a_disk_that_fills_up_loses_and_doubles_nothing(
    kafka: KafkaServer, topic: str, tmp_path: Path, drivers: Archiver, seen: Readers
) -> None:
    """FP-07, FP-08: there is no room for the files of a batch, and then for its commit."""
    make(kafka, topic)
    write(kafka, topic, [ours(n) for n in range(1, 4)])
    with small_disk(tmp_path / "disk") as disk:
        small = LakeStorage(str(disk / "lake"))
        drivers.ask("run", lake=small.uri)
        write(kafka, topic, [ours(n) for n in range(4, 7)])
        found = []
        for point in ("planned", "durable"):
            said = drivers.ask("run", lake=small.uri, point=point, occurrence=1, fill=str(disk))
            (disk / "filler").unlink()
            found.append((said, seen(small)))
        drivers.ask("run", lake=small.uri)
        assert (found, seen(small)) == ([(FULL, [1, 2, 3])] * 2, [1, 2, 3, 4, 5, 6])


def test_seven_readers_agree_on_a_lake_of_before(spark: SparkSession, tmp_path: Path, seen: Readers) -> None:
    """FP-08: once it is converted; its files have the old timestamps."""
    before = LakeStorage(str(tmp_path / "before"))
    old_lake(spark, before, tmp_path / "before")
    convert(before, bronze(before), "run")
    assert seen(before) == [1, 2, 3]

"""The archive on a real broker: both sources yield the same rows, and each record is in the lake exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.testing import assertDataFrameEqual, assertSchemaEqual

from pipeline.archive import Archived, ArchiveFailed, ArchiveOptions, archive, plan_archive
from pipeline.kafka_options import SparkKafkaOptions
from pipeline.kafka_range import Bounds, Range, RangeProblem
from pipeline.kafka_reader import KafkaUnreachable, bounds_of, read_ranges
from pipeline.lake import Table, bronze
from pipeline.storage import LakeStorage
from scripts.servers.kafka import KafkaServer
from tests.pipeline.broker import Source, Written, delete_before, kafka_options, make, make_anew, ours, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

both_sources = pytest.mark.parametrize("source", ["python", "jvm"])


@pytest.fixture
def table(lake_uri: str) -> Table:
    return bronze(LakeStorage(lake_uri))


def coordinates(spark: SparkSession, table: Table) -> list[tuple[int, int]]:
    """(partition, offset) of every row, sorted."""
    return sorted((row.partition, row.offset) for row in table.read(spark).select("partition", "offset").collect())


def test_both_sources_yield_the_same_rows(kafka: KafkaServer, topic: str, spark: SparkSession) -> None:
    """PL-K01, PL-K02, PL-K04, PL-K10, PL-K14, PL-K15, PL-T01: the JVM's client is 3.9 and the broker 4.x; transactions
    committed and aborted, null keys and values, repeated and empty headers, no text.
    """
    strange: list[Written] = [
        (None, None, 0, []),
        (b"", b"", 1, [("empty", b""), ("null", None), ("twice", b"1"), ("twice", b"2"), ("\u00e9", b"\xff")]),
        (b"\xff\x00", bytes(range(256)), 2, [("hookwire-event-id", b"x")]),
        (b"k", b"v", 2, [("hookwire-term", None), ("content-type", b"\xff"), ("other", b"1")]),
        (b"k", b"v", 2, [("hookwire-term", b"1"), ("content-type", b"a/b"), ("hookwire-term", b"2")]),
    ]
    make(kafka, topic, 3)
    write(kafka, topic, [ours(n, n % 3) for n in range(30)], [ours(99)], strange, [ours(77, 1)], abort=[1, 3])
    found = bounds_of(kafka_options(kafka), {topic: 3})
    ranges = [Range(topic, number, bounds.low, bounds.end) for (_, number), bounds in sorted(found.items())]
    python, jvm = (read_ranges(spark, kafka_options(kafka, source), ranges) for source in ("python", "jvm"))
    assertSchemaEqual(python.schema, jvm.schema, ignoreNullable=True)
    rows = python.collect()
    assertDataFrameEqual(rows, jvm.collect())
    assert (len(rows), sum(bounds.end for bounds in found.values())) == (35, 45)


@both_sources
def test_each_record_is_archived_exactly_once(
    kafka: KafkaServer, topic: str, spark: SparkSession, table: Table, source: Source
) -> None:
    """PL-01, PL-K13, PL-X01: batch by batch, again with nothing new, and with more."""
    wanted, told = ArchiveOptions((topic,), batch_records_max=10), []
    make(kafka, topic, 2)
    write(kafka, topic, [ours(n, n % 2) for n in range(1, 17)], [ours(n) for n in range(1, 4)], abort=[1])
    first = archive(lambda: spark, table, kafka_options(kafka, source), wanted, "1", told.append)
    again = archive(lambda: spark, table, kafka_options(kafka, source), wanted, "2")
    write(kafka, topic, [ours(17), ours(18, 1)])
    more = archive(lambda: spark, table, kafka_options(kafka, source), wanted, "3")
    assert (first.rows, again, more.rows, [done.batches for done in told]) == (16, Archived(), 2, [1, 2])
    rows = coordinates(spark, table)
    assert (len(rows), len(set(rows)), table.read(spark).where("quarantine IS NULL").count()) == (18, 18, 18)


def test_what_retention_deleted_is_named_and_goes_on_only_when_told_to(
    kafka: KafkaServer, topic: str, spark: SparkSession, table: Table
) -> None:
    """PL-K11, PL-X09: offset below retention."""
    make(kafka, topic)
    write(kafka, topic, [ours(n) for n in range(5)])
    archive(lambda: spark, table, kafka_options(kafka), ArchiveOptions((topic,)), "1")
    write(kafka, topic, [ours(n) for n in range(5, 10)])
    delete_before(kafka, topic, 8)
    lost = RangeProblem("lost", topic, 0, 6, 8)
    refused = archive(lambda: spark, table, kafka_options(kafka), ArchiveOptions((topic,)), "2")
    accepted = archive(lambda: spark, table, kafka_options(kafka), ArchiveOptions((topic,), accept_loss=True), "3")
    assert (refused, accepted) == (Archived(problems=(lost,)), Archived(1, 3, problems=(lost,)))
    assert next(table.history())["notes"] == {"ranges": [[topic, 0, 8, 12]], "lost": [[topic, 0, 6, 8]]}


def test_a_topic_that_was_made_anew_is_named_and_begins_again_only_when_told_to(
    kafka: KafkaServer, topic: str, spark: SparkSession, table: Table
) -> None:
    """Also when it is longer than the one before, so that its end tells nothing. GP-08: the id of
    the topic is a column, because offsets begin again.
    """
    make(kafka, topic)
    write(kafka, topic, [ours(1)])
    archive(lambda: spark, table, kafka_options(kafka), ArchiveOptions((topic,)), "1")
    make_anew(kafka, topic)
    write(kafka, topic, [ours(n) for n in range(2, 7)])
    anew = RangeProblem("anew", topic, 0, 2, 6)
    refused = archive(lambda: spark, table, kafka_options(kafka), ArchiveOptions((topic,)), "2")
    accepted = archive(lambda: spark, table, kafka_options(kafka), ArchiveOptions((topic,), accept_loss=True), "3")
    again = archive(lambda: spark, table, kafka_options(kafka), ArchiveOptions((topic,)), "4")
    assert (refused, accepted, again) == (Archived(problems=(anew,)), Archived(1, 5, problems=(anew,)), Archived())
    rows = table.read(spark).collect()
    numbers = sorted(row.event_number for row in rows)
    key = ("topic", "kafka_topic_id", "partition", "offset")
    keys = {tuple(row.asDict().get(name) for name in key) for row in rows}
    assert len(keys) == len(rows), "the key of the documentation is one"
    assert len({row.kafka_topic_id for row in rows} - {None}) == 2
    assert (numbers, next(table.history())["notes"]["anew"]) == ([1, 2, 3, 4, 5, 6], [[topic, 0, 2, 6]])


def test_a_range_that_ends_nowhere_is_an_error_that_names_the_place(
    kafka: KafkaServer, topic: str, spark: SparkSession
) -> None:
    """PL-K12: a bounded wait."""
    make(kafka, topic)
    write(kafka, topic, [ours(0)])
    beyond = read_ranges(spark, kafka_options(kafka, read_seconds=1), [Range(topic, 0, 0, 50)])
    with pytest.raises(Exception, match=f"Kafka topic {topic}, partition 0, offset 2: nothing arrived for 1 s"):
        beyond.collect()


def test_a_batch_that_fails_leaves_the_table_as_it_was(
    kafka: KafkaServer, topic: str, spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(kafka, topic)
    write(kafka, topic, [ours(0)])
    ends = {(topic, 0): Bounds(0, 50)}
    monkeypatch.setattr("pipeline.archive.bounds_of", lambda *_: ends)
    with pytest.raises(ArchiveFailed, match=f"Kafka topic {topic}, partition 0, offset 2: nothing arrived"):
        archive(lambda: spark, table, kafka_options(kafka, read_seconds=1), ArchiveOptions((topic,)), "1")
    assert table.snapshot().version == 0


def test_a_dry_run_needs_no_spark_and_leaves_out_what_is_not_ours(kafka: KafkaServer, topic: str, table: Table) -> None:
    for name in (f"{topic}-orders", f"{topic}-hookwire.progress", f"other-{topic}"):
        make(kafka, name)
        write(kafka, name, [ours(0)])
    plan = plan_archive(table, kafka_options(kafka), ArchiveOptions(prefix=f"{topic}-"))
    assert (plan.ranges, plan.problems) == ((Range(f"{topic}-orders", 0, 0, 2),), ())


def test_a_broker_that_does_not_answer_is_named(table: Table, free_port: int) -> None:
    with pytest.raises(KafkaUnreachable, match=f"Kafka at 127.0.0.1:{free_port}: "):
        plan_archive(table, SparkKafkaOptions(f"127.0.0.1:{free_port}", answer_seconds=1), ArchiveOptions())

"""Reads Kafka's topics and offsets in the driver, and the rows of a batch by either source."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from pyspark.sql import DataFrame, SparkSession

from pipeline.envelope import unfolded
from pipeline.kafka_options import SparkKafkaOptions
from pipeline.kafka_range import Bounds, Range, task_size, to_json
from pipeline.schema import KAFKA, RECORD
from pipeline.session import cores

__all__ = ["KafkaUnreachable", "bounds_of", "incarnations_of", "read_ranges", "source_rows", "topics_of"]

_TASKS_PER_CORE: Final = 2
_SILENT = logging.getLogger(f"{__package__}.kafka")
_SILENT.addHandler(logging.NullHandler())  # the client's final error contains the cause
_SILENT.propagate = False


class KafkaUnreachable(Exception):
    """Kafka does not answer, or refuses us; the text names the servers and the reason."""


def topics_of(options: SparkKafkaOptions, is_wanted: Callable[[str], bool]) -> dict[str, int]:
    """Return the wanted Kafka topics with their numbers of partitions. Raises :class:`KafkaUnreachable`."""
    try:
        found = _admin(options).list_topics(timeout=options.answer_seconds).topics
    except KafkaException as error:
        raise _unreachable(options, error) from error
    return {name: len(topic.partitions) for name, topic in sorted(found.items()) if is_wanted(name)}


def bounds_of(options: SparkKafkaOptions, topics: Mapping[str, int]) -> dict[tuple[str, int], Bounds]:
    """Return the first offset of each partition and the end of committed records, its last stable offset.

    Raises :class:`KafkaUnreachable`.
    """
    places = [TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)]
    if not places:
        return {}
    low = _listed(options, places, OffsetSpec.earliest())
    end = _listed(options, places, OffsetSpec.latest())
    return {place: Bounds(low[place], end[place]) for place in low}


def incarnations_of(options: SparkKafkaOptions, topics: Collection[str]) -> dict[str, str]:
    """Return the id that Kafka gave each topic; a topic that is created again has another id (KIP-516).

    Raises :class:`KafkaUnreachable`.
    """
    if not topics:
        return {}
    admin = _admin(options)  # a client without a reference is deleted and never answers
    seconds = options.answer_seconds
    asked = admin.describe_topics(TopicCollection(list(topics)), request_timeout=seconds)
    try:
        return {name: str(answer.result(2 * seconds).topic_id) for name, answer in asked.items()}
    except KafkaException as error:
        raise _unreachable(options, error) from error


def read_ranges(
    spark: SparkSession, options: SparkKafkaOptions, ranges: Sequence[Range], of_cores: int | None = None
) -> DataFrame:
    """Return the records as rows of ``schema.RECORD``, in two tasks for each core, or one for each partition.

    ``of_cores``: the number of cores, if it is known.
    """
    rows = source_rows(spark, options, ranges, of_cores)
    return unfolded(rows) if options.source == "jvm" else rows


def source_rows(
    spark: SparkSession, options: SparkKafkaOptions, ranges: Sequence[Range], of_cores: int | None = None
) -> DataFrame:
    """Return the rows of the source: ``schema.KAFKA`` for the source "jvm", ``schema.RECORD`` for ours."""
    offsets = sum(of.until - of.start for of in ranges)
    size = task_size(offsets, _TASKS_PER_CORE * (of_cores or cores(spark)))
    if options.source == "jvm":
        tasks = str(max(1, offsets // size))
        reader = spark.read.format("kafka").options(**options.java(), **_java_ranges(ranges), minPartitions=tasks)
        return reader.load().select(*KAFKA.names)
    from pipeline.kafka_source import KafkaSource

    spark.dataSource.register(KafkaSource)
    reader = spark.read.format(KafkaSource.name()).options(
        client_secrets=json.dumps(options.librdkafka()),
        ranges=to_json(ranges),
        read_seconds=str(options.read_seconds),
        task_offsets=str(size),
    )
    return reader.load().select(*RECORD.names)


def _java_ranges(ranges: Iterable[Range]) -> dict[str, str]:
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for of in ranges:
        starts.setdefault(of.topic, {})[str(of.partition)] = of.start
        ends.setdefault(of.topic, {})[str(of.partition)] = of.until
    assign = {topic: sorted(map(int, of)) for topic, of in starts.items()}
    return {
        "assign": json.dumps(assign), "startingOffsets": json.dumps(starts), "endingOffsets": json.dumps(ends),
        "includeHeaders": "true",
    }  # fmt: skip


def _listed(
    options: SparkKafkaOptions, places: Sequence[TopicPartition], what: OffsetSpec
) -> dict[tuple[str, int], int]:
    admin = _admin(options)  # a client without a reference is deleted and never answers
    seconds = options.answer_seconds
    asked = admin.list_offsets(
        dict.fromkeys(places, what), isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=seconds
    )
    try:
        return {(place.topic, place.partition): answer.result(2 * seconds).offset for place, answer in asked.items()}
    except KafkaException as error:
        raise _unreachable(options, error) from error


def _admin(options: SparkKafkaOptions) -> AdminClient:
    client = {name: value for name, value in options.librdkafka().items() if name != "isolation.level"}
    return AdminClient(client, logger=_SILENT)


def _unreachable(options: SparkKafkaOptions, error: KafkaException) -> KafkaUnreachable:
    reason = error.args[0]
    return KafkaUnreachable(f"Kafka at {options.bootstrap_servers}: {reason.str()}")

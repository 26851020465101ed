"""The archive against a plain Spark copy of the same Kafka topic, in one run (PL-01, PL-K10).

    python -m benchmarks.archive --events 1000000 --rounds 5

Records like the relay's (five headers, JSON of 100 bytes, 10,000 keys) lie in four partitions of a real broker. The
yardstick reads them with the same source and writes only the source's columns as Parquet. Spark's connector has eight;
our source has five more, for the headers of the envelope. The archive converts the envelope, checks every record, seals
it, counts, flushes files to disk, hashes them and makes the commit. The frame writes the same rows by Spark alone,
without flush, hash and commit. The bare frame has no seals either. For each source the four alternate. The first round
warms the JVM up and is not counted. The output has medians of events per second, the ratios of the archive, and the
least and the greatest seconds of each.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Literal

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from pipeline.archive import ArchiveOptions, archive, batch_rows, unarchived
from pipeline.audit.seal import NO_KEYS, SealKeys, sealed
from pipeline.delta.snapshot import Snapshot
from pipeline.kafka_jars import kafka_jars
from pipeline.kafka_options import SparkKafkaOptions
from pipeline.kafka_reader import source_rows
from pipeline.lake import bronze
from pipeline.schema import BRONZE_PARTITIONS
from pipeline.session import SessionOptions, spark_session
from pipeline.storage import LakeStorage
from scripts.servers.fleet import take_server
from scripts.servers.kafka_jars import cache_folder

TOPIC = "bench.orders"
PARTITIONS = 4
KEYS = 10_000
KEYS_OF_SEALS = SealKeys((bytes(range(32)),))
Source = Literal["jvm", "python"]
SOURCES: tuple[Source, ...] = ("jvm", "python")


def filled(bootstrap: str, events: int) -> None:
    """Create the topic and fill it with ``events`` records."""
    admin = AdminClient({"bootstrap.servers": bootstrap})  # a client without a reference is deleted and never answers
    made = admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
    made[TOPIC].result()
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 500_000})
    for number in range(1, events + 1):
        headers = [
            ("content-type", b"application/json"), ("hookwire-event-id", b"evt_abcd2345_%d" % number),
            ("hookwire-term", b"7"), ("hookwire-accepted-at", b"2026-01-15T09:00:00.123456+00:00"),
            ("hookwire-sequence", b"%d" % number),
        ]  # fmt: skip
        key = b"customer-%d" % (number % KEYS)
        value = json.dumps({"order": number, "note": "x" * 60}).encode()
        producer.produce(TOPIC, value, key, number % PARTITIONS, headers=headers)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def copied(spark: SparkSession, kafka: SparkKafkaOptions, folder: str) -> None:
    ranges = unarchived(Snapshot(), kafka, [TOPIC])
    source_rows(spark, kafka, ranges).write.parquet(folder)


def framed(spark: SparkSession, kafka: SparkKafkaOptions, folder: str, keys: SealKeys) -> None:
    rows = batch_rows(spark, kafka, unarchived(Snapshot(), kafka, [TOPIC]))
    sealed(rows, keys).write.partitionBy(*BRONZE_PARTITIONS).parquet(folder)


def archived(spark: SparkSession, kafka: SparkKafkaOptions, folder: str, events: int) -> None:
    options = ArchiveOptions((TOPIC,), seals=KEYS_OF_SEALS)
    done = archive(lambda: spark, bronze(LakeStorage(folder)), kafka, options, "bench")
    assert (done.rows, done.quarantined) == (events, 0), done


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def run(
    spark: SparkSession, bootstrap: str, folder: Path, events: int, rounds: int, sources: Collection[Source]
) -> None:
    for source in sources:
        kafka = SparkKafkaOptions(bootstrap, source=source)
        contenders: dict[str, list[float]] = {"copy": [], "bare frame": [], "frame": [], "archive": []}
        plain, unsealed, frame, ours = contenders.values()
        for number in range(rounds + 1):
            place = folder / f"{source}-{number}"
            plain.append(seconds(partial(copied, spark, kafka, f"{place}/copy")))
            unsealed.append(seconds(partial(framed, spark, kafka, f"{place}/bare", NO_KEYS)))
            frame.append(seconds(partial(framed, spark, kafka, f"{place}/frame", KEYS_OF_SEALS)))
            ours.append(seconds(partial(archived, spark, kafka, f"{place}/lake", events)))
            shutil.rmtree(place)
        for times in contenders.values():
            del times[0]  # the JVM was cold
        middle = {name: statistics.median(times) for name, times in contenders.items()}
        rates = "   ".join(f"{name} {events / each:9,.0f}/s" for name, each in middle.items())
        of = "   ".join(f"of the {name} {each / middle['archive']:5.2f}" for name, each in middle.items())
        print(f"{source:7} {rates}   {of}", flush=True)
        spans = (f"{name} {min(times):.2f}-{max(times):.2f}" for name, times in contenders.items())
        print(f"        seconds of {rounds} warm rounds: {', '.join(spans)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--source", choices=SOURCES, action="append", help="one source only (default: both)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hookwire-bench-") as name:
        folder = Path(name)
        kafka = take_server("kafka", folder, os.environ)
        try:
            filled(kafka.address, options.events)
            spark = spark_session(SessionOptions("benchmark", master="local[2]", jars=kafka_jars(cache_folder())))
            run(spark, kafka.address, folder, options.events, options.rounds, options.source or SOURCES)
            spark.stop()
        finally:
            kafka.discard()


if __name__ == "__main__":
    main()

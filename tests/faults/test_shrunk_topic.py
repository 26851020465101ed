"""A Kafka that has lost the end of a topic: its broker was killed, and the disk had not kept all."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from confluent_kafka import Producer

from pipeline.archive import Archived, ArchiveOptions, archive, plan_archive
from pipeline.delta.snapshot import Change, State
from pipeline.kafka_range import Range, RangeProblem
from pipeline.kafka_reader import incarnations_of
from pipeline.lake import bronze
from pipeline.storage import LakeStorage
from scripts.servers.kafka import KafkaServer
from tests.pipeline.broker import kafka_options, make

TOPIC = "orders"


def appended(kafka: KafkaServer, count: int) -> None:
    """So many records, each a batch of its own in the broker's file."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(count):
        producer.produce(TOPIC, b"%d" % number, partition=0)
        producer.flush()


def cut_to(batches: int, folder: Path) -> None:
    """What a disk that lies about its flushes leaves; indexes are made anew from the file."""
    [file] = folder.glob("*.log")
    kept, content = 0, file.read_bytes()
    for _ in range(batches):
        kept += 12 + struct.unpack_from(">i", content, kept + 8)[0]  # first offset, then the length of what follows
    os.truncate(file, kept)
    for index in folder.glob("*index"):
        index.unlink()


@pytest.mark.slow
def test_a_topic_that_has_shrunk_is_named_and_goes_on_at_its_end_only_when_told_to(
    servers_folder: Path, tmp_path: Path
) -> None:
    """What was archived stays; the records that come next are read, also where others lay before."""
    kafka = KafkaServer("forgetful", servers_folder / "forgetful")
    kafka.start()
    try:
        make(kafka, TOPIC)
        appended(kafka, 5)
        table, options = bronze(LakeStorage(str(tmp_path))), kafka_options(kafka)
        state = State({TOPIC: {0: 5}}, incarnations_of(options, [TOPIC]))
        table.commit(table.snapshot(), Change("archive", "1", state=state))
        kafka.kill()
        cut_to(3, kafka.folder / "data" / f"{TOPIC}-0")
        kafka.start()
        shrunk, wanted = RangeProblem("shrunk", TOPIC, 0, 5, 3), ArchiveOptions((TOPIC,))
        refused = archive(pytest.fail, table, options, wanted, "2")
        accepted = archive(pytest.fail, table, options, ArchiveOptions((TOPIC,), accept_loss=True), "3")
        appended(kafka, 4)
        assert (refused, accepted) == (Archived(problems=(shrunk,)), Archived(1, problems=(shrunk,)))
        assert plan_archive(table, options, wanted).ranges == (Range(TOPIC, 0, 3, 7),)
        assert next(table.history())["notes"]["shrunk"] == [[TOPIC, 0, 5, 3]]
    finally:
        kafka.discard()

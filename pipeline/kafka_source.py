"""Our Kafka source for Spark, in Python: it needs no jar and has the columns of the JVM's source.

It reads fixed ranges of offsets, one task for each piece of a range, and committed records only. A task ends when it
has passed the last offset of its range. It skips marks of transactions and aborted records. A task fails if no record
arrives for ``read_seconds``; the error names topic, partition and offset.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pipeline.kafka_range import Range, from_json
from pipeline.schema import ENVELOPE, RECORD

__all__ = ["KafkaReadError", "KafkaSource"]

_FETCH_RECORDS = 10_000
_FETCH_SECONDS = 1.0
_FIRST_MILLISECOND, _LAST_MILLISECOND = -62_135_596_800_000, 253_402_300_799_999
# A fetch need not wait for more data: all records of the range exist already.
_CLIENT = {"enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "error",
           "group.id": "hookwire.pipeline", "queued.max.messages.kbytes": 32_768, "fetch.wait.max.ms": 100}  # fmt: skip
_HEADER = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
_ARROW = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(_HEADER)),
        *((name, pa.binary()) for name in ENVELOPE.values()),
    ]
)
_ENVELOPE_NAMES = tuple(ENVELOPE.values())
_Headers = list[tuple[str, bytes | None]]


class KafkaReadError(Exception):
    """A range could not be read to its end; the text names topic, partition and offset."""


class KafkaSource(DataSource):
    """Options: ``client_secrets`` (JSON of librdkafka's settings), ``ranges`` (see ``kafka_range``), ``read_seconds``,
    ``task_offsets``.

    Spark masks values whose name contains "secret" in plans and event logs.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``spark.read.format(...)``."""
        return "hookwire-kafka"

    def schema(self) -> StructType:
        """Return Kafka's columns and those of the envelope (``schema.RECORD``)."""
        return RECORD

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of one batch."""
        del schema
        return _Reader(
            json.loads(self.options["client_secrets"]),
            from_json(self.options["ranges"]),
            float(self.options["read_seconds"]),
            int(self.options["task_offsets"]),
        )


@dataclass
class _Piece(InputPartition):
    range: Range


class _Reader(DataSourceReader):
    def __init__(
        self, client: Mapping[str, Any], ranges: Sequence[Range], read_seconds: float, task_offsets: int
    ) -> None:
        self._client = client
        self._ranges = ranges
        self._read_seconds = read_seconds
        self._task_offsets = task_offsets

    def partitions(self) -> Sequence[InputPartition]:
        return [_Piece(piece) for of in self._ranges for piece in of.parts(self._task_offsets)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Piece)
        wanted = partition.range
        with closing(Consumer({**self._client, **_CLIENT})) as consumer:
            consumer.assign([TopicPartition(wanted.topic, wanted.partition, wanted.start)])
            yield from self._batches(consumer, wanted)

    def _batches(self, consumer: Consumer, wanted: Range) -> Iterator[pa.RecordBatch]:
        reached, heard_at = wanted.start, time.monotonic()
        while reached < wanted.until:
            records = []
            for message in consumer.consume(_FETCH_RECORDS, _FETCH_SECONDS):
                if message.error() is None and message.offset() < wanted.until:
                    records.append(message)
                    reached = message.offset() + 1
                else:
                    reached = _passed(message, wanted, reached)
                if reached >= wanted.until:
                    break
            if records:
                heard_at = time.monotonic()
                yield _batch(wanted, records)
            elif reached < wanted.until and time.monotonic() - heard_at > self._read_seconds:
                raise KafkaReadError(f"{_place(wanted, reached)}: nothing arrived for {self._read_seconds:g} s")


def _passed(message: Message, wanted: Range, reached: int) -> int:
    """Return the offset up to which the range is read: that of a record behind it, or the committed end."""
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaReadError(f"{_place(wanted, reached)}: {error.str()}")
    offset: int = message.offset()
    return offset


def _place(wanted: Range, reached: int) -> str:
    return f"Kafka topic {wanted.topic}, partition {wanted.partition}, offset {reached}"


def _batch(wanted: Range, messages: Sequence[Message]) -> pa.RecordBatch:
    count, times = len(messages), [message.timestamp() for message in messages]
    found: list[_Headers] = [message.headers() or [] for message in messages]
    columns = [
        pa.array([message.key() for message in messages], pa.binary()),
        pa.array([message.value() for message in messages], pa.binary()),
        pa.repeat(pa.scalar(wanted.topic, pa.string()), count),
        pa.repeat(pa.scalar(wanted.partition, pa.int32()), count),
        pa.array([message.offset() for message in messages], pa.int64()),
        pa.array([_micros(at) for _, at in times], pa.int64()).cast(_ARROW.field("timestamp").type),
        pa.array([kind - 1 for kind, _ in times], pa.int32()),  # librdkafka counts from 1, Java from 0
        *_unfolded(found),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW)


def _micros(milliseconds: int) -> int | None:
    """Return a time in microseconds; null if it lies outside the years 1 to 9999, as ``pipeline.bronze`` has it."""
    return 1000 * milliseconds if _FIRST_MILLISECOND <= milliseconds <= _LAST_MILLISECOND else None


def _unfolded(found: Sequence[_Headers]) -> Iterator[pa.Array]:
    """Yield the column of headers, then one for each header of the envelope (see ``schema.RECORD``)."""
    by_name = [dict(headers) for headers in found]  # the last header of a name counts
    yield _others([_without_envelope(headers, named) for headers, named in zip(found, by_name, strict=True)])
    for name in _ENVELOPE_NAMES:
        yield pa.array([named.get(name) for named in by_name], pa.binary())


def _without_envelope(headers: _Headers, named: Mapping[str, bytes | None]) -> _Headers:
    if len(named) < len(headers):
        return headers
    return [each for each in headers if each[0] not in _ENVELOPE_NAMES or each[1] is None]


def _others(found: Sequence[_Headers]) -> pa.Array:
    """Return the headers as one list column. A record without headers has null, as in the JVM's source."""
    starts: list[int | None] = []
    names: list[str] = []
    values: list[bytes | None] = []
    for headers in found:
        starts.append(len(names) if headers else None)
        for name, value in headers:
            names.append(name)
            values.append(value)
    entries = pa.StructArray.from_arrays(
        [pa.array(names, pa.string()), pa.array(values, pa.binary())], fields=list(_HEADER)
    )
    return pa.ListArray.from_arrays(pa.array([*starts, len(names)], pa.int32()), entries, type=pa.list_(_HEADER))

"""The session and the columns: what the relay wrote becomes typed, and what is wrong is named and kept."""

from __future__ import annotations

import json
import sys
from datetime import UTC, date, datetime
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.testing import assertSchemaEqual

from pipeline.bronze import REASONS, to_bronze
from pipeline.envelope import unfolded
from pipeline.frame import frame_of
from pipeline.kafka_source import _micros, _unfolded
from pipeline.schema import BRONZE, EVENT_COLUMNS, KAFKA

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

ROOT = Path(__file__).parents[2]
SEEN = ("headers", "timestamp", "archived_at")
NOW = datetime(2026, 1, 20, 12, 0, tzinfo=UTC)
ENVELOPE = {
    "hookwire-event-id": b"evt_abcd2345_42",
    "hookwire-sequence": b"42",
    "hookwire-term": b"3",
    "hookwire-accepted-at": b"2026-01-15T23:30:00.250000+00:00",
}


def kafka_row(offset: int, value: bytes | None = b"{}", **headers: bytes | None) -> tuple[Any, ...]:
    """A record of ours; headers are named with underscores, and None leaves one out."""
    given = {name if name.startswith("ce_") else name.replace("_", "-"): content for name, content in headers.items()}
    kept = [(name, content) for name, content in {**ENVELOPE, **given}.items() if content is not None]
    return (b"ada", value, "orders", 0, offset, NOW, 0, kept)


def archived(spark: SparkSession, *rows: tuple[Any, ...]) -> list[Row]:
    """Rows of bronze, in the order of their offsets."""
    records = unfolded(frame_of(spark, rows, KAFKA))
    return to_bronze(records, NOW).orderBy("offset").collect()


def test_the_session_keeps_the_rules(spark: SparkSession) -> None:
    """PL-V02, PL-V05: UTC, no bars, no pages, and workers that run this Python."""
    names = ("spark.sql.session.timeZone", "spark.ui.enabled", "spark.ui.showConsoleProgress", "spark.driver.host")
    worker = spark.range(1).select(F.udf(lambda _: __import__("sys").executable)("id")).collect()[0][0]
    assert ({name: spark.conf.get(name) for name in names}, worker) == (
        dict(zip(names, ("UTC", "false", "false", "127.0.0.1"), strict=True)),
        sys.executable,
    )


def test_the_lake_knows_every_member_of_an_event() -> None:
    """PL-T07: openapi/event.schema.json, and no code of the other rooms."""
    event = json.loads((ROOT / "openapi" / "event.schema.json").read_text(encoding="utf-8"))
    assert (EVENT_COLUMNS.keys(), set(EVENT_COLUMNS.values()) - set(BRONZE.names)) == (set(event["properties"]), set())


def test_coordinates_and_headers_of_a_record_become_columns(spark: SparkSession) -> None:
    """PL-C03, PL-T03, PL-X01: coordinates, event id, the outbox's id and the term."""
    [row] = archived(spark, kafka_row(7, content_type=b"text/plain", ce_type=b"order.created"))
    assert (row.timestamp, row.archived_at, row.headers) == (
        datetime(2026, 1, 20, 12), datetime(2026, 1, 20, 12), [("ce_type", bytearray(b"order.created"))],
    )  # fmt: skip
    assert {name: value for name, value in row.asDict().items() if name not in SEEN} == {
        "topic": "orders", "partition": 0, "offset": 7, "timestamp_type": 0, "key": b"ada", "value": b"{}",
        "event_id": "evt_abcd2345_42", "event_number": 42, "sequence": 42, "term": 3, "content_type": "text/plain",
        "accepted_at": datetime(2026, 1, 15, 23, 30, 0, 250_000), "ce_id": None, "ce_source": None,
        "ce_type": "order.created", "ce_subject": None, "ce_time": None, "kafka_topic_id": None, "quarantine": None,
        "seal": None, "seal_key": None, "dt": date(2026, 1, 15),
    }  # fmt: skip


def test_an_attribute_that_is_no_utf8_has_no_column_and_stays_a_header(spark: SparkSession) -> None:
    """Readers in Python ended with a UnicodeDecodeError, because a text of Parquet is UTF-8."""
    [row] = archived(spark, kafka_row(7, ce_type=b"\xff", ce_subject=b"\xc3\xa9"))
    assert (row.ce_type, row.ce_subject, row.quarantine) == (None, "\u00e9", None)
    assert [(each.key, bytes(each.value)) for each in row.headers] == [
        ("ce_type", b"\xff"),
        ("ce_subject", b"\xc3\xa9"),
    ]


def test_what_is_wrong_is_named_and_nothing_is_dropped(spark: SparkSession) -> None:
    """Bad input: each row goes to the lake, with its reasons."""
    wrong = {
        "event_id": kafka_row(0, hookwire_event_id=b"somebody-elses"),
        "sequence": kafka_row(1, hookwire_sequence=b"\xff"),
        "term": kafka_row(2, hookwire_term=None),
        "accepted_at": kafka_row(3, hookwire_accepted_at=b"yesterday"),
        "future": kafka_row(4, hookwire_accepted_at=b"2031-01-01T00:00:00Z"),
        "past": kafka_row(5, hookwire_accepted_at=b"1970-01-01T00:00:00Z"),
        "timestamp": (*kafka_row(6)[:5], None, *kafka_row(6)[6:]),
        "headers": (*kafka_row(7)[:7], [*ENVELOPE.items(), ("hookwire-term", b"3")]),
        "value": kafka_row(8, None),
    }
    rows = archived(spark, *wrong.values())
    assert [row.quarantine for row in rows] == [[reason] for reason in wrong]
    assert wrong.keys() == REASONS.keys()
    assert {row.dt for row in rows if {"accepted_at", "future", "past"} & {*row.quarantine}} == {NOW.date()}


def test_a_time_that_readers_cannot_hold_is_quarantined(spark: SparkSession) -> None:
    """GP-16: the year 10000 stayed in `accepted_at`, and Python's readers of the lake raised on it."""
    times = [b"10000-01-01T00:00:00Z", b"9999-12-31T12:00:00Z", b"294247-01-10T00:00:00Z", b"-0001-01-01T00:00:00Z",
             b"0000-01-01T00:00:00Z"]  # fmt: skip
    records = unfolded(frame_of(spark, [kafka_row(n, hookwire_accepted_at=at) for n, at in enumerate(times)], KAFKA))
    late = records.withColumn("timestamp", F.timestamp_seconds(F.lit(253_402_300_800)))
    rows = to_bronze(late, NOW).orderBy("offset").collect()
    assert [(row.accepted_at, row.timestamp, row.quarantine) for row in rows] == [
        (None, None, ["accepted_at", "timestamp"])
    ] * len(times)
    kept = [{each.key: bytes(each.value) for each in row.headers}["hookwire-accepted-at"] for row in rows]
    assert (kept, {row.dt for row in rows}) == (times, {NOW.date()})


def test_a_time_that_is_no_time_for_arrow_does_not_stop_the_source() -> None:
    """GP-16: a producer may name any number of milliseconds."""
    days = [-(2**63), -62_135_596_800_001, 0, 253_402_300_799_999, 253_402_300_800_000, 2**63 - 1]
    assert [_micros(at) for at in days] == [None, None, 0, 253_402_300_799_999_000, None, None]


def test_each_record_has_the_id_of_its_topic(spark: SparkSession) -> None:
    """GP-08: (topic, partition, offset) is no key after a topic was made anew."""
    rows = [kafka_row(1), (*kafka_row(2)[:2], "carts", *kafka_row(2)[3:])]
    records = unfolded(frame_of(spark, rows, KAFKA))
    known: list[dict[str, str]] = [{"orders": "x", "carts": "y"}, {"orders": "x", "other": "z"}, {}]
    columns = [to_bronze(records, NOW, ids).select("offset", F.lit(n).alias("n"), "kafka_topic_id")
               for n, ids in enumerate(known)]  # fmt: skip
    found = reduce(DataFrame.unionByName, columns).orderBy("n", "offset").collect()
    assert [row.kafka_topic_id for row in found] == ["x", "y", "x", None, None, None]


def test_strangers_records_are_kept_too(spark: SparkSession) -> None:
    """No headers, no key, no value, or a payload of any bytes."""
    rows = [(None, None, "orders", 0, 1, NOW, -1, None), (b"\xff", b"\x00\xff", "orders", 0, 2, NOW, 1, [])]
    bronze = to_bronze(unfolded(frame_of(spark, rows, KAFKA)), NOW).orderBy("offset")
    assertSchemaEqual(bronze.schema, BRONZE, ignoreNullable=True)
    assert [(row.key, row.value, row.quarantine) for row in bronze.collect()] == [
        (None, None, ["event_id", "term", "accepted_at", "value"]),
        (b"\xff", b"\x00\xff", ["event_id", "term", "accepted_at"]),
    ]


def test_a_header_is_stored_once(spark: SparkSession) -> None:
    """FP-15: one that is read into a column is not in `headers` too; the nested column was 27 % of the archive."""
    rows = [
        kafka_row(0, content_type=b"text/plain"),
        kafka_row(1, traceparent=b"00-1"),
        kafka_row(2, hookwire_term=b"three", content_type=b"\xff"),
        (*kafka_row(3)[:7], [*ENVELOPE.items(), ("hookwire-term", None)]),
        (*kafka_row(4)[:7], [*ENVELOPE.items(), ("hookwire-sequence", b"43")]),
        (*kafka_row(5)[:7], [("content-type", None), *ENVELOPE.items()]),
    ]
    found = [
        [(name, content and bytes(content)) for name, content in row.headers or ()] for row in archived(spark, *rows)
    ]
    assert found == [
        [],
        [("traceparent", b"00-1")],
        [("hookwire-term", b"three"), ("content-type", b"\xff")],
        [*ENVELOPE.items(), ("hookwire-term", None)],
        [*ENVELOPE.items(), ("hookwire-sequence", b"43")],
        [("content-type", None)],
    ]


def test_our_source_takes_the_envelope_out_of_the_headers() -> None:
    """FP-15: in Python, where headers are objects already; as the JVM's rows, see test_archive.py."""
    found = [
        [*ENVELOPE.items(), ("traceparent", b"00-1")],
        [],
        [("hookwire-term", b"1"), ("hookwire-term", b"2")],
        [("content-type", None)],
    ]
    headers, event_id, _, term, _, content_type = (column.to_pylist() for column in _unfolded(found))
    assert [[tuple(each.values()) for each in of or ()] for of in headers] == [
        [("traceparent", b"00-1")], [], found[2], found[3],
    ]  # fmt: skip
    assert (event_id, term, content_type) == (
        [b"evt_abcd2345_42", None, None, None], [b"3", None, b"2", None], [None] * 4,
    )  # fmt: skip

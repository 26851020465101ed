"""relay/kafka/source/incoming.py: what a record becomes, without a server."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from typing import Any

import pytest

from relay.kafka.source.incoming import digest_of, read_record
from relay.source import IntakeRefused, SourceMessage

LIMIT = 1_000


@dataclass(frozen=True)
class Record:
    """A record as aiokafka has it."""

    key: bytes | None = None
    value: bytes | None = b"v"
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp: int = -1
    topic: str = "stock"
    partition: int = 3
    offset: int = 7


ORIGIN = {"x-kafka-topic": "stock", "x-kafka-partition": "3", "x-kafka-offset": "7"}


def read(**fields: Any) -> SourceMessage:
    found = read_record(Record(**fields), LIMIT).read
    assert isinstance(found, SourceMessage)
    return found


@pytest.mark.parametrize(
    ("key", "found"),
    [
        (b"shoe", "shoe"),
        ("größe".encode(), "größe"),
        (b"\x00\x01", "%00%01"),
        (b"\xff", "%FF"),
        (None, None),
        (b"", f"sha256-{hashlib.sha256(b'').hexdigest()}"),
        (b"k" * 1_048_576, f"sha256-{hashlib.sha256(b'k' * 1_048_576).hexdigest()}"),
    ],
    ids=["text", "UTF-8", "control characters", "no text", "none", "empty", "1 MiB"],
)
def test_each_key_is_an_ordering_key(key: bytes | None, found: str | None) -> None:
    """KS-16."""
    assert read(key=key).key == found


def test_headers_are_text_or_are_left_out_and_counted() -> None:
    headers = (
        ("Content-Type", b"text/plain"), ("A", b"1"), ("a", b"2"), ("lines", b"1\n2"), ("bytes", b"\xff"),
        ("bad name", b"x"), ("hookwire-hops", b"2"), ("hookwire-term", b"9"), ("hookwire-retry", b"never"),
        ("hookwire-event-id", b"evt_a_1"),
    )  # fmt: skip
    found = read(headers=headers)

    assert found == SourceMessage(
        "", "stock", "evt_a_1", None, "2", "text/plain", {**ORIGIN, "a": "1", "lines": "1%0A2", "bytes": "%FF"}, b"v",
        ("reserved", "twice", "name"),
    )  # fmt: skip


def test_a_long_partition_key_orders_the_events_by_its_hash() -> None:
    """Such records had no order."""
    found = read(key=None, headers=(("ce_partitionkey", b"p" * 1_025),))
    assert found.key == f"sha256-{hashlib.sha256(b'p' * 1_025).hexdigest()}"


def test_attributes_of_a_cloudevent_come_under_their_names() -> None:
    found = read(headers=(("ce_type", b"t"), ("ce-source", b"/s"), ("ce_partitionkey", b"p")))

    assert (found.key, {name: value for name, value in found.headers.items() if name.startswith("ce-")}) == (
        "p", {"ce-type": "t", "ce-source": "/s", "ce-partitionkey": "p"},
    )  # fmt: skip


@pytest.mark.parametrize(("key", "tombstone"), [(b"k", "true"), (None, None)])
def test_a_null_value_is_a_tombstone_if_it_has_a_key(key: bytes | None, tombstone: str | None) -> None:
    found = read(key=key, value=None)

    assert (found.body, found.headers.get("hookwire-tombstone")) == (b"", tombstone)


@pytest.mark.parametrize(
    ("milliseconds", "found"),
    [(0, "1970-01-01T00:00:00Z"), (1_767_225_600_001, "2026-01-01T00:00:00.001000Z"), (-5, None), (2**62, None)],
)
def test_a_timestamp_is_a_header_unless_no_calendar_has_it(milliseconds: int, found: str | None) -> None:
    """KS-17."""
    assert read(timestamp=milliseconds).headers.get("x-kafka-timestamp") == found


def test_the_schema_id_of_a_value_is_a_header() -> None:
    assert read(value=b"\0\0\0\1\2avro").headers["x-kafka-schema-id"] == "258"


def test_a_value_that_is_too_large_is_refused_and_its_bytes_stay() -> None:
    found = read_record(Record(value=b"v" * 1_001), LIMIT)

    assert isinstance(found.read, IntakeRefused)
    assert (found.read.reason, found.raw.value) == ("too_large", b"v" * 1_001)


def test_another_record_has_another_digest() -> None:
    base = Record(key=b"k")
    others = [dataclasses.replace(base, **change) for change in (
        {"key": None}, {"key": b""}, {"value": b"w"}, {"timestamp": 1}, {"key": b"kv", "value": b""},
    )]  # fmt: skip

    assert len({digest_of(record) for record in (base, *others)}) == 6

"""Parsing of Kafka records that become events.

=============================  =================================================================================
value                          the body; a null value with a key makes a tombstone
key                            the ordering key. A key that is no text in one line is percent-encoded; a key of
                               more than 1,024 bytes, or of none, becomes ``sha256-`` and its hash
header ``content-type``        the content type; a type that no event can have is left out
headers ``ce_<name>``          CloudEvents attributes; also ``ce-<name>``
header ``hookwire-hops``       the number of hubs that the record has passed
other headers                  lower-case names, and text: see :mod:`relay.amqp.incoming_header`
topic, partition, offset       ``x-kafka-topic``, ``x-kafka-partition``, ``x-kafka-offset``
timestamp                      ``x-kafka-timestamp``, unless it is negative
schema of the value            ``x-kafka-schema-id``, where the value begins as a schema registry's client writes it
left out                       another hub's ``hookwire-*`` headers
=============================  =================================================================================

A record is refused only if its value is too large.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, Protocol

from event.hops import HOPS_HEADER
from event.timestamp import format_timestamp
from event.tombstone import TOMBSTONE_HEADER
from event.topic import KEY_BYTES_MAX, key_or_digest
from relay.amqp.incoming_header import OTHER_HUBS, MessageHeaders, text_of
from relay.source import IntakeRefused, RawRecord, SourceMessage, SourceRecord

__all__ = ["KafkaRecord", "digest_of", "read_record"]

_ATTRIBUTE_PREFIXES: Final = ("ce_", "ce-")
_EVENT_ID: Final = "hookwire-event-id"
_NO_HOPS: Final = "0"
_READ_APART: Final = ("content-type", HOPS_HEADER, _EVENT_ID)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECONDS_MAX: Final = 253_402_300_799_999
"""The last moment that a calendar of four digits has."""
_SCHEMA_BYTES: Final = 5
_SHORT_BYTES: Final = 64


class KafkaRecord(Protocol):
    """A record as aiokafka returns it."""

    @property
    def topic(self) -> str:
        """Return the name of the Kafka topic."""
        ...

    @property
    def partition(self) -> int:
        """Return the number of the partition."""
        ...

    @property
    def offset(self) -> int:
        """Return the offset."""
        ...

    @property
    def timestamp(self) -> int:
        """Return milliseconds since 1970; below 0 if there is no timestamp."""
        ...

    @property
    def key(self) -> bytes | None:
        """Return the key."""
        ...

    @property
    def value(self) -> bytes | None:
        """Return the value; None for a tombstone."""
        ...

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        """Return the headers in their order."""
        ...


def read_record(record: KafkaRecord, body_bytes_max: int) -> SourceRecord:
    """Return the content of one record, or the reason why it can be no event."""
    at, at_text = _moment(record.timestamp)
    raw = RawRecord(record.key, record.value, record.headers, at)
    if not record.headers:  # the usual case, and the fast one
        kept: dict[str, str] = {}
        key, body = _add_own(kept, record, at_text), record.value or b""
        message = SourceMessage("", record.topic, "", key, _NO_HOPS, None, kept, body)
    else:
        headers = MessageHeaders()
        given = {name.lower(): value for name, value in reversed(record.headers)}
        headers.add_publishers(record.headers, _ATTRIBUTE_PREFIXES, _is_passed_over)
        key, body = _add_own(headers.kept, record, at_text), record.value or b""
        message = SourceMessage(
            "", record.topic, _text(given.get(_EVENT_ID)), key, headers.hops(_text(given.get(HOPS_HEADER)) or _NO_HOPS),
            headers.content_type(_text(given.get("content-type")) or None), headers.kept, body, tuple(headers.left_out),
        )  # fmt: skip
    if len(body) > body_bytes_max:
        refused = IntakeRefused("too_large", f"the value has {len(body)} bytes, more than {body_bytes_max}")
        return SourceRecord(record.offset, digest_of(record), raw, refused, key)
    return SourceRecord(record.offset, digest_of(record), raw, message, key)


def digest_of(record: KafkaRecord) -> bytes:
    """Return a hash of key, value and timestamp."""
    key, value = record.key, record.value or b""
    named = b"-" if key is None else b"%d\0%b" % (len(key), key)
    return hashlib.sha256(b"%d\0%b%b" % (record.timestamp, named, value)).digest()[:16]


@lru_cache(maxsize=256)
def _moment(milliseconds: int) -> tuple[datetime | None, str]:
    """Return a timestamp and its text; None and '' if no calendar has it. Records of a batch often share theirs."""
    if not 0 <= milliseconds <= _MILLISECONDS_MAX:
        return None, ""
    at = _EPOCH + timedelta(milliseconds=milliseconds)
    return at, format_timestamp(at)


def _add_own(headers: dict[str, str], record: KafkaRecord, at_text: str) -> str | None:
    """Add where the record comes from, in place of producer's headers of these names; return the ordering key."""
    headers["x-kafka-topic"] = record.topic
    headers["x-kafka-partition"] = str(record.partition)
    headers["x-kafka-offset"] = str(record.offset)
    if at_text:
        headers["x-kafka-timestamp"] = at_text
    value = record.value
    if value is not None and len(value) >= _SCHEMA_BYTES and value[0] == 0:
        headers["x-kafka-schema-id"] = str(int.from_bytes(value[1:_SCHEMA_BYTES], "big"))
    partition_key = headers.get("ce-partitionkey")
    key = _key(record.key) if record.key is not None else key_or_digest(partition_key) if partition_key else None
    if value is None and key is not None:
        headers[TOMBSTONE_HEADER] = "true"
    return key


def _is_passed_over(name: str) -> bool:
    return name in _READ_APART or name in OTHER_HUBS or name == TOMBSTONE_HEADER


def _key(key: bytes) -> str:
    return _short_key(key) if len(key) <= _SHORT_BYTES else _any_key(key)


@lru_cache(maxsize=4096)
def _short_key(key: bytes) -> str:
    """Remember the ordering keys of the last keys: most records have one of them."""
    return _any_key(key)


def _any_key(key: bytes) -> str:
    return key_or_digest(text_of(key) if len(key) <= KEY_BYTES_MAX else "", key)


def _text(value: bytes | None) -> str:
    return text_of(value) if value else ""

"""CloudEvents on brokers for round trips: the product's writers, and a reader of what they write."""

from __future__ import annotations

from collections.abc import Mapping

from event.attribute import HEADER_PREFIX, encode_header_value
from event.carrier import AMQP_PREFIX, KAFKA_PREFIX
from event.cloudevents import decode_http
from event.event import Draft, Event
from relay.amqp.message import message_of
from relay.kafka.headers import Headers
from relay.record import Record

__all__ = ["amqp_headers", "kafka_headers", "read_amqp", "read_kafka"]


def kafka_headers(event: Event) -> dict[str, bytes]:
    """Return the headers of the Kafka record, without those of hookwire."""
    return dict(Headers(1, own=False).of(_record(event))[0])


def amqp_headers(event: Event) -> dict[str, str]:
    """Return the headers of the AMQP message, without those of hookwire."""
    return {name: str(value) for name, value in message_of(_record(event), 1, own_headers=False).headers.items()}


def read_kafka(headers: Mapping[str, bytes], payload: bytes) -> Draft:
    """Read a record that :func:`kafka_headers` belongs to."""
    texts = {name: value.decode() for name, value in headers.items()}
    return _read(texts, KAFKA_PREFIX, texts.get("content-type"), payload)


def read_amqp(headers: Mapping[str, str], content_type: str | None, payload: bytes) -> Draft:
    """Read a message that :func:`amqp_headers` belongs to."""
    return _read(headers, AMQP_PREFIX, content_type, payload)


def _record(event: Event) -> Record:
    return Record(
        id=event.id, shard=0, event_id=event.event_id, tenant="default", topic=event.topic, key=event.key,
        sequence=event.sequence, content_type=event.content_type, headers=event.headers, payload=event.payload,
        accepted_at=event.accepted_at,
    )  # fmt: skip


def _read(headers: Mapping[str, str], prefix: str, content_type: str | None, payload: bytes) -> Draft:
    fields = [
        ((HEADER_PREFIX + name.removeprefix(prefix)).encode(), encode_header_value(value).encode())
        for name, value in headers.items()
        if name.startswith(prefix)
    ]
    [draft] = decode_http("orders", None, content_type, fields, payload)
    return draft

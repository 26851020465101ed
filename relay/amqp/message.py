"""AMQP message: builds the AMQP 0-9-1 message of a record (RO-15, RQ-10, WH-C09).

The body is the payload, byte for byte. Properties and headers hold all other fields. So a consumer can drop repetitions
(``message_id``), check the order (``hookwire-sequence``) and detect a former leader (``hookwire-term``):

============================  ==================================================================================
``message_id``                the event's public id, the same on every transport
``timestamp``                 when the event was accepted, in seconds; exact in the header ``hookwire-accepted-at``
``content_type``              the publisher's
``delivery_mode``             2: kept on disk by durable queues (RQ-03)
``cloudEvents_<name>``        the CloudEvents attributes; RabbitMQ shows them to AMQP 1.0 clients as such. By option,
                              ``ce-<name>`` instead, or both
``hookwire-tombstone``        "true" for a tombstone, which has an empty body
other headers                 the publisher's, unchanged
``hookwire-*``                event-id, topic, key, sequence, term, accepted-at. A publisher's headers of such names
                              are left out, except ``hookwire-hops``
============================  ==================================================================================

The ``hookwire-*`` headers can be switched off; ``message_id`` and ``timestamp`` stay.

A record that does not fit the protocol is refused before it is sent. For a malformed message, a broker would close the
connection with all other messages in flight.
"""

from __future__ import annotations

from datetime import UTC

from aio_pika import DeliveryMode, Message

from event.carrier import AttributePrefixes, amqp_names
from event.hops import HOPS_HEADER
from event.tombstone import TOMBSTONE_HEADER
from relay.record import Record
from relay.sink import Refusal

__all__ = ["Unsendable", "message_of", "routing_key_of"]

SHORT_BYTES_MAX = 255  # AMQP 0-9-1, section 4.2.5.3: short string
HEADER_NAME_BYTES_MAX = 128  # AMQP 0-9-1, section 4.2.5.5: field name
HEADERS_BYTES_MAX = 64 * 1024  # All headers must fit in one frame; RabbitMQ's default limit is 128 KiB.
_OURS = "hookwire-"
_PASSED_ON = (HOPS_HEADER, TOMBSTONE_HEADER)  # The hops end loops through consumers that publish again.


class Unsendable(Exception):
    """AMQP cannot carry a record; :attr:`refusal` holds the reason."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal


def message_of(
    record: Record, term: int, *, own_headers: bool = True, attributes: AttributePrefixes = "cloudEvents_"
) -> Message:
    """Build the persistent message of one record. Raise :class:`Unsendable`."""
    headers: dict[str, str | int] = {
        named: value
        for name, value in record.headers.items()
        if name in _PASSED_ON or not name.startswith(_OURS)
        for named in amqp_names(name, attributes)
    }
    if own_headers:
        headers |= _own_headers(record, term)
    _check(record, headers)
    return Message(
        record.payload,
        headers={**headers},
        content_type=record.content_type,
        delivery_mode=DeliveryMode.PERSISTENT,
        message_id=record.event_id,
        timestamp=record.accepted_at,
    )


def _own_headers(record: Record, term: int) -> dict[str, str | int]:
    headers: dict[str, str | int] = {
        "hookwire-event-id": record.event_id,
        "hookwire-topic": record.topic,
        "hookwire-term": term,
        "hookwire-accepted-at": record.accepted_at.astimezone(UTC).isoformat(),
    }
    if record.key is not None:
        headers["hookwire-key"] = record.key
    if record.sequence is not None:
        headers["hookwire-sequence"] = record.sequence
    return headers


def routing_key_of(record: Record) -> str:
    """Return the routing key in the topic's settings, or its name. Raise :class:`Unsendable` above 255 bytes."""
    routing_key = record.amqp_routing_key if record.amqp_routing_key is not None else record.topic
    if len(routing_key.encode()) > SHORT_BYTES_MAX:
        detail = f"the topic's AMQP routing key has more than {SHORT_BYTES_MAX} bytes"
        raise Unsendable(Refusal(record, "topic", "routing_key_too_long", detail))
    return routing_key


def _check(record: Record, headers: dict[str, str | int]) -> None:
    sizes = [(len(name.encode()), len(str(value).encode())) for name, value in headers.items()]
    if any(not 1 <= name_bytes <= HEADER_NAME_BYTES_MAX for name_bytes, _ in sizes):
        detail = f"a header's name must have 1 to {HEADER_NAME_BYTES_MAX} bytes on AMQP"
        raise Unsendable(Refusal(record, "record", "header_name_length", detail))
    if sum(name_bytes + value_bytes for name_bytes, value_bytes in sizes) > HEADERS_BYTES_MAX:
        detail = f"the headers have more than {HEADERS_BYTES_MAX} bytes together"
        raise Unsendable(Refusal(record, "record", "headers_too_large", detail))
    if len((record.content_type or "").encode()) > SHORT_BYTES_MAX:
        detail = f"the content type has more than {SHORT_BYTES_MAX} bytes"
        raise Unsendable(Refusal(record, "record", "content_type_too_long", detail))

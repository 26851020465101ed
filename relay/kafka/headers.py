"""Headers of a Kafka record: the publisher's own, then ours (RO-15, WH-C08).

``content-type``, ``ce_<attribute>`` for CloudEvents attributes, any other publisher's header under its own name, then

* ``hookwire-event-id``: the public id, the same on every transport;
* ``hookwire-sequence``: rises per key; absent where the topic keeps no order;
* ``hookwire-term``: the term under which it was sent;
* ``hookwire-accepted-at``: ISO 8601, in UTC.

A publisher's header that begins with ``hookwire-`` is left out, because consumers trust these names. The exception is
``hookwire-hops``: a consumer that publishes again has to pass it on, or events loop (EG-17). Our own headers can be
switched off; a publisher's headers with such names are still left out.
"""

from __future__ import annotations

from datetime import datetime

from event.carrier import kafka_name
from event.hops import HOPS_HEADER
from event.tombstone import TOMBSTONE_HEADER
from relay.record import Record

__all__ = ["Headers", "KafkaHeader"]

KafkaHeader = tuple[str, bytes]

_NAMES_MAX = 1_024
_PASSED_ON = (HOPS_HEADER, TOMBSTONE_HEADER)


class Headers:
    """Writes the headers of one term's records, and caches the constant parts. ``own``: also write event, sequence,
    term and moment.
    """

    def __init__(self, term: int, *, own: bool = True) -> None:
        self._own = own
        self._term: KafkaHeader = ("hookwire-term", b"%d" % term)
        self._names: dict[str, str] = {}
        self._moment: datetime | None = None
        self._accepted_at: KafkaHeader = ("", b"")
        self._milliseconds = 0

    def of(self, record: Record) -> tuple[list[KafkaHeader], int]:
        """Return the headers of a record, and its timestamp: its acceptance, in milliseconds since 1970."""
        if record.accepted_at != self._moment:
            self._set_moment(record.accepted_at)
        if record.kafka_headers is not None:
            return list(record.kafka_headers), self._milliseconds
        headers: list[KafkaHeader] = []
        if self._own:
            headers = [("hookwire-event-id", record.event_id.encode()), self._term, self._accepted_at]
            if record.sequence is not None:
                headers.append(("hookwire-sequence", b"%d" % record.sequence))
        if record.headers or record.content_type is not None:
            headers[:0] = self._of_publisher(record)
        return headers, self._milliseconds

    def _of_publisher(self, record: Record) -> list[KafkaHeader]:
        headers = [] if record.content_type is None else [("content-type", record.content_type.encode())]
        for name, value in record.headers.items():
            kafka_name = self._names.get(name) or self._name(name)
            if kafka_name in _PASSED_ON or not kafka_name.startswith("hookwire-"):
                headers.append((kafka_name, value.encode()))
        return headers

    def _name(self, name: str) -> str:
        if len(self._names) >= _NAMES_MAX:
            self._names.clear()
        return self._names.setdefault(name, kafka_name(name))

    def _set_moment(self, moment: datetime) -> None:
        # Events of one commit share it, and neighbours in the outbox are often of one commit.
        self._moment = moment
        self._accepted_at = ("hookwire-accepted-at", moment.isoformat().encode())
        self._milliseconds = int(moment.timestamp() * 1000)

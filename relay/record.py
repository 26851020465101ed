"""Outbox record: one event that is owed to one sink."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from event.identity import name_of
from event.tombstone import is_tombstone

__all__ = ["Record", "record_from_row"]


class Record(NamedTuple):
    """A record for a sink to send. It is a tuple, because each event needs one, and creating a frozen dataclass takes
    four times as long.

    ``id`` rises in commit order per (topic, key); ``sequence`` is the same number, or None where the topic keeps
    no order. ``headers`` has lower-case names, CloudEvents attributes as ``ce-*``. ``event_id`` is the public
    id, the same on every transport. ``kafka_topic``, ``amqp_exchange`` and ``amqp_routing_key`` are the topic's
    own settings, None for the default. ``amqp_exchange_type``: the exchange is declared as one of this type; None: a
    topic's own exchange has to exist. ``amqp_vhost``: the virtual host of a mirror; None: that of the sink's URL.

    Only compat mode sets ``kafka_headers``, which are sent unchanged and without our headers. ``tombstone``: the value
    is null on Kafka, and the body empty elsewhere.
    """

    id: int
    shard: int
    event_id: str
    tenant: str
    topic: str
    key: str | None
    sequence: int | None
    content_type: str | None
    headers: Mapping[str, str]
    payload: bytes
    accepted_at: datetime
    kafka_topic: str | None = None
    amqp_exchange: str | None = None
    amqp_routing_key: str | None = None
    amqp_exchange_type: str | None = None
    kafka_headers: Sequence[tuple[str, bytes]] | None = None
    tombstone: bool = False
    amqp_vhost: str | None = None


_NO_HEADERS: Mapping[str, str] = {}


def record_from_row(row: Mapping[str, Any], incarnation: str) -> Record:
    """Build a record from a row of ``outbox.claim`` or ``hold.claim``: these columns, in this order.

    Looking each of them up by its name would take a quarter more time.
    """
    (
        identity, shard, tenant, topic, key, content_type, headers, payload, accepted_at, ordered, _topic_known,
        kafka_topic, amqp_exchange, amqp_routing_key, amqp_exchange_type, amqp_vhost,
    ) = row.values()  # fmt: skip
    given = _NO_HEADERS if headers == "{}" else json.loads(headers)
    return Record(
        identity, shard, f"evt_{name_of(incarnation, identity)}_{identity}", tenant, topic, key,
        identity if ordered else None, content_type, given, payload, accepted_at, kafka_topic,
        amqp_exchange, amqp_routing_key, amqp_exchange_type, tombstone=is_tombstone(given),
        amqp_vhost=amqp_vhost,
    )  # fmt: skip

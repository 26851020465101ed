"""Outbox record: one event that is owed to one sink."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

__all__ = ["Record", "record_from_row"]


@dataclass(frozen=True, slots=True)
class Record:
    """What a sink is given to send.

    ``id`` rises in commit order per (topic, key); ``sequence`` is the same number, or None where the topic keeps
    no order. ``headers`` has lower-case names, CloudEvents attributes as ``ce-*``. ``event_id`` is the public
    id, the same on every transport. ``kafka_topic``, ``amqp_exchange`` and ``amqp_routing_key`` are the topic's
    own settings, None for the default.

    Compat mode alone sets the last two: headers that go out as they are, with none of ours, and a value that is null.
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
    kafka_headers: Sequence[tuple[str, bytes]] | None = None
    tombstone: bool = False


_NO_HEADERS: Mapping[str, str] = {}


def record_from_row(row: Mapping[str, Any], incarnation: str) -> Record:
    """Build a record from a row of ``outbox.claim`` or ``hold.claim``."""
    identity = row["id"]
    headers = row["headers"]
    return Record(
        id=identity,
        shard=row["shard"],
        event_id=f"evt_{incarnation}_{identity}",
        tenant=row["tenant"],
        topic=row["topic"],
        key=row["key"],
        sequence=identity if row["ordered"] else None,
        content_type=row["content_type"],
        headers=_NO_HEADERS if headers == "{}" else json.loads(headers),
        payload=row["payload"],
        accepted_at=row["accepted_at"],
        kafka_topic=row["kafka_topic"],
        amqp_exchange=row["amqp_exchange"],
        amqp_routing_key=row["amqp_routing_key"],
    )

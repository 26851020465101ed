"""One Kafka topic: its number of partitions and its limits."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

__all__ = ["KafkaTopic", "TopicUnusable", "Unusable", "fragility"]

_MARGIN: Final = 60_000  # milliseconds that a record may be under way


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """A topic that takes records. ``message_bytes_max`` is its ``max.message.bytes``; ``is_compacted``: its
    ``cleanup.policy`` takes no record without a key. ``read_at`` is when its limits were read.
    ``age_milliseconds_max``: how old a record's timestamp may be; None: unknown.
    """

    name: str
    partitions: int
    message_bytes_max: int
    is_compacted: bool = False
    read_at: float = field(default=0.0, compare=False)
    age_milliseconds_max: int | None = None

    def timestamp(self, milliseconds: int) -> int:
        """Return a record's timestamp, or the current time where it is too old for the topic."""
        if self.age_milliseconds_max is None:
            return milliseconds
        now = int(time.time() * 1000)
        return now if now - milliseconds > self.age_milliseconds_max - _MARGIN else milliseconds


@dataclass(frozen=True, slots=True)
class Unusable:
    """A topic that takes no records, and why; ``detail`` is one safe line."""

    reason: str
    detail: str


class TopicUnusable(Exception):
    """A batch has no answer, because its topic takes no records."""

    def __init__(self, why: Unusable) -> None:
        super().__init__(why.detail)
        self.why = why


def fragility(brokers: int, replicas: int, in_sync_replicas_min: int) -> str:
    """Return why a topic on a cluster of three or more could lose confirmed records, or '' (SC-02)."""
    if brokers < 3:
        return ""
    if replicas < 2:
        return "replication factor 1"
    return "min.insync.replicas 1" if in_sync_replicas_min == 1 else ""

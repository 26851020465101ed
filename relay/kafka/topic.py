"""One Kafka topic: its number of partitions and its limits."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["KafkaTopic", "TopicUnusable", "Unusable", "fragility"]


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """A topic that takes records. ``message_bytes_max`` is its ``max.message.bytes``; ``is_compacted``: its
    ``cleanup.policy`` takes no record without a key. ``read_at`` is when its limits were read.
    """

    name: str
    partitions: int
    message_bytes_max: int
    is_compacted: bool = False
    read_at: float = field(default=0.0, compare=False)


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

"""One Kafka topic: its number of partitions and its limits."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["KafkaTopic", "Unusable", "fragility"]


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """A topic that takes records; ``message_bytes_max`` is its ``max.message.bytes``."""

    name: str
    partitions: int
    message_bytes_max: int


@dataclass(frozen=True, slots=True)
class Unusable:
    """A topic that takes no records, and why; ``detail`` is one safe line."""

    reason: str
    detail: str


def fragility(brokers: int, replicas: int, in_sync_replicas_min: int) -> str:
    """Return why a topic on a cluster of three or more could lose confirmed records, or '' (SC-02)."""
    if brokers < 3:
        return ""
    if replicas < 2:
        return "replication factor 1"
    return "min.insync.replicas 1" if in_sync_replicas_min == 1 else ""

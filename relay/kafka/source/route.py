"""KafkaRoute: a Kafka topic that is read, and the topic of its events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["KafkaRoute"]


@dataclass(frozen=True, slots=True)
class KafkaRoute:
    """``source`` is the name of the Kafka topic, ``topic`` the hub's. ``start``: where a partition begins that was
    never read; partitions that are added later are read from their first record. ``group``: the consumer group; ''
    for one that is named after the hub and the source. ``refused``: whether a refused record is passed, or holds its
    key, so that later records of the key are kept behind it. ``header``: the name in lower case and the value of a
    header that records must have; others are passed over.
    """

    source: str
    topic: str
    start: Literal["earliest", "latest"] = "latest"
    group: str = ""
    refused: Literal["pass", "hold"] = "pass"
    header: tuple[str, bytes] | None = None

"""KafkaRoute: a Kafka topic that is read, or a pattern of such topics, and the topic of their events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

__all__ = ["WILDCARD", "KafkaRoute", "reader_of", "route_for"]

WILDCARD: Final = "*"


@dataclass(frozen=True, slots=True)
class KafkaRoute:
    """``source`` is the name of the Kafka topic, ``topic`` the hub's. ``start``: where a partition begins that was
    never read; partitions that are added later are read from their first record. ``group``: the consumer group; ''
    for one that is named after the hub and the source. ``refused``: whether a refused record is passed, or holds its
    key, so that later records of the key are kept behind it. ``header``: the name in lower case and the value of a
    header that records must have; others are passed over.

    A ``source`` with a ``*`` is a pattern: it reads each Kafka topic whose name has at least one character in place of
    the ``*``. In ``topic`` a ``*`` stands for these characters.
    """

    source: str
    topic: str
    start: Literal["earliest", "latest"] = "latest"
    group: str = ""
    refused: Literal["pass", "hold"] = "pass"
    header: tuple[str, bytes] | None = None

    @property
    def is_pattern(self) -> bool:
        """Return whether it reads any number of Kafka topics."""
        return WILDCARD in self.source

    @property
    def like(self) -> str:
        """Return the names that it reads, as a pattern of SQL's LIKE."""
        return self.source.replace("_", r"\_").replace(WILDCARD, "_%")

    def of(self, name: str) -> KafkaRoute | None:
        """Return how it reads a Kafka topic; None if it does not. A pattern reads no topic of Kafka's own, which begins
        with ``__``.
        """
        if not self.is_pattern:
            return self if name == self.source else None
        front, _, back = self.source.partition(WILDCARD)
        part = name.removeprefix(front).removesuffix(back)
        if not part or front + part + back != name or name.startswith("__"):
            return None
        return replace(self, source=name, topic=self.topic.replace(WILDCARD, part))


def reader_of(routes: Sequence[KafkaRoute], name: str) -> KafkaRoute | None:
    """Return which of the routes reads a Kafka topic: that of its name, else the first pattern; None if none does."""
    fitting = [route for route in routes if route.of(name) is not None]
    return next((route for route in fitting if route.source == name), fitting[0] if fitting else None)


def route_for(routes: Sequence[KafkaRoute], name: str) -> KafkaRoute | None:
    """Return how a Kafka topic is read by the route that reads it; None if it is not."""
    reader = reader_of(routes, name)
    return None if reader is None else reader.of(name)

"""The options of the election over Kafka."""

from __future__ import annotations

from dataclasses import dataclass, field

from relay.election.neli_core import NeliTimes

__all__ = ["NeliOptions"]


@dataclass(frozen=True, slots=True)
class NeliOptions:
    """The options. ``owner`` is the name of this process. ``partitions`` is the number for a new election topic: at
    least one for each relay. Topic and consumer group belong to one installation: beats of another installation would
    look like those of a rival (RL-18).
    """

    owner: str
    installation: str
    partitions: int = 8
    times: NeliTimes = field(default_factory=NeliTimes)

    @property
    def topic(self) -> str:
        """Return the election's own Kafka topic."""
        return f"hookwire.neli.{self.installation}"

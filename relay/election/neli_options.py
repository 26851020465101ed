"""What the election over Kafka is told."""

from __future__ import annotations

from dataclasses import dataclass, field

from relay.election.neli_core import NeliTimes

__all__ = ["NeliOptions"]


@dataclass(frozen=True, slots=True)
class NeliOptions:
    """``owner``: how this process is called; ``partitions``: how many the election's topic gets when we create it, at
    least as many as relays should share the work. Topic and consumer group belong to one installation: another's beats
    would be taken for rivals' (RL-18).
    """

    owner: str
    installation: str
    partitions: int = 8
    times: NeliTimes = field(default_factory=NeliTimes)

    @property
    def topic(self) -> str:
        """Return the election's own Kafka topic."""
        return f"hookwire.neli.{self.installation}"

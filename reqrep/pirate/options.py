"""Options of the Pirate queues. Times are seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from reqrep.frames import Event, FrameLimits, Frames

__all__ = ["HEARTBEAT", "READY", "QueueOptions", "QueueStep"]

# The byte of 6/PPP, and the text of the guide's Lua edition: both are accepted (SP-02, PP-02).
READY: Final = frozenset({b"\x01", b"READY"})
HEARTBEAT: Final = frozenset({b"\x02", b"HEARTBEAT"})


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """A worker is gone after ``liveness`` silent intervals (PP-06), a busy one after ``busy_seconds_max``.

    ``sends_text``: send HEARTBEAT as the text of the Lua edition.
    """

    heartbeat_seconds: float = 1.0
    liveness: int = 3
    busy_seconds_max: float = 60.0
    workers_max: int = 100
    sends_text: bool = False
    limits: FrameLimits = field(default_factory=FrameLimits)

    def __post_init__(self) -> None:
        if not 0.01 <= self.heartbeat_seconds <= 30 or self.liveness < 1 or self.workers_max < 1:
            raise ValueError("heartbeat_seconds must be 0.01 to 30, liveness and workers_max at least 1")

    @property
    def expiry_seconds(self) -> float:
        """Silence after which a worker is gone."""
        return self.heartbeat_seconds * self.liveness


class QueueStep(NamedTuple):
    """Result of one step of a queue: messages for its two ROUTER sockets, and events."""

    to_clients: list[Frames]
    to_workers: list[Frames]
    events: list[Event]

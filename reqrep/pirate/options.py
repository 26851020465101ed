"""Options of the Pirate queues. Times are seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from reqrep.frames import Event, FrameLimits, Frames

__all__ = ["HEARTBEAT", "READY", "QueueOptions", "QueueStep"]

# 6/PPP uses one byte, and the guide's Lua examples use a word. Both are accepted (SP-02, PP-02).
READY: Final = frozenset({b"\x01", b"READY"})
HEARTBEAT: Final = frozenset({b"\x02", b"HEARTBEAT"})


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """Times and limits of a queue.

    A ready worker counts as gone after ``liveness`` silent intervals (PP-06), a busy worker after ``busy_seconds_max``.
    ``sends_text``: send the word HEARTBEAT, as the guide's Lua examples do, instead of the byte.
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
        """Seconds of silence after which a worker counts as gone."""
        return self.heartbeat_seconds * self.liveness


class QueueStep(NamedTuple):
    """The result of one step of a queue: messages for its two ROUTER sockets, and events to report."""

    to_clients: list[Frames]
    to_workers: list[Frames]
    events: list[Event]

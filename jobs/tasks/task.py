"""Task: work that exists if and only if the transaction that enqueued it committed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from db.pool import Row

__all__ = ["RecoveryPolicy", "Task", "TaskFailed"]


class TaskFailed(Exception):
    """Raised by a handler: the task failed. It is tried again after its backoff; ``dead``: it is dead at once."""

    dead: bool = False

    def __init__(self, reason: str, *, dead: bool = False) -> None:
        super().__init__(reason)
        self.dead = dead


@dataclass(frozen=True, slots=True)
class Task:
    """A task that a worker has claimed. ``id`` and ``attempt`` are its idempotency key (JB-39)."""

    id: str
    kind: str
    description: str
    attempt: int
    claim: int
    created_at: datetime
    lease_until: datetime

    @classmethod
    def of(cls, row: Row) -> Task:
        """Return the task of a row of ``task.claim`` or ``task.claim_batch``."""
        return cls(
            row["id"], row["kind"], row["description"], row["attempts"], row["claim"], row["created_at"],
            row["lease_until"],
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class RecoveryPolicy:
    """Look for the task of a notification every ``lookup_seconds``, for at most ``giveup_seconds`` (JB-26)."""

    lookup_seconds: float
    giveup_seconds: float

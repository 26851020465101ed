"""Message: the draft that is submitted to a queue, the stored message, and the message that a receiver holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from db.pool import Row
from jobs.queues.receipt import ClaimReceipt, Mode

__all__ = ["Message", "MessageDraft", "Received"]


@dataclass(frozen=True, slots=True)
class MessageDraft:
    """A message to submit. It becomes available after ``delay_seconds``. The database checks the values."""

    payload: bytes
    content_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    type: str | None = None
    key: str | None = None
    priority: int = 0
    delay_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it was submitted."""

    id: int
    created_at: datetime
    content_type: str | None
    headers: Mapping[str, str]
    type: str | None
    key: str | None
    priority: int
    payload: bytes

    @classmethod
    def of(cls, row: Row) -> Message:
        """Return the message of a row of ``message.receive`` or ``message.browse``."""
        return cls(
            row["id"], row["created_at"], row["content_type"], json.loads(row["headers"]), row["type"], row["key"],
            row["priority"], row["payload"],
        )  # fmt: skip

    def json(self) -> Any:
        """Return the payload parsed as JSON (JB-11). Raise ValueError if it is not JSON."""
        return json.loads(self.payload)


@dataclass(frozen=True, slots=True)
class Received:
    """A message that a receiver holds until ``leased_until``; ``attempts`` includes this delivery."""

    receipt: ClaimReceipt
    attempts: int
    leased_until: datetime
    message: Message

    @classmethod
    def of(cls, row: Row, mode: Mode) -> Received:
        """Return the claim of a row of ``message.receive`` or ``consumer.receive``."""
        receipt = ClaimReceipt(row["id"], row["claim"], mode)
        return cls(receipt, row["deliveries"], row["lease_until"], Message.of(row))

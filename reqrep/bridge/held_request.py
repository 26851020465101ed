"""A request that a worker holds, with its receipt and contents."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from reqrep.bridge.receipt import RequestReceipt

__all__ = ["HeldRequest"]


@dataclass(frozen=True, slots=True)
class HeldRequest:
    """A request that a worker holds until ``leased_until``. ``attempts`` includes this claim."""

    receipt: RequestReceipt
    attempts: int
    leased_until: datetime
    created_at: datetime
    content_type: str | None
    body: bytes

"""Message: what a receiver of a queue holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

__all__ = ["Message", "encoded"]


@dataclass(frozen=True, slots=True)
class Message:
    """A message that its receiver holds until ``leased_until``. ``id`` and ``attempts`` form an idempotency key."""

    id: int
    claim: int
    attempts: int
    leased_until: datetime
    created_at: datetime
    content_type: str | None
    headers: Mapping[str, str] = field(repr=False)
    payload: bytes = field(repr=False)
    type: str | None = None
    key: str | None = None
    priority: int = 0

    def json(self) -> Any:
        """Return the payload parsed as JSON. Raise ValueError if it is not JSON."""
        return json.loads(self.payload)


def encoded(payload: Any, content_type: str | None) -> tuple[bytes, str | None]:
    """Return the bytes of a payload and its content type: bytes as they are, text as UTF-8, any other value as JSON."""
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload), content_type
    if isinstance(payload, str):
        return payload.encode(), content_type or "text/plain; charset=utf-8"
    text = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode(), content_type or "application/json"

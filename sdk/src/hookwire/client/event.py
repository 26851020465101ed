"""Event to publish, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from hookwire.client.payload import NOTHING

__all__ = ["Event", "Outcome", "Published"]


@dataclass(frozen=True, slots=True)
class Event:
    """An event for ``publish_many``; the arguments are those of ``publish``. Without data its body is empty."""

    topic: str
    data: Any = NOTHING
    key: str | None = None
    content_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    idempotency_key: str | None = None


@dataclass(slots=True)
class Published:
    """A stored event. ``sequence`` rises for each key. ``notice`` says if nobody gets the event.

    ``replayed``: an earlier request with the same idempotency key stored it. ``idempotency_key`` repeats it.
    """

    id: str
    topic: str
    key: str | None
    sequence: int | None
    accepted_at: datetime
    notice: str | None = None
    replayed: bool = False
    idempotency_key: str | None = None


@dataclass(slots=True)
class Outcome:
    """What became of one event of ``publish_many``.

    ``stored`` and ``replayed`` have ``published``. ``conflict``: its idempotency key belongs to another event.
    ``unknown``: publish ``event`` again, which has its idempotency key now. ``error``: it is not stored; ``detail``
    says why, and ``status`` is that of an HTTP answer, or 0 without one.
    """

    outcome: Literal["stored", "replayed", "conflict", "unknown", "error"]
    event: Event
    idempotency_key: str
    published: Published | None = None
    status: int = 202
    detail: str = ""

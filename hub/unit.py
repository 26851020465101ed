"""Unit: the drafts of one request to publish, stored whole or not at all, and the answer that it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from event.event import Draft

__all__ = ["Accepted", "Unit"]


class Accepted(NamedTuple):
    """A stored event. ``sequence`` is None where its topic keeps no order; ``replayed``: an earlier request with the
    same idempotency key stored it.
    """

    id: int
    topic: str
    key: str | None
    sequence: int | None
    accepted_at: datetime
    replayed: bool


class Unit:
    """One request in the queue. ``stripes`` are the locks of its ordering keys; ``sent``: its transaction has begun,
    and its outcome is not known yet. ``published_by``: the API key of its publisher, if it has one.
    """

    __slots__ = (
        "answer", "bytes", "drafts", "fingerprints", "idempotency_keys", "in_flight", "in_flight_until", "passed_over",
        "published_by", "retries", "sent", "stripes",
    )  # fmt: skip

    def __init__(
        self, drafts: Sequence[Draft], stripes: frozenset[int], fingerprints: Sequence[bytes | None],
        answer: asyncio.Future[list[Accepted]], published_by: str | None = None,
    ) -> None:  # fmt: skip
        self.drafts = drafts
        self.fingerprints = fingerprints
        self.answer = answer
        self.published_by = published_by
        self.bytes = sum([len(draft.payload) for draft in drafts])
        self.idempotency_keys = {(d.topic, d.idempotency_key) for d in drafts if d.idempotency_key is not None}
        self.in_flight = False
        self.in_flight_until: float | None = None
        self.stripes = stripes
        self.passed_over = 0
        self.retries = 0
        self.sent = False

    def fail(self, error: Exception) -> None:
        """Answer with an error, unless it is answered."""
        if not self.answer.done():
            self.answer.set_exception(error)

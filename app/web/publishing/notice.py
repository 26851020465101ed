"""Notices: tell a publisher in the answer when an event has no receiver.

Notices must not slow publishing. The answer "has a receiver" is kept for two seconds. "Has none" is queried each time,
because the next command is usually a subscription. There is one query at a time, at most a hundred in a second. It runs
while the event is stored, and for a quarter of a second after that. A publish that cannot query gets the last answer or
none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from db.errors import DatabaseError
from db.pool import Database, Row
from event.event import Draft
from hub.inbound.preset import SENDER_HEADERS
from hub.keys import Grant

__all__ = ["Notices", "notice_of", "notice_of_dropped", "notice_of_size"]

_Stored = TypeVar("_Stored")
_PAUSE_SECONDS = 0.01
_PATIENCE_SECONDS = 0.25
_TOPICS_MAX = 10_000
_MATCHED_MAX = 100
_KAFKA_BYTES_MAX = 1_048_588  # the default of max.message.bytes
_KAFKA_FRAMING_BYTES = 512  # of a batch and a record, with our own headers


def notice_of(row: Row) -> str | None:
    """Return one line of ASCII for the publisher, or None where a receiver exists; ``row`` is of
    ``listener.of_topic``.
    """
    sinks = set(row["sinks"])
    brokers = sinks - {"webhooks"}
    if brokers & set(row["configured"]) or ("webhooks" in sinks and row["subscribed"]):
        return None
    if not sinks:
        return "nobody listens: this topic is routed to no sink"
    if "webhooks" not in sinks:
        return f"nobody listens yet: this topic is routed to {' and '.join(sorted(brokers))}, which is not configured"
    return "nobody listens: no subscription matches this topic, and it goes to no configured broker"


def notice_of_size(drafts: Sequence[Draft]) -> str | None:
    """Return the notice for an event that a Kafka topic with Kafka's default limit may not take."""
    for draft in drafts:
        headers = sum(len(name) + len(value) for name, value in draft.headers.items())
        if len(draft.payload) + headers + len(draft.key or "") + _KAFKA_FRAMING_BYTES > _KAFKA_BYTES_MAX:
            return "with its headers the event is too large for a Kafka topic whose max.message.bytes is the default"
    return None


def notice_of_dropped(dropped: Sequence[bytes]) -> str | None:
    """Return the notice for headers of a sender of webhooks that the event does not have; None: there are none."""
    if not dropped:
        return None
    names = ", ".join(sorted({name.decode() for name in dropped}))
    preset = SENDER_HEADERS[dropped[0]]
    return f"dropped: {names}; an inbound source (preset {preset}) checks the signature and keeps type and delivery id"


@dataclass(frozen=True, slots=True)
class _Answer:
    text: str | None
    asked_at: float


class Notices:
    """The answers of one process, by topic; bounded."""

    def __init__(self, database: Database, believed_seconds: float = 2.0) -> None:
        self._database = database
        self._believed_seconds = believed_seconds
        self._answers: dict[str, _Answer] = {}
        self._asking = False
        self._next_at = 0.0

    def has_receiver(self, topic: str) -> bool:
        """Return whether a kept answer says that ``topic`` has a receiver."""
        answer = self._believed(topic, time.monotonic())
        return answer is not None and answer.text is None

    def _believed(self, topic: str, now: float) -> _Answer | None:
        answer = self._answers.get(topic)
        return answer if answer is not None and now - answer.asked_at <= self._believed_seconds else None

    async def beside(self, storing: Coroutine[Any, Any, _Stored], topic: str) -> tuple[_Stored, str | None]:
        """Return what ``storing`` returns, and the notice for a publish to ``topic``, which exists. The notice is None
        also if it is unknown whether a receiver exists.
        """
        if not self._may_ask():  # the usual case of a publisher in a hurry: it needs no task
            return await storing, self._kept(topic)
        asking = asyncio.create_task(self._of(topic), name="notice")
        try:
            stored = await storing
            await asyncio.wait({asking}, timeout=_PATIENCE_SECONDS)
            return stored, asking.result() if asking.done() else None
        finally:
            asking.cancel()

    def _may_ask(self) -> bool:
        return not self._asking and time.monotonic() >= self._next_at

    def _kept(self, topic: str) -> str | None:
        answer = self._believed(topic, time.monotonic())
        return None if answer is None else answer.text

    async def _of(self, topic: str) -> str | None:
        if not self._may_ask():
            return self._kept(topic)
        now = time.monotonic()
        self._asking = True
        try:
            row = await self._database.fetchrow("listener.of_topic", "default", topic)
        except DatabaseError:
            return None
        finally:
            self._asking = False
            self._next_at = time.monotonic() + _PAUSE_SECONDS
        assert row is not None, "the statement always gives one row"
        if len(self._answers) >= _TOPICS_MAX:
            self._answers.clear()
        self._answers[topic] = _Answer(notice_of(row), now)
        return self._answers[topic].text

    async def matched(self, event: int, grant: Grant | None) -> list[str] | None:
        """Return ids of the subscriptions that match a stored event, the oldest hundred; None: no answer now.

        Subscriptions that the key does not reach are left out.
        """
        try:
            rows = await self._database.fetch("listener.matched", event, _MATCHED_MAX)
        except DatabaseError:  # the event is stored in any case
            return None
        return [row["public_id"] for row in rows if grant is None or grant.reaches(row["topic"])]

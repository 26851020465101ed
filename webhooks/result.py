"""Result: one finished delivery attempt, or the end of a delivery without one, as the settlement stores it."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from event.identity import format_event_id
from webhooks.breaker import Turn
from webhooks.delivery_id import format_delivery_id
from webhooks.outcome import Outcome
from webhooks.retry import Decision

__all__ = ["AttemptName", "Result"]


class AttemptName(NamedTuple):
    """The name of an attempt in the log: the id's incarnation, the topic, the subscription's public id, the number."""

    incarnation: str
    topic: str
    subscription: str
    number: int


class Result(NamedTuple):
    """One finished attempt with its delivery, its claim, its start, its outcome and its effect on the breaker.

    ``version`` is that of the subscription. ``failed``: whether it counts as a failure of the receiver; None if it
    proves nothing. ``tells``: operators get an event about it. ``counts``: it is an error of RabbitHub's kind.
    ``is_in_lane``: the subscription keeps the order of the key. ``attempt``: its name in the log, or None if the
    delivery ended without an attempt. ``may_wait``: nothing depends on it, so that it may be stored a moment later.
    ``age_seconds``: from the acceptance of the event to its delivery; None if that is not timed.
    """

    event_id: int
    subscription_id: int
    fence: int
    version: int
    started_at: datetime
    outcome: Outcome
    decision: Decision
    breaker: Turn | None = None
    failed: bool | None = None
    tells: bool = True
    counts: bool = False
    is_in_lane: bool = False
    attempt: AttemptName | None = None
    may_wait: bool = False
    age_seconds: float | None = None

    def log_fields(self) -> dict[str, str | int]:
        """Return the fields of the log that say which delivery and which attempt it was."""
        delivery = format_delivery_id(self.event_id, self.subscription_id)
        if self.attempt is None:
            return {"delivery": delivery}
        incarnation, topic, subscription, number = self.attempt
        event = format_event_id(incarnation, self.event_id)
        return {
            "delivery": delivery, "event_id": event, "subscription": subscription, "topic": topic, "attempt": number,
        }  # fmt: skip

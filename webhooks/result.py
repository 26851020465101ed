"""Result: one finished delivery attempt, or the end of a delivery without one, as the settlement stores it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

from webhooks.breaker import Turn
from webhooks.outcome import Outcome
from webhooks.retry import Decision

__all__ = ["Result"]


class Result(NamedTuple):
    """One finished attempt: whose, by which claim, to which version of the subscription, when it started, what came of
    it, for the breaker too. ``failed``: whether it speaks against the receiver; None: it says nothing of it. ``tells``:
    operators may hear of it. ``counts``: it is an error of RabbitHub's kind. ``is_in_lane``: others wait behind it.
    ``names``: fields of the log: public ids of event and subscription, topic, number of the attempt (FT-10)."""

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
    names: Mapping[str, str | int] = MappingProxyType({})

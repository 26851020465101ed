"""Rests: who is not sent to until what its answers mean is on record."""

from __future__ import annotations

from collections import Counter

from webhooks.breaker import BreakerOptions
from webhooks.settlement import Result

__all__ = ["Rests"]


class Rests:
    """Those of one worker. A rest begins with a result, and ends after the settlement that has it on record: by then
    the pause, the end or the open breaker is in the database, and claims see it themselves."""

    def __init__(self, breaker: BreakerOptions) -> None:
        self._breaker = breaker
        self._resting: set[int] = set()
        self._recorded: set[int] = set()
        self._unjudged: Counter[int] = Counter()

    def __contains__(self, subscription: object) -> bool:
        return subscription in self._resting

    def subscriptions(self) -> frozenset[int]:
        """All of them."""
        return frozenset(self._resting)

    def end_recorded(self) -> None:
        """Only with no claim in the air: one that was asked for before does not see what is on record now."""
        self._resting -= self._recorded
        self._recorded.clear()

    def begin(self, result: Result) -> bool:
        """Whether its subscription rests from now on: it has to, or as many failures as open a breaker are unjudged."""
        subscription = result.subscription_id
        rests = _has_to_rest(result)
        if result.failed:
            self._unjudged[subscription] += 1
            may_open = self._unjudged[subscription] >= self._breaker.attempts_min
            rests = rests or (may_open and self._breaker.failure_share > 0)
        if rests:
            self._resting.add(subscription)
            self._recorded.discard(subscription)
        return rests

    def settled(self, result: Result) -> None:
        """It is on record."""
        subscription = result.subscription_id
        if result.failed:
            self._unjudged[subscription] -= 1
            if not self._unjudged[subscription]:
                del self._unjudged[subscription]
                self._recorded.add(subscription)
        if _has_to_rest(result):
            self._recorded.add(subscription)


def _has_to_rest(result: Result) -> bool:
    """Whether the whole subscription must not be sent to any more, for a while or for good."""
    decision = result.decision
    return decision.pause_seconds is not None or decision.end_state is not None or result.breaker == "retrip"

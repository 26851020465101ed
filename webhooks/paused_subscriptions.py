"""PausedSubscriptions: subscriptions that are paused until their latest results are stored."""

from __future__ import annotations

from webhooks.breaker import BreakerOptions
from webhooks.result import Result

__all__ = ["PausedSubscriptions"]


class PausedSubscriptions:
    """The paused subscriptions of one worker.

    A pause begins with a result. It ends when the result and every failure of the subscription are stored. From then
    on claims see the subscription's pause, end or open breaker in the database.
    """

    def __init__(self, breaker: BreakerOptions) -> None:
        self._breaker = breaker
        self._resting: set[int] = set()
        # By event and fence: the settlement returns another object, with more fields, than it got.
        self._unrecorded: dict[int, set[tuple[int, int]]] = {}

    def __contains__(self, subscription: object) -> bool:
        return subscription in self._resting

    def subscriptions(self) -> frozenset[int]:
        """Return the ids of all paused subscriptions."""
        return frozenset(self._resting)

    def end_recorded(self) -> set[int]:
        """End the pauses that are stored, and return their subscriptions.

        Call it only while no claim is running: a claim that began earlier does not see the stored results.
        """
        ended = self._resting - self._unrecorded.keys()
        self._resting -= ended
        return ended

    def begin(self, result: Result) -> bool:
        """Pause the subscription if the result or its failures that are not stored yet require it.

        Return whether it is paused.
        """
        has_to_rest = _has_to_rest(result)
        if not (has_to_rest or result.failed):
            return False
        unrecorded = self._unrecorded.setdefault(result.subscription_id, set())
        unrecorded.add((result.event_id, result.fence))
        may_open = self._breaker.failure_share > 0 and len(unrecorded) >= self._breaker.attempts_min
        if has_to_rest or may_open:
            self._resting.add(result.subscription_id)
        return has_to_rest or may_open

    def settled(self, result: Result) -> None:
        """Note that the result is stored."""
        subscription = result.subscription_id
        unrecorded = self._unrecorded.get(subscription)
        if unrecorded is None:
            return
        unrecorded.discard((result.event_id, result.fence))
        if not unrecorded:
            del self._unrecorded[subscription]


def _has_to_rest(result: Result) -> bool:
    """Return whether the result stops all deliveries of its subscription, for a time or for ever."""
    decision = result.decision
    return decision.pause_seconds is not None or decision.end_state is not None or result.breaker == "retrip"

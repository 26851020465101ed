"""Operator events: notices for operators about deliveries.

They are published on the topic ``hookwire.operator``, when it has a subscription, and delivered like any event::

    subscription.failing     50, 70, 90, 100 failures in a row, by all workers together; .recovered ends that
    subscription.ended       it was answered 410, or disabled by its receiver or for failing
    subscription.expiring    its lease ends soon (the hub reports it: RabbitHub's only)
    breaker.opened, .closed
    delivery.exhausted, .parked   one for all of a batch, with how many and the first event

A failed delivery of an operator event makes no operator event, because that would loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from webhooks.breaker import FailureStats
from webhooks.result import Result

__all__ = ["RESERVED_PREFIX", "notices_of"]

RESERVED_PREFIX: Final = "hookwire."
_LEVELS = (50, 70, 90, 100)


def notices_of(results: Sequence[Result], all_stats: Iterable[FailureStats]) -> list[Mapping[str, Any]]:
    """Return the notices of a stored batch, from the failure stats that it left."""
    told = [result for result in results if result.tells]
    found = [notice for stats in all_stats for notice in _levels(told, stats)]
    ends = {
        one.subscription_id: _notice("subscription.ended", one.subscription_id, reason=one.decision.end_reason)
        for one in told
        if one.decision.end_state is not None
    }
    turns = [
        _notice("breaker.closed" if one.breaker == "close" else "breaker.opened", one.subscription_id)
        for one in told
        if one.breaker is not None
    ]
    return [*found, *ends.values(), *turns, *_given_up(told)]


def _levels(told: Sequence[Result], stats: FailureStats) -> Iterator[Mapping[str, Any]]:
    """Yield a notice for each level of failures in a row that the batch reached, and for a recovery from such a
    level.
    """
    failures, subscription = stats.failures_before, stats.subscription_id
    for result in told:
        if result.subscription_id != subscription or result.failed is None:
            continue
        if result.decision.action != "delivered":
            failures += 1
            if failures in _LEVELS:
                yield _notice("subscription.failing", subscription, failures=failures)
            continue
        if failures >= _LEVELS[0]:
            yield _notice("subscription.recovered", subscription, failures=failures)
        failures = 0


def _given_up(results: Iterable[Result]) -> list[Mapping[str, Any]]:
    counts: Counter[tuple[int, str]] = Counter()
    first: dict[tuple[int, str], Result] = {}
    for result in results:
        decision = result.decision
        if decision.action == "park" or decision.dead_kind in ("exhausted", "declined", "internal", "aborted"):
            which = (result.subscription_id, "delivery.parked" if decision.action == "park" else "delivery.exhausted")
            counts[which] += 1
            first.setdefault(which, result)
    return [
        _notice(
            kind, subscription, deliveries=count, first_event=first[subscription, kind].event_id,
            outcome=first[subscription, kind].outcome.kind, status=first[subscription, kind].outcome.status,
        )
        for (subscription, kind), count in counts.items()
    ]  # fmt: skip


def _notice(kind: str, subscription: int, **more: Any) -> Mapping[str, Any]:
    return {"type": kind, "subscription": subscription, **more}

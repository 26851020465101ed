"""Breaker: stop sending for a while to a receiver that fails often (WH-I07). Pure; the time is a parameter.

::

            share of failures among the last attempts >= 70 %, of 10 at least
    closed ------------------------------------------------------------------> open, 30 s
      ^                                                                         |     ^
      |  the probe succeeds                                                     v     | it fails: twice as long
      +------------------------------------------------------------------- one probe -+

The whole fleet shares this state. Each settlement adds its attempts to the subscription's row in ``delivery_failures``,
if it has failed recently, and returns its stats. An open breaker, its end and its probe are a row in
``delivery_gates``, which every claim checks. Open deliveries wait meanwhile and use up no attempts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from webhooks.outcome import Outcome

__all__ = ["BreakerOptions", "FailureStats", "Turn", "after_probe", "has_to_open", "is_failure"]

Turn = Literal["trip", "retrip", "close"]
"""The breaker opens, stays open because its probe has failed, or closes."""

_FAILURES = ("redirect", "throttled", "server_error", "timeout", "connect", "tls", "dns", "bad_response")
"""A 4xx refuses one message; these outcomes mean a failing receiver."""


@dataclass(frozen=True, slots=True)
class BreakerOptions:
    """Options of breakers. ``failure_share`` 0: there is no breaker. Of the last ``attempts_max`` attempts, those of
    ``window_seconds`` count, and at least ``attempts_min`` have to be there. It stays open for ``open_seconds``,
    doubled up to ``open_seconds_max``. A subscription that has failed for ``disable_seconds`` is disabled; None: never.
    """

    failure_share: float = 0.7
    attempts_min: int = 10
    attempts_max: int = 20
    window_seconds: float = 300.0
    open_seconds: float = 30.0
    open_seconds_max: float = 600.0
    disable_seconds: float | None = None


def is_failure(outcome: Outcome) -> bool:
    """Return whether this outcome counts against the receiver."""
    return outcome.kind in _FAILURES


@dataclass(frozen=True, slots=True)
class FailureStats:
    """The stats of a subscription that has failed recently, over all workers, after a stored settlement.

    ``failures`` in a row, and ``failures_before`` this settlement. Of the last ``attempts`` in the window, ``failed``
    were failures; ``last_failed``: the latest of them was one. ``is_unknown``: it begins to fail, and its last success
    is not stored.
    """

    subscription_id: int
    failures_before: int
    failures: int
    attempts: int
    failed: int
    last_failed: bool
    is_unknown: bool = False

    @property
    def is_well(self) -> bool:
        """Return whether no failure counts against it any more."""
        return not self.failures and not self.failed


def has_to_open(stats: FailureStats, options: BreakerOptions) -> bool:
    """Return whether its breaker has to open. After a settlement that ends in a success it need not: the receiver is
    back.
    """
    return (
        options.failure_share > 0
        and stats.last_failed
        and stats.attempts >= options.attempts_min
        and stats.failed >= options.failure_share * stats.attempts
    )


def after_probe(outcome: Outcome) -> Turn:
    """Return the change after the probe of a breaker."""
    return "retrip" if is_failure(outcome) else "close"

"""Breaker: who fails so often that it is left alone for a while (WH-I07). Pure; the time is a parameter.

::

            share of failures among the last attempts >= 70 %, of 10 at least
    closed ------------------------------------------------------------------> open, 30 s
      ^                                                                         |     ^
      |  the probe succeeds                                                     v     | it fails: twice as long
      +------------------------------------------------------------------- one probe -+

All of it is the whole fleet's: each settlement adds its attempts to the row of who has failed lately
(``delivery_failures``), and gives back how that one stands now; that a breaker is open, until when, and who probes is
another row (``delivery_gates``), which every claim passes. What is owed meanwhile waits and uses up no attempts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from webhooks.outcome import Outcome

__all__ = ["BreakerOptions", "FailureStats", "Turn", "after_probe", "has_to_open", "is_failure"]

Turn = Literal["trip", "retrip", "close"]
"""It opens; it stays open, because its probe has failed; it closes."""

_FAILURES = ("redirect", "throttled", "server_error", "timeout", "connect", "tls", "dns", "bad_response")
"""A 4xx says that one message is not wanted; these say that the receiver is not well."""


@dataclass(frozen=True, slots=True)
class BreakerOptions:
    """``failure_share`` 0: there is no breaker. Of the last ``attempts_max`` attempts, those of ``window_seconds``
    count, and at least ``attempts_min`` have to be there. It stays open for ``open_seconds``, doubled up to
    ``open_seconds_max``. Who has failed for ``disable_seconds`` is disabled; None: never."""

    failure_share: float = 0.7
    attempts_min: int = 10
    attempts_max: int = 20
    window_seconds: float = 300.0
    open_seconds: float = 30.0
    open_seconds_max: float = 600.0
    disable_seconds: float | None = None


def is_failure(outcome: Outcome) -> bool:
    """Return whether this speaks against the receiver."""
    return outcome.kind in _FAILURES


@dataclass(frozen=True, slots=True)
class FailureStats:
    """How a subscription that has failed lately stands with all workers together, once a settlement is on record.

    ``failures`` in a row, and ``failures_before`` this settlement. Of the last ``attempts`` in the window, ``failed``
    were failures; ``last_failed``: the latest of them was one. ``is_unknown``: it begins to fail, and its last success
    is not on record.
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
        """Nothing speaks against it any more."""
        return not self.failures and not self.failed


def has_to_open(stats: FailureStats, options: BreakerOptions) -> bool:
    """Return whether its breaker has to open. Of a settlement that ends in a success it has not: the receiver is back."""
    return (
        options.failure_share > 0
        and stats.last_failed
        and stats.attempts >= options.attempts_min
        and stats.failed >= options.failure_share * stats.attempts
    )


def after_probe(outcome: Outcome) -> Turn:
    """What follows from the one delivery that a breaker has let through."""
    return "retrip" if is_failure(outcome) else "close"

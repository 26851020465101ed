"""Breaker: who fails so often that it is left alone for a while (WH-I07). Pure; the time is a parameter.

::

            share of failures among the last attempts >= 70 %, of 10 at least
    closed ------------------------------------------------------------------> open, 30 s
      ^                                                                         |     ^
      |  the probe succeeds                                                     v     | it fails: twice as long
      +------------------------------------------------------------------- one probe -+

Each worker counts its own attempts; that a breaker is open, until when, and who probes is one row for the whole fleet
(``delivery_gates``), which every claim passes. What is owed meanwhile waits and uses up no attempts.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

from webhooks.outcome import Outcome

__all__ = ["Breaker", "BreakerOptions", "Turn", "is_failure"]

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
    """Whether this speaks against the receiver."""
    return outcome.kind in _FAILURES


class Breaker:
    """The counts of one worker. Only who has failed lately is remembered."""

    def __init__(self, options: BreakerOptions) -> None:
        self._options = options
        self._attempts: dict[int, deque[tuple[float, bool]]] = {}
        self._open_until: dict[int, float] = {}

    def judge(self, subscription: int, outcome: Outcome, *, is_probe: bool, now: float) -> Turn | None:
        """Count an attempt: whether the breaker has to open, or what follows from its probe."""
        failed = is_failure(outcome)
        if is_probe and not failed:
            self._open_until.pop(subscription, None)
            return "close"
        if is_probe or self._is_too_much(subscription, now, failed=failed):
            self._open_until[subscription] = now + self._options.open_seconds
            self._attempts.pop(subscription, None)
            return "retrip" if is_probe else "trip"
        return None

    def _is_too_much(self, subscription: int, now: float, *, failed: bool) -> bool:
        options = self._options
        if not options.failure_share or self._open_until.get(subscription, now) > now:
            return False  # what was on its way when it opened says nothing new
        counted = self._attempts.get(subscription)
        if counted is None:
            if not failed:
                return False
            counted = self._attempts[subscription] = deque(maxlen=options.attempts_max)
        counted.append((now, failed))
        while counted[0][0] < now - options.window_seconds:
            counted.popleft()
        failures = sum(1 for _, one in counted if one)
        if not failures:
            del self._attempts[subscription]
        # A success counts and opens nothing, even where it makes the number complete: the receiver is back.
        return failed and len(counted) >= options.attempts_min and failures >= options.failure_share * len(counted)

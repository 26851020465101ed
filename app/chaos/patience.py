"""Patience: wait as long as the number of things on their way falls, within two limits. Pure: the caller has the clock.

A time-out alone says nothing about a system: on a busy machine the work is only slow. So a judge waits while work is
done, and a number that stays says that the work is not finished, not that anything is lost.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Patience", "PatienceOptions"]


@dataclass(frozen=True, slots=True)
class PatienceOptions:
    """Limits of a wait: ``seconds_max`` of the whole, ``still_seconds_max`` without a lower number."""

    seconds_max: float
    still_seconds_max: float

    def __str__(self) -> str:
        return f"at most {self.seconds_max:g} s, and {self.still_seconds_max:g} s without a lower number"


class Patience:
    """One wait, which begins at ``began`` on the caller's monotonic clock."""

    def __init__(self, options: PatienceOptions, began: float) -> None:
        self._options = options
        self._began = began
        self._fell_at = began
        self._lowest: int | None = None

    def lasts(self, number: int | None, now: float) -> bool:
        """Take the number of things that are on their way now, None if it is unknown; return whether to wait on."""
        if number is not None and (self._lowest is None or number < self._lowest):
            self._lowest, self._fell_at = number, now
        options = self._options
        return now - self._began < options.seconds_max and now - self._fell_at < options.still_seconds_max

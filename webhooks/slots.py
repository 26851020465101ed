"""Slots: how many attempts may run at once, in all, for one subscription and for one host (WH-I01).

A subscription that has not lately succeeded counts as unproven, and the unproven ones together get half of all slots,
and half of each host's: a thousand dead callbacks, each holding a slot for its whole deadline, must leave room for the
living, also for those behind the same gateway.

A receiver that seems overloaded gets half as many at once with each such attempt, down to one, and one more with each
success: it is not buried when it comes back (WH-R16).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["SlotOptions", "Slots"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SlotOptions:
    """Attempts in flight: in all, per subscription, per host."""

    total: int = 256
    per_subscription: int = 64
    per_host: int = 64


class Slots:
    """Bookkeeping of one worker; nothing here waits."""

    def __init__(self, options: SlotOptions) -> None:
        self.options = options
        self._unproven_max = max(options.total // 2, 1)
        self._used = 0
        self._unproven_used = 0
        self._by_subscription: Counter[int] = Counter()
        self._by_host: Counter[str] = Counter()
        self._unproven_per_host_max = max(options.per_host // 2, 1)
        self._unproven_by_host: Counter[str] = Counter()
        self._proven: set[int] = set()
        self._windows: dict[int, int] = {}

    @property
    def used(self) -> int:
        """Attempts in flight."""
        return self._used

    @property
    def free(self) -> int:
        """Slots left in all."""
        return self.options.total - self._used

    @property
    def unproven_free(self) -> int:
        """Slots that unproven subscriptions may still take, all together."""
        return self._unproven_max - self._unproven_used

    def is_proven(self, subscription: int) -> bool:
        """Whether its last attempt succeeded."""
        return subscription in self._proven

    def window(self, subscription: int) -> int:
        """How many it may have at once."""
        return self._windows.get(subscription, self.options.per_subscription)

    def try_take(self, subscription: int, host: str) -> bool:
        """Take a slot if total, host, subscription and the share of the unproven all allow it."""
        options = self.options
        proven = subscription in self._proven
        if (
            self._used >= options.total
            or self._by_subscription[subscription] >= self.window(subscription)
            or self._by_host[host] >= options.per_host
            or (not proven and not self._is_free_for_unproven(host))
        ):
            return False
        self._used += 1
        if not proven:
            self._unproven_used += 1
            self._unproven_by_host[host] += 1
        self._by_subscription[subscription] += 1
        self._by_host[host] += 1
        return True

    def _is_free_for_unproven(self, host: str) -> bool:
        return self._unproven_used < self._unproven_max and self._unproven_by_host[host] < self._unproven_per_host_max

    def give(
        self, subscription: int, host: str, *, was_proven: bool, succeeded: bool, overloaded: bool = False
    ) -> None:
        """Return a slot and remember how the attempt went."""
        self._used -= 1
        if not was_proven:
            self._unproven_used -= 1
            _decrease(self._unproven_by_host, host)
        _decrease(self._by_subscription, subscription)
        _decrease(self._by_host, host)
        if succeeded:
            self._proven.add(subscription)
        else:
            self._proven.discard(subscription)
        if overloaded:
            self._windows[subscription] = max(self.window(subscription) // 2, 1)
        elif succeeded and subscription in self._windows:
            self._widen(subscription)

    def _widen(self, subscription: int) -> None:
        self._windows[subscription] += 1
        if self._windows[subscription] >= self.options.per_subscription:
            del self._windows[subscription]


def _decrease(counter: Counter[T], name: T) -> None:
    counter[name] -= 1
    if not counter[name]:
        del counter[name]

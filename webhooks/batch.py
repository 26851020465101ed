"""Batch sizes: how many events one request may carry, by its subscription and its receiver's answers (WH-C05)."""

from __future__ import annotations

from collections.abc import Iterable

from webhooks.subscriber import Subscriber

__all__ = ["BatchSizes"]

_REMEMBERED_MAX = 10_000


class BatchSizes:
    """The batch sizes that one worker knows; it learns a forgotten size again."""

    def __init__(self) -> None:
        self._asked_for: dict[int, int] = {}
        self._digested: dict[tuple[int, int], int] = {}

    def note(self, subscribers: Iterable[Subscriber]) -> None:
        """Store the sizes that these subscriptions ask for, so that enough is claimed for them."""
        for one in subscribers:
            if one.batch_max == 1:  # also a changed subscription, which would keep its former size
                self._asked_for.pop(one.id, None)
                continue
            if len(self._asked_for) >= _REMEMBERED_MAX and one.id not in self._asked_for:
                self._asked_for.clear()
            self._asked_for[one.id] = one.batch_max

    def asked_for(self, subscription: int) -> int:
        """Return the known size; else 1."""
        return self._asked_for.get(subscription, 1)

    def most(self, subscriber: Subscriber) -> int:
        """Return how many events may go in the next request."""
        return min(subscriber.batch_max, self._digested.get((subscriber.id, subscriber.version), subscriber.batch_max))

    def halve(self, subscriber: Subscriber, events: int) -> None:
        """Halve the size, because such a batch was too large; this holds until the subscription is changed."""
        if len(self._digested) >= _REMEMBERED_MAX:
            self._digested.clear()
        self._digested[subscriber.id, subscriber.version] = max(events // 2, 1)

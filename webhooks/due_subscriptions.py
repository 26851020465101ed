"""DueSubscriptions: subscriptions with due deliveries, in two lines: proven by a successful last attempt, or unproven.

A thousand dead callbacks stand here for as long as they have few slots together. A look takes a bounded number from the
front, and in one line with them the living would be reached by the second look or the third only, each of which may be
as late as the next event.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import chain, islice, zip_longest

__all__ = ["DueSubscriptions"]


class DueSubscriptions:
    """The due subscriptions of one worker.

    A subscription that is added again keeps its place, unless its line has changed.
    """

    def __init__(self, is_proven: Callable[[int], bool]) -> None:
        self._is_proven = is_proven
        self._proven: OrderedDict[int, None] = OrderedDict()
        self._unproven: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._proven) + len(self._unproven)

    def add(self, subscriptions: Iterable[int]) -> None:
        """They have something due."""
        is_proven, proven, unproven = self._is_proven, self._proven, self._unproven
        for subscription in subscriptions:
            line, other = (proven, unproven) if is_proven(subscription) else (unproven, proven)
            other.pop(subscription, None)
            line[subscription] = None

    def remove(self, subscription: int) -> None:
        """It is being asked about."""
        self._proven.pop(subscription, None)
        self._unproven.pop(subscription, None)

    def move_to_end(self, subscription: int) -> None:
        """It can't have anything just now."""
        self.remove(subscription)
        self.add((subscription,))

    def first(self, most: int, *, unproven: bool) -> list[int]:
        """Up to so many of each line, in turns, so that neither keeps the other waiting; of the unproven none if they
        could not have anything."""
        lines = islice(self._proven, most), islice(self._unproven, most if unproven else 0)
        return [one for one in chain.from_iterable(zip_longest(*lines)) if one is not None]

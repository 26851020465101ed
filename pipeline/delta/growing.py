"""Growing: versions of a list that only grows share one memory, so that a longer one costs only what it adds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from threading import Lock
from typing import Any, TypeVar, overload

__all__ = ["GrowingList"]

T = TypeVar("T")
_GROWTH = Lock()


class GrowingList(Sequence[T]):
    """The first items of a list that later versions made longer. A version never changes."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: list[T], length: int) -> None:
        self._items = items
        self._length = length

    @classmethod
    def of(cls, items: Sequence[T]) -> GrowingList[T]:
        """Return these items as a list that can grow."""
        return items if isinstance(items, GrowingList) else cls(list(items), len(items))

    def followed_by(self, more: Sequence[T]) -> GrowingList[T]:
        """Return a version with ``more`` items. The newest version shares its memory, an older one is copied."""
        with _GROWTH:
            is_newest = len(self._items) == self._length
            items = self._items if is_newest else self._items[: self._length]
            items.extend(more)
            return GrowingList(items, self._length + len(more))

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        return islice(self._items, self._length)

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[T]: ...
    def __getitem__(self, place: int | slice) -> T | Sequence[T]:
        if isinstance(place, slice):
            return [self._items[number] for number in range(*place.indices(self._length))]
        return self._items[range(self._length)[place]]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (GrowingList, tuple)):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    __hash__: Any = None

    def __repr__(self) -> str:
        return repr(list(self))

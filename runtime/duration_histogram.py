"""Duration histogram: how often each time occurred, in buckets whose ends have the ratio 1.1. Pure.

Bucket ``n`` has the times from ``0.0001 * 1.1**n`` seconds up to the next bucket. Bucket 0 has all shorter ones, too. A
quantile is at most a tenth from the true one, and ten days need 240 buckets. Idea: HDR histogram, with a fixed ratio
instead of fixed digits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil
from typing import Final

__all__ = ["DurationHistogram", "duration_words"]

_SHORTEST_SECONDS: Final = 0.0001
_RATIO: Final = 1.1
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))


class DurationHistogram:
    """Counts of times, to which others can be added."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def add(self, buckets: Sequence[int], counts: Sequence[int]) -> None:
        """Add the counts of these buckets; the two have the same length."""
        for bucket, count in zip(buckets, counts, strict=True):
            self._counts[bucket] += count

    @property
    def total(self) -> int:
        """Return the number of all times."""
        return self._counts.total()

    def quantile(self, share: float) -> float | None:
        """Return the time in seconds that ``share`` of all times, 0 to 1, do not exceed; None without any.

        It is the geometric middle of the bucket with the time of this rank (nearest rank).
        """
        rank, passed = max(ceil(share * self.total), 1), 0
        for bucket in sorted(self._counts):
            passed += self._counts[bucket]
            if passed >= rank:
                return float(_SHORTEST_SECONDS * _RATIO ** (bucket + 0.5))
        return None


def duration_words(seconds: float) -> str:
    """Return a time in one unit: ``12.4 ms``, ``3.4 s``, ``5 min``, ``7 h``, ``12 d``."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g} ms"
    unit = next((unit for unit in _UNITS if seconds >= 2 * unit[0]), None)
    return f"{seconds:.1f} s" if unit is None else f"{seconds / unit[0]:,.0f} {unit[1]}"

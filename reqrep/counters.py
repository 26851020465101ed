"""Counters of a state machine; each dropped message is counted under a reason (ZL-09)."""

from __future__ import annotations

from collections import Counter

__all__ = ["Counters"]


class Counters:
    """Counts since the start: ``totals`` by name, ``drops`` by reason."""

    def __init__(self) -> None:
        self.totals: Counter[str] = Counter()
        self.drops: Counter[str] = Counter()

    def drop(self, reason: str) -> None:
        """Count one dropped message."""
        self.drops[reason] += 1

    def snapshot(self) -> dict[str, dict[str, int]]:
        """Return a copy that other threads may read."""
        return {"totals": dict(self.totals), "drops": dict(self.drops)}

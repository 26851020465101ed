"""The lines of a broker's text log: a hundred a minute about peers, however often one of them registers and leaves."""

from __future__ import annotations

from collections import Counter
from typing import Final

from reqrep.frames import Event

__all__ = ["EventLines"]

_SECONDS: Final = 60.0
_LINES_MAX: Final = 100
_COUNTED_ONLY: Final = frozenset({"dropped", "refused"})
_OF_PEERS: Final = frozenset({"worker-ready", "worker-gone", "identity-taken", "warning"})


class EventLines:
    """Turns events into lines. What exceeds the limit of a minute is summed up before the first line of a later one."""

    def __init__(self) -> None:
        self._until = 0.0
        self._printed = 0
        self._left_out: Counter[str] = Counter()

    def of(self, now: float, event: Event) -> list[str]:
        """Return the lines to print now. Events that only counters show have none."""
        if event.kind in _COUNTED_ONLY:
            return []
        lines: list[str] = []
        if event.kind in _OF_PEERS:
            if now >= self._until:
                lines = self._begin_minute(now)
            if self._printed >= _LINES_MAX:
                self._left_out[event.kind] += 1
                return lines
            self._printed += 1
        return [*lines, " ".join(word for word in event if word)]

    def _begin_minute(self, now: float) -> list[str]:
        left_out, self._left_out = self._left_out, Counter()
        self._until, self._printed = now + _SECONDS, 0
        kinds = ", ".join(f"{kind} {count}" for kind, count in left_out.most_common())
        return [f"not shown, above {_LINES_MAX} lines a minute: {kinds}"] if kinds else []

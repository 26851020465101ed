"""Event sample: a share of the events, the same events in each process."""

from __future__ import annotations

__all__ = ["EventSample"]

_RANGE = 2**32
_MULTIPLIER = 0x9E3779B1
"""2**32 divided by the golden ratio: consecutive ids spread evenly over the range."""


class EventSample:
    """The events that are logged in detail. ``share`` is from 0 (none) to 1 (all)."""

    def __init__(self, share: float = 0.0) -> None:
        self._bound = round(share * _RANGE)

    def takes(self, event_id: int) -> bool:
        """Return whether an event is in the sample. The answer depends on the id and the share alone."""
        return event_id * _MULTIPLIER % _RANGE < self._bound

"""Heartbeats in both directions on one connection of a worker."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["HeartbeatOptions", "Presence"]

_SOON_SECONDS = 0.05
_SOON_BEATS = 2
"""The first may have crossed the request on its way. So a broker believes the second only."""


@dataclass(frozen=True, slots=True)
class HeartbeatOptions:
    """The interval in seconds, 0.01 to 30, and the number of silent intervals after which the peer counts as gone."""

    interval_seconds: float = 2.5
    liveness: int = 3

    def __post_init__(self) -> None:
        if not 0.01 <= self.interval_seconds <= 30 or self.liveness < 1:
            raise ValueError("interval_seconds must be 0.01 to 30, liveness at least 1")


class Presence:
    """Computes when to send a heartbeat, and when the peer counts as gone."""

    def __init__(self, options: HeartbeatOptions, now: float) -> None:
        self._options = options
        self.beat_at = now + options.interval_seconds
        self.gone_at = now + options.interval_seconds * options.liveness
        self._soon = 0

    def heard(self, now: float) -> None:
        """Note a message from the peer. Any message counts as a heartbeat."""
        self.gone_at = now + self._options.interval_seconds * self._options.liveness

    def beat_soon(self, now: float) -> None:
        """Send the next two heartbeats 50 ms apart, unless the reply is sent before."""
        self._soon = _SOON_BEATS
        self._beat_within_soon(now)

    def beaten(self, now: float) -> None:
        """Note a heartbeat to the peer."""
        left = max(0, self._soon - 1)
        self.sent(now)
        self._soon = left
        if left:
            self._beat_within_soon(now)

    def sent(self, now: float) -> None:
        """Note a message to the peer, which replaces a heartbeat."""
        self._soon = 0
        self.beat_at = now + self._options.interval_seconds

    def sent_part(self, now: float) -> None:
        """Note a part of a reply to the peer. It replaces a heartbeat, but none of those that are sent soon."""
        if not self._soon:
            self.sent(now)

    def _beat_within_soon(self, now: float) -> None:
        self.beat_at = min(self.beat_at, now + _SOON_SECONDS)

"""Loop lag: how late the event loop wakes up a task. Blocking code delays heartbeats too (RK-08)."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Histogram

from runtime.pause import pause
from runtime.periodic import Periodic

__all__ = ["LoopLag"]

_BUCKETS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class LoopLag(Periodic):
    """Sleep for ``interval_seconds`` again and again; record how much longer each sleep lasted."""

    name = "loop lag"

    def __init__(self, registry: CollectorRegistry, interval_seconds: float = 0.5) -> None:
        super().__init__(0.0)
        self._sleep_seconds = interval_seconds
        self._lag = Histogram(
            "hookwire_event_loop_lag_seconds", "How late the event loop was, measured twice a second.",
            buckets=_BUCKETS, registry=registry,
        )  # fmt: skip

    async def once(self) -> None:
        """Sleep once and record the lag."""
        wanted = time.monotonic() + self._sleep_seconds
        await pause(self._notified, self._sleep_seconds)
        if not self._is_stopping:
            self._lag.observe(max(0.0, time.monotonic() - wanted))

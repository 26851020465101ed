"""Loop lag: how late the event loop wakes up who asked to be woken. What blocks it delays heartbeats too (RK-08)."""

from __future__ import annotations

import asyncio
import time

from prometheus_client import CollectorRegistry, Histogram

from runtime.pause import pause

__all__ = ["LoopLag"]

_BUCKETS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class LoopLag:
    """A service of the process: sleeps, and notes by how much it overslept."""

    name = "loop lag"

    def __init__(self, registry: CollectorRegistry, interval_seconds: float = 0.5) -> None:
        self._interval_seconds = interval_seconds
        self._stopping = asyncio.Event()
        self._lag = Histogram(
            "hookwire_event_loop_lag_seconds", "How late the event loop was, looked at twice a second.",
            buckets=_BUCKETS, registry=registry,
        )  # fmt: skip

    def stop(self) -> None:
        """End at once."""
        self._stopping.set()

    async def run(self) -> None:
        """Look again and again until stopped."""
        while not self._stopping.is_set():
            wanted = time.monotonic() + self._interval_seconds
            await pause(self._stopping, self._interval_seconds)
            if not self._stopping.is_set():
                self._lag.observe(max(0.0, time.monotonic() - wanted))

"""Metrics of queues: what the reaper does, and settlements that came too late."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from jobs.reaper import Reaped

__all__ = ["QueueMetrics"]


class QueueMetrics:
    """Counters of one process's registry (JB-79)."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"hookwire_{name}", text, labels, registry=registry)

        self._reaped = counter(
            "messages_reaped", "Messages whose lease or delay was over, by what followed.", "outcome"
        )
        self._settled = counter("message_receipts", "Receipts that receivers sent, by verb and state.", "verb", "state")

    def reaped(self, batch: Reaped) -> None:
        """One batch of the reaper."""
        for outcome in ("returned", "dead", "promoted"):
            self._reaped.labels(outcome).inc(getattr(batch, outcome))

    def settled(self, verb: str, done: int, stale: int) -> None:
        """One settlement."""
        self._settled.labels(verb, "done").inc(done)
        self._settled.labels(verb, "stale").inc(stale)

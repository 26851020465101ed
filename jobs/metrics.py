"""Metrics of queues: actions of the reaper, the cleaner and the maintainer, pushed jobs, settlements."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter

__all__ = ["QueueMetrics"]


class QueueMetrics:
    """Counters of one process's registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"hookwire_{name}", text, labels, registry=registry)

        self._reaped = counter("messages_reaped", "Messages whose lease or delay was over, by outcome.", "outcome")
        self._cleaned = counter("tasks_cleaned", "Tasks that the cleaner changed, by action.", "deed")
        self._kept = counter("jobs_kept", "Jobs that the maintainer changed, by action.", "deed")
        self._posted = counter("job_callbacks", "POSTs of jobs to callbacks, by outcome.", "outcome")
        self._settled = counter("message_receipts", "Receipts that receivers sent, by verb and state.", "verb", "state")

    def reaped(self, done: Mapping[str, int]) -> None:
        """Count a batch of the reaper."""
        for outcome in ("returned", "dead", "promoted"):
            self._reaped.labels(outcome).inc(done.get(outcome, 0))

    def cleaned(self, done: Mapping[str, int]) -> None:
        """Count a pass of the cleaner."""
        for deed, count in done.items():
            self._cleaned.labels(deed).inc(count)

    def kept(self, done: Mapping[str, int]) -> None:
        """Count a pass of the maintainer of jobs."""
        for deed, count in done.items():
            self._kept.labels(deed).inc(count)

    def posted(self, outcome: str) -> None:
        """Count a POST of a job to a callback."""
        self._posted.labels(outcome).inc()

    def settled(self, verb: str, done: int, stale: int) -> None:
        """Count a settlement."""
        self._settled.labels(verb, "done").inc(done)
        self._settled.labels(verb, "stale").inc(stale)

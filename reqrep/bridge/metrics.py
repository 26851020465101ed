"""Metrics of requests in the database: made, answered, refused and reaped requests, and POSTs to callbacks."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter

__all__ = ["RequestMetrics"]


class RequestMetrics:
    """Counters in a registry of Prometheus."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, label: str) -> Counter:
            return Counter(f"hookwire_{name}", text, (label,), registry=registry)

        self._calls = counter("service_calls", "Requests of callers over HTTP, by the first answer.", "answer")
        self._replies = counter("service_replies", "Replies of workers over HTTP, by outcome.", "outcome")
        self._callbacks = counter("service_callbacks", "POSTs of requests to callbacks, by outcome.", "outcome")
        self._reaped = counter("service_requests_reaped", "Requests whose lease or time ended, by outcome.", "outcome")

    def called(self, answer: str) -> None:
        """Count one request of a caller."""
        self._calls.labels(answer).inc()

    def replied(self, outcome: str) -> None:
        """Count one reply of a worker."""
        self._replies.labels(outcome).inc()

    def posted(self, outcome: str) -> None:
        """Count one POST to a callback."""
        self._callbacks.labels(outcome).inc()

    def reaped(self, done: Mapping[str, int]) -> None:
        """Count the requests of one batch of the reaper, by outcome."""
        for outcome, count in done.items():
            self._reaped.labels(outcome).inc(count)

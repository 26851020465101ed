"""Metrics of requests in the database: made, answered, refused, reaped, and calls of callbacks."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter

__all__ = ["RequestMetrics"]


class RequestMetrics:
    """Counters of one process's registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, label: str) -> Counter:
            return Counter(f"hookwire_{name}", text, (label,), registry=registry)

        self._calls = counter("service_calls", "Requests that came by HTTP, by what the caller got first.", "answer")
        self._replies = counter("service_replies", "Replies of workers by HTTP, by what became of them.", "outcome")
        self._callbacks = counter("service_callbacks", "POSTs of requests to callbacks, by outcome.", "outcome")
        self._reaped = counter("service_requests_reaped", "Requests whose time was over, by what followed.", "outcome")

    def called(self, answer: str) -> None:
        """One POST of a caller."""
        self._calls.labels(answer).inc()

    def replied(self, outcome: str) -> None:
        """One reply of a worker."""
        self._replies.labels(outcome).inc()

    def posted(self, outcome: str) -> None:
        """One POST to a callback."""
        self._callbacks.labels(outcome).inc()

    def reaped(self, done: Mapping[str, int]) -> None:
        """One batch of the reaper."""
        for outcome, count in done.items():
            self._reaped.labels(outcome).inc(count)

"""What the relay counts, per sink and partition group."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

__all__ = ["RelayMetrics"]


class RelayMetrics:
    """Counters of one process; exposed by ``app`` at /metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ["sink", "group"]
        self._acknowledged = Counter(
            "hookwire_relay_acknowledged_total", "Records that a sink has confirmed.", labels, registry=registry
        )
        self._refused = Counter(
            "hookwire_relay_refused_total", "Records that a sink refused and that now wait behind a hold.", labels,
            registry=registry,
        )  # fmt: skip
        self._failures = Counter(
            "hookwire_relay_failures_total", "Times a relay had to back off.", labels, registry=registry
        )
        self._term = Gauge("hookwire_relay_term", "The term this process last led.", labels, registry=registry)

    def acknowledged(self, sink: str, group: int, records: int) -> None:
        """Count confirmed records."""
        self._acknowledged.labels(sink, group).inc(records)

    def refused(self, sink: str, group: int, records: int) -> None:
        """Count refused records."""
        self._refused.labels(sink, group).inc(records)

    def failed(self, sink: str, group: int) -> None:
        """Count one back-off."""
        self._failures.labels(sink, group).inc()

    def term(self, sink: str, group: int, number: int) -> None:
        """Remember the term."""
        self._term.labels(sink, group).set(number)

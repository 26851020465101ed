"""Metrics of the relay, per sink and partition group."""

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
        self._unsettled = Counter(
            "hookwire_relay_unsettled_total",
            "Records sent with an unknown outcome; they are sent again, or turn out to be stored.",
            labels, registry=registry,
        )  # fmt: skip
        self._purge_failures = Counter(
            "hookwire_relay_purge_failures_total", "Purges of confirmed records that the database did not do.", labels,
            registry=registry,
        )  # fmt: skip
        self._in_flight = Gauge(
            "hookwire_relay_in_flight", "Records in flight: claimed, without an outcome yet.", labels, registry=registry
        )
        self._progress = Gauge(
            "hookwire_relay_last_acknowledged_timestamp_seconds", "When a sink last confirmed a record (Unix time).",
            labels, registry=registry,
        )  # fmt: skip
        self._term = Gauge("hookwire_relay_term", "The term this process last led.", labels, registry=registry)

    def acknowledged(self, sink: str, group: int, records: int) -> None:
        """Count confirmed records, and note that something moved."""
        self._acknowledged.labels(sink, group).inc(records)
        self._progress.labels(sink, group).set_to_current_time()

    def refused(self, sink: str, group: int, records: int) -> None:
        """Count refused records."""
        self._refused.labels(sink, group).inc(records)

    def unsettled(self, sink: str, group: int, records: int) -> None:
        """Count records with an unknown outcome."""
        self._unsettled.labels(sink, group).inc(records)

    def purge_failed(self, sink: str, group: int) -> None:
        """Count one purge that failed."""
        self._purge_failures.labels(sink, group).inc()

    def in_flight(self, sink: str, group: int, records: int) -> None:
        """Set the number of records in flight."""
        self._in_flight.labels(sink, group).set(records)

    def failed(self, sink: str, group: int) -> None:
        """Count one back-off."""
        self._failures.labels(sink, group).inc()

    def term(self, sink: str, group: int, number: int) -> None:
        """Remember the term."""
        self._term.labels(sink, group).set(number)

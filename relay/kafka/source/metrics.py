"""Metrics of Kafka sources."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

__all__ = ["KafkaSourceMetrics"]


class KafkaSourceMetrics:
    """Counts of the records of each source, and the state of its partitions in this process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.taken = Counter(
            "hookwire_kafka_source_records_total", "Records that were taken, by outcome.", ["source", "outcome"],
            registry=registry,
        )  # fmt: skip
        self.refused = Counter(
            "hookwire_kafka_source_refused_total", "Records that cannot be events, by reason.", ["source", "reason"],
            registry=registry,
        )  # fmt: skip
        self.left_out = Counter(
            "hookwire_kafka_source_headers_left_out_total", "Headers that the events of a source lack, by reason.",
            ["source", "reason"], registry=registry,
        )  # fmt: skip
        self.partitions = Gauge(
            "hookwire_kafka_source_partitions", "Partitions that this process reads.", ["source"], registry=registry
        )
        self.lag = Gauge(
            "hookwire_kafka_source_lag", "Records that this process has yet to take.", ["source"], registry=registry
        )
        self.age_seconds = Gauge(
            "hookwire_kafka_source_age_seconds", "Age of the record that was taken last, while there is a lag; else 0.",
            ["source"], registry=registry,
        )  # fmt: skip

    def forget(self, source: str) -> None:
        """Say nothing more of a source that this process does not read any more; what was counted stays."""
        for gauge in (self.partitions, self.lag, self.age_seconds):
            gauge.remove(source)

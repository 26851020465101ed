"""Metrics of delivery."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

__all__ = ["DeliveryMetrics"]

_BOUNDS_SECONDS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0)


class _Attempts(Collector):
    """Counts attempts without the library's locks, which cost 2 of the 60 us of a delivery. One event loop counts."""

    def __init__(self) -> None:
        self._by_outcome: dict[str, int] = {}
        self._by_bound = [0] * (len(_BOUNDS_SECONDS) + 1)
        self._seconds = 0.0

    def count(self, outcome: str, seconds: float) -> None:
        """Count one ended attempt."""
        self._by_outcome[outcome] = self._by_outcome.get(outcome, 0) + 1
        self._by_bound[bisect_left(_BOUNDS_SECONDS, seconds)] += 1
        self._seconds += seconds

    def collect(self) -> Iterator[Metric]:
        """Yield the counter by outcome and the histogram of the times."""
        attempts = CounterMetricFamily("hookwire_delivery_attempts", "Attempts, by outcome.", labels=["outcome"])
        for outcome, count in self._by_outcome.items():
            attempts.add_metric([outcome], count)
        yield attempts
        bounds = [*map(str, _BOUNDS_SECONDS), "+Inf"]
        buckets = list(zip(bounds, accumulate(self._by_bound), strict=True))
        yield HistogramMetricFamily(
            "hookwire_delivery_attempt_seconds", "How long attempts took.", buckets, sum_value=self._seconds
        )


class DeliveryMetrics:
    """Counters of one worker; exposed by ``app`` at /metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._attempts = _Attempts()
        registry.register(self._attempts)
        self.large = Counter(
            "hookwire_delivery_large_bodies_total",
            "Attempts with more than 20 kB of content, which the Standard Webhooks specification advises against.",
            registry=registry,
        )
        self.direct = Counter(
            "hookwire_delivery_direct_total", "Deliveries that the publishing commit has made.", registry=registry
        )
        self.in_flight = Gauge("hookwire_delivery_in_flight", "Attempts in flight.", registry=registry)
        self.dead = Counter(
            "hookwire_delivery_dead_letters_total", "Deliveries given up, by kind.", ["kind"], registry=registry
        )

    def count(self, outcome: str, seconds: float) -> None:
        """Count an ended attempt."""
        self._attempts.count(outcome, seconds)

"""Metrics of the broker for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

__all__ = ["BrokerMetrics"]

_GAUGES = {
    "services": "Services with workers or requests, or with workers a short time ago.",
    "workers": "Registered workers.",
    "queued": "Requests that wait for a worker.",
    "queued_bytes": "Bytes of requests that wait, and of replies to clients that do not read yet.",
}
_STATES = ("primary", "backup", "active", "passive")


class BrokerMetrics(Collector):
    """Reads the snapshot that the broker's thread renews. It runs in another thread and never uses the broker."""

    def __init__(self, snapshot: Callable[[], Mapping[str, Any]]) -> None:
        self._snapshot = snapshot

    @override
    def collect(self) -> Iterator[Metric]:
        found = self._snapshot()
        totals = CounterMetricFamily(
            "hookwire_broker_messages", "Messages and changes that the broker counted, by kind.", labels=["kind"]
        )
        for kind, count in sorted(found["totals"].items()):
            totals.add_metric([kind], count)
        drops = CounterMetricFamily("hookwire_broker_drops", "Dropped messages, by reason.", labels=["reason"])
        for reason, count in sorted(found["drops"].items()):
            drops.add_metric([reason], count)
        yield from (totals, drops)
        for name, text in _GAUGES.items():
            yield GaugeMetricFamily(f"hookwire_broker_{name}", text, value=found[name])
        yield from _of_pair(found["state"])
        for name, count in sorted(found["titanic"].items()):
            yield GaugeMetricFamily(f"hookwire_broker_titanic_{name}", "Requests of Titanic, by state.", value=count)


def _of_pair(state: Mapping[str, Any]) -> Iterator[Metric]:
    """Yield the metrics of one side of a pair; the present state has the value 1, the others 0."""
    if not state:
        return
    family = GaugeMetricFamily("hookwire_broker_pair_state", "State of this side of the pair.", labels=["state"])
    for name in _STATES:
        family.add_metric([name], float(state["state"] == name))
    yield family
    yield CounterMetricFamily("hookwire_broker_pair_transitions", "Changes of state.", value=state["transitions"])
    if state["peer_age_seconds"] is not None:
        yield GaugeMetricFamily(
            "hookwire_broker_pair_peer_age_seconds",
            "Seconds since the last state message of the peer.",
            value=state["peer_age_seconds"],
        )

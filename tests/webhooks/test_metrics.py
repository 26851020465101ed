"""webhooks/metrics.py: what /metrics says of attempts."""

from prometheus_client import CollectorRegistry

from webhooks.metrics import DeliveryMetrics


def test_attempts_are_counted_by_outcome_and_time() -> None:
    """A time that equals a bound belongs to its bucket; buckets are cumulative."""
    registry = CollectorRegistry()
    metrics = DeliveryMetrics(registry)
    for outcome, seconds in (("delivered", 0.005), ("delivered", 0.3), ("timeout", 31.0)):
        metrics.count(outcome, seconds)
    name = "hookwire_delivery_attempt"
    assert [
        registry.get_sample_value(f"{name}s_total", {"outcome": "delivered"}),
        registry.get_sample_value(f"{name}s_total", {"outcome": "timeout"}),
        *(registry.get_sample_value(f"{name}_seconds_bucket", {"le": le}) for le in ("0.005", "0.25", "0.5", "+Inf")),
        registry.get_sample_value(f"{name}_seconds_count"),
        registry.get_sample_value(f"{name}_seconds_sum"),
    ] == [2.0, 1.0, 1.0, 1.0, 2.0, 3.0, 3.0, 31.305]

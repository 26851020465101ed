"""benchmarks/lone_event.py: how costs become a table."""

from __future__ import annotations

from benchmarks.lone_event import _Cost, _table
from benchmarks.peers.burst import Burst


def cost(hub: float, database: float, ack: float) -> _Cost:
    burst = Burst(100, 0, 20.0, ack, 20.0, ack + 1, ack + 2, 1.0, 1_000_000, 0, 0, ack + 3)
    return _Cost(hub, database, 1.2, 1_500.0, burst)


def test_the_table_compares_medians_with_the_code_of_before_and_names_the_bar() -> None:
    """HO-10."""
    costs = {
        "this tree": [cost(1.0, 1.0, 2.0), cost(3.0, 1.0, 3.0), cost(9.0, 1.0, 1.0)],
        "before": [cost(4.0, 4.0, 4.0)],
        "null hub": [cost(0.5, 0.0, 1.0)],
    }

    title, ours, _, _, before, null_hub = _table(20.0, costs)

    assert title == "20/s, medians of 3 rounds (least-most)"
    assert "; processor 4.00 (2.00-10.00); " in ours
    assert before.startswith("  this tree : before   hub ms 0.75x, database ms 0.25x, processor 0.50x (bar 0.7), ")
    assert null_hub.startswith("  this tree : null hub   hub ms 6.00x, processor 8.00x, ")


def test_another_rate_has_another_bar() -> None:
    """HO-10."""
    costs = {"this tree": [cost(1.0, 1.0, 2.0)], "before": [cost(1.0, 1.0, 4.0)]}

    *_, before = _table(200.0, costs)

    assert "ack p50 0.50x (bar 0.8), ack p99" in before

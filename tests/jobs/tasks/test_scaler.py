"""The scaler on virtual time: step, burst, idleness, no swinging (JB-36, JT-17)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from jobs.tasks.scaler import Sample, Scaler, ScalerOptions


def simulate(arrivals: Callable[[int], int], seconds: int, **options: float) -> list[int]:
    """Workers before the first second and after each; each completes one task a second."""
    scaler = Scaler(ScalerOptions(1, 8, **options))  # type: ignore[arg-type]
    arrived = completed = 0
    history = [scaler.workers]
    for second in range(seconds):
        arrived += arrivals(second)
        completed += min(scaler.workers, arrived - completed)
        history.append(scaler.decide(Sample(second, arrived, completed, arrived - completed)))
    return history


def test_it_follows_a_burst_and_does_not_swing() -> None:
    """JT-17: up while the burst lasts, down after it, and no up and down between."""
    history = simulate(lambda second: 6 if second < 60 else 0, 200)
    changes = [after - before for before, after in pairwise(history) if after != before]
    turns = sum(1 for before, after in pairwise(changes) if before != after)

    assert (history[0], max(history) >= 6, history[-1], turns) == (1, True, 1, 1)


def test_a_steady_load_that_is_carried_changes_nothing() -> None:
    assert set(simulate(lambda _: 1, 100)) == {1}


def test_never_more_than_the_most_nor_less_than_the_least() -> None:
    assert set(simulate(lambda _: 100, 100)) == set(range(1, 9))


def test_the_scaler_waits_for_its_cool_down_between_changes() -> None:
    """The cool-down."""
    history = simulate(lambda _: 100, 60, cool_down_seconds=7.0)
    at = [second for second, (before, after) in enumerate(pairwise(history)) if before != after]

    assert min(after - before for before, after in pairwise(at)) == 7

"""Patience: a wait ends with the work or with its limits, never because the work is slow."""

from __future__ import annotations

import pytest

from app.chaos.patience import Patience, PatienceOptions

OPTIONS = PatienceOptions(seconds_max=100, still_seconds_max=10)


@pytest.mark.parametrize(
    ("looks", "ends_at"),
    [
        ([(0, 50), (9, 49), (18, 48), (27, 47), (36, 46), (45, 46)], None),
        ([(0, 50), (9, 50), (10, 50)], 10),
        ([(0, 50), (5, 49), (9, 60), (14, 55), (15, 50)], 15),
        ([(0, None), (9, None), (10, None)], 10),
        ([(second, 200 - second) for second in range(0, 120, 5)], 100),
    ],
    ids=["falls slowly", "stays", "rises and falls again", "nobody can tell", "falls for too long"],
)
def test_it_waits_as_long_as_the_number_falls(looks: list[tuple[int, int | None]], ends_at: int | None) -> None:
    """GU-21"""
    patience = Patience(OPTIONS, 0)
    ends = [second for second, number in looks if not patience.lasts(number, second)]
    assert (ends[0] if ends else None) == ends_at


def test_its_limits_are_said_in_words() -> None:
    """GU-21: the bound of a wait is printed."""
    assert str(OPTIONS) == "at most 100 s, and 10 s without a lower number"

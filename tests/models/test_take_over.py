"""What a worker has claimed is taken over without an inversion in each state of the model, and each twin is found."""

import pytest

from tests.models.explorer import Broken, explore, replay
from tests.models.take_over import TakeOver, TakeOverRules

_STATES_MAX = 150_000
_LATE = (
    "PostgreSQL restarts: all locks are free",
    "B takes the lane over",
    "B sends 1",
    "the receiver ends 1 of B",
    "B stores that 1 is delivered",
    "B sends 2",
    "the receiver ends 2 of B",
    "A sends 1",
    "the receiver ends 1 of A",
)


@pytest.mark.parametrize("is_alone", [False, True], ids=["two", "alone"])
def test_no_inversion_and_no_stale_end_in_any_state(is_alone: bool) -> None:
    """TO-01 to TO-05: workers of the product wait for the end of a lease; these rules are a model."""
    assert explore(TakeOver(TakeOverRules(), is_alone=is_alone), _STATES_MAX) > 500


@pytest.mark.parametrize(
    ("rules", "is_alone", "rule"),
    [
        (TakeOverRules(trusts_from="answer"), False, "an inversion"),
        (TakeOverRules(waits="nothing"), False, "an inversion"),
        (TakeOverRules(clock="stands"), False, "an inversion"),
        (TakeOverRules(head_keeps_lease=False), False, "an inversion"),
        (TakeOverRules(death_by="pid"), False, "an inversion"),
        (TakeOverRules(fences_settlements=False), False, "a former owner"),
        (TakeOverRules(aborts_alone=True), True, "a repeat"),
    ],
    ids=[
        "trust begins with the answer",
        "a free lock is taken for a death",
        "the clock stands while the process is stopped",
        "a head whose bytes may be on the way is free at once",
        "a pid is taken for a proof",
        "settlements are not fenced",
        "a process without others aborts",
    ],
)
def test_a_broken_twin_is_found_with_its_trace(rules: TakeOverRules, is_alone: bool, rule: str) -> None:
    """TO-01 to TO-05"""
    with pytest.raises(Broken) as found:
        explore(TakeOver(rules, is_alone=is_alone), _STATES_MAX)
    print(found.value)
    assert found.value.rule.startswith(rule)


def test_the_run_that_a_free_lock_allows_is_an_inversion() -> None:
    """TO-01: locks are gone at once after a crash restart, and A learns of it by its keepalive."""
    with pytest.raises(Broken, match="an inversion"):
        replay(TakeOver(TakeOverRules(waits="nothing")), _LATE)

"""webhooks/breaker.py: who fails so often that it is left alone for a while (WH-I07)."""

import pytest

from webhooks.breaker import Breaker, BreakerOptions, is_failure
from webhooks.outcome import Outcome

FAILED = Outcome("server_error", 500)
FINE = Outcome("delivered", 204)


def judged(breaker: Breaker, *outcomes: Outcome, now: float = 0.0, is_probe: bool = False) -> list[str | None]:
    return [breaker.judge(1, outcome, is_probe=is_probe, now=now) for outcome in outcomes]


def test_it_opens_at_its_share_of_failures_but_not_before_its_least_number() -> None:
    assert judged(Breaker(BreakerOptions()), *[FAILED] * 10) == [None] * 9 + ["trip"]


@pytest.mark.parametrize(("failures", "opens"), [(7, True), (6, False)])
def test_the_share_is_of_all_attempts_since_the_first_failure(failures: int, opens: bool) -> None:
    outcomes = [FAILED] * (failures - 1) + [FINE] * (10 - failures) + [FAILED]
    assert (judged(Breaker(BreakerOptions()), *outcomes)[-1] == "trip") is opens


def test_a_success_opens_nothing_even_where_it_completes_the_number() -> None:
    """WH-I07, WH-R16: a receiver that has come back is not left alone for that."""
    assert judged(Breaker(BreakerOptions()), *[FAILED] * 9, FINE, FINE, FINE) == [None] * 12


def test_attempts_of_long_ago_do_not_count() -> None:
    breaker = Breaker(BreakerOptions(window_seconds=100))
    assert judged(breaker, *[FAILED] * 9) + judged(breaker, *[FAILED] * 9, now=101) == [None] * 18


def test_what_was_on_its_way_when_it_opened_says_nothing_new() -> None:
    breaker = Breaker(BreakerOptions(open_seconds=30))
    judged(breaker, *[FAILED] * 10)
    assert judged(breaker, *[FAILED] * 50, now=29) == [None] * 50


def test_a_probe_decides() -> None:
    """Half-open: one failure opens it again, one success closes it."""
    breaker = Breaker(BreakerOptions())
    assert judged(breaker, FAILED, FINE, is_probe=True) == ["retrip", "close"]


def test_it_can_be_switched_off() -> None:
    assert set(judged(Breaker(BreakerOptions(failure_share=0)), *[FAILED] * 50)) == {None}


@pytest.mark.parametrize(
    ("kind", "counts"),
    [("timeout", True), ("throttled", True), ("dns", True), ("client_error", False), ("gone", False),
     ("blocked", False), ("internal", False)],
)  # fmt: skip
def test_failures_are_those_that_speak_against_the_receiver(kind: str, counts: bool) -> None:
    assert is_failure(Outcome(kind, None)) is counts

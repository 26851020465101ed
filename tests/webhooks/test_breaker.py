"""webhooks/breaker.py: who fails so often that it is left alone for a while (WH-I07)."""

import pytest

from webhooks.breaker import BreakerOptions, FailureStats, after_probe, has_to_open, is_failure
from webhooks.outcome import Outcome


def stats(attempts: int, failed: int, *, last_failed: bool = True) -> FailureStats:
    return FailureStats(1, 0, failed, attempts, failed, last_failed)


@pytest.mark.parametrize(
    ("found", "opens"),
    [
        (stats(10, 10), True),
        (stats(9, 9), False),
        (stats(10, 7), True),
        (stats(10, 6), False),
        (stats(20, 14), True),
        (stats(20, 13), False),
    ],
    ids=["all", "too few", "the share", "under it", "the share of many", "under that"],
)
def test_it_opens_at_its_share_of_failures_but_not_before_its_least_number(found: FailureStats, opens: bool) -> None:
    """WH-I07."""
    assert has_to_open(found, BreakerOptions()) is opens


def test_a_success_opens_nothing_even_where_it_completes_the_number() -> None:
    """WH-I07, WH-R16: a receiver that has come back is not left alone for that."""
    assert not has_to_open(stats(10, 9, last_failed=False), BreakerOptions())


def test_a_failed_probe_opens_the_breaker_again_and_a_success_closes_it() -> None:
    """Half-open: one failure opens it again, one success closes it."""
    assert (after_probe(Outcome("server_error", 500)), after_probe(Outcome("delivered", 204))) == ("retrip", "close")


def test_it_can_be_switched_off() -> None:
    assert not has_to_open(stats(20, 20), BreakerOptions(failure_share=0))


@pytest.mark.parametrize(
    ("kind", "counts"),
    [("timeout", True), ("throttled", True), ("dns", True), ("client_error", False), ("gone", False),
     ("blocked", False), ("internal", False)],
)  # fmt: skip
def test_failures_are_those_that_speak_against_the_receiver(kind: str, counts: bool) -> None:
    assert is_failure(Outcome(kind, None)) is counts

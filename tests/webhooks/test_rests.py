"""Rests: until what an answer means is on record, nothing more is sent to its subscription."""

from datetime import UTC, datetime

from webhooks.breaker import BreakerOptions
from webhooks.outcome import Outcome
from webhooks.rests import Rests
from webhooks.retry import Decision
from webhooks.settlement import Result

FAILURES_MIN = 3


def result(decision: Decision, outcome: Outcome, *, failed: bool) -> Result:
    return Result(1, 7, 1, 1, datetime.now(UTC), outcome, decision, failed=failed)


FAILURE = result(Decision("retry", 5.0), Outcome("server_error", 500), failed=True)
THROTTLED = result(Decision("retry", 5.0, pause_seconds=60.0), Outcome("throttled", 429), failed=True)
GONE = result(Decision("dead", end_state="gone"), Outcome("gone", 410), failed=False)


def rests(failure_share: float = 0.7) -> Rests:
    return Rests(BreakerOptions(failure_share=failure_share, attempts_min=FAILURES_MIN))


def test_a_pause_and_an_end_rest_until_they_are_on_record_and_no_claim_is_in_the_air() -> None:
    """WH-R07, WH-R09"""
    for told in (THROTTLED, GONE):
        kept = rests()
        assert kept.begin(told)
        kept.end_recorded()
        assert kept.subscriptions() == {7}
        kept.settled(told)
        assert 7 in kept
        kept.end_recorded()
        assert 7 not in kept


def test_as_many_failures_as_open_a_breaker_rest_until_all_are_judged() -> None:
    """WH-I07: or a fast worker sends dozens while the settlement that opens the breaker is under way."""
    kept = rests()
    assert [kept.begin(FAILURE) for _ in range(FAILURES_MIN)] == [False, False, True]
    for _ in range(FAILURES_MIN - 1):
        kept.settled(FAILURE)
    kept.end_recorded()
    assert 7 in kept
    kept.settled(FAILURE)
    kept.end_recorded()
    assert 7 not in kept
    assert not kept.begin(FAILURE)


def test_without_a_breaker_failures_alone_rest_nobody() -> None:
    kept = rests(failure_share=0)
    assert {kept.begin(FAILURE) for _ in range(2 * FAILURES_MIN)} == {False}

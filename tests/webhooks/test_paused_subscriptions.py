"""PausedSubscriptions: until what an answer means is on record, nothing more is sent to its subscription."""

from datetime import UTC, datetime
from itertools import permutations

import pytest

from webhooks.breaker import BreakerOptions
from webhooks.outcome import Outcome
from webhooks.paused_subscriptions import PausedSubscriptions
from webhooks.result import Result
from webhooks.retry import Decision

FAILURES_MIN = 3


def result(event: int, decision: Decision, outcome: Outcome, *, failed: bool) -> Result:
    return Result(event, 7, 1, 1, datetime.now(UTC), outcome, decision, failed=failed)


FAILURES = [result(n, Decision("retry", 5.0), Outcome("server_error", 500), failed=True) for n in range(10)]
FAILURE = FAILURES[0]
THROTTLED = result(11, Decision("retry", 5.0, pause_seconds=60.0), Outcome("throttled", 429), failed=True)
GONE = result(12, Decision("dead", end_state="gone"), Outcome("gone", 410), failed=False)
STILL_SICK = FAILURES[9]._replace(breaker="retrip")


def paused(failure_share: float = 0.7) -> PausedSubscriptions:
    return PausedSubscriptions(BreakerOptions(failure_share=failure_share, attempts_min=FAILURES_MIN))


@pytest.mark.parametrize("told", [THROTTLED, GONE, STILL_SICK], ids=["429", "410", "a probe that failed"])
def test_a_pause_and_an_end_rest_until_they_are_on_record_and_no_claim_is_in_the_air(told: Result) -> None:
    """WH-R07, WH-R09"""
    kept = paused()
    assert kept.begin(told)
    kept.end_recorded()
    assert kept.subscriptions() == {7}
    kept.settled(told)
    assert 7 in kept
    kept.end_recorded()
    assert 7 not in kept


def test_as_many_failures_as_open_a_breaker_rest_until_all_are_judged() -> None:
    """WH-I07: or a fast worker sends dozens while the settlement that opens the breaker is under way."""
    kept = paused()
    judged = FAILURES[:FAILURES_MIN]
    assert [kept.begin(failure) for failure in judged] == [False, False, True]
    for failure in judged[:-1]:
        kept.settled(failure)
    kept.end_recorded()
    assert 7 in kept
    kept.settled(judged[-1])
    kept.end_recorded()
    assert 7 not in kept
    assert not kept.begin(FAILURE)


@pytest.mark.parametrize("settled", list(permutations((FAILURES[0], GONE, THROTTLED))))
def test_a_rest_ends_with_the_last_of_its_answers_on_record_in_whichever_order(settled: tuple[Result, ...]) -> None:
    """WH-R09: a 410 that is not on record holds, although the failure before it is judged, and a 429 beside it."""
    kept = paused()
    assert [kept.begin(one) for one in (FAILURES[0], GONE, THROTTLED)] == [False, True, True]
    for one in settled:
        kept.end_recorded()
        assert 7 in kept
        kept.settled(one)
    kept.end_recorded()
    assert 7 not in kept


def test_a_probe_whose_settlement_opened_the_breaker_is_known_again() -> None:
    """WH-I07: what comes back says "trip" where it said "retrip"; a rest that waited for the word would never end."""
    kept = paused()
    kept.begin(STILL_SICK)
    kept.settled(STILL_SICK._replace(breaker="trip"))
    kept.end_recorded()
    assert 7 not in kept


def test_what_was_never_sent_is_settled_without_a_rest() -> None:
    kept = paused()
    kept.settled(FAILURE)
    kept.end_recorded()
    assert kept.subscriptions() == frozenset()


def test_without_a_breaker_failures_alone_rest_nobody() -> None:
    kept = paused(failure_share=0)
    assert {kept.begin(failure) for failure in FAILURES[: 2 * FAILURES_MIN]} == {False}

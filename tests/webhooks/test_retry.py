"""webhooks/retry.py: what follows from an outcome (webhooks.md 4.2)."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks.outcome import Outcome
from webhooks.retry import Decision, RetryPolicy, decide

POLICY = RetryPolicy((10, 100))
DISABLED = {"end_state": "disabled", "end_reason": "asked_by_receiver"}


@pytest.mark.parametrize(
    ("outcome", "decision"),
    [
        (Outcome("delivered", 204), Decision("delivered")),
        (Outcome("delivered", 200, asked="disable"), Decision("delivered", **DISABLED)),
        (Outcome("redirect", 302), Decision("retry", 10)),
        (Outcome("client_error", 404), Decision("retry", 10)),
        (Outcome("client_error", 413), Decision("dead", dead_kind="declined")),
        (Outcome("server_error", 500), Decision("retry", 10)),
        (Outcome("server_error", 503, retry_after_seconds=40.0), Decision("retry", 44)),
        (Outcome("server_error", 503, retry_after_seconds=4.0), Decision("retry", 10)),
        (Outcome("throttled", 429), Decision("retry", 10, pause_seconds=60)),
        (Outcome("throttled", 429, retry_after_seconds=0.0), Decision("retry", 10, pause_seconds=0)),
        (Outcome("throttled", 429, retry_after_seconds=40.0), Decision("retry", 44, pause_seconds=40)),
        (Outcome("throttled", 502), Decision("retry", 10)),
        (Outcome("timeout", None), Decision("retry", 10)),
        (Outcome("blocked", None), Decision("retry", 10)),
        (
            Outcome("gone", 410, asked="disable", retry_after_seconds=9.0),
            Decision("dead", dead_kind="gone", end_state="gone", end_reason="answered 410"),
        ),
        (Outcome("server_error", 500, asked="abort-message"), Decision("dead", dead_kind="aborted")),
        (Outcome("throttled", 429, asked="abort-message"), Decision("dead", dead_kind="aborted", pause_seconds=60)),
        (Outcome("server_error", 500, asked="disable"), Decision("retry", 10, **DISABLED)),
    ],
    ids=lambda value: f"{value.kind} {value.status} {value.asked or ''}" if isinstance(value, Outcome) else "",
)
def test_what_follows_from_a_first_attempt(outcome: Outcome, decision: Decision) -> None:
    """WH-R03..R10, DL-3, DL-5, DL-6, in the middle of the jitter."""
    assert decide(outcome, 1, POLICY, 0.5) == decision


@pytest.mark.parametrize(
    ("kind", "dead_kind"), [("server_error", "exhausted"), ("timeout", "exhausted"), ("internal", "internal")]
)
def test_the_schedule_is_used_up_after_its_last_pause(kind: str, dead_kind: str) -> None:
    """WH-R01, WH-R13, WH-13: theirs and ours are kept apart."""
    outcome = Outcome(kind, None)
    assert [decide(outcome, attempts, POLICY, 0.5) for attempts in (1, 2, 3, 4)] == [
        Decision("retry", 10),
        Decision("retry", 100),
        Decision("dead", dead_kind=dead_kind),
        Decision("dead", dead_kind=dead_kind),
    ]


def test_a_throttled_subscription_rests_also_when_the_delivery_dies() -> None:
    """WH-R07."""
    outcome = Outcome("throttled", 429, retry_after_seconds=7.0)
    assert decide(outcome, 1, RetryPolicy(()), 0.5) == Decision("dead", dead_kind="exhausted", pause_seconds=7)


@given(
    planned=st.integers(0, 90_000),
    wait=st.none() | st.floats(0, 86_400),
    chance=st.floats(0, 1, exclude_max=True),
)
def test_the_pause_stays_in_its_jitter_and_never_ends_before_retry_after(
    planned: int, wait: float | None, chance: float
) -> None:
    """WH-R02, WH-R06."""
    decision = decide(Outcome("server_error", 503, retry_after_seconds=wait), 1, RetryPolicy((planned,)), chance)
    least = max(planned * 0.8, wait or 0)
    assert least - 1e-6 <= decision.retry_seconds <= max(planned, wait or 0) * 1.2 + 1e-6


@pytest.mark.parametrize(
    ("retry_after_seconds", "wait_seconds"), [(None, 30.0), (20.0, 30.0), (50.0, 55.0)], ids=["none", "less", "more"]
)
def test_after_an_attempt_out_of_turn_the_schedule_goes_on_where_it_was(
    retry_after_seconds: float | None, wait_seconds: float
) -> None:
    """DL-8: 30 s were left of the pause; WH-R06: not before Retry-After."""
    outcome = Outcome("server_error", 503, retry_after_seconds=retry_after_seconds)
    assert decide(outcome, 2, POLICY, 0.5, 30.0) == Decision("retry", pytest.approx(wait_seconds))


@pytest.mark.parametrize(
    ("age_seconds", "outcome", "decision"),
    [
        (90.0, Outcome("timeout", None), Decision("retry", 10)),
        (91.0, Outcome("timeout", None), Decision("dead", 0.0, "too_late", dead_reason="the next attempt is after")),
        (
            50.0,
            Outcome("server_error", 503, retry_after_seconds=60.0),
            Decision("dead", 0.0, "too_late", dead_reason="Retry-After names a time after"),
        ),
        (90.0, Outcome("server_error", 503, retry_after_seconds=4.0), Decision("retry", 10)),
    ],
    ids=["young", "old", "Retry-After too late", "Retry-After early"],
)
def test_no_attempt_is_made_after_the_age_limit(age_seconds: float, outcome: Outcome, decision: Decision) -> None:
    """WH-R01, WH-R08: a Retry-After that ends after it is not cut short."""
    policy = RetryPolicy((10, 100), age_seconds_max=100)
    if decision.dead_reason is not None:
        decision = replace(decision, dead_reason=f"{decision.dead_reason} the age limit of 100 s")
    assert decide(outcome, 1, policy, 0.5, None, age_seconds) == decision


@pytest.mark.parametrize("status", [400, 401, 404, 410, 415, 422])
def test_a_4xx_may_be_final_for_the_delivery(status: int) -> None:
    """WH-R03, WH-R09, DL-6, FT-08: by the subscription's own wish; it stays, and nothing is exhausted."""
    outcome = Outcome("gone" if status == 410 else "client_error", status)
    policy = RetryPolicy((10,), on_4xx="give_up", on_410="as_4xx")
    assert decide(outcome, 1, policy, 0.5) == Decision("dead", dead_kind="declined")


@pytest.mark.parametrize(
    ("kind", "status"), [("client_error", 408), ("client_error", 425), ("throttled", 429), ("server_error", 500)]
)
def test_what_another_try_may_help_is_tried_again_whatever_a_4xx_means(kind: str, status: int) -> None:
    """WH-R03."""
    assert decide(Outcome(kind, status), 1, RetryPolicy((10,), on_4xx="give_up"), 0.5).action == "retry"


def test_a_410_may_be_a_failure_like_others() -> None:
    """WH-R09: turned off for this subscription."""
    assert decide(Outcome("gone", 410), 1, RetryPolicy((10,), on_410="as_4xx"), 0.5) == Decision("retry", 10)


@pytest.mark.parametrize(
    ("outcome", "action"),
    [
        (Outcome("server_error", 500), "park"),
        (Outcome("client_error", 413), "park"),
        (Outcome("internal", None), "dead"),
        (Outcome("server_error", 500, asked="abort-message"), "dead"),
        (Outcome("gone", 410), "dead"),
    ],
    ids=lambda value: f"{value.kind} {value.status}" if isinstance(value, Outcome) else "",
)
def test_what_is_exhausted_may_be_parked(outcome: Outcome, action: str) -> None:
    """WH-O03: what nobody can decide about is not."""
    decision = decide(outcome, 1, RetryPolicy((), parks=True), 0.5)
    assert (decision.action, decision.dead_kind is None) == (action, action == "park")

"""webhooks/retry.py: what follows from an outcome (webhooks.md 4.2)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks.outcome import Outcome
from webhooks.retry import Decision, decide

SCHEDULE = (10, 100)
DISABLED = {"end_state": "disabled", "end_reason": "asked_by_receiver"}


@pytest.mark.parametrize(
    ("outcome", "decision"),
    [
        (Outcome("delivered", 204), Decision("delivered")),
        (Outcome("delivered", 200, asked="disable"), Decision("delivered", **DISABLED)),
        (Outcome("redirect", 302), Decision("retry", 10)),
        (Outcome("client_error", 404), Decision("retry", 10)),
        (Outcome("client_error", 413), Decision("dead", dead_kind="exhausted")),
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
    """WH-R03..R10, in the middle of the jitter."""
    assert decide(outcome, 1, SCHEDULE, 0.5) == decision


@pytest.mark.parametrize(
    ("kind", "dead_kind"), [("server_error", "exhausted"), ("timeout", "exhausted"), ("internal", "internal")]
)
def test_the_schedule_is_used_up_after_its_last_pause(kind: str, dead_kind: str) -> None:
    """WH-R01, WH-R13, WH-13: theirs and ours are kept apart."""
    outcome = Outcome(kind, None)
    assert [decide(outcome, attempts, SCHEDULE, 0.5) for attempts in (1, 2, 3, 4)] == [
        Decision("retry", 10),
        Decision("retry", 100),
        Decision("dead", dead_kind=dead_kind),
        Decision("dead", dead_kind=dead_kind),
    ]


def test_a_throttled_subscription_rests_also_when_the_delivery_dies() -> None:
    """WH-R07."""
    outcome = Outcome("throttled", 429, retry_after_seconds=7.0)
    assert decide(outcome, 1, (), 0.5) == Decision("dead", dead_kind="exhausted", pause_seconds=7)


@given(
    planned=st.integers(0, 90_000),
    wait=st.none() | st.floats(0, 86_400),
    chance=st.floats(0, 1, exclude_max=True),
)
def test_the_pause_stays_in_its_jitter_and_never_ends_before_retry_after(
    planned: int, wait: float | None, chance: float
) -> None:
    """WH-R02, WH-R06."""
    decision = decide(Outcome("server_error", 503, retry_after_seconds=wait), 1, (planned,), chance)
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
    assert decide(outcome, 2, SCHEDULE, 0.5, 30.0) == Decision("retry", pytest.approx(wait_seconds))

"""State, reason, blocker and next attempt of a delivery, a subscription and an event: FT-01, FT-04."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from webhooks.condition import (
    Condition,
    delivery_condition,
    event_condition,
    sink_condition,
    subscription_condition,
)

NOW = datetime(2026, 1, 15, 9, 30, 0, 999, tzinfo=UTC)
SOON = NOW + timedelta(minutes=1)
LATER = NOW + timedelta(minutes=10)
BEFORE = NOW - timedelta(minutes=22)
BEFORE_TEXT, SOON_TEXT = "2026-01-15T09:08:00Z", "2026-01-15T09:31:00Z"


def receiver(**more: Any) -> dict[str, Any]:
    """A row of the view ``receivers``: active, healthy, nothing waits."""
    usual = dict.fromkeys(
        ("state_reason", "lease_until", "paused_until", "breaker_until", "rate_until", "failing_since",
         "failure_outcome", "failure_status", "next_due_at", "waiting_since", "answer_seconds")
    )  # fmt: skip
    return {
        **usual, "protocol": "webhook", "subscription_state": "active", "now": NOW, "waiting": 0,
        "last_success_at": BEFORE, "next_is_claimed": False,
    } | more  # fmt: skip


def delivery(**more: Any) -> dict[str, Any]:
    """An open delivery that is due and has never been tried."""
    own = {
        "parked_at": None,
        "due_at": NOW,
        "is_claimed": False,
        "attempts": 0,
        "last_outcome": None,
        "last_status": None,
    }
    return receiver() | own | more


FAILED: dict[str, Any] = {"attempts": 3, "last_outcome": "server_error", "last_status": 503}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, Condition("pending", "it is due now", None, NOW)),
        (
            {"due_at": BEFORE},
            Condition(
                "pending",
                f"it is due since {BEFORE_TEXT} and no worker has taken it; is `hookwire deliver` running?",
                None,
                NOW,
            ),
        ),
        (
            {**FAILED, "due_at": SOON},
            Condition(
                "retrying", f"the last attempt failed: server_error 503; attempt 4 is at {SOON_TEXT}", "schedule", SOON
            ),
        ),
        (
            {**FAILED, "due_at": None},
            Condition(
                "retrying",
                "an earlier event of its key has to be delivered first; the last attempt failed: server_error 503",
                "order",
            ),
        ),
        (
            {**FAILED, "due_at": None, "parked_at": BEFORE},
            Condition(
                "parked",
                "it is parked until an operator retries it or gives it up; the last attempt failed: server_error 503",
                "hold",
            ),
        ),
        (
            {"is_claimed": True, "attempts": 1, "due_at": SOON},
            Condition("sending", f"it is in flight; without a result it is sent again at {SOON_TEXT}", "in_flight"),
        ),
        (
            {"is_claimed": True, "attempts": 1, "due_at": SOON, "protocol": "pull"},
            Condition(
                "sending", f"it was fetched; without a result it may be fetched again at {SOON_TEXT}", "in_flight"
            ),
        ),
        (
            {**FAILED, "due_at": BEFORE, "breaker_until": LATER},
            Condition(
                "retrying",
                "the breaker is open until 2026-01-15T09:40:00Z; then one delivery is tried; "
                "the last attempt failed: server_error 503",
                "breaker",
                LATER,
            ),
        ),
        (
            {"due_at": LATER, "breaker_until": BEFORE},
            Condition("pending", "the breaker lets one delivery at a time pass", "breaker", LATER),
        ),
        (
            {"paused_until": SOON, "breaker_until": LATER},
            Condition("pending", "the receiver asked for a pause until 2026-01-15T09:31:00Z", "pause", LATER),
        ),
        (
            {"rate_until": SOON},
            Condition("pending", "the rate limit lets the next one pass at 2026-01-15T09:31:00Z", "rate", SOON),
        ),
        (
            {"subscription_state": "disabled", "state_reason": "by request", "due_at": BEFORE},
            Condition("pending", "the subscription is disabled: by request", "pause"),
        ),
        ({"subscription_state": "gone"}, Condition("pending", "the subscription is gone")),
        ({"lease_until": BEFORE}, Condition("pending", "the lease of the subscription ended at 2026-01-15T09:08:00Z")),
        ({"protocol": "pull"}, Condition("pending", "it waits to be fetched by its subscriber")),
        (
            {"state": "dead", "kind": "declined", "detail": None, "last_outcome": "client_error", "last_status": 400},
            Condition(
                "dead", "given up: the answer of the receiver is final: client_error 400"
            ),
        ),
        (
            {"state": "delivered", "at": BEFORE, "attempts": 2},
            Condition("delivered", "delivered at 2026-01-15T09:08:00Z by attempt 2"),
        ),
    ],
    ids=lambda value: value.reason if isinstance(value, Condition) else "",
)  # fmt: skip
def test_what_has_to_change_first_is_the_reason_of_a_delivery(given: dict[str, Any], expected: Condition) -> None:
    """FT-04, WH-R14: never empty, times in RFC 3339, what blocks it by name, and nothing next in the past."""
    assert delivery_condition(delivery(**given)) == expected


FAILING: dict[str, Any] = {"failing_since": BEFORE, "failure_outcome": "connect", "failure_status": None, "waiting": 3}
SINCE = "failing since 2026-01-15T09:08:00Z: connect; "
NEVER = "it has never answered with success; "


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, Condition("healthy", "the last success was at 2026-01-15T09:08:00Z")),
        ({"last_success_at": None}, Condition("untried", "nothing has been sent to it yet")),
        (
            {**FAILING, "last_success_at": None, "breaker_until": LATER, "next_due_at": BEFORE},
            Condition(
                "failing", SINCE + NEVER + "the breaker is open until 2026-01-15T09:40:00Z; then one delivery is tried",
                "breaker", LATER,
            ),
        ),
        (
            {**FAILING, "next_due_at": SOON},
            Condition(
                "failing",
                SINCE + f"its last success was at {BEFORE_TEXT}; the next attempt is at {SOON_TEXT}",
                "schedule", SOON,
            ),
        ),
        (
            {**FAILING, "last_success_at": None},
            Condition("failing", SINCE + NEVER + "its deliveries wait behind a parked delivery of their key", "hold"),
        ),
        ({**FAILING, "waiting": 0, "last_success_at": None}, Condition("failing", (SINCE + NEVER)[:-2])),
        (
            {"paused_until": SOON},
            Condition("paused", "the receiver asked for a pause until 2026-01-15T09:31:00Z", "pause", SOON),
        ),
        (
            {"rate_until": SOON, "waiting": 1, "next_due_at": BEFORE},
            Condition(
                "healthy",
                f"the last success was at {BEFORE_TEXT}; the rate limit lets the next one pass at {SOON_TEXT}",
                "rate", SOON,
            ),
        ),
        (
            {**FAILING, "subscription_state": "disabled", "state_reason": "by request"},
            Condition("disabled", "the subscription is disabled: by request", "pause"),
        ),
        (
            {"protocol": "pull", "waiting": 9, "next_due_at": BEFORE},
            Condition("healthy", "its subscriber fetches its events"),
        ),
    ],
    ids=lambda value: value.reason if isinstance(value, Condition) else "",
)  # fmt: skip
def test_a_subscription_is_healthy_only_while_its_receiver_answers(given: dict[str, Any], expected: Condition) -> None:
    """FT-01: failing since, never answered, last success, what blocks it, and the later of schedule and breaker."""
    assert subscription_condition(receiver(**given)) == expected


def sink(name: str, state: str, *, configured: bool = True, **more: Any) -> tuple[str, Condition]:
    """What one sink says of an event."""
    row = {"sink": name, "state": state, "configured": configured, "reason": None, "probe_at": None} | more
    row = {"paused_at": None} | row
    return name, sink_condition(row)


DELIVERED = Condition("delivered", "delivered at 2026-01-15T09:08:00Z by attempt 1")
RETRYING = Condition("retrying", "the last attempt failed: timeout", "schedule", SOON)


@pytest.mark.parametrize(
    ("sinks", "deliveries", "expected"),
    [
        ([], [], Condition("unrouted", "its topic is routed to no sink; it is stored")),
        (
            [sink("webhooks", "pending")], [],
            Condition("pending", "webhooks: accepted, and not matched with subscriptions yet"),
        ),
        (
            [sink("webhooks", "sent")], [],
            Condition("unmatched", "no subscription's topic and filter matched when it was fanned out"),
        ),
        ([sink("kafka", "sent"), sink("webhooks", "sent")], [], Condition("delivered", "every sink has confirmed it")),
        ([sink("webhooks", "sent")], [DELIVERED], DELIVERED),
        ([sink("jobs", "sent"), sink("webhooks", "sent")], [], Condition("delivered", "every sink has confirmed it")),
        (
            [sink("jobs", "pending", paused_at=BEFORE)], [],
            Condition("pending", f"jobs: this sink is paused since {BEFORE_TEXT}", "pause"),
        ),
        ([sink("jobs", "pending")], [], Condition("pending", "jobs: it waits for the relay of this sink")),
        (
            [sink("webhooks", "sent")], [DELIVERED, RETRYING],
            Condition("retrying", "1 of 2 retrying; the last attempt failed: timeout", "schedule", SOON),
        ),
        (
            [sink("kafka", "held", reason="too large", probe_at=LATER), sink("webhooks", "sent")], [RETRYING],
            Condition("held", "1 of 2 held; kafka: too large", "hold", SOON),
        ),
        (
            [sink("amqp", "pending", configured=False)], [],
            Condition("pending", "amqp: this sink is not configured; set HOOKWIRE_AMQP_URL", "hold"),
        ),
    ],
    ids=lambda value: value.reason if isinstance(value, Condition) else "",
)  # fmt: skip
def test_an_event_is_in_the_state_of_the_part_that_is_furthest_from_done(
    sinks: list[tuple[str, Condition]], deliveries: list[Condition], expected: Condition
) -> None:
    """FT-04."""
    assert event_condition(sinks, deliveries) == expected

"""webhooks/lifetime.py and the worker: how long, and how often, an event is worth delivering (WH-A04)."""

import json
from typing import Any

import pytest

from tests.hostile.server import hostile_server
from tests.webhooks.harness import delivery_harness
from tests.webhooks.test_message import event
from webhooks.lifetime import ttl_seconds, within_lifetime
from webhooks.outcome import Outcome
from webhooks.retry import RetryPolicy, decide

HOUR = 3600


@pytest.mark.parametrize(
    ("headers", "schedule", "age"),
    [
        ({}, (5, 60), 1000),
        ({"hookwire-ttl": "30"}, (5, 60), 30),
        ({"hookwire-ttl": "5000"}, (5, 60), 1000),
        ({"hookwire-ttl": "soon"}, (5, 60), 1000),
        ({"hookwire-ttl": "-1"}, (5, 60), 1000),
        ({"hookwire-retry": "never"}, (), 1000),
        ({"hookwire-retry": "often"}, (5, 60), 1000),
    ],
    ids=str,
)
def test_the_shorter_of_two_limits_counts(headers: dict[str, str], schedule: tuple[int, ...], age: float) -> None:
    policy = within_lifetime(RetryPolicy((5, 60), 1000), event(headers=headers))
    assert policy == RetryPolicy(schedule, age, is_late_final=age == 30)


def test_no_key_waits_for_an_event_that_is_not_worth_delivering_any_more() -> None:
    """WH-A04, WH-O03: it is a dead letter, as the other events of that age; one that is exhausted before is parked."""
    policy = within_lifetime(RetryPolicy((60,), parks=True), event(headers={"hookwire-ttl": "30"}))
    failed = Outcome("server_error", 500)
    assert [decide(failed, position, policy, 0.5).action for position in (1, 2)] == ["dead", "park"]


def test_a_lifetime_that_makes_no_sense_is_none() -> None:
    assert [ttl_seconds(event(headers={"hookwire-ttl": text})) for text in ("", "1.5", "9" * 10, "\u0661")] == [
        None
    ] * 4


@pytest.mark.parametrize(
    ("headers", "aged", "attempts", "detail"),
    [
        ({"hookwire-ttl": "60"}, 61, 0, "its time to live has ended"),
        ({"hookwire-ttl": "60"}, 0, 1, "the next attempt is after the age limit of 60 s"),
        ({"hookwire-retry": "never"}, 0, 1, None),
    ],
    ids=["too late", "no second attempt within it", "once"],
)
async def test_what_is_not_worth_delivering_any_more_is_a_dead_letter(
    database_url: str, headers: dict[str, str], aged: int, attempts: int, detail: str | None
) -> None:
    """WH-A04: never sent when it is too late; and receivers see none of these headers."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        await harness.subscribe(server.url("/status/503"))
        (one,) = await harness.deliver(b"{}", headers=json.dumps(headers))
        await harness.sql.execute(
            "UPDATE hookwire.deliveries SET created_at = created_at - make_interval(secs => $1)", aged
        )
        async with harness.working(schedule_seconds=(HOUR, HOUR)):
            await harness.drained()
        letters: list[Any] = await harness.sql.fetch("SELECT event_id, kind, detail FROM hookwire.dead_letters")
        kind = "too_late" if detail else "exhausted"
        assert [tuple(letter) for letter in letters] == [(one, kind, detail)]
        assert [request.header(name) for request in server.requests for name in headers] == [None] * attempts

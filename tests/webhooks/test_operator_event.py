"""Operator events: what the people who run the hub hear of deliveries, on its own topic (WH-I08, WH-A09)."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.hostile.server import hostile_server
from tests.waiting import until
from tests.webhooks.harness import Harness, delivery_harness
from webhooks.breaker import BreakerOptions, FailureStats
from webhooks.incidents.operator_event import notices_of
from webhooks.outcome import Outcome
from webhooks.result import Result
from webhooks.retry import Decision

CALLBACK = "http://127.0.0.1:8000/"
AT = datetime(2026, 1, 2, tzinfo=UTC)


def result(event: int = 7, decision: Decision | None = None, **more: Any) -> Result:
    """An attempt of subscription 1."""
    made = decision or Decision("retry", 5.0)
    outcome = Outcome("delivered", 204) if made.action == "delivered" else Outcome("server_error", 500)
    return Result(event, 1, 1, 1, AT, outcome, made, failed=made.action != "delivered", **more)


def told(*results: Result, before: int = 0) -> list[tuple[Any, ...]]:
    """Type and figure of each notice; ``before``: so many failures in a row had been settled by then."""
    notices = notices_of(results, [FailureStats(1, before, 0, 0, 0, last_failed=False)])
    return [(one["type"], one.get("failures", one.get("deliveries", one.get("reason")))) for one in notices]


def test_failures_in_a_row_are_told_at_four_levels_and_so_is_the_recovery() -> None:
    """WH-I08: 50, 70, 90, 100 of 100."""
    results = [*[result()] * 120, result(decision=Decision("delivered")), *[result()] * 49]
    assert told(*results) == [
        ("subscription.failing", 50), ("subscription.failing", 70), ("subscription.failing", 90),
        ("subscription.failing", 100), ("subscription.recovered", 120),
    ]  # fmt: skip


def test_a_row_of_failures_goes_on_where_all_workers_have_left_it() -> None:
    """WH-I08: what is counted is the fleet's, not this worker's."""
    assert (told(result(), before=48), told(*[result()] * 2, before=48), told(result(), before=50)) == (
        [], [("subscription.failing", 50)], [],
    )  # fmt: skip


def test_what_was_never_sent_is_no_failure_of_its_receiver() -> None:
    assert told(*[result()._replace(failed=None)] * 60) == []


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ([result(n, Decision("dead", dead_kind="exhausted")) for n in (3, 4)], [("delivery.exhausted", 2)]),
        ([result(3, Decision("park"))], [("delivery.parked", 1)]),
        ([result(3, breaker="trip")], [("breaker.opened", None)]),
        ([result(3, Decision("delivered"), breaker="close")], [("breaker.closed", None)]),
        (
            [
                result(n, Decision("dead", dead_kind="gone", end_state="gone", end_reason="answered 410"))
                for n in (3, 4)
            ],
            [("subscription.ended", "answered 410")],
        ),
        ([result(3)], []),
        ([result(3, Decision("dead", dead_kind="exhausted"), tells=False)], []),
    ],
    ids=["exhausted", "parked", "opened", "closed", "gone", "retried", "of its own"],
)
def test_what_is_told_of_a_batch(results: list[Result], expected: list[tuple[Any, ...]]) -> None:
    """WH-R09, WH-R13, WH-I07: one for all of a kind; nothing of operator events themselves."""
    assert told(*results) == expected


async def operator_events(harness: Harness) -> list[dict[str, Any]]:
    rows = await harness.sql.fetch("SELECT payload FROM hookwire.events WHERE topic = 'hookwire.operator' ORDER BY id")
    return [json.loads(row["payload"]) for row in rows]


async def test_who_subscribes_to_the_hub_s_own_topic_hears_of_it(database_url_both: str) -> None:
    """WH-A09: delivered like any event, with the subscription's name; what fails there tells nothing more."""
    async with delivery_harness(database_url_both) as harness, hostile_server() as server, hostile_server() as ear:
        subscription = await harness.subscribe(server.url("/status/500"))
        await harness.subscribe(ear.url("/status/500"), topic="hookwire.operator")
        (event,) = await harness.deliver(b"{}")
        async with harness.working(schedule_seconds=()):
            await until(lambda: operator_events(harness))
            await harness.fan_out()
            await harness.drained()
        [heard] = await operator_events(harness)
        public_id = await harness.sql.fetchval(
            "SELECT public_id FROM hookwire.subscriptions WHERE id = $1", subscription
        )
        assert heard.pop("at").startswith("20")
        assert heard == {
            "type": "delivery.exhausted", "deliveries": 1, "first_event": event, "outcome": "server_error",
            "status": 500, "subscription_id": public_id, "topic": "t", "callback": server.url("/status/500"),
            "about": {"kind": "subscription", "id": public_id},
        }  # fmt: skip
        assert [json.loads(request.body)["type"] for request in ear.requests] == ["delivery.exhausted"]


async def test_what_nobody_wants_to_hear_is_not_even_stored(database_url: str) -> None:
    """Also a subscription to everything is none to this."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        await harness.subscribe(server.url("/status/500"), topic="#")
        await harness.deliver(b"{}")
        async with harness.working(schedule_seconds=()):
            await harness.drained()
        assert await operator_events(harness) == []


async def test_operators_hear_also_where_topics_are_not_created_by_publishing(database_url: str) -> None:
    """WH-A09: the hub's own topic has nobody who could make it."""
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe("http://127.0.0.1:65534/", topic="hookwire.operator")
        await harness.sql.execute("UPDATE hookwire.installation SET topics_auto_create = false")
        notices = json.dumps([{"type": "breaker.opened", "subscription": subscription}])
        assert await harness.database.fetchval("operator.notify", notices) == 1


async def test_a_subscription_that_is_disabled_for_failing_is_told(database_url: str) -> None:
    """WH-I09."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        subscription = await harness.subscribe(server.url("/status/500"))
        await harness.subscribe("http://127.0.0.1:65534/", topic="hookwire.#")
        await harness.database.fetchrow("throttle.trip", subscription, 0.0, 0.0, None, False)
        await harness.sql.execute("UPDATE hookwire.delivery_gates SET failing_since = now() - interval '1 day'")
        await harness.deliver(b"{}")
        options = BreakerOptions(open_seconds=60, disable_seconds=1000)
        async with harness.working(schedule_seconds=(3600,), breaker=options):
            await until(lambda: operator_events(harness))
        heard = {event["type"] for event in await operator_events(harness)}
        assert (heard, (await harness.subscription(subscription))[0]) == (
            {"breaker.opened", "subscription.ended"},
            "disabled",
        )

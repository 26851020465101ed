"""The cost of a filter is known before the fan-out runs it."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from hub.filter import compile_filter
from tests.webhooks.harness import delivery_harness
from tests.webhooks.test_fanout import _ALWAYS, filtered, made, rounds, subscribe_many
from webhooks.fanout import FanOut


async def test_a_filter_that_is_too_expensive_for_an_event_is_a_dead_letter_before_it_runs(database_url: str) -> None:
    """GS-05: 520,000 items against 64 values kept a backend busy for minutes, three times."""
    many = " || ".join(f'$."data"."never" == {number}' for number in range(64))
    async with delivery_harness(database_url) as harness:
        (slow,) = await filtered(harness, many)
        (quick,) = await filtered(harness, _ALWAYS)
        (plain,) = await subscribe_many(harness, 1)
        (event,) = await harness.publish(b'{"dear": "yes", "never": [%s]}' % b",".join([b"1"] * 20_000))
        with capture_logs() as logs:
            found = await rounds(harness, FanOut(harness.database, lambda _: None))
        dead = await harness.sql.fetch("SELECT subscription_id, kind, attempts, detail FROM hookwire.dead_letters")
        detail = "the filter has 64 conditions and the event 20001 values; their product may be 1000000"
        assert (await made(harness), [tuple(row) for row in dead], found, logs) == (
            [(event, quick), (event, plain)], [(slow, "internal", 0, detail)], [[], [event]], [],
        )  # fmt: skip


async def test_events_with_many_values_hold_up_only_their_own_key(database_url: str) -> None:
    """GS-05: they are fanned out alone, so that the others of their batch need not wait for them."""
    async with delivery_harness(database_url) as harness:
        (subscription,) = await filtered(harness, _ALWAYS)
        (large,) = await harness.publish(b"[%s]" % b",".join([b"1"] * 20_000), key="k")
        (behind,) = await harness.publish(b"{}", key="k")
        (other,) = await harness.publish(b"{}", key="other")
        found = await rounds(harness, FanOut(harness.database, lambda _: None))
        assert (found, await made(harness)) == (
            [[other], [large], [behind]], [(event, subscription) for event in (large, behind, other)],
        )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "conditions"),
    [
        ({"topic": "t"}, 1),
        ({"data": {"a": {"$in": ["$", '"$', "\\$"]}, "b$": {"$exists": True}}}, 4),
        ({"data": {"a": {"$ne": 1}, "b": {"$nin": [1, 2]}}}, 5),
        ({"$or": [{"key": {"$startsWith": "$."}}, {"$not": {"data": {"x": {"$gt": 1}}}}]}, 3),
    ],
    ids=["one", "texts_with_the_sign", "negated", "nested"],
)  # fmt: skip
async def test_the_conditions_of_a_filter_are_counted_in_its_path(
    database_url: str, given: dict[str, Any], conditions: int
) -> None:
    """GS-05: a negated condition reads its path once, and is counted twice."""
    async with delivery_harness(database_url) as harness:
        path = compile_filter(given)
        assert await harness.sql.fetchval("SELECT hookwire.condition_count($1::text::jsonpath)", path) == conditions

"""webhooks/worker.py and the fan-out: only a lane's head is due, and new content leaves the retry schedule alone."""

import json
from datetime import datetime
from typing import Any

import pytest

from db.statements import STATEMENTS
from tests.hostile.server import Conversation, answer, hostile_server
from tests.waiting import until
from tests.webhooks.harness import Harness, delivery_harness

CALLBACK = "http://127.0.0.1:8000/"
ID_MAX = 2**63 - 1
OK = answer(204)


async def lane(harness: Harness) -> list[tuple[int, str]]:
    """Open deliveries: event, and whether it is due, backs off or is blocked by another one."""
    rows = await harness.sql.fetch(
        "SELECT event_id, CASE WHEN due_at = 'infinity' THEN 'blocked' WHEN due_at <= now() THEN 'due' ELSE 'later' END"
        " FROM hookwire.deliveries ORDER BY event_id"
    )
    return [tuple(row) for row in rows]


# --- only the head is due ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("deliveries_max", [20_000, 1], ids=["whole", "in slices"])
async def test_what_is_behind_another_delivery_of_its_lane_is_not_due(database_url: str, deliveries_max: int) -> None:
    """WH-O02: whether the one before was fanned out earlier or together with it."""
    async with delivery_harness(database_url) as harness:
        await harness.subscribe(CALLBACK, ordered=True)
        if deliveries_max == 1:  # two make a slice each
            await harness.subscribe(CALLBACK, ordered=True)
        a = await harness.publish(b"a1", b"a2", key="a")
        b = await harness.publish(b"b1", key="b")
        free = await harness.publish(b"-", b"-")
        await harness.fan_out(deliveries_max=deliveries_max)
        a += await harness.publish(b"a3", key="a")
        await harness.fan_out(deliveries_max=deliveries_max)
        blocked = set(a[1:])
        assert set(await lane(harness)) == {
            (event, "blocked" if event in blocked else "due") for event in (*a, *b, *free)
        }


async def test_an_earlier_event_that_is_fanned_out_late_is_the_new_head(database_url: str) -> None:
    """RR-10: the head is the lowest event, so it must be due although others of its lane are there already."""
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe(CALLBACK, topic="#", ordered=True)
        (early,) = await harness.publish(b"1", topic="a", key="k")
        (late,) = await harness.publish(b"2", topic="b", key="k")
        await harness.sql.execute("UPDATE hookwire.outbox SET sink = 'later' WHERE id = $1", early)
        await harness.fan_out()
        await harness.sql.execute("UPDATE hookwire.outbox SET sink = 'webhooks' WHERE id = $1", early)
        await harness.fan_out()
        claimed = await harness.database.fetch("delivery.claim", [subscription], [10], 15.0, 5.0, None)
        assert ([row["event_id"] for row in claimed], late > early) == ([early], True)


async def test_the_settlement_of_a_head_makes_the_next_one_due(database_url: str) -> None:
    """WH-O02, WH-O03: after a success, a dead letter, and lost contents; a failure promotes nobody."""

    async def script(conversation: Conversation) -> None:
        while True:
            request = await conversation.read_request()
            await conversation.send({b"1": OK, b"2": answer(413)}.get(request.body, answer(500)))

    async with delivery_harness(database_url) as harness, hostile_server(script) as server:
        await harness.subscribe(server.url(), ordered=True)
        *_, lost, failing, last = await harness.deliver(b"1", b"2", b"lost", b"3", b"4", key="k")
        await harness.sql.execute("DELETE FROM hookwire.events WHERE id = $1", lost)
        async with harness.working(schedule_seconds=(1000,)):
            await harness.settled(3)
        assert await lane(harness) == [(failing, "later"), (last, "blocked")]
        page = await harness.database.fetch(
            "delivery.list", "default", last, None, "pending", ID_MAX, ID_MAX, 10, 0, None, None, 0
        )
        assert [row["due_at"] for row in page] == [None]


async def test_heads_that_nobody_made_due_are_found(database_url: str) -> None:
    """RR-10: a fan-out that still saw a head, while the head's settlement did not see the new delivery."""
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe(CALLBACK, ordered=True)
        first, second = await harness.deliver(b"1", b"2", key="k")
        (other,) = await harness.deliver(b"3", key="other")
        await harness.sql.execute("UPDATE hookwire.deliveries SET due_at = 'infinity' WHERE event_id = $1", first)
        found = [
            [row["subscription_id"] for row in await harness.database.fetch("delivery.promote_heads")] for _ in "12"
        ]
        assert found == [[subscription], []]
        assert await lane(harness) == [(first, "due"), (second, "blocked"), (other, "due")]


async def test_a_worker_finds_heads_that_nobody_made_due_by_polling(database_url: str) -> None:
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        await harness.subscribe(server.url("/status/204"), ordered=True)
        for number in range(40):
            await harness.publish(b"", key=f"k{number}")
        await harness.fan_out()
        await harness.sql.execute("UPDATE hookwire.deliveries SET due_at = 'infinity'")
        async with harness.working():
            await harness.drained()
        assert len(server.requests) == 40


async def test_a_claim_takes_a_head_that_a_fan_out_has_just_overlooked(database_url: str) -> None:
    """So that an ordered lane with little traffic does not wait for the poll."""
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe(CALLBACK, ordered=True)
        first, _ = await harness.deliver(b"1", b"2", key="k")
        await harness.sql.execute("UPDATE hookwire.deliveries SET due_at = 'infinity'")
        claimed = await harness.database.fetch("delivery.claim", [subscription], [10], 15.0, 5.0, None)
        assert [row["event_id"] for row in claimed] == [first]


async def pages_read(harness: Harness, name: str, *arguments: object) -> int:
    """Pages that a statement looked at, in memory or not."""
    plan = await harness.sql.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {STATEMENTS[name]}", *arguments)
    root: dict[str, Any] = json.loads(plan)[0]["Plan"]
    return int(root["Shared Hit Blocks"] + root["Shared Read Blocks"])


@pytest.mark.parametrize("is_analysed", [False, True], ids=["not analysed", "analysed"])
async def test_what_waits_behind_a_failing_head_costs_a_claim_nothing(database_url: str, is_analysed: bool) -> None:
    """WH-O03: 50,000 deliveries behind one that backs off; to look at each would take that many pages and more."""
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe(CALLBACK, ordered=True)
        (head,) = await harness.deliver(b"1", key="k")
        await harness.sql.execute(
            "INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant, lane)"
            " SELECT $1 + n, $2, 'infinity', now(), 'default', 'k' FROM generate_series(1, 50000) n",
            head,
            subscription,
        )
        await harness.sql.execute(
            "UPDATE hookwire.deliveries SET due_at = now() + interval '1 h' WHERE event_id = $1", head
        )
        if is_analysed:
            await harness.sql.execute("VACUUM ANALYZE hookwire.deliveries")
        read = [
            await pages_read(harness, "delivery.claim", [subscription], [16], 15.0, 5.0, None),
            await pages_read(harness, "delivery.due_subscriptions"),
            await pages_read(harness, "delivery.promote_heads"),
        ]
        assert [pages < 1000 for pages in read] == [True] * 3, read


# --- new content ------------------------------------------------------------------------------------------------


async def schedule_of(harness: Harness, event: int) -> tuple[int, datetime]:
    """How many attempts of its schedule a delivery has had, and when it goes on."""
    row = await harness.sql.fetchrow(
        "SELECT attempts - free_attempts, due_at FROM hookwire.deliveries WHERE event_id = $1 AND fence IS NULL", event
    )
    assert row is not None
    return row[0], row[1]


async def fan_out_and_retry(harness: Harness, worker: Any, attempts: int) -> None:
    await harness.publish(b"new", key="k")
    await harness.fan_out(due=worker.mark_due)
    await harness.settled(attempts)


async def test_new_content_tries_a_failing_websub_lane_at_once_and_leaves_its_schedule_alone(database_url: str) -> None:
    """WS-61, DL-8, DL-7: a busy topic must not use up a dead subscriber's 75 hours in seconds, nor prolong them."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        await harness.subscribe_websub(server.url("/status/500"))
        (head,) = await harness.deliver(b"old", key="k")
        async with harness.working(schedule_seconds=(1000,)) as worker:
            await harness.settled(1)
            position, planned = await schedule_of(harness, head)
            for attempts in range(2, 6):
                await fan_out_and_retry(harness, worker, attempts)
                await harness.sql.execute(
                    "UPDATE hookwire.deliveries SET woken_at = woken_at - interval '6 s' WHERE event_id = $1", head
                )
            after, planned_after = await schedule_of(harness, head)
            assert (position, after, await harness.dead_letters()) == (1, 1, [])
            assert abs((planned_after - planned).total_seconds()) < 20
            await harness.sql.execute("UPDATE hookwire.deliveries SET due_at = now() WHERE event_id = $1", head)
            dead = await until(harness.dead_letters)
        assert dead == [(head, "exhausted", 6, 500)]


@pytest.mark.parametrize("deliveries_max", [20_000, 1], ids=["whole", "in slices"])
async def test_new_content_wakes_a_websub_lane_every_five_seconds_at_most(
    database_url: str, deliveries_max: int
) -> None:
    """WS-61, DL-8: with 20 events in a row, and again as soon as five seconds have gone."""
    async with delivery_harness(database_url) as harness:
        for _ in range(2):
            await harness.subscribe_websub(CALLBACK)
        (head,) = await harness.deliver(b"old", key="k")
        fail = "UPDATE hookwire.deliveries SET due_at = now() + interval '1 h' WHERE event_id = $1"
        woken = []
        for age_seconds in (0, 6, 3):
            await harness.sql.execute(
                "UPDATE hookwire.deliveries SET woken_at = now() - make_interval(secs => $1) WHERE free_attempts > 0",
                age_seconds,
            )
            await harness.sql.execute(fail, head)
            for _ in range(20 if age_seconds == 0 else 1):
                await harness.publish(b"new", key="k")
            await harness.fan_out(deliveries_max=deliveries_max)
            woken.append(await harness.sql.fetchval("SELECT sum(free_attempts) FROM hookwire.deliveries"))
        assert woken == [2, 4, 4]

"""webhooks/replay.py on a real database: what a job selects, how it is marked, and that it survives anything."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.hostile.server import hostile_server
from tests.webhooks.harness import Harness, delivery_harness
from webhooks.replay import Replayer

CALLBACK = "http://127.0.0.1:8000/"


async def job(harness: Harness, source: str, subscription: int | None, **chosen: Any) -> int:
    names = ("topic", "kinds", "statuses", "event_ids", "since", "until", "rate")
    values = [chosen.get(name) for name in names]
    return int(
        await harness.database.fetchval(
            "replay.create", "default", source, subscription, *values, "me", "why", "send", None, None, None
        )
    )


async def finish(harness: Harness) -> list[int]:
    """Step until nothing is due; the subscriptions that were told."""
    told: list[int] = []
    replayer = Replayer(harness.database, told.extend)
    while await replayer.step():
        continue
    return sorted(set(told))


async def made(harness: Harness) -> list[tuple[int, int]]:
    rows = await harness.sql.fetch("SELECT event_id, subscription_id FROM hookwire.deliveries ORDER BY 1, 2")
    return [tuple(row) for row in rows]


async def bury(
    harness: Harness, deliveries: Sequence[tuple[int, int]], kind: str = "exhausted", status: int = 500
) -> None:
    await harness.sql.executemany(
        "INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts, last_status)"
        " VALUES ($1, $2, 'default', $3, 3, $4)",
        [(*delivery, kind, status) for delivery in deliveries],
    )


async def test_events_of_a_subscription_are_delivered_again(database_url: str) -> None:
    """WH-P01: what its pattern covers, whether it was there at the time or not; not what was accepted later."""
    async with delivery_harness(database_url) as harness:
        (before,) = await harness.publish(b"", topic="a.b")
        await harness.publish(b"", topic="c")
        pattern = await harness.subscribe(CALLBACK, topic="a.*")
        exact = await harness.subscribe(CALLBACK, topic="a.b")
        for subscription in (pattern, exact):
            await job(harness, "events", subscription)
        (later,) = await harness.publish(b"", topic="a.b")
        assert (await finish(harness), await made(harness)) == ([pattern, exact], [(before, pattern), (before, exact)])
        assert later not in [event for event, _ in await made(harness)]


async def test_what_a_subscription_missed_runs_by_itself_up_to_the_newest_event_of_its_first_step(
    database_url: str,
) -> None:
    """CN-04: nothing but the commit begins it, so a process that dies behind its commit leaves it running."""
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe(CALLBACK)
        await harness.database.fetchval("replay.prepare", "default", subscription, 0, None, "me", None)
        events = await harness.publish(b"1", b"2")
        await harness.sql.execute("DELETE FROM hookwire.outbox")
        await finish(harness)
        [later] = await harness.publish(b"3")
        await finish(harness)
        row = await harness.sql.fetchrow("SELECT state, upper_event_id FROM hookwire.replays")
        assert (await made(harness), tuple(row)) == ([(event, subscription) for event in events], ("done", later - 1))


async def test_what_waits_for_its_fan_out_is_not_sent_as_missed_as_well(database_url: str) -> None:
    """CN-04: a subscription is enabled before an event of its pause is fanned out, as where the sink was paused."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        subscription = await harness.subscribe(server.url("/ok"))
        await harness.change(subscription, state="disabled")
        await harness.publish(b"missed")
        await harness.fan_out()
        await harness.publish(b"queued")
        await harness.change(subscription, state="active")
        await harness.database.fetchval("replay.prepare", "default", subscription, 0, None, "me", None)
        async with harness.working():
            await finish(harness)
            await harness.drained()
            await harness.fan_out()
            await harness.drained()
            await harness.sql.execute("UPDATE hookwire.replays SET due_at = now()")
            await finish(harness)
            await harness.drained()
        row = await harness.sql.fetchrow("SELECT state, examined, replayed FROM hookwire.replays")
        assert ([one.body for one in server.requests], tuple(row)) == ([b"missed", b"queued"], ("done", 2, 1))


async def test_dead_letters_are_taken_up_with_a_fresh_schedule(database_url: str) -> None:
    """WH-P04: attempts go on counting, the place in the schedule starts anew, the dead letter is gone."""
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe(CALLBACK)
        events = await harness.publish(b"1", b"2")
        await bury(harness, [(event, subscription) for event in events])
        number = await job(harness, "dead_letters", None)
        await finish(harness)
        rows = await harness.sql.fetch("SELECT attempts, free_attempts, replay_id FROM hookwire.deliveries")
        left = await harness.sql.fetchval("SELECT count(*) FROM hookwire.dead_letters")
        assert ([tuple(row) for row in rows], left) == ([(3, 3, number)] * 2, 0)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({"kinds": ["gone"]}, [1]),
        ({"statuses": [503]}, [2]),
        ({"topic": "u"}, [3]),
        ({"kinds": ["exhausted"], "topic": "t"}, [0, 2]),
    ],
    ids=["kind", "status", "topic", "together"],
)
async def test_a_replay_takes_the_dead_letters_that_its_filter_names(
    database_url: str, chosen: dict[str, Any], expected: list[int]
) -> None:
    """WH-P01, and WH-P02: the dry run counts what the job takes."""
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe(CALLBACK, topic="#")
        events = [*await harness.publish(b"", b"", b""), *await harness.publish(b"", topic="u")]
        await bury(harness, [(events[0], subscription)])
        await bury(harness, [(events[1], subscription)], kind="gone")
        await bury(harness, [(events[2], subscription), (events[3], subscription)], status=503)
        names = ("topic", "kinds", "statuses", "event_ids", "since", "until")
        values = [chosen.get(name) for name in names]
        if chosen.get("statuses"):
            expected = [2, 3]
        counted = await harness.database.fetchrow("replay.count", "default", "dead_letters", None, *values, 1000, None)
        assert counted is not None
        await job(harness, "dead_letters", None, **chosen)
        await finish(harness)
        found = [events.index(event) for event, _ in await made(harness)]
        assert (counted["records"], found) == (len(expected), expected)


async def test_what_is_on_its_way_stays_as_it_is(database_url: str) -> None:
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe(CALLBACK)
        await harness.deliver(b"")
        await job(harness, "events", subscription)
        await finish(harness)
        rows = await harness.sql.fetch("SELECT attempts, replay_id FROM hookwire.deliveries")
        assert [tuple(row) for row in rows] == [(0, None)]


async def test_an_event_that_a_replay_delivers_before_its_fan_out_is_delivered_once_more_and_no_oftener(
    database_url: str,
) -> None:
    """WH-P04, WH-12: both are a first attempt; the second's outcome must not be refused, or it would be sent again."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        subscription = await harness.subscribe(server.url("/ok"))
        await harness.publish(b"")
        await job(harness, "events", subscription)
        await finish(harness)
        async with harness.working():
            await harness.drained()
            await harness.fan_out()
            await harness.drained()
        assert (len(server.requests), len(await harness.attempts("number"))) == (2, 1)


async def test_a_lane_keeps_its_order_among_what_is_replayed(database_url: str) -> None:
    """RR-10: one of a key is due, the others wait behind it."""
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe(CALLBACK, ordered=True)
        await harness.publish(b"1", b"2", b"3", key="k")
        await job(harness, "events", subscription)
        await finish(harness)
        rows = await harness.sql.fetch("SELECT lane, isfinite(due_at) FROM hookwire.deliveries ORDER BY event_id")
        assert [tuple(row) for row in rows] == [("k", True), ("k", False), ("k", False)]


async def test_a_job_goes_on_behind_its_last_step_and_takes_turns_at_its_rate(database_url: str) -> None:
    """WH-P03: each step is whole; a paused job stands still; a rate spreads the steps."""
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe(CALLBACK)
        events = await harness.publish(*[b""] * 5)
        number = await job(harness, "events", subscription, rate=4)  # one event a step, however late the step is
        await Replayer(harness.database, lambda _: None).step()
        first = await made(harness)
        await harness.sql.execute("UPDATE hookwire.replays SET due_at = now() + interval '1 hour'")
        waits = await Replayer(harness.database, lambda _: None).step()
        await harness.sql.execute("UPDATE hookwire.replays SET due_at = now(), state = 'paused'")
        paused = await Replayer(harness.database, lambda _: None).step()
        await harness.database.fetchval(
            "replay.set_state", "default", number, ["paused"], "running", "me", "replay.resume", None
        )
        for _ in range(5):
            await harness.sql.execute("UPDATE hookwire.replays SET due_at = now()")
            await Replayer(harness.database, lambda _: None).step()
        row = await harness.sql.fetchrow("SELECT state, examined, replayed FROM hookwire.replays")
        assert (len(first), waits, paused, [event for event, _ in await made(harness)], tuple(row)) == (
            1, False, False, events, ("done", 5, 5),
        )  # fmt: skip


@pytest.mark.parametrize(("late", "least"), [("0.1", 12), ("3600", 20)], ids=["late", "an hour late"])
async def test_a_step_that_is_late_does_not_lower_the_rate(database_url: str, late: str, least: int) -> None:
    """CN-04: it is larger, and the next one is due at its time after the moment of this one; 0.2 s are made up for."""
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe(CALLBACK)
        await harness.publish(*[b""] * 30)
        await job(harness, "events", subscription, rate=80)
        was_due = await harness.sql.fetchval(
            f"UPDATE hookwire.replays SET due_at = now() - interval '{late} seconds' RETURNING due_at"
        )
        await Replayer(harness.database, lambda _: None).step()
        after = await harness.sql.fetchval(
            "SELECT due_at - greatest($1, updated_at - interval '0.2 seconds') FROM hookwire.replays", was_due
        )
        count = len(await made(harness))
        assert (after.total_seconds(), least <= count <= 20) == (count / 80, True)


async def test_the_pause_between_rounds_ends_when_the_next_step_is_due(database_url: str) -> None:
    """CN-04: else a rate would be limited by the poll for due work."""
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe(CALLBACK)
        await harness.publish(*[b""] * 9)
        replayer = Replayer(harness.database, lambda _: None, poll_seconds=300)
        await replayer.once()
        idle = replayer.pause_seconds()
        await job(harness, "events", subscription, rate=1)
        await replayer.once()
        assert (idle, replayer.pause_seconds() <= 1) == (300, True)


async def test_without_a_rate_a_batch_is_small_and_a_slow_one_is_followed_by_a_long_rest(database_url: str) -> None:
    """CN-04: there is room for live events. No worker sends the first batch, so all of the time for it passes."""
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe(CALLBACK)
        await harness.publish(*[b""] * 120)
        await job(harness, "events", subscription)
        replayer = Replayer(harness.database, lambda _: None)
        await replayer.step()
        first = len(await made(harness))
        await harness.sql.execute("UPDATE hookwire.replays SET due_at = now()")
        await replayer.step()
        rest = await harness.sql.fetchval("SELECT due_at - updated_at FROM hookwire.replays")
        assert (first, rest.total_seconds()) == (25, 0.375)


async def test_a_replay_waits_for_nothing_but_what_a_worker_sends_now(database_url: str) -> None:
    """CN-04: neither for a retry, nor behind a head of a lane, nor for what is disabled and not drained."""
    async with delivery_harness(database_url) as harness:
        events = await harness.publish(*[b""] * 4, key="k")
        well, lane = await harness.subscribe(CALLBACK), await harness.subscribe(CALLBACK, ordered=True)
        disabled, drained = await harness.subscribe(CALLBACK), await harness.subscribe(CALLBACK)
        for subscription in (well, lane, disabled, drained):
            await job(harness, "events", subscription)
        await finish(harness)
        for one in (disabled, drained):
            await harness.change(one, state="disabled", drains=one == drained)
        await harness.sql.execute(
            "UPDATE hookwire.deliveries SET due_at = now() + interval '1 hour',"
            " fence = CASE event_id WHEN $1 THEN 7 END WHERE event_id IN ($1, $2) AND subscription_id = $3",
            events[0], events[1], well,
        )  # fmt: skip
        every = (well, lane, disabled, drained)
        found = [await harness.database.fetchval("replay.unsent", events, [one] * 4) for one in every]
        assert found == [3, 1, 0, 4]


async def test_a_filter_that_few_records_pass_is_read_in_larger_steps(database_url: str) -> None:
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe(CALLBACK)
        events = await harness.publish(*[b""] * 200)
        await bury(harness, [(event, subscription) for event in events])
        await job(harness, "dead_letters", None, kinds=["gone"])
        replayer, examined = Replayer(harness.database, lambda _: None), []
        for _ in range(3):
            await harness.sql.execute("UPDATE hookwire.replays SET due_at = now()")
            await replayer.step()
            examined.append(await harness.sql.fetchval("SELECT examined FROM hookwire.replays"))
        assert examined == [25, 75, 175]


_DUE_OF_0_2_0 = """
SELECT r.act FROM hookwire.replays r WHERE r.state = 'running' AND r.due_at <= now() ORDER BY r.due_at LIMIT 1
"""


@pytest.mark.parametrize("act", ["send", "purge"])
async def test_a_replay_of_an_incident_is_never_due_for_a_process_of_before(database_url: str, act: str) -> None:
    """It knows no incidents, and would take all dead letters: before a step, between two, and after a pause."""
    async with delivery_harness(database_url) as harness:
        events = await harness.publish(*[b""] * 3, topic="a")
        subscription = await harness.subscribe(CALLBACK, topic="a")
        await bury(harness, [(event, subscription) for event in events])
        await harness.sql.execute("UPDATE hookwire.dead_letters SET incident_id = 7 WHERE event_id <> $1", events[2])
        number = await harness.database.fetchval(
            "replay.create", "default", "dead_letters", None, None, None, None, None, None, None, 1, "me", "why", act,
            None, None, 7,
        )  # fmt: skip
        due = [await harness.sql.fetchval(_DUE_OF_0_2_0)]
        for states, state in ((["running"], "paused"), (["paused"], "running")):
            await harness.database.fetchval(
                "replay.set_state", "default", number, states, state, "me", "replay.pause", None
            )
        due.append(await harness.sql.fetchval(_DUE_OF_0_2_0))
        await finish(harness)
        due.append(await harness.sql.fetchval(_DUE_OF_0_2_0))
        waits = await harness.sql.fetchval("SELECT incident_due_at > now() FROM hookwire.replays")
        await harness.sql.execute("UPDATE hookwire.replays SET incident_due_at = now()")
        await finish(harness)
        left = await harness.sql.fetch("SELECT event_id FROM hookwire.dead_letters")

        assert (due, waits, [row["event_id"] for row in left]) == ([None] * 3, True, [events[2]])

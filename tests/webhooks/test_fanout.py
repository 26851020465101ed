"""webhooks/fanout.py on a real database: one delivery per event and matching active subscription, exactly once."""

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from app.maintenance.cleanup import Cleanup
from db.errors import OutcomeUnknown
from db.pool import Database, Row
from tests.waiting import until
from tests.webhooks.harness import TERM, Harness, delivery_harness
from webhooks.fanout import FanOut, TermOver

CALLBACK = "http://127.0.0.1:8000/"
MEBIBYTE = 1024 * 1024


async def made(harness: Harness) -> list[tuple[int, int]]:
    return [(event, subscription) for event, subscription, *_ in await harness.deliveries()]


async def cursors(harness: Harness) -> int:
    return int(await harness.sql.fetchval("SELECT count(*) FROM hookwire.fanout_cursors"))


async def subscribe_many(harness: Harness, number: int, topic: str = "t") -> list[int]:
    rows = await harness.sql.fetch(
        "INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state)"
        " SELECT 'sub_' || gen_random_uuid(), 'webhook', $2, 'http://127.0.0.1:8000/', 'active'"
        " FROM generate_series(1, $1) RETURNING id",
        number,
        topic,
    )
    return sorted(row["id"] for row in rows)


_OWN_EVENT = """SELECT event_id FROM hookwire.publish_batch('default', '{1}', '{hookwire.operator}', '{NULL}', '{NULL}',
                                                            '{NULL}', '{x}', '{NULL}', '{NULL}', true)"""


# --- who gets what ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "topics"),
    [
        ("a.b", {"a.b"}),
        ("a.*", {"a.b", "a.c"}),
        ("*.b", {"a.b"}),
        ("a.#", {"a", "a.b", "a.c", "a.b.c"}),
        ("#", {"a", "a.b", "a.c", "a.b.c", "ab", "a-b"}),
        ("#.c", {"a.c", "a.b.c"}),
        ("*", {"a", "ab", "a-b"}),
        ("hookwire.#", {"hookwire.operator"}),
        ("#.operator", set()),
    ],
)
async def test_a_subscription_gets_the_topics_that_its_pattern_covers(
    database_url: str, pattern: str, topics: set[str]
) -> None:
    """`*` is one word, `#` any number; the hub's own topics are chosen by their first word alone."""
    async with delivery_harness(database_url) as harness:
        await harness.subscribe(CALLBACK, topic=pattern)
        published = {}
        for topic in ("a", "a.b", "a.c", "a.b.c", "ab", "a-b"):
            (event,) = await harness.publish(b"", topic=topic)
            published[event] = topic
        published[await harness.sql.fetchval(_OWN_EVENT)] = "hookwire.operator"
        await harness.fan_out()
        assert {published[event] for event, _ in await made(harness)} == topics


@pytest.mark.parametrize("deliveries_max", [20_000, 1], ids=["whole", "in slices"])
async def test_a_filter_chooses_by_content(database_url: str, deliveries_max: int) -> None:
    """WH-A05: in the statement that fans out, and in the slices of an event with a large audience."""
    async with delivery_harness(database_url) as harness:
        everything, large = await harness.subscribe(CALLBACK), await harness.subscribe(CALLBACK)
        await harness.sql.execute(
            "UPDATE hookwire.subscriptions SET filter_path = '$.data.amount >= 100 && $.key == \"k\"' WHERE id = $1",
            large,
        )
        small, big, text = await harness.publish(b'{"amount": 99}', b'{"amount": 100}', b"amount", key="k")
        await harness.fan_out(deliveries_max=deliveries_max)

        assert sorted(await made(harness)) == sorted(
            [(small, everything), (big, everything), (big, large), (text, everything)]
        )


async def test_only_active_subscriptions_of_the_tenant_get_anything(database_url: str) -> None:
    """WH-10: the event itself is stored in any case."""
    async with delivery_harness(database_url) as harness:
        active = await harness.subscribe(CALLBACK)
        leased = await harness.subscribe_websub(CALLBACK)
        for state in ("disabled", "gone", "expired", "denied", "deleted"):
            await harness.subscribe(CALLBACK, state=state)
            await harness.subscribe(CALLBACK, topic="#", state=state)
        await harness.subscribe(CALLBACK, tenant="other")
        await harness.subscribe(CALLBACK, topic="#", tenant="other")
        over = await harness.subscribe_websub(CALLBACK)
        await harness.sql.execute("UPDATE hookwire.subscriptions SET lease_until = now() WHERE id = $1", over)
        (event,) = await harness.deliver(b"")
        assert await made(harness) == [(event, active), (event, leased)]


async def test_a_delivery_is_due_at_once_and_an_ordered_one_knows_its_lane(database_url: str) -> None:
    """WH-O02, WH-O04."""
    async with delivery_harness(database_url) as harness:
        plain, ordered = await harness.subscribe(CALLBACK), await harness.subscribe(CALLBACK, ordered=True)
        (keyed,) = await harness.publish(b"", key="k")
        (keyless,) = await harness.publish(b"")
        await harness.fan_out()
        rows = await harness.sql.fetch(
            "SELECT event_id, subscription_id, lane, tenant, attempts, due_at <= now() AS due FROM hookwire.deliveries"
            " ORDER BY 1, 2"
        )
        assert [tuple(row) for row in rows] == [
            (keyed, plain, None, "default", 0, True),
            (keyed, ordered, "k", "default", 0, True),
            (keyless, plain, None, "default", 0, True),
            (keyless, ordered, None, "default", 0, True),
        ]


async def test_an_event_that_nobody_wants_leaves_the_outbox(database_url: str) -> None:
    async with delivery_harness(database_url) as harness:
        await harness.deliver(b"1", b"2")
        assert (await made(harness), await harness.outbox()) == ([], [])


async def test_who_has_something_to_do_is_told(database_url: str) -> None:
    async with delivery_harness(database_url) as harness:
        one, other = await harness.subscribe(CALLBACK), await harness.subscribe(CALLBACK)
        await harness.subscribe(CALLBACK, topic="other")
        told: list[list[int]] = []
        await harness.publish(b"1", b"2")
        await harness.fan_out(due=lambda subscriptions: told.append(sorted(subscriptions)))
        assert told == [[one, other]]


# --- exactly once -----------------------------------------------------------------------------------------------


async def test_a_deposed_harvester_writes_nothing(database_url: str) -> None:
    """RR-08, RR-10, I5: neither whole events nor slices."""
    async with delivery_harness(database_url) as harness:
        await subscribe_many(harness, 5)
        await harness.publish(b"1", b"2")
        await harness.begin_term(2)
        told: list[Any] = []
        for deliveries_max in (1000, 2):
            with pytest.raises(TermOver):
                await FanOut(harness.database, told.append, deliveries_max).send(0, 1, await harness.outbox())
        assert (await made(harness), len(await harness.outbox()), told, await cursors(harness)) == ([], 2, [], 0)


async def test_concurrent_terms_fan_out_each_event_once(database_url: str) -> None:
    """RT-10, RP-09, RR-10: three harvesters that each believe to rule, while the term moves on under them."""
    async with delivery_harness(database_url) as harness:
        subscriptions = await subscribe_many(harness, 4)
        events = await harness.publish(*(b"%d" % n for n in range(120)))
        records = await harness.outbox()
        refused: Counter[int] = Counter()

        async def harvest(term: int) -> None:
            fan_out = FanOut(harness.database, lambda _: None)
            for start in range(0, 120, 10):
                try:
                    await fan_out.send(0, term, records[start : start + 10])
                except TermOver:
                    refused[term] += 1

        await harness.begin_term(1)
        async with asyncio.TaskGroup() as tasks:
            for term in (1, 2, 3):
                tasks.create_task(harvest(term))
            for term in (2, 3):
                await harness.begin_term(term)
        await harness.begin_term(4)
        await FanOut(harness.database, lambda _: None).send(0, 4, records)
        assert (sorted(await made(harness)), await harness.outbox()) == (
            sorted((event, subscription) for event in events for subscription in subscriptions),
            [],
        )
        assert sum(refused.values()) > 0


async def test_a_repeated_fan_out_makes_nothing_twice(database_url: str) -> None:
    """The answer to the first was lost: also when the deliveries are settled and gone by now."""
    async with delivery_harness(database_url) as harness:
        await subscribe_many(harness, 3)
        await harness.publish(b"1", b"2")
        await harness.begin_term(TERM)
        records = await harness.outbox()
        fan_out = FanOut(harness.database, lambda _: None)
        await fan_out.send(0, TERM, records)
        await harness.sql.execute("DELETE FROM hookwire.deliveries")
        assert (await fan_out.send(0, TERM, records), await made(harness)) == (records, [])


# --- cuts and slices --------------------------------------------------------------------------------------------


async def test_a_fan_out_is_cut_by_the_rows_it_would_write(database_url: str) -> None:
    """RR-10: 10 subscribers, at most 35 deliveries in a transaction: three events and no more."""
    async with delivery_harness(database_url) as harness:
        await subscribe_many(harness, 6)
        for _ in range(4):
            await harness.subscribe(CALLBACK, topic="#")
        events = await harness.publish(*(b"%d" % n for n in range(5)))
        await harness.begin_term(TERM)
        done = await FanOut(harness.database, lambda _: None, 35).send(0, TERM, await harness.outbox())
        assert ([record.id for record in done], len(await made(harness))) == (events[:3], 30)


async def test_an_event_with_more_subscribers_than_that_goes_in_slices(database_url: str) -> None:
    """RR-10."""
    async with delivery_harness(database_url) as harness:
        subscriptions = await subscribe_many(harness, 25)
        first, second = await harness.publish(b"1", b"2")
        await harness.begin_term(TERM)
        told: list[int] = []
        slices: list[int] = []

        def due(subscriptions: Any) -> None:
            told.extend(subscriptions)
            slices.append(len(subscriptions))

        fan_out = FanOut(harness.database, due, 10)
        done = await fan_out.send(0, TERM, await harness.outbox())
        assert ([record.id for record in done], slices, sorted(told)) == ([first], [10, 10, 5], subscriptions)
        assert (await made(harness), await cursors(harness)) == ([(first, one) for one in subscriptions], 0)
        assert [record.id for record in await harness.outbox()] == [second]


@pytest.mark.parametrize("number", [9, 10, 11, 20, 21])
async def test_slices_of_every_size_end(database_url: str, number: int) -> None:
    async with delivery_harness(database_url) as harness:
        subscriptions = await subscribe_many(harness, number)
        (event,) = await harness.publish(b"1")
        await harness.begin_term(TERM)
        await FanOut(harness.database, lambda _: None, 10)._in_slices(0, TERM, (await harness.outbox())[0])
        assert (await made(harness), await harness.outbox(), await cursors(harness)) == (
            [(event, one) for one in subscriptions],
            [],
            0,
        )


class Dying(Database):
    """A database whose n-th slice is written, but its answer is lost with the process."""

    def __init__(self, inner: Database, slices: int) -> None:
        self._inner = inner
        self._slices = slices

    async def fetch(self, name: str, *args: object) -> Any:
        return await self._inner.fetch(name, *args)

    async def fetchrow(self, name: str, *args: object) -> Row | None:
        row = await self._inner.fetchrow(name, *args)
        if name == "delivery.fan_out_slice":
            self._slices -= 1
            if not self._slices:
                raise OutcomeUnknown("the process was killed here")
        return row


async def die_after(harness: Harness, slices: int) -> None:
    """Begins a sliced fan-out of the outbox's first event and dies in it."""
    await harness.begin_term(TERM)
    with pytest.raises(OutcomeUnknown):
        await FanOut(Dying(harness.database, slices), lambda _: None, 10).send(0, TERM, await harness.outbox())


async def settle_all(harness: Harness) -> list[tuple[int, int]]:
    """What a quick worker does meanwhile: the deliveries are made and gone."""
    gone = await made(harness)
    await harness.sql.execute("DELETE FROM hookwire.deliveries")
    return gone


@pytest.mark.parametrize("slices", [1, 2, 3])
async def test_after_a_crash_between_slices_a_successor_goes_on_behind_the_cursor(
    database_url: str, slices: int
) -> None:
    """RR-10, T3: nobody is missed and nobody gets it twice, also where the first slices are delivered already."""
    async with delivery_harness(database_url) as harness:
        subscriptions = await subscribe_many(harness, 25)
        (event,) = await harness.publish(b"1")
        await die_after(harness, slices)
        before = await settle_all(harness)
        await harness.begin_term(2)
        fan_out = FanOut(harness.database, lambda _: None, 10)
        while records := await harness.outbox():
            await fan_out.send(0, 2, records)
        assert before + await made(harness) == [(event, one) for one in subscriptions]
        assert await cursors(harness) == 0


async def test_a_sliced_fan_out_whose_audience_has_shrunk_goes_on_behind_the_cursor(database_url: str) -> None:
    """The rest fits into one statement by now; whoever had the event already does not get it again. WebSub's that have
    ended are owed nothing (DL-10)."""
    async with delivery_harness(database_url) as harness:
        subscriptions = await subscribe_many(harness, 15)
        first, second = await harness.publish(b"1", b"2")
        await die_after(harness, 1)
        before = await settle_all(harness)
        await harness.sql.execute(
            "UPDATE hookwire.subscriptions SET state = 'deleted', protocol = 'websub' WHERE id = ANY ($1::bigint[])",
            subscriptions[3:12],
        )
        await harness.fan_out(deliveries_max=20)
        after = await made(harness)
        left = subscriptions[:3] + subscriptions[12:]
        assert (before, [one for event, one in after if event == first]) == (
            [(first, one) for one in subscriptions[:10]],
            subscriptions[12:],
        )
        assert ([one for event, one in after if event == second], await cursors(harness)) == (left, 0)


async def test_a_subscription_made_between_slices_is_too_late_for_the_event(database_url: str) -> None:
    """RR-10: the upper end is fixed by the first slice, or a busy sign-up page would never let it end."""
    async with delivery_harness(database_url) as harness:
        subscriptions = await subscribe_many(harness, 15)
        first, second = await harness.publish(b"1", b"2")
        await die_after(harness, 1)
        late = await harness.subscribe(CALLBACK)
        await harness.fan_out(deliveries_max=10)
        found = await made(harness)
        assert [one for event, one in found if event == first] == subscriptions
        assert [one for event, one in found if event == second] == [*subscriptions, late]


async def test_a_subscription_is_never_missed_by_what_is_accepted_after_it_was_made(database_url: str) -> None:
    """RR-10: under a fan-out that runs all the time, with its audience counted a moment ago."""
    async with delivery_harness(database_url) as harness:
        await harness.begin_term(TERM)
        fan_out = FanOut(harness.database, lambda _: None)
        owed: list[tuple[int, int]] = []
        stop = asyncio.Event()

        async def harvest() -> None:
            while not stop.is_set():
                rows = await harness.database.fetch(
                    "outbox.claim_heads", "webhooks", *_all_shards(), 0, TERM, 100, None
                )
                if rows:
                    await fan_out.send(0, TERM, [SimpleNamespace(**dict(row)) for row in rows])

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(harvest())
            for _ in range(30):
                subscription = await harness.subscribe(CALLBACK)
                (event,) = await harness.publish(b"")
                owed.append((event, subscription))
            stop.set()
        await harness.fan_out()
        assert set(owed) <= set(await made(harness))


def _all_shards() -> tuple[list[int], list[int], list[int], int]:
    return list(range(64)), [0] * 64, [], 100


# --- WebSub -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("deliveries_max", [20_000, 1], ids=["whole", "in slices"])
async def test_new_content_wakes_the_head_of_its_websub_lane(database_url: str, deliveries_max: int) -> None:
    """WS-61, DL-8: of this key and this subscription alone, and nothing that a worker holds."""
    async with delivery_harness(database_url) as harness:
        websub = await harness.subscribe_websub(CALLBACK)
        plain = await harness.subscribe(CALLBACK, ordered=True)
        (old,) = await harness.deliver(b"1", key="k")
        (held,) = await harness.deliver(b"2", key="held")
        (other,) = await harness.deliver(b"3", key="other")
        await harness.sql.execute(
            "UPDATE hookwire.deliveries"
            " SET due_at = now() + interval '1 h', fence = CASE WHEN event_id = $1 THEN 1 END",
            held,
        )
        for key in ("k", "held"):
            await harness.publish(b"4", key=key)
        await harness.fan_out(deliveries_max=deliveries_max)
        due = await harness.sql.fetch(
            "SELECT event_id, subscription_id FROM hookwire.deliveries WHERE due_at <= now() AND event_id <= $1", other
        )
        assert ([tuple(row) for row in due], plain > websub) == ([(old, websub)], True)


@pytest.mark.parametrize("deliveries_max", [20_000, 1], ids=["whole", "in slices"])
async def test_what_is_fanned_out_leaves_its_trace(database_url: str, deliveries_max: int) -> None:
    """PL-A01: in the statement that purges, once for each event."""
    async with delivery_harness(database_url) as harness:
        await subscribe_many(harness, 3)
        events = await harness.publish(b"1", b"2")
        await harness.fan_out(deliveries_max=deliveries_max)
        rows = await harness.sql.fetch("SELECT sink, outcome, ids FROM hookwire.ledger_entries")
        assert sorted((row["sink"], row["outcome"], n) for row in rows for n in row["ids"]) == [
            ("webhooks", "sent", event) for event in events
        ]


# --- what was accepted before a change (FC-08) ------------------------------------------------------------------


CHANGES = {
    "disabled": {"state": "disabled"},
    "deleted": {"state": "deleted"},
    "gone": {"state": "gone"},
    "moved": {"topic": "other"},
    "narrowed to a pattern": {"topic_regex": "^none$"},
    "narrowed by a filter": {"filter_path": "$.data ? (@.a == 2)"},
}


@pytest.mark.parametrize("deliveries_max", [1, 20_000], ids=["slices", "whole"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_what_was_accepted_before_a_change_is_judged_by_what_was(
    change: dict[str, str], deliveries_max: int, database_url: str
) -> None:
    """FC-08: a delivery is owed to each subscription that was active at the acceptance. What comes later is not."""
    async with delivery_harness(database_url) as harness:
        changed, other = await harness.subscribe(CALLBACK), await harness.subscribe(CALLBACK)
        (before,) = await harness.publish(b'{"a": 1}', content_type="application/json")
        await change_as_text(harness, changed, change)
        (after,) = await harness.publish(b'{"a": 1}', content_type="application/json")
        await harness.fan_out(deliveries_max=deliveries_max)
        assert await made(harness) == [(before, changed), (before, other), (after, other)]


async def change_as_text(harness: Harness, subscription: int, change: dict[str, str]) -> None:
    for name, value in change.items():
        kind = "jsonpath" if name == "filter_path" else "text"
        await harness.sql.execute(
            f"UPDATE hookwire.subscriptions SET {name} = $2::text::{kind} WHERE id = $1", subscription, value
        )


@pytest.mark.parametrize("deliveries_max", [1, 20_000], ids=["slices", "whole"])
async def test_what_both_the_old_and_the_new_wish_want_is_owed_once_and_keeps_its_lane(
    deliveries_max: int, database_url: str
) -> None:
    """FC-08: a filter that is widened before the fan-out."""
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe(CALLBACK, ordered=True)
        events = await harness.publish(b"1", b"2", key="k")
        await change_as_text(harness, subscription, {"topic_regex": "^t$"})
        await harness.fan_out(deliveries_max=deliveries_max)
        rows = await harness.sql.fetch(
            "SELECT event_id, isfinite(due_at) AS due FROM hookwire.deliveries ORDER BY event_id"
        )
        assert [tuple(row) for row in rows] == [(events[0], True), (events[1], False)]


async def test_what_a_deleted_subscription_is_still_owed_becomes_a_dead_letter(database_url: str) -> None:
    """FC-08: never as nothing. Afterwards nothing is remembered of the change."""
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe(CALLBACK)
        (event,) = await harness.publish(b"1")
        await harness.change(subscription, state="deleted", state_reason="subscription deleted")
        cleanup = Cleanup(harness.database, 60)
        await cleanup.once()
        remembered = [await former(harness)]
        await harness.fan_out()

        async def is_forgotten() -> bool:
            await cleanup.once()  # A transaction of another test may be open: it is of the same server.
            return await former(harness) == 0

        await until(is_forgotten)
        assert (await harness.deliveries(), await harness.dead_letters()) == ([], [(event, "gone", 0, None)])
        assert remembered == [1]


async def test_an_event_of_a_transaction_that_was_open_at_a_change_is_judged_by_what_was(database_url: str) -> None:
    """FC-08, CN-04: its id is below those that a recovery sends, so the fan-out has to make its delivery."""
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe(CALLBACK)
        async with harness.sql.transaction():
            (event,) = await harness.publish(b"1")
            async with harness.database.lend() as other:
                await other.execute("UPDATE hookwire.subscriptions SET state = 'disabled'")
            for _ in range(2):  # the first notes a transaction above those that are open
                await Cleanup(harness.database, 60).once()
        await harness.fan_out()
        assert await made(harness) == [(event, subscription)]


async def former(harness: Harness) -> int:
    return int(await harness.sql.fetchval("SELECT count(*) FROM hookwire.former_audiences"))


async def test_an_event_that_was_accepted_within_the_lease_is_owed_after_its_end(database_url: str) -> None:
    """FC-08: a lease that ends between acceptance and fan-out; a RabbitHub subscription is disabled by that."""
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe(CALLBACK, protocol="rabbithub", identity=b"i" * 32)
        (event,) = await harness.publish(b"1")
        await harness.sql.execute("UPDATE hookwire.subscriptions SET lease_until = clock_timestamp()")
        (late,) = await harness.publish(b"2")
        await harness.fan_out()
        assert (await made(harness), late > event) == ([(event, subscription)], True)


# --- what subscribers make dear ---------------------------------------------------------------------------------

_NEVER_ENDS = """
CREATE OR REPLACE FUNCTION hookwire.passes(document jsonb, filter_path jsonpath) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_sleep(3600) WHERE filter_path::text LIKE '%never%' AND document #>> '{data,dear}' = 'yes';
    RETURN coalesce(jsonb_path_match(document, filter_path, '{}', true), false);
END $$
"""
_NEVER, _ALWAYS = '$."data"."never" == 1', '$."topic" == "t"'


async def filtered(harness: Harness, path: str, count: int = 1, topic: str = "t") -> list[int]:
    """Subscriptions whose filter is this predicate."""
    await harness.sql.execute(_NEVER_ENDS)
    subscriptions = await subscribe_many(harness, count, topic)
    await harness.sql.execute(
        "UPDATE hookwire.subscriptions SET filter_path = $2::text::jsonpath WHERE id = ANY ($1::bigint[])",
        subscriptions,
        path,
    )
    return subscriptions


async def rounds(harness: Harness, fan_out: FanOut) -> list[list[int]]:
    """What each call fans out, until nothing is left."""
    await harness.begin_term(TERM)
    found = []
    while records := await harness.outbox():
        found.append(sorted(record.id for record in await fan_out.send(0, TERM, records)))
        assert len(found) < 100, "it ends"
    return found


async def test_filters_that_never_end_hold_up_their_event_and_its_key_for_a_while_and_nothing_else(
    database_url: str,
) -> None:
    """FC-02, RR-10: a time-out took the batch back, and the same batch was tried again for ever."""
    async with delivery_harness(database_url) as harness:
        (plain,) = await subscribe_many(harness, 1)
        slow = await filtered(harness, _NEVER, 2)
        (quick,) = await filtered(harness, _ALWAYS)
        (bystander,) = await subscribe_many(harness, 1, "other")
        (dear,) = await harness.publish(b'{"dear": "yes"}', key="k")
        (after,) = await harness.publish(b"{}", key="k")
        (elsewhere,) = await harness.publish(b"{}", topic="other", key="other")
        found = await rounds(harness, FanOut(harness.database, lambda _: None, seconds_max=0.2))
        dead = await harness.sql.fetch("SELECT event_id, subscription_id, detail FROM hookwire.dead_letters ORDER BY 2")
        assert sorted(await made(harness)) == sorted(
            [(dear, plain), (dear, quick), (after, plain), (after, quick), (elsewhere, bystander)]
        )
        assert [tuple(row) for row in dead] == [
            (dear, one, "the filter takes too long to judge this event") for one in slow
        ]
        order = [event for some in found for event in some]
        # A few calls cut the batch to the one event; from then on others are fanned out beside it.
        assert (order, [elsewhere] in found[:4]) == ([elsewhere, dear, after], True)
        assert (len(found) <= 24, await harness.outbox(), await cursors(harness)) == (True, [], 0)


async def test_a_former_filter_that_never_ends_is_given_up_unless_another_wish_has_none(database_url: str) -> None:
    """FC-02, FC-08: filters of former audiences are judged in the same bounds."""
    async with delivery_harness(database_url) as harness:
        narrowed, deleted, widened = await filtered(harness, _NEVER, 3)
        (event,) = await harness.publish(b'{"dear": "yes"}')
        await change_as_text(harness, narrowed, {"filter_path": '$."topic" == "none"'})
        await change_as_text(harness, deleted, {"state": "deleted"})
        await harness.sql.execute("UPDATE hookwire.subscriptions SET filter_path = NULL WHERE id = $1", widened)
        await rounds(harness, FanOut(harness.database, lambda _: None, seconds_max=0.2))
        dead = await harness.sql.fetch("SELECT subscription_id, kind FROM hookwire.dead_letters ORDER BY 1")
        assert (await made(harness), [tuple(row) for row in dead], await cursors(harness)) == (
            [(event, widened)], [(narrowed, "internal"), (deleted, "internal")], 0,
        )  # fmt: skip


async def test_a_batch_that_is_overdue_is_halved_and_grows_again(database_url: str) -> None:
    """FC-02."""
    async with delivery_harness(database_url) as harness:
        (subscription,) = await filtered(harness, _NEVER)
        events = await harness.publish(*[b"{}"] * 7, b'{"dear": "yes"}', *[b"{}"] * 8)
        with capture_logs() as logs:
            found = await rounds(harness, FanOut(harness.database, lambda _: None, seconds_max=0.2))
        overdue = [line["events"] for line in logs if line["event"] == "fan_out_overdue"]
        assert (overdue, found[0], found[1]) == ([16, 8, 4, 2, 1], [], [])
        assert (sorted(event for some in found for event in some), await made(harness)) == (events, [])
        dead = await harness.sql.fetch("SELECT event_id, subscription_id FROM hookwire.dead_letters")
        assert [tuple(row) for row in dead] == [(events[7], subscription)]


async def test_an_event_whose_many_subscribers_are_too_dear_goes_on_in_slices_of_few(database_url: str) -> None:
    """FC-02, RR-10: with a stored cursor, nobody missed and nobody twice."""
    async with delivery_harness(database_url) as harness:
        first = await subscribe_many(harness, 20)
        (slow,) = await filtered(harness, _NEVER)
        last = await subscribe_many(harness, 20)
        (event,) = await harness.publish(b'{"dear": "yes"}')
        await rounds(harness, FanOut(harness.database, lambda _: None, 30, 0.2))
        dead = await harness.sql.fetchval("SELECT array_agg(subscription_id) FROM hookwire.dead_letters")
        assert (await made(harness), dead, await cursors(harness)) == (
            [(event, one) for one in first + last],
            [slow],
            0,
        )


async def test_a_batch_is_cut_by_what_filters_have_to_parse(database_url: str) -> None:
    """FC-02: 999 events of a mebibyte and one trivial filter never came to an end."""
    async with delivery_harness(database_url) as harness:
        payloads = [b'{"data": "%s"}' % (b"x" * MEBIBYTE)] * 6
        await harness.sql.execute("UPDATE hookwire.installation SET payload_bytes_max = 2 * 1048576")
        events = await harness.publish(*payloads)
        before = await rounds(harness, FanOut(harness.database, lambda _: None))
        await filtered(harness, _ALWAYS)
        again = await harness.publish(*payloads, key="k")
        (bystander,) = await harness.publish(b"", topic="other")
        (behind,) = await harness.publish(b"", topic="other", key="k")
        after = await rounds(harness, FanOut(harness.database, lambda _: None))
        assert (before, after) == ([events], [[*again[:3], bystander], [*again[3:], behind]])


@pytest.mark.parametrize("state", ["active", "disabled"])
async def test_a_batch_is_cut_by_the_patterns_that_its_topics_are_compared_with(state: str, database_url: str) -> None:
    """FC-02: 1,000 topics and 3,000 patterns were three million expressions in a statement, each compiled anew.
    Patterns of former audiences count as well (FC-08)."""
    async with delivery_harness(database_url) as harness:
        await harness.sql.execute(
            "INSERT INTO hookwire.subscriptions (public_id, protocol, topic, topic_regex, callback, state)"
            " SELECT 'sub_' || n, 'webhook', 'a.*', '^a' || n % 3000 || '\\.[^.]+$', 'http://127.0.0.1/', 'active'"
            " FROM generate_series(1, 6000) n"
        )
        events = [(await harness.publish(b"", topic=f"a{number}.b"))[0] for number in range(150)]
        await harness.sql.execute("UPDATE hookwire.subscriptions SET state = $1", state)
        found = await rounds(harness, FanOut(harness.database, lambda _: None))
        assert (found, len(await made(harness))) == ([events[:100], events[100:]], 300)

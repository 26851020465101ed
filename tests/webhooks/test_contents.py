"""webhooks/contents.py: events are read once and shared, and memory is bounded (WH-I02)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from event.event import Draft, Event
from hub.publish import Publisher
from tests.webhooks.harness import INCARNATION, Gated, Harness, delivery_harness
from webhooks.contents import Contents

PLENTY = 1_000_000


@asynccontextmanager
async def opened(database_url: str, bytes_max: int = PLENTY) -> AsyncIterator[tuple[Harness, Gated, Contents]]:
    async with delivery_harness(database_url) as harness:
        counting = Gated(harness.database)
        yield harness, counting, Contents(counting, INCARNATION, bytes_max)


async def test_an_event_is_read_as_it_was_published(database_url: str) -> None:
    async with opened(database_url) as (harness, _, contents):
        keyed, bare = [
            *await harness.publish(b"\x00\xff", key="k", content_type="a/b", headers='{"ce-type": "x"}'),
            *await harness.publish(b""),
        ]
        times = dict(await harness.sql.fetch("SELECT id, accepted_at FROM hookwire.events"))
        assert await contents.get([keyed, bare], PLENTY) == (
            {
                keyed: Event(keyed, INCARNATION, "t", "k", "a/b", {"ce-type": "x"}, b"\x00\xff", times[keyed], keyed),
                bare: Event(bare, INCARNATION, "t", None, None, {}, b"", times[bare], bare),
            },
            set(),
        )


async def test_an_event_of_an_unordered_topic_has_no_sequence(database_url: str) -> None:
    async with opened(database_url) as (harness, _, contents):
        await harness.sql.execute("INSERT INTO hookwire.topics (name, ordered) VALUES ('t', false)")
        (event,) = await harness.publish(b"", key="k")
        events, _ = await contents.get([event], PLENTY)
        assert events[event].sequence is None


async def test_an_event_is_read_once_for_all_its_deliveries(database_url: str) -> None:
    async with opened(database_url) as (harness, counting, contents):
        events = await harness.publish(b"a", b"b")
        await contents.get([*events, *events], PLENTY)
        again, _ = await contents.get(events, PLENTY)
        assert (counting.passed["delivery.events"], sorted(again)) == (1, events)


async def test_an_event_that_no_longer_exists_is_named(database_url: str) -> None:
    async with opened(database_url) as (harness, _, contents):
        (event,) = await harness.publish(b"a")
        events, lost = await contents.get([event, event + 1], PLENTY)
        assert (sorted(events), lost) == ([event], {event + 1})


async def test_payloads_are_read_up_to_the_one_that_crosses_the_bound(database_url: str) -> None:
    """WH-23: the lowest first, at least one; what is remembered counts for nothing."""
    async with opened(database_url) as (harness, _, contents):
        ids = await harness.publish(*(bytes(100) for _ in range(5)))
        found = []
        for bound in (1, 100, 101, 350):
            events, lost = await contents.get(ids, bound)
            found.append((len(events), lost))
        assert found == [(1, set()), (2, set()), (4, set()), (5, set())]


async def test_headers_count_in_the_bound_as_payloads_do(database_url: str) -> None:
    """FS-03: headers of many MiB, stored by an older version, were read for all deliveries at once."""
    async with opened(database_url) as (harness, _, contents):
        ids = await harness.publish(b"", b"", b"")
        await harness.sql.execute("UPDATE hookwire.events SET headers = jsonb_build_object('x-a', repeat('a', 1000))")
        found = [len((await contents.get(ids, bound))[0]) for bound in (1, 1_000, PLENTY)]
        assert found == [1, 2, 3]


async def test_headers_count_in_what_is_remembered(database_url: str) -> None:
    """FS-03."""
    async with opened(database_url, bytes_max=2 * (1000 + 512)) as (harness, counting, contents):
        ids = await harness.publish(b"", b"", b"", headers=f'{{"x-a": "{"a" * 997}"}}')
        for wanted in ids:
            await contents.get([wanted], PLENTY)
        await contents.get(ids[:1], PLENTY)
        assert counting.passed["delivery.events"] == 4


async def test_what_was_used_longest_ago_is_forgotten_first(database_url: str) -> None:
    async with opened(database_url, bytes_max=2 * (1000 + 512)) as (harness, counting, contents):
        first, second, third = await harness.publish(*(bytes(1000) for _ in range(3)))
        for wanted in ([first], [second], [first], [third]):
            await contents.get(wanted, PLENTY)
        before = counting.passed["delivery.events"]
        await contents.get([first, third], PLENTY)
        assert counting.passed["delivery.events"] == before
        await contents.get([second], PLENTY)
        assert counting.passed["delivery.events"] == before + 1


async def test_an_event_larger_than_all_memory_is_handed_on_and_not_kept(database_url: str) -> None:
    async with opened(database_url, bytes_max=100) as (harness, counting, contents):
        (event,) = await harness.publish(bytes(1000))
        for _ in range(2):
            events, _ = await contents.get([event], PLENTY)
            assert len(events[event].payload) == 1000
        assert counting.passed["delivery.events"] == 2


async def test_an_event_that_was_published_here_is_what_would_be_read_and_is_not_read(database_url: str) -> None:
    async with opened(database_url) as (harness, counting, contents):
        publisher = Publisher(harness.database, lambda _owed: None, on_stored=contents.remember_stored)
        drafts = [
            Draft("t", b"\x00\xff", "k", "a/b", {"ce-type": "x", "hookwire-hops": "1"}, "once"),
            Draft("t", b""),
        ]
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(publisher.run())
            ids = [one.id for one in await publisher.publish(drafts, b"digest")]
            await publisher.publish(drafts[:1], b"digest")
            publisher.stop()
        remembered = await contents.get(ids, PLENTY)

        assert (remembered, counting.passed["delivery.events"]) == (
            await Contents(harness.database, INCARNATION, PLENTY).get(ids, PLENTY),
            0,
        )

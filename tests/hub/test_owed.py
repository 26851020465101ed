"""hub/owed.py: the shards that a commit wakes."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from db.pool import PoolOptions, open_database
from db.statements import STATEMENTS
from event.event import Draft
from event.key_hash import hash_key
from hub.owed import ANYTHING, Owed, owed_by
from hub.publish import Publisher

NOTHING = Owed(frozenset(), frozenset())
DRAFTS = [Draft("orders", b"", key="a"), Draft("orders", b"", key="b"), Draft("orders", b"")]


def stored(item: int, *, event_id: int = 64, **more: Any) -> Any:
    return {"item": item, "outcome": "stored", "event_id": event_id, "ordered": True, **more}


def owed(rows: list[Any], *, is_direct: bool = False, across_topics: bool = False) -> Owed:
    return owed_by(DRAFTS, rows, is_direct=is_direct, across_topics=across_topics)


def test_an_event_owes_its_key_s_shard_to_every_sink() -> None:
    shard = frozenset({hash_key("orders", "b").shard})
    assert owed([stored(2)]) == Owed(shard, shard)


@pytest.mark.parametrize(
    ("row", "across_topics", "shard"),
    [
        (stored(3, event_id=130), False, 130 % 64),
        (stored(1, event_id=130) | {"ordered": False}, False, 130 % 64),
        (stored(1), True, hash_key("", "a").shard),
    ],
    ids=["without a key", "in a topic without order", "in an order across topics"],
)
def test_a_shard_follows_the_key_where_the_topic_keeps_an_order(row: Any, across_topics: bool, shard: int) -> None:
    assert owed([row], across_topics=across_topics).others == {shard}


def test_an_event_on_the_direct_path_owes_nothing_to_the_webhooks() -> None:
    """Two deliveries of one event for webhooks and Kafka, then an event that could not be handed over."""
    direct = [stored(1, is_owed=True, subscription_id=subscription) for subscription in (7, 8)]
    waits = stored(2, is_owed=True, subscription_id=None)
    first, second = (hash_key("orders", key).shard for key in "ab")
    assert owed([*direct, waits], is_direct=True) == Owed(frozenset({second}), frozenset({first, second}))


@pytest.mark.parametrize(
    ("row", "is_direct"),
    [
        (stored(1, is_owed=False, subscription_id=7), True),
        ({"item": 1, "outcome": "replayed", "event_id": 5, "ordered": True}, False),
        ({"item": 1, "outcome": "busy", "event_id": None, "ordered": None}, False),
    ],
    ids=["wholly direct", "a repeat", "refused"],
)
def test_a_commit_without_outbox_rows_wakes_nobody(row: Any, is_direct: bool) -> None:
    assert owed([row], is_direct=is_direct) == NOTHING


def test_a_large_commit_wakes_all() -> None:
    drafts = [Draft("orders", b"", key=str(number)) for number in range(17)]
    rows = [stored(number) for number in range(1, 18)]
    assert owed_by(drafts, rows, is_direct=False, across_topics=False) == ANYTHING


def test_an_event_with_many_direct_deliveries_is_one_event() -> None:
    rows = [stored(1, is_owed=True, subscription_id=number) for number in range(17)]
    assert owed(rows, is_direct=True) == Owed(frozenset(), frozenset({hash_key("orders", "a").shard}))


@pytest.mark.parametrize("across_topics", [False, True], ids=["topic_key", "key"])
async def test_the_shards_are_those_of_the_outbox_rows(database_url: str, across_topics: bool) -> None:
    """RR-11, RG-10: ordered and unordered topics, with and without a key, under either order scope."""
    drafts = [Draft(topic, b"", key) for topic in ("a", "unordered", "b.c") for key in ("k", "\u00e9", None)]
    told: list[Owed] = []
    database, sql = await open_database(PoolOptions(database_url)), await asyncpg.connect(database_url)
    await sql.execute(STATEMENTS["layout.order_by_key" if across_topics else "layout.order_by_topic_key"])
    await sql.execute("INSERT INTO hookwire.topics (name, ordered) VALUES ('unordered', false)")
    publisher = Publisher(database, told.append)
    publisher.order_across_topics(across_topics)
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        tasks.create_task(publisher.run())
        await publisher.publish(drafts)
        publisher.stop()
    rows = await sql.fetch("SELECT DISTINCT shard FROM hookwire.outbox")
    await sql.close()
    await database.aclose()
    shards = frozenset(row["shard"] for row in rows)
    assert told == [Owed(shards, shards)]

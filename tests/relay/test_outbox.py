"""The outbox's verbs on a real PostgreSQL: claim, purge, manifests, and where a claim begins to read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from uuid import UUID, uuid4

import asyncpg
import pytest

from db.errors import Refused
from db.pool import Database, PoolOptions, open_database
from db.statements import STATEMENTS
from relay.election.port import LeadershipLost
from relay.outbox import Outbox
from relay.record import Record
from relay.sink import SHARDS, Batch, Term
from tests.relay.harness import (
    INCARNATION,
    FaultyDatabase,
    Harness,
    all_carried,
    publish,
    relay_harness,
    relay_of,
    running,
)
from tests.relay.memory import MemoryBroker, MemorySink
from tests.waiting import until

MEBIBYTE = 1024 * 1024


@pytest.fixture
async def harness(database_url_both: str) -> AsyncIterator[Harness]:
    async with relay_harness(database_url_both) as opened:
        yield opened


def outbox_of(harness: Harness, *, payload: bool = True) -> Outbox:
    outbox = Outbox(harness.database, harness.sink, INCARNATION, payload=payload, horizon_seconds=0)
    outbox.begin(range(SHARDS))
    return outbox


async def claimed(outbox: Outbox, term: Term, *in_flight: int, limit: int = 1_000) -> list[int]:
    return [record.id for record in await outbox.claim(term, in_flight, limit, MEBIBYTE)]


# --- claim ------------------------------------------------------------------------------------------------------


async def test_a_claim_gives_the_lowest_records_that_are_not_in_flight_with_their_contents(harness: Harness) -> None:
    """RT-08."""
    await harness.connection.execute("INSERT INTO hookwire.topics (name, kafka_topic) VALUES ('orders', 'ORDERS')")
    ids = await harness.publish("a", None, "b", "c", payload=b"\x00data")
    records = await outbox_of(harness).claim(await harness.begin_term(), [ids[0]], 2, MEBIBYTE)
    accepted_at = await harness.connection.fetchval("SELECT accepted_at FROM hookwire.events WHERE id = $1", ids[1])
    assert [record.id for record in records] == ids[1:3]
    assert records[0] == Record(
        id=ids[1], shard=ids[1] & 63, event_id=f"evt_{INCARNATION}_{ids[1]}", tenant="default", topic="orders",
        key=None, sequence=ids[1], content_type=None, headers={}, payload=b"\x00data",
        accepted_at=accepted_at, kafka_topic="ORDERS",
    )  # fmt: skip


@pytest.mark.parametrize("payload", [True, False], ids=["contents", "heads"])
async def test_records_whose_events_were_deleted_are_purged_and_do_not_stand_in_the_way(
    harness: Harness, payload: bool
) -> None:
    ids = await harness.publish("a", "b", "c")
    await harness.connection.execute("DELETE FROM hookwire.events WHERE id = ANY ($1)", ids[:2])
    outbox, term = outbox_of(harness, payload=payload), await harness.begin_term()
    first = [record.id for record in await outbox.claim(term, (), 2, MEBIBYTE)]
    assert (first, await claimed(outbox, term), await harness.owed()) == ([], [ids[2]], [ids[2]])


async def test_a_lower_id_that_commits_later_is_found(harness: Harness) -> None:
    """RT-08, RO-02f, RG-05: claims re-read from the lowest id, they have no cursor."""
    outbox, term = outbox_of(harness), await harness.begin_term()
    slow = await asyncpg.connect(harness.url)
    transaction = slow.transaction()
    await transaction.start()
    [low] = await publish(slow, ["slow"])
    [high] = await harness.publish("fast")
    before = await claimed(outbox, term)
    await outbox.purge(Batch(term, ()), await outbox.claim(term, (), 10, MEBIBYTE))
    await outbox.advance_low_water()
    await transaction.commit()
    await slow.close()
    assert low < high
    assert (before, await claimed(outbox, term)) == ([high], [low])


async def test_a_claim_of_few_keys_reads_deeper_until_it_fills_a_batch(harness: Harness) -> None:
    """RL-08, RR-07: a claim reads little of each shard, so that many cost little; one hot key must not starve."""
    ids = await harness.publish(*["hot"] * 500)
    outbox, term = outbox_of(harness), await harness.begin_term()
    sizes = [len(await claimed(outbox, term, limit=400)) for _ in range(4)]
    assert (sizes, await claimed(outbox, term, limit=400)) == ([64, 256, 400, 400], ids[:400])


async def test_a_claim_ends_with_the_record_that_crosses_the_byte_limit(harness: Harness) -> None:
    """RO-03."""
    ids = await harness.publish(*"abcdef", payload=bytes(1_000))
    records = await outbox_of(harness).claim(await harness.begin_term(), (), 100, 2_500)
    assert [record.id for record in records] == ids[:3]


async def test_a_claim_without_payload_gives_heads(harness: Harness) -> None:
    ids = await harness.publish("a", "b", payload=b"data")
    records = await outbox_of(harness, payload=False).claim(await harness.begin_term(), [ids[0]], 10, MEBIBYTE)
    assert [(record.id, record.topic, record.payload) for record in records] == [(ids[1], "orders", b"")]


async def test_a_term_that_is_over_claims_nothing_and_writes_no_manifest(harness: Harness) -> None:
    """RL-06, RR-08."""
    await harness.publish("a")
    outbox, old = outbox_of(harness), await harness.begin_term()
    records = await outbox.claim(old, (), 10, MEBIBYTE)
    await harness.begin_term()
    assert await claimed(outbox, old) == []
    with pytest.raises(LeadershipLost):
        await outbox.write_manifest(old, records)
    with pytest.raises(LeadershipLost):
        await outbox.assert_term(old)


async def test_a_topic_first_used_by_plain_sql_gets_its_row(harness: Harness) -> None:
    """RR-04."""
    await harness.publish("a", topic="brand.new")
    await claimed(outbox_of(harness), await harness.begin_term())
    assert await harness.connection.fetchval("SELECT name FROM hookwire.topics") == "brand.new"


# --- purge and manifests ----------------------------------------------------------------------------------------


async def test_a_purge_takes_what_was_acknowledged_and_may_be_repeated(harness: Harness) -> None:
    """RL-04."""
    ids = await harness.publish("a", "b", "c")
    outbox, term = outbox_of(harness), await harness.begin_term()
    records = await outbox.claim(term, (), 10, MEBIBYTE)
    for _ in range(2):
        await outbox.purge(Batch(term, records), records[:2])
    assert await harness.owed() == ids[2:]


async def test_what_moves_or_goes_while_a_purge_waits_is_entered_once_or_owed_still(harness: Harness) -> None:
    """RR-01, PL-A01: a purge finds records by place, and a place changes with the row."""
    moved, gone, _ = ids = await harness.publish(None, None, None)
    outbox, term = outbox_of(harness), await harness.begin_term()
    records = await outbox.claim(term, (), 10, MEBIBYTE)
    other = await asyncpg.connect(harness.url)
    change = other.transaction()
    await change.start()
    await other.execute("UPDATE hookwire.outbox SET shard = (shard + 1) % 64 WHERE id = $1", moved)
    await other.execute("DELETE FROM hookwire.outbox WHERE id = $1", gone)
    purge = asyncio.create_task(outbox.purge(Batch(term, records), records))

    async def waits() -> bool:
        return bool(await harness.connection.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"))

    await until(waits)
    await change.commit()
    await other.close()
    await purge
    owed = await harness.owed()
    assert sorted([gone, *owed, *await entered(harness)]) == ids
    while again := await outbox.claim(term, (), 10, MEBIBYTE):
        await outbox.purge(Batch(term, again), again)
    assert (await harness.owed(), sorted(await entered(harness))) == ([], [moved, ids[2]])


async def entered(harness: Harness) -> list[int]:
    """What the ledger has as sent and not folded yet, each as often as it is there."""
    rows = await harness.connection.fetch(
        "SELECT unnest(ids) AS id FROM hookwire.ledger_entries WHERE outcome = 'sent'"
    )
    return [row["id"] for row in rows]


async def test_a_purge_takes_the_manifest_along(harness: Harness) -> None:
    """RR-06."""
    await harness.publish("a", "b")
    outbox, term = outbox_of(harness), await harness.begin_term()
    first, second = await outbox.claim(term, (), 10, MEBIBYTE)
    batches = [await outbox.write_manifest(term, [first]), await outbox.write_manifest(term, [second])]
    await outbox.purge(batches[0], [first])
    assert (await harness.owed(), await harness.manifests()) == ([second.id], [batches[1].number])


async def test_a_manifest_purges_the_batches_before_it_and_enters_them_in_the_ledger(harness: Harness) -> None:
    """RR-06: one statement, so one flush. Batches that are not confirmed stay."""
    await harness.publish(*"abcd")
    outbox, term = outbox_of(harness), await harness.begin_term()
    records = await outbox.claim(term, (), 10, MEBIBYTE)
    batches = [await outbox.write_manifest(term, [record]) for record in records[:3]]
    last = await outbox.write_manifest(term, records[3:], batches[:2])
    assert (await harness.owed(), await entered(harness)) == (
        [record.id for record in records[2:]], [record.id for record in records[:2]],
    )  # fmt: skip
    assert await harness.manifests() == [batches[2].number, last.number]


async def test_settling_purges_what_was_committed_and_frees_what_was_not(harness: Harness) -> None:
    """RR-06: up to the marker the records are published; above it only the manifest goes."""
    await harness.publish(*"abc")
    outbox, term = outbox_of(harness), await harness.begin_term()
    records = await outbox.claim(term, (), 10, MEBIBYTE)
    numbers = [(await outbox.write_manifest(term, [record])).number for record in records]
    published = await outbox.settle_manifests(term, numbers[1])  # type: ignore[arg-type]
    assert (published, await harness.owed(), await harness.manifests()) == (2, [records[2].id], [])


async def test_batch_numbers_go_on_over_terms(harness: Harness) -> None:
    """RR-06: a number that restarted would lie below the committed marker and count as published."""
    await harness.publish("a")
    outbox, first = outbox_of(harness), await harness.begin_term()
    records = await outbox.claim(first, (), 10, MEBIBYTE)
    await outbox.write_manifest(first, records)
    second = await harness.begin_term()
    await outbox.settle_manifests(second, 0)
    assert (second.batch_no, (await outbox.write_manifest(second, records)).number) == (1, 2)


async def test_numbering_batches_leaves_the_term_where_it_is_and_reads_past_no_earlier_number(harness: Harness) -> None:
    """RR-06, RR-07: under a snapshot no version goes; on the term's row each number left one, that claims pass."""
    outbox, term = outbox_of(harness), await harness.begin_term()
    reader = await asyncpg.connect(harness.url)
    await reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM hookwire.relay_terms")
    numbers = [(await outbox.write_manifest(term, [])).number for _ in range(400)]
    # Where the planner takes all of a range instead of its end, too.
    await harness.connection.execute("SET enable_seqscan = off; SET enable_indexscan = off")
    await harness.connection.fetchval("SELECT hookwire.assert_origin(NULL, 0)")  # which a session compiles once
    plan = await harness.connection.fetchval(
        "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + STATEMENTS["manifest.write"],
        harness.sink, term.group, term.number, [], [], numbers[-1], None, [], [], [], term.layout,
    )  # fmt: skip
    pages = await harness.connection.fetchval("SELECT pg_relation_size('hookwire.relay_terms') / 8192")
    last = await harness.connection.fetchval("SELECT array_agg(batch_no) FROM hookwire.relay_batch_numbers")
    await reader.close()
    assert (numbers, last, pages) == (list(range(1, 401)), [401], 1)
    assert int(plan.split('"Shared Hit Blocks": ')[1].split(",")[0]) <= 45


async def test_a_number_of_before_is_counted_on_from(harness: Harness) -> None:
    """RR-06, F10: a term begins with the last number on its row, also when the holder before was killed."""
    outbox, term = outbox_of(harness), await harness.begin_term()
    await harness.connection.execute("UPDATE hookwire.relay_terms SET batch_no = 41")
    batch = await outbox.write_manifest(term, [])
    known = (await outbox.assert_term(term)).batch_no
    told = await harness.connection.fetchval("UPDATE hookwire.relay_terms SET term = term + 1 RETURNING batch_no")
    assert (batch.number, known, told) == (42, 42, 42)


async def test_a_number_that_the_database_has_lost_is_not_given_twice_in_a_reign(harness: Harness) -> None:
    """RR-06: a standby that was promoted lacks the latest, and a proxy in between hides that it is another server."""
    outbox, term = outbox_of(harness), await harness.begin_term()
    before = [(await outbox.write_manifest(term, [])).number for _ in range(2)]
    await harness.connection.execute("DELETE FROM hookwire.relay_batches; DELETE FROM hookwire.relay_batch_numbers")
    assert [*before, (await outbox.write_manifest(term, [])).number] == [1, 2, 3]


# --- low water --------------------------------------------------------------------------------------------------


async def read_buffers(harness: Harness, outbox: Outbox, term: Term, per_shard: int = 64) -> int:
    """How many pages a claim touches."""
    low = outbox._low
    plan = await harness.connection.fetchval(
        "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + STATEMENTS["outbox.claim"],
        harness.sink, list(low), list(low.values()), [], per_shard, term.group, term.number, 100, MEBIBYTE, None,
    )  # fmt: skip
    return int(plan.split('"Shared Hit Blocks": ')[1].split(",")[0])


async def test_purged_rows_that_a_reader_keeps_alive_are_not_read_again(harness: Harness) -> None:
    """RL-09, RR-07: under a held xmin neither vacuum nor the index forgets them; the low-water start does."""
    outbox, term = outbox_of(harness), await harness.begin_term()
    await harness.publish(*(f"key {number}" for number in range(3_000)))
    reader = await asyncpg.connect(harness.url)
    await reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await reader.fetch("SELECT 1 FROM hookwire.outbox LIMIT 1")
    while records := await outbox.claim(term, (), 1_000, MEBIBYTE):
        await outbox.purge(Batch(term, records), records)
    walked_over = await read_buffers(harness, outbox, term)
    await outbox.advance_low_water()
    started_above = await read_buffers(harness, outbox, term)
    [late] = await harness.publish("after")
    found = await claimed(outbox, term)
    await reader.close()
    assert found == [late]
    # An empty claim descends 64 times through the index; what it walks over comes on top.
    assert started_above <= 64 * 4 < walked_over


_OWED = """
WITH event AS (
    INSERT INTO hookwire.events (id, accepted_at, ordered, tenant, topic, headers, sinks, payload)
    SELECT nextval('hookwire.event_id'), now(), true, 'default', 'orders', '{}', '{kafka}', 'x'
    FROM generate_series(1, $1::integer) RETURNING id
)
INSERT INTO hookwire.outbox (id, layout, shard, sink) SELECT id, 1, id % 64, 'kafka' FROM event
"""


async def dearest_claim(harness: Harness, outbox: Outbox, term: Term, records: int) -> int:
    """Drain so many, 500 at a time; how many pages a claim touched at most."""
    await harness.connection.execute(_OWED, records)
    outbox.begin(range(SHARDS))
    dearest = 0
    while claimed := await outbox.claim(term, (), 500, MEBIBYTE):
        await outbox.purge(Batch(term, claimed), claimed)
        await outbox.advance_low_water()
        dearest = max(dearest, await read_buffers(harness, outbox, term, per_shard=1))
    return dearest


async def test_a_drain_under_a_snapshot_costs_each_claim_what_it_costs_without(harness: Harness) -> None:
    """RR-07, RP-03: neither what was purged before it nor what it purges itself is walked over, however fast it is."""
    outbox = Outbox(harness.database, harness.sink, INCARNATION, payload=True, horizon_seconds=3_600)
    term = await harness.begin_term()
    reader = await asyncpg.connect(harness.url)
    without = await dearest_claim(harness, outbox, term, 10_000)
    await reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM hookwire.outbox")
    first = await dearest_claim(harness, outbox, term, 10_000)
    second = await dearest_claim(harness, outbox, term, 10_000)
    await reader.close()
    assert max(first, second) <= 2 * without


class _Overheard(FaultyDatabase):
    """Keeps the names of what it is asked."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.asked: list[str] = []

    def _pass(self, name: str) -> None:
        self.asked.append(name)


async def test_a_reign_begins_with_its_low_water_marks(harness: Harness) -> None:
    """RR-07: the first claim would read past everything that a snapshot has kept of earlier terms."""
    database = _Overheard(harness.database)
    await harness.publish("a")
    async with running(relay_of(harness, MemorySink(MemoryBroker()), database=database)):
        await all_carried(harness)
    asked = [name for name in database.asked if name in ("outbox.low_water", "outbox.claim")]
    assert asked[:2] == ["outbox.low_water", "outbox.claim"]


async def test_marks_move_up_to_what_is_settled_while_a_writer_stays(harness: Harness) -> None:
    """RR-07: what was drawn before it began can be passed by; what it may hold cannot."""
    first, second = await harness.publish("a", "b")
    outbox, term = outbox_of(harness), await harness.begin_term()
    await outbox.advance_low_water()
    writer = await asyncpg.connect(harness.url)
    transaction = writer.transaction()
    await transaction.start()
    [late] = await publish(writer, ["late"])
    await harness.publish("after")
    records = await outbox.claim(term, (), 10, MEBIBYTE)
    await outbox.purge(Batch(term, records), [record for record in records if record.id != second])
    await outbox.advance_low_water()
    lowest = min(outbox._low.values())
    await transaction.commit()
    await writer.close()
    found = await claimed(outbox, term)
    assert (first < lowest, lowest, found) == (True, second, [second, late])


async def test_the_low_water_mark_waits_for_every_writer_that_may_hold_a_lower_id(harness: Harness) -> None:
    """RR-07: the writer drew its transaction id before its event id, so it is older than the mark's."""
    outbox = outbox_of(harness)
    writer = await asyncpg.connect(harness.url)
    transaction = writer.transaction()
    await transaction.start()
    [low] = await publish(writer, ["a"])
    await harness.publish("b")
    await outbox.advance_low_water()
    while_open = set(outbox._low.values())
    await transaction.commit()
    await outbox.advance_low_water()
    await writer.close()
    assert (while_open, min(outbox._low.values())) == ({0}, low)


async def test_the_low_water_mark_of_an_unused_sequence_hides_nothing(harness: Harness) -> None:
    outbox, term = outbox_of(harness), await harness.begin_term()
    await outbox.advance_low_water()
    ids = await harness.publish("a", "b")
    assert await claimed(outbox, term) == ids


# --- ids of another origin --------------------------------------------------------------------------------------


async def drawn_and_rolled_back(harness: Harness, count: int) -> int:
    """The last of so many ids that no event has."""
    async with asyncpg.create_pool(harness.url, min_size=1, max_size=1) as pool, pool.acquire() as client:
        transaction = client.transaction()
        await transaction.start()
        ids = await publish(client, [None] * count)
        await transaction.rollback()
    return ids[-1]


async def passed_by(harness: Harness, outbox: Outbox, count: int) -> int:
    """Ids that were drawn, never kept and passed by every mark; the sequence is set back. The last that was kept."""
    [kept] = await harness.publish("k")
    last = await drawn_and_rolled_back(harness, count)
    await until(lambda: min(outbox._low.values()) > last)
    await harness.connection.execute("SELECT setval('hookwire.event_id', $1)", kept)
    return kept


async def test_a_claim_above_a_sequence_that_was_set_back_fails_and_the_next_begins_anew(harness: Harness) -> None:
    """FC-01."""
    outbox, term = outbox_of(harness), await harness.begin_term()
    last = await drawn_and_rolled_back(harness, 70)
    await outbox.advance_low_water()
    lowest = min(outbox._low.values())
    await harness.connection.execute("SELECT setval('hookwire.event_id', 1)")
    ids = await harness.publish("a", "a")
    with pytest.raises(Refused, match="event ids may begin anew"):
        await outbox.claim(term, (), 10, MEBIBYTE)
    outbox.begin(range(SHARDS))
    assert (lowest > last >= ids[-1], await claimed(outbox, term)) == (True, ids)


async def test_a_relay_carries_in_order_what_gets_ids_that_it_has_passed_by(harness: Harness) -> None:
    """FC-01: before, the first of these waited for ever, and those with ids above the marks overtook them."""
    broker = MemoryBroker()
    outbox = Outbox(harness.database, harness.sink, INCARNATION, payload=True, horizon_seconds=0.05)
    async with running(relay_of(harness, MemorySink(broker), outbox=outbox)):
        kept = await passed_by(harness, outbox, 5)
        await until(lambda: min(outbox._low.values()) <= kept + 1)  # the relay has begun anew
        ids = await harness.publish(*["k"] * 10)
        await all_carried(harness)
    assert broker.ids() == [kept, *ids]


async def test_no_record_goes_whose_id_was_another_record_s_when_it_was_claimed(harness: Harness) -> None:
    """FC-01: it was claimed, then a standby was promoted that lacks it, and its id is another event's by now."""
    await harness.publish("a")
    outbox, term = outbox_of(harness), await harness.begin_term()
    await outbox.recognise()
    records = await outbox.claim(term, (), 10, MEBIBYTE)
    batch = await outbox.write_manifest(term, records)
    await harness.connection.execute("DELETE FROM hookwire.outbox; DELETE FROM hookwire.events")
    await harness.connection.execute("ALTER SEQUENCE hookwire.event_id RESTART")
    other = await harness.publish("a")
    next_manifest = outbox.write_manifest(term, [], [batch])
    for verb in (outbox.purge(Batch(term, records), records), outbox.purge(batch, records), next_manifest):
        with pytest.raises(Refused):
            await verb
    with pytest.raises(Refused):
        await outbox.write_manifest(term, records)
    assert ([record.id for record in records], await harness.owed()) == (other, other)


@pytest.mark.parametrize("commit", ["on", "off"])
async def test_ids_that_marks_have_passed_by_are_on_disk(harness: Harness, commit: str) -> None:
    """FC-01: no crash takes them back, also where nothing else is written and commits do not wait for the disk."""
    async with aclosing(await open_database(PoolOptions(f"{harness.url}?synchronous_commit={commit}"))) as database:
        outbox = Outbox(database, harness.sink, INCARNATION, payload=True, horizon_seconds=0)
        outbox.begin(range(SHARDS))
        await drawn_and_rolled_back(harness, 70)
        written = await harness.connection.fetchval("SELECT pg_current_wal_insert_lsn() - '0/0'")
        await outbox.advance_low_water()
        flushed = await harness.connection.fetchval("SELECT pg_current_wal_flush_lsn() - '0/0'")
    assert flushed >= written


async def test_nothing_is_known_to_be_carried_of_ids_of_another_origin(harness: Harness) -> None:
    """FC-01: what the due poller sees would else send no notification. Below the mark the sequence was set back."""
    outbox = outbox_of(harness)
    last = await drawn_and_rolled_back(harness, 2)
    await outbox.advance_low_water()
    origin = await harness.connection.fetchval("SELECT hookwire.origin()")
    found = [outbox.is_carried_through(*of) for of in ((last, origin), (last, uuid4()), (last - 1, origin))]
    assert found == [True, False, False]


async def test_events_that_are_owed_to_nobody_are_carried_if_they_follow_without_a_gap(harness: Harness) -> None:
    """GR-04: a relay looked each second for the events that its own process had delivered directly."""
    outbox = outbox_of(harness)
    await outbox.recognise()
    last = await drawn_and_rolled_back(harness, 2)
    origin = await harness.connection.fetchval("SELECT hookwire.origin()")
    outbox.pass_by([last + 1], origin)  # the marks have not moved yet
    await until(lambda: moved(outbox, last, origin, is_carried=True))
    found = []
    for ids in ([], [last + 4, last + 3], [last + 2]):
        outbox.pass_by(ids, origin)
        found.append([outbox.is_carried_through(last + n, origin) for n in range(6)])
    assert found == [
        [True, True, False, False, False, False],
        [True, True, False, False, False, False],
        [True, True, True, True, True, False],
    ]
    outbox.begin(range(SHARDS))
    assert not outbox.is_carried_through(last, origin)


async def test_marks_that_move_take_back_no_event_that_was_passed_by(harness: Harness) -> None:
    """GR-04: the mark was drawn before these events."""
    outbox = outbox_of(harness)
    last = await drawn_and_rolled_back(harness, 2)
    origin = await harness.connection.fetchval("SELECT hookwire.origin()")
    await until(lambda: moved(outbox, last, origin, is_carried=True))
    outbox.pass_by([last + 1], origin)
    await outbox.advance_low_water()
    assert outbox.is_carried_through(last + 1, origin)
    await harness.publish("a")
    await until(lambda: moved(outbox, last, origin, is_carried=False))


async def test_events_of_another_origin_are_not_passed_by(harness: Harness) -> None:
    """FC-01, GR-04: a commit of a lost timeline may be told of late. Its ids are other events' by now."""
    outbox, other = outbox_of(harness), uuid4()
    last = await drawn_and_rolled_back(harness, 2)
    origin = await harness.connection.fetchval("SELECT hookwire.origin()")
    outbox.pass_by([last + 1], origin)  # no term has begun
    outbox._origin = other
    outbox.pass_by([last + 1], other)  # the term of before
    outbox.begin(range(SHARDS))
    outbox.pass_by([last + 1], other)  # it has not read the origin yet
    await outbox.recognise()
    await until(lambda: moved(outbox, last, origin, is_carried=True))
    outbox.pass_by([last + 1], other)
    before = outbox.is_carried_through(last + 1, origin)
    outbox.pass_by([last + 1], origin)
    assert (before, outbox.is_carried_through(last + 1, origin)) == (False, True)


async def moved(outbox: Outbox, last: int, origin: UUID, *, is_carried: bool) -> bool:
    await outbox.advance_low_water()
    return outbox.is_carried_through(last, origin) == is_carried


async def test_a_relay_tells_its_low_water_mark_while_it_leads(harness: Harness) -> None:
    """RR-07, FC-01: over all its shards, with the origin of the id; what is carried lies below it."""
    relay = relay_of(harness, MemorySink(MemoryBroker()))
    before = relay.low_water
    async with running(relay):
        ids = await harness.publish(*"abc")

        async def carried() -> bool:
            return relay.low_water is not None and relay.low_water.id > ids[-1]

        await until(carried)
        during = relay.low_water
    origin = await harness.database.fetchval("outbox.origin")
    assert during is not None
    assert (before, during.shards, during.origin == origin, relay.low_water) == (None, 64, True, None)

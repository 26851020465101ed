"""The ledger: both sides folded from what publishing and purging leave behind, and compared (PL-A01..A06)."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from app.checks.ledger import compare_ledger
from app.maintenance.ledger import Ledger
from relay.outbox import Outbox
from relay.sink import Batch
from tests.kept_ledger import KEEP_FOR_EVER
from tests.relay.harness import INCARNATION, Harness, all_carried, publish, relay_harness, relay_of, running
from tests.relay.memory import MemoryBroker, MemorySink
from tests.waiting import poll

HOUR = datetime(2026, 1, 15, 9, tzinfo=UTC)
FOLD_SECONDS = 120


@pytest.fixture
async def harness(database_url_both: str) -> AsyncIterator[Harness]:
    async with relay_harness(database_url_both) as harness:
        yield harness


async def close_hours(harness: Harness) -> None:
    """Fold all there is, as if it had happened in HOUR, long ago."""
    await pretend(harness)
    await folded(harness)


async def pretend(harness: Harness) -> None:
    await harness.connection.execute(KEEP_FOR_EVER)
    await harness.connection.execute("UPDATE hookwire.events SET accepted_at = $1", HOUR + timedelta(minutes=7))
    await harness.connection.execute("UPDATE hookwire.ledger_cursor SET since_at = $1", HOUR - timedelta(hours=1))


async def folded(harness: Harness) -> None:
    """Until every event is: whatever transaction runs on this server, in any database, is waited for (RR-07)."""
    async with asyncio.timeout(FOLD_SECONDS):
        while not await harness.connection.fetchval(
            "SELECT c.through_id >= e.last_value FROM hookwire.ledger_cursor c, hookwire.event_id e"
        ):
            await Ledger(harness.database).fold()
            await poll()


async def carry(harness: Harness, *keys: str) -> list[int]:
    """Publish and purge, as the relay does."""
    ids = await harness.publish(*keys)
    await purge(harness, ids)
    return ids


async def purge(harness: Harness, ids: list[int]) -> None:
    term = await harness.begin_term()
    outbox = Outbox(harness.database, harness.sink, INCARNATION, payload=True)
    outbox.begin(range(64))
    records = await outbox.claim(term, (), 1000, 1_000_000)
    await outbox.purge(Batch(term, records), [record for record in records if record.id in ids])


async def verdicts(harness: Harness) -> list[tuple[str, int, int, str | None]]:
    """Verdict, missing and waiting records and the missing event of each unequal cell."""
    report = await compare_ledger(harness.database, INCARNATION)
    return [(cell.verdict, cell.missing, cell.waiting, cell.missing_event) for cell in report.unequal]


def checksum(ids: list[int]) -> int:
    """The checksum as the reference describes it, computed by other means."""
    return sum(int.from_bytes(hashlib.sha256(n.to_bytes(8, "big")).digest()[:8], "big") for n in ids) % 2**64


async def test_what_was_carried_is_the_same_on_both_sides(harness: Harness) -> None:
    """PL-A01, PL-A02, PL-A03: counts, checksum, least and greatest id of each cell."""
    ids = await carry(harness, *"abcdefgh")
    await close_hours(harness)
    rows = await harness.connection.fetch(
        "SELECT sink, owed_count, owed_sum, owed_min, owed_max, sent_count, settled_sum, settled_min, settled_max"
        " FROM hookwire.ledger WHERE topic = 'orders' AND hour = $1 ORDER BY sink, bucket",
        HOUR,
    )
    quarters = [[n for n in ids if n & 3 == bucket] for bucket in range(4)]
    sides = [(2, checksum(quarter), min(quarter), max(quarter)) for quarter in quarters]
    assert [tuple(row) for row in rows] == [
        *[("", *side, 0, 0, None, None) for side in sides],
        *[("kafka", *side, *side) for side in sides],
    ]
    report = await compare_ledger(harness.database, INCARNATION)
    assert (report.accepted, report.owed, report.sent, report.dead, report.findings) == (8, 8, 8, 0, 0)


async def test_a_record_that_left_without_a_trace_is_named(harness: Harness) -> None:
    """PL-A04, I1: one lost record among many, found by the difference of the checksums."""
    ids = await harness.publish(*"abcdefgh")
    await harness.connection.execute("DELETE FROM hookwire.outbox WHERE id = $1", ids[3])
    await purge(harness, ids)
    await close_hours(harness)
    assert await verdicts(harness) == [("lost", 1, 0, f"evt_{INCARNATION}_{ids[3]}")]


async def test_what_still_waits_is_no_finding(harness: Harness) -> None:
    """PL-A06: in the outbox, behind a hold, or in an entry that nobody has folded yet."""
    ids = await harness.publish(*"abcdefgh")
    await close_hours(harness)
    await purge(harness, ids[:4])
    term = await harness.begin_term()
    outbox = Outbox(harness.database, harness.sink, INCARNATION, payload=True)
    outbox.begin(range(64))
    records = await outbox.claim(term, (), 1, 1_000_000)
    await harness.database.fetch(
        "hold.place", "kafka", 0, term.number, ["default"], ["orders"], [records[0].key], [records[0].shard],
        [records[0].id], ["poison"], [""], 1.0,
    )  # fmt: skip
    report = await compare_ledger(harness.database, INCARNATION)
    assert ({cell.verdict for cell in report.unequal}, report.findings) == ({"waiting"}, 0)
    assert sum(cell.waiting for cell in report.unequal) == 4


async def test_one_lost_and_one_strange_record_do_not_make_up_for_each_other(harness: Harness) -> None:
    """PL-A03: the counts agree, the checksums do not."""
    ids = await carry(harness, *"abcdefgh")
    await harness.connection.execute(
        "UPDATE hookwire.ledger_entries SET ids = array_replace(ids, $1::bigint, $2::bigint)", ids[1], ids[5]
    )
    await close_hours(harness)
    assert await verdicts(harness) == [("different", 0, 0, None)]


async def test_more_left_than_was_accepted(harness: Harness) -> None:
    ids = await carry(harness, *"abcdefgh")
    await harness.connection.execute(
        "INSERT INTO hookwire.ledger_entries (sink, outcome, ids) VALUES ('kafka', 'sent', $1)", ids[:1]
    )
    await close_hours(harness)
    assert await verdicts(harness) == [("extra", -1, 0, None)]


async def test_a_transaction_that_commits_late_is_not_passed_over(harness: Harness) -> None:
    """RR-07: the mark waits for every transaction that could still show a lower id."""
    late = harness.connection.transaction()
    await late.start()
    (slow,) = await publish(harness.connection, ["slow"])
    async with relay_harness(harness.url) as other:
        await other.publish("fast")
    for _ in range(3):
        await Ledger(harness.database).fold()
    before = await harness.database.fetchval("ledger.fold_events", 10)
    await late.commit()
    await purge(harness, [slow, slow + 1])
    await close_hours(harness)
    report = await compare_ledger(harness.database, INCARNATION)
    assert (before, report.accepted, report.findings) == (0, 2, 0)


async def test_a_round_begins_where_the_last_but_one_ended(harness: Harness) -> None:
    """RR-07: else its statements read past every entry that a snapshot keeps; what commits late is found still."""
    columns = "hookwire.ledger_entries (id, sink, outcome, ids) OVERRIDING SYSTEM VALUE"
    entry = f"INSERT INTO {columns} SELECT n, 'kafka', 'sent', '{{1}}'"
    reader = await asyncpg.connect(harness.url)
    await reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM hookwire.ledger_entries")
    ledger, left = Ledger(harness.database), []
    await harness.connection.execute(f"{entry} FROM generate_series(1, 1000) n WHERE n <> 500")
    await ledger.fold()
    for late in (500, 1001, 700):
        await harness.connection.execute(f"{entry} FROM generate_series($1::integer, $1::integer) n", late)
        await ledger.fold()
        left.append(await harness.connection.fetchval("SELECT count(*) FROM hookwire.ledger_entries"))
    await reader.close()
    assert left == [0, 0, 1]


async def test_the_open_hour_is_not_judged(harness: Harness) -> None:
    """PL-A06: only hours that have ended a while ago."""
    await harness.publish(*"abcd")
    await harness.connection.execute("DELETE FROM hookwire.outbox")
    await harness.connection.execute("UPDATE hookwire.ledger_cursor SET since_at = now() - interval '2 days'")
    await folded(harness)
    assert await verdicts(harness) == []


async def test_several_folding_at_once_count_everything_once(harness: Harness) -> None:
    for _ in range(5):
        await carry(harness, *"abcdefgh")
    await pretend(harness)
    for _ in range(3):
        await asyncio.gather(*(Ledger(harness.database).fold() for _ in range(4)))
    await folded(harness)
    report = await compare_ledger(harness.database, INCARNATION)
    assert (report.accepted, report.sent, report.findings) == (40, 40, 0)


async def test_a_relay_leaves_its_trace(harness: Harness) -> None:
    """PL-A05: what the harvester has purged is what the broker has confirmed."""
    broker = MemoryBroker()
    ids = await harness.publish(*"abcdefgh" * 10)
    async with running(relay_of(harness, MemorySink(broker))):
        await all_carried(harness)
    await close_hours(harness)
    report = await compare_ledger(harness.database, INCARNATION)
    assert (report.owed, report.sent, report.findings) == (len(ids), len(ids), 0)


async def test_the_ledger_drops_hours_beyond_its_retention(harness: Harness) -> None:
    await carry(harness, "a")
    await close_hours(harness)
    before = await harness.connection.fetchval("SELECT count(*) FROM hookwire.ledger")
    kept = "RETURNS interval LANGUAGE sql IMMUTABLE RETURN '1 hour'::interval"
    await harness.connection.execute(f"CREATE OR REPLACE FUNCTION hookwire.ledger_kept() {kept}")
    await Ledger(harness.database).fold()
    assert (before, await harness.connection.fetchval("SELECT count(*) FROM hookwire.ledger")) == (2, 0)


@pytest.mark.parametrize("is_before", [True, False])
async def test_an_erased_event_is_neither_rewritten_nor_altered(harness: Harness, is_before: bool) -> None:
    """GU-14: before or after it is folded, the hash of its former contents counts. Contents beside the mark do not."""
    [event] = await carry(harness, "a")
    await pretend(harness)
    if not is_before:
        await folded(harness)
    before = await harness.database.fetchrow("lake.accepted", "", "orders", HOUR, event & 3, 0, event, 10)
    await harness.database.fetchrow("erasure.erase", [event], INCARNATION, True)
    await folded(harness)
    span = (HOUR - timedelta(hours=1), HOUR + timedelta(hours=2), 10, "")
    erased = await harness.database.fetch("lake.recount", *span)
    after = await harness.database.fetchrow("lake.accepted", "", "orders", HOUR, event & 3, 0, event, 10)
    await harness.connection.execute("UPDATE hookwire.events SET payload = 'forged'")
    forged = await harness.database.fetch("lake.recount", *span)

    assert ([*erased], before == after, [row["fault"] for row in forged]) == ([], True, ["rewritten"])

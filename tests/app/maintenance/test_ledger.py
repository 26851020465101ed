"""The ledger: both sides folded from what publishing and purging leave behind, and compared (PL-A01..A06)."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from app.checks.ledger import compare_ledger
from app.maintenance.ledger import Ledger
from relay.memory import MemoryBroker, MemorySink
from relay.outbox import Outbox
from relay.sink import Batch
from tests.relay.stage import INCARNATION, Stage, all_carried, publish, relay_of, running, staged

HOUR = datetime(2026, 1, 15, 9, tzinfo=UTC)
FOLD_SECONDS = 120


@pytest.fixture
async def stage(database_url_both: str) -> AsyncIterator[Stage]:
    async with staged(database_url_both) as stage:
        yield stage


async def close_hours(stage: Stage) -> None:
    """Fold all there is, as if it had happened in HOUR, long ago."""
    await pretend(stage)
    await folded(stage)


async def pretend(stage: Stage) -> None:
    await stage.connection.execute("UPDATE hookwire.events SET accepted_at = $1", HOUR + timedelta(minutes=7))
    await stage.connection.execute("UPDATE hookwire.ledger_cursor SET since_at = $1", HOUR - timedelta(hours=1))


async def folded(stage: Stage) -> None:
    """Until every event is: whatever transaction runs on this server, in any database, is waited for (RR-07)."""
    async with asyncio.timeout(FOLD_SECONDS):
        while not await stage.connection.fetchval(
            "SELECT c.through_id >= e.last_value FROM hookwire.ledger_cursor c, hookwire.event_id e"
        ):
            await Ledger(stage.database).fold()
            await asyncio.sleep(0.02)


async def carry(stage: Stage, *keys: str) -> list[int]:
    """Publish and purge, as the relay does."""
    ids = await stage.publish(*keys)
    await purge(stage, ids)
    return ids


async def purge(stage: Stage, ids: list[int]) -> None:
    term = await stage.reign()
    outbox = Outbox(stage.database, stage.sink, INCARNATION, payload=True)
    outbox.begin(range(64))
    records = await outbox.claim(term, (), 1000, 1_000_000)
    await outbox.purge(Batch(term, records), [record for record in records if record.id in ids])


async def verdicts(stage: Stage) -> list[tuple[str, int, int, str | None]]:
    """Verdict, missing and waiting records and the missing event of each unequal cell."""
    report = await compare_ledger(stage.database, INCARNATION)
    return [(cell.verdict, cell.missing, cell.waiting, cell.missing_event) for cell in report.unequal]


def checksum(ids: list[int]) -> int:
    """The checksum as the reference describes it, computed by other means."""
    return sum(int.from_bytes(hashlib.sha256(n.to_bytes(8, "big")).digest()[:8], "big") for n in ids) % 2**64


async def test_what_was_carried_is_the_same_on_both_sides(stage: Stage) -> None:
    """PL-A01, PL-A02, PL-A03: counts, checksum, least and greatest id of each cell."""
    ids = await carry(stage, *"abcdefgh")
    await close_hours(stage)
    rows = await stage.connection.fetch(
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
    report = await compare_ledger(stage.database, INCARNATION)
    assert (report.accepted, report.owed, report.sent, report.dead, report.findings) == (8, 8, 8, 0, 0)


async def test_a_record_that_left_without_a_trace_is_named(stage: Stage) -> None:
    """PL-A04, I1: one lost record among many, found by the difference of the checksums."""
    ids = await stage.publish(*"abcdefgh")
    await stage.connection.execute("DELETE FROM hookwire.outbox WHERE id = $1", ids[3])
    await purge(stage, ids)
    await close_hours(stage)
    assert await verdicts(stage) == [("lost", 1, 0, f"evt_{INCARNATION}_{ids[3]}")]


async def test_what_still_waits_is_no_finding(stage: Stage) -> None:
    """PL-A06: in the outbox, behind a hold, or in an entry that nobody has folded yet."""
    ids = await stage.publish(*"abcdefgh")
    await close_hours(stage)
    await purge(stage, ids[:4])
    term = await stage.reign()
    outbox = Outbox(stage.database, stage.sink, INCARNATION, payload=True)
    outbox.begin(range(64))
    records = await outbox.claim(term, (), 1, 1_000_000)
    await stage.database.fetch(
        "hold.place", "kafka", 0, term.number, ["default"], ["orders"], [records[0].key], [records[0].shard],
        [records[0].id], ["poison"], [""], 1.0,
    )  # fmt: skip
    report = await compare_ledger(stage.database, INCARNATION)
    assert ({cell.verdict for cell in report.unequal}, report.findings) == ({"waiting"}, 0)
    assert sum(cell.waiting for cell in report.unequal) == 4


async def test_one_lost_and_one_strange_record_do_not_make_up_for_each_other(stage: Stage) -> None:
    """PL-A03: the counts agree, the checksums do not."""
    ids = await carry(stage, *"abcdefgh")
    await stage.connection.execute(
        "UPDATE hookwire.ledger_entries SET ids = array_replace(ids, $1::bigint, $2::bigint)", ids[1], ids[5]
    )
    await close_hours(stage)
    assert await verdicts(stage) == [("different", 0, 0, None)]


async def test_more_left_than_was_accepted(stage: Stage) -> None:
    ids = await carry(stage, *"abcdefgh")
    await stage.connection.execute(
        "INSERT INTO hookwire.ledger_entries (sink, outcome, ids) VALUES ('kafka', 'sent', $1)", ids[:1]
    )
    await close_hours(stage)
    assert await verdicts(stage) == [("extra", -1, 0, None)]


async def test_a_transaction_that_commits_late_is_not_passed_over(stage: Stage) -> None:
    """RR-07: the mark waits for every transaction that could still show a lower id."""
    late = stage.connection.transaction()
    await late.start()
    (slow,) = await publish(stage.connection, ["slow"])
    async with staged(stage.url) as other:
        await other.publish("fast")
    for _ in range(3):
        await Ledger(stage.database).fold()
    before = await stage.database.fetchval("ledger.fold_events", 10)
    await late.commit()
    await purge(stage, [slow, slow + 1])
    await close_hours(stage)
    report = await compare_ledger(stage.database, INCARNATION)
    assert (before, report.accepted, report.findings) == (0, 2, 0)


async def test_a_round_begins_where_the_last_but_one_ended(stage: Stage) -> None:
    """RR-07: else its statements read past every entry that a snapshot keeps; what commits late is found still."""
    columns = "hookwire.ledger_entries (id, sink, outcome, ids) OVERRIDING SYSTEM VALUE"
    entry = f"INSERT INTO {columns} SELECT n, 'kafka', 'sent', '{{1}}'"
    reader = await asyncpg.connect(stage.url)
    await reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM hookwire.ledger_entries")
    ledger, left = Ledger(stage.database), []
    await stage.connection.execute(f"{entry} FROM generate_series(1, 1000) n WHERE n <> 500")
    await ledger.fold()
    for late in (500, 1001, 700):
        await stage.connection.execute(f"{entry} FROM generate_series($1::integer, $1::integer) n", late)
        await ledger.fold()
        left.append(await stage.connection.fetchval("SELECT count(*) FROM hookwire.ledger_entries"))
    await reader.close()
    assert left == [0, 0, 1]


async def test_the_open_hour_is_not_judged(stage: Stage) -> None:
    """PL-A06: only hours that have ended a while ago."""
    await stage.publish(*"abcd")
    await stage.connection.execute("DELETE FROM hookwire.outbox")
    await stage.connection.execute("UPDATE hookwire.ledger_cursor SET since_at = now() - interval '2 days'")
    await folded(stage)
    assert await verdicts(stage) == []


async def test_several_folding_at_once_count_everything_once(stage: Stage) -> None:
    for _ in range(5):
        await carry(stage, *"abcdefgh")
    await pretend(stage)
    for _ in range(3):
        await asyncio.gather(*(Ledger(stage.database).fold() for _ in range(4)))
    await folded(stage)
    report = await compare_ledger(stage.database, INCARNATION)
    assert (report.accepted, report.sent, report.findings) == (40, 40, 0)


async def test_a_relay_leaves_its_trace(stage: Stage) -> None:
    """PL-A05: what the harvester has purged is what the broker has confirmed."""
    broker = MemoryBroker()
    ids = await stage.publish(*"abcdefgh" * 10)
    async with running(relay_of(stage, MemorySink(broker))):
        await all_carried(stage)
    await close_hours(stage)
    report = await compare_ledger(stage.database, INCARNATION)
    assert (report.owed, report.sent, report.findings) == (len(ids), len(ids), 0)


async def test_old_hours_are_forgotten(stage: Stage) -> None:
    await carry(stage, "a")
    await close_hours(stage)
    before = await stage.connection.fetchval("SELECT count(*) FROM hookwire.ledger")
    await Ledger(stage.database, retention_seconds=3600).fold()
    assert (before, await stage.connection.fetchval("SELECT count(*) FROM hookwire.ledger")) == (2, 0)

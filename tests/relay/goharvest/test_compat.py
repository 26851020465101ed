"""Compat mode on goharvest's table (RO-01, RG-01..RG-10, RL-04..RL-07, RL-23, RL-24)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Literal

import pytest

from db.pool import PoolOptions, open_database
from db.statements import quoted_table
from relay.election.port import LeadershipLost
from relay.goharvest.compat import rounds
from relay.goharvest.compat_table import CompatTable
from relay.goharvest.outbox_table import TableRefused
from relay.observer import LeaderAcquired, LeaderFenced, LeaderRefreshed, LeaderRevoked, MeterRead
from relay.record import Record
from tests.relay.goharvest.harness import TABLE, Harness, PostgresHarness, on_mariadb, on_postgres
from tests.waiting import until


@pytest.fixture(params=["postgres18", "postgres15", "mariadb", "mariadb_fast"])
async def harness(request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    async with opened(request) as harness:
        yield harness


@pytest.fixture(params=["postgres18", "mariadb", "mariadb_fast"])
async def harness18(request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    """As `harness`, where PostgreSQL's version has no say."""
    async with opened(request) as harness:
        yield harness


@pytest.fixture(params=["postgres18", "mariadb"])
async def marked_harness(request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    """Where a claim shows in the table."""
    async with opened(request) as harness:
        yield harness


def opened(request: pytest.FixtureRequest) -> AbstractAsyncContextManager[Harness]:
    match request.param:
        case "postgres18":
            return on_postgres(request.getfixturevalue("database_url"))
        case "postgres15":
            return on_postgres(request.getfixturevalue("database_url15"))
        case kind:
            return on_mariadb(request.getfixturevalue("mariadb_url"), fast=kind == "mariadb_fast")


# --- names --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "quoted"),
    [
        ("outbox", '"outbox"'),
        ("Outbox", '"outbox"'),
        ("shop.outbox_2", '"shop"."outbox_2"'),
        ('"Out""box"', '"Out""box"'),
        (TABLE, '"shop"."Out box"'),
    ],
)
def test_a_tables_name_is_read_as_postgresql_reads_it(table: str, quoted: str) -> None:
    """RL-24."""
    assert quoted_table(table) == quoted


@pytest.mark.parametrize("table", ["", "a b", "a.b.c", "1a", "outbox; DROP TABLE x", 'a"b', '""', "outbox--"])
def test_anything_else_is_no_tables_name(table: str) -> None:
    with pytest.raises(ValueError, match="not a table's name"):
        quoted_table(table)


# --- rounds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "window", "cut"),
    [
        ("", "batch", []),
        ("ax bx ax", "batch", ["ax bx ax"]),
        ("ax ay bx", "batch", ["ax bx", "ay"]),
        ("ax ay ay ax by", "batch", ["ax by", "ay ay", "ax"]),
        ("ax ay ay ax by", "record", ["ax by", "ay", "ay", "ax"]),
    ],
)
def test_within_a_round_a_key_has_one_topic_or_one_record(
    records: str, window: Literal["batch", "record"], cut: list[str], record_of: Callable[[str, str], Record]
) -> None:
    """RG-10, FM-01: the key alone is the unit of order; letters are key and topic."""
    given = [record_of(*word) for word in records.split()]
    found = [" ".join(f"{r.key}{r.topic}" for r in turn) for turn in rounds(given, window)]
    assert found == cut


@pytest.fixture
def record_of() -> Callable[[str, str], Record]:
    from datetime import UTC, datetime

    def make(key: str, topic: str) -> Record:
        return Record(0, 0, "", "default", topic, key, None, None, {}, b"", datetime.now(UTC))

    return make


# --- the table is looked at first ---------------------------------------------------------------------------------
# In MariaDB by `relay.goharvest.maria_installation`, and its tests are in test_maria.py.


@pytest.fixture
async def postgres_harness(database_url15: str) -> AsyncIterator[PostgresHarness]:
    async with on_postgres(database_url15) as harness:
        yield harness


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("DROP TABLE _outbox_", "cannot be relayed: relation .* does not exist"),
        ("ALTER TABLE _outbox_ DROP COLUMN leader_id", "leader_id does not exist"),
    ],
    ids=["no table", "other columns"],
)
async def test_a_table_that_is_not_fit_is_refused(postgres_harness: PostgresHarness, change: str, says: str) -> None:
    """A relay that led nothing, and said so every few seconds in the log alone, looked as if it worked."""
    await CompatTable(postgres_harness.database, TABLE).look_at()
    await postgres_harness.change(change)
    with pytest.raises(TableRefused, match=says):
        await CompatTable(postgres_harness.database, TABLE).look_at()


@pytest.mark.parametrize(
    ("granted", "says"),
    [
        ("REFERENCES", "permission denied for table Out box"),
        ("SELECT", "no right to UPDATE, DELETE"),
        ("SELECT, UPDATE", "no right to DELETE"),
        ("SELECT, UPDATE (leader_id), DELETE", None),
    ],
)
async def test_a_right_that_is_missing_is_named(
    postgres_harness: PostgresHarness, granted: str, says: str | None
) -> None:
    sql, role = postgres_harness.sql, f"clerk_{secrets.token_hex(4)}"
    await sql.execute(f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA shop TO {role}; GRANT {granted} ON {TABLE} TO {role}")
    database = await open_database(
        PoolOptions(f"{postgres_harness.database.options.url}?role={role}", connections_min=1)
    )
    try:
        if says is None:
            await CompatTable(database, TABLE).look_at()
        else:
            with pytest.raises(TableRefused, match=says):
                await CompatTable(database, TABLE).look_at()
    finally:
        await database.aclose()
        await sql.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


# --- relaying -----------------------------------------------------------------------------------------------------


async def test_rows_arrive_as_they_were_written_and_leave_the_table(harness: Harness) -> None:
    """RG-01, RG-08: any topic in each row, headers in order and repeated, null as a tombstone, an empty value kept."""
    headers = (["Seq", "x", "x"], ["1", "a", ""])
    await harness.write(("orders", "k", "v"), ("other", "k", None), ("orders", "l", ""), headers=headers)
    async with harness.relay():
        await harness.emptied()
    sent = [(k.record.kafka_topic, k.record.key, k.record.payload, k.record.tombstone) for k in harness.broker.log]
    pairs = [("Seq", b"1"), ("x", b"a"), ("x", b"")]
    assert sorted(sent) == [("orders", "k", b"v", False), ("orders", "l", b"", False), ("other", "k", b"", True)]
    assert [list(k.record.kafka_headers or ()) for k in harness.broker.log] == [pairs] * 3


async def test_a_key_keeps_its_order_across_topics(harness: Harness) -> None:
    """RG-10."""
    ids = await harness.write(*[(topic, "k", "v") for topic in "abacab"], ("a", "l", "v"))
    async with harness.relay():
        await harness.emptied()
    assert harness.broker.ids("k") == ids[:-1]


async def test_a_foreign_mark_is_claimable(harness: Harness) -> None:
    """RG-04: a goharvest that died left its marks; so did a hookwire that goharvest takes over from."""
    ids = await harness.write(("t", "k", "1"), ("t", "k", "2"))
    await harness.mark_foreign()
    async with harness.relay():
        await harness.emptied()
    assert harness.broker.ids() == ids


async def test_a_row_that_commits_late_is_found(harness18: Harness) -> None:
    """RG-05: marks start at the lowest id again, there is no cursor."""
    async with harness18.relay():
        async with harness18.writing() as late:
            low = await harness18.insert(late, "t", "k", "low")
            (high,) = await harness18.write(("t", "l", None))
            await until(lambda: harness18.broker.ids() == [high])
        await until(lambda: harness18.broker.ids() == [high, low])


@pytest.mark.parametrize("statement", ["mark", "purge"])
async def test_after_an_unknown_outcome_the_identity_is_a_fresh_one(harness: Harness, statement: str) -> None:
    """F04, RG-06: the mark took effect and its answer was lost. What Kafka keeps is not sent again within the term."""
    ids = await harness.write(("t", "k", "1"), ("t", "k", "2"))
    harness.lose(statement)
    async with harness.relay():
        await until(lambda: LeaderRefreshed in harness.kinds())
        await harness.emptied()
    assert (harness.broker.ids(), harness.kinds()) == (ids, [LeaderAcquired, LeaderRefreshed, LeaderRevoked])


async def test_an_answer_of_the_broker_that_is_lost_repeats_one_batch_in_order(harness18: Harness) -> None:
    """RG-01, RR-01."""
    ids = await harness18.write(*[("t", "k", str(n)) for n in range(5)])
    harness18.broker.answers_lost = 1
    async with harness18.relay():
        await harness18.emptied()
    assert harness18.broker.ids() == ids * 2


async def test_with_a_record_window_a_lost_answer_repeats_the_last_record_of_a_key_and_directly(
    harness18: Harness,
) -> None:
    """FM-01, RR-01: a whole batch would make it 1 2 3 1 2 3, and that goharvest never does."""
    ids = await harness18.write(*[("t", key, str(n)) for n in range(3) for key in "ab"])
    harness18.broker.answers_lost = 1
    async with harness18.relay(window="record"):
        await harness18.emptied()
    a, b = ids[::2], ids[1::2]
    assert (harness18.broker.ids("a"), harness18.broker.ids("b")) == ([a[0], *a], [b[0], *b])


async def test_a_deposed_relay_marks_and_parks_nothing_more(harness: Harness) -> None:
    """RL-06, RR-08: the statement itself refuses it."""
    await harness.write(("t", "k", "v"))
    table = harness.table()
    table.begin()
    old, _new = await harness.begin_term(), await harness.begin_term()
    assert (await table.mark(old, 10), await harness.marks()) == ([], [None])


async def test_only_rows_with_our_mark_are_purged_or_reset(marked_harness: Harness) -> None:
    """RL-04, RT-03, RL-05: another relay has marked them since; it will send them, and this one must stand back."""
    ids = await marked_harness.write(("t", "k", "1"), ("t", "l", "2"))
    table = marked_harness.table()
    table.begin()
    await table.mark(await marked_harness.begin_term(), 10)
    stranger = await marked_harness.mark_foreign(ids[1])
    await table.reset(ids)
    assert await marked_harness.marks() == [None, stranger]
    with pytest.raises(LeadershipLost, match="another relay marks rows"):
        await table.purge(ids)


async def test_what_another_relay_marks_ends_our_reign(marked_harness: Harness) -> None:
    """RO-01: goharvest was started on the same table. Nothing is lost; the one that was overtaken re-elects itself."""
    ids = await marked_harness.write(("t", "k", "1"))
    marked_harness.broker.valve.clear()
    relay = marked_harness.relay()
    async with relay:
        await until(lambda: relay.in_flight_records == 1)
        await marked_harness.mark_foreign()
        marked_harness.broker.valve.set()
        await marked_harness.emptied()
    assert marked_harness.kinds()[:3] == [LeaderAcquired, LeaderFenced, LeaderAcquired]
    assert set(marked_harness.broker.ids()) == set(ids)


# --- poison -------------------------------------------------------------------------------------------------------


async def test_a_poison_record_parks_its_key_and_nobody_else(harness: Harness) -> None:
    """RL-07: goharvest would begin anew for ever."""
    good, bad, behind = await harness.write(("t", "good", "v"), ("t", "bad", "x" * 50), ("t", "bad", "v"))
    harness.broker.record_bytes_max = 10
    async with harness.relay():
        await until(lambda: harness.broker.ids() == [good])
        await until(harness.parked)
        later = (await harness.write(("t", "good", "w")))[0]
        await until(lambda: harness.broker.ids() == [good, later])
        await until(lambda: _has_rows(harness, [bad, behind]))  # the purge comes after the broker's acknowledgement
        assert (await harness.parked(), await harness.marks()) == ([("bad", bad, "t", "too_large", 1)], [None, None])
        harness.broker.record_bytes_max = None
        await harness.probe_now()
        await harness.emptied()
    assert (harness.broker.ids("bad"), await harness.parked()) == ([bad, behind], [])


async def _has_rows(harness: Harness, ids: list[int]) -> bool:
    return await harness.rows() == ids


async def test_a_probe_that_is_refused_waits_twice_as_long(harness18: Harness) -> None:
    await harness18.write(("t", "bad", "x" * 50))
    harness18.broker.record_bytes_max = 10
    async with harness18.relay():
        await until(harness18.parked)
        await harness18.probe_now()

        async def tried_twice() -> bool:
            return [row[4] for row in await harness18.parked()] == [2]

        await until(tried_twice)
    assert 2 < await harness18.probe_seconds() <= 4


async def test_a_parked_record_that_somebody_deletes_frees_its_key(harness18: Harness) -> None:
    bad, behind = await harness18.write(("t", "bad", "x" * 50), ("t", "bad", "v"))
    harness18.broker.record_bytes_max = 10
    async with harness18.relay():
        await until(harness18.parked)
        await harness18.change(f"DELETE FROM _outbox_ WHERE id = {bad}")
        await harness18.probe_now()
        await harness18.emptied()
    assert harness18.broker.ids() == [behind]


async def test_a_missing_topic_parks_every_key_before_it_and_comes_back_by_itself(harness18: Harness) -> None:
    """RO-08, RG-10: a key's records of other topics wait too; once the topic takes records, all of its keys go on."""
    ids = await harness18.write(
        *[("gone", f"k{n}", "1") for n in range(20)], *[("there", f"k{n}", "2") for n in range(20)]
    )
    (other,) = await harness18.write(("there", "other", "v"))
    harness18.broker.missing.add("gone")
    async with harness18.relay():
        await until(lambda: harness18.broker.ids() == [other])

        async def all_parked() -> bool:
            return len(await harness18.parked()) == 20

        await until(all_parked)
        harness18.broker.missing.clear()
        await harness18.probe_now(ids[0])
        await harness18.emptied()
    in_order = all(harness18.broker.ids(f"k{n}") == [ids[n], ids[n + 20]] for n in range(20))
    assert (in_order, await harness18.parked()) == (True, [])


async def test_headers_of_unequal_number_park_their_record_alone(harness18: Harness) -> None:
    """RL-23: in goharvest they fail the whole mark."""
    (bad,) = await harness18.write(("t", "bad", "v"), headers=(["a", "b"], ["1"]))
    (good,) = await harness18.write(("t", "good", "v"))
    async with harness18.relay():
        await until(lambda: harness18.broker.ids() == [good])
        await until(harness18.parked)
    assert await harness18.parked() == [("bad", bad, "t", "headers_unequal", 1)]


# --- the object that programs embed ---------------------------------------------------------------------------------


async def test_a_relay_goes_through_its_states_and_tells_of_them(harness18: Harness) -> None:
    """Start, stop, wait, state, is_leader, leader id, in-flight counts and keys; the events."""
    await harness18.write(("t", "a", "1"), ("t", "b", "2"), ("t", "a", "3"))
    harness18.broker.valve.clear()
    relay = harness18.relay(meter_seconds=0.01)
    states: list[object] = [relay.state, relay.is_leader]
    await relay.start()
    await until(lambda: relay.in_flight_records == 3)
    states += [relay.state, relay.is_leader, len(relay.leader_ids), relay.in_flight_keys]
    marks = set(await harness18.marks())
    states.append(marks == (set(relay.leader_ids) if harness18.marks_rows else {None}))
    harness18.broker.valve.set()
    relay.stop()
    states.append(relay.state)
    await relay.wait()
    states += [relay.state, relay.is_leader, relay.in_flight_records, await harness18.rows()]
    assert states == [
        "created", False, "running", True, 1, {"a", "b"}, True, "stopping", "stopped", False, 0, [],
    ]  # fmt: skip
    last = harness18.events[-1]
    assert isinstance(last, MeterRead)
    assert (last.total, harness18.kinds()) == (3, [LeaderAcquired, LeaderRevoked])


async def test_the_meter_is_read_also_when_nothing_moves(harness18: Harness) -> None:
    """RL-12."""
    async with harness18.relay(meter_seconds=0.01):
        await until(lambda: any(isinstance(event, MeterRead) for event in harness18.events))


async def test_a_relay_that_waits_for_its_seat_stops_at_once(harness18: Harness) -> None:
    harness18.election.free.clear()
    async with harness18.relay() as relay:
        await until(lambda: relay.state == "running")
    assert (relay.state, harness18.kinds()) == ("stopped", [])


async def test_a_relay_is_started_once(harness18: Harness) -> None:
    async with harness18.relay() as relay:
        with pytest.raises(RuntimeError, match="running"):
            await relay.start()


async def test_a_deposed_relay_stands_again(harness18: Harness) -> None:
    """RO-04: fenced means re-elect, never a crash."""
    async with harness18.relay() as relay:
        await until(lambda: relay.is_leader)
        harness18.election.lose_leadership()
        await until(lambda: LeaderFenced in harness18.kinds() and relay.is_leader)
    assert harness18.kinds() == [LeaderAcquired, LeaderFenced, LeaderAcquired, LeaderRevoked]


async def test_two_relays_take_turns_on_one_table(harness18: Harness) -> None:
    """RO-01: at most one leads; the rows that come meanwhile are relayed once, in order."""
    async with asyncio.TaskGroup() as group:
        first, second = harness18.relay(batch_records_max=3), harness18.relay(batch_records_max=3)
        await first.start()
        await second.start()
        ids = await harness18.write(*[("t", "k", str(n)) for n in range(10)])
        await harness18.emptied()
        leader, standby = (first, second) if first.is_leader else (second, first)
        leader.stop()
        await leader.wait()
        ids += await harness18.write(*[("t", "k", str(n)) for n in range(10)])
        await harness18.emptied()
        standby.stop()
        group.create_task(standby.wait())
    assert harness18.broker.ids("k") == ids

"""Compat mode on goharvest's table (RO-01, RG-01..RG-10, RL-04..RL-07, RL-23, RL-24)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from db.errors import Unavailable
from db.pool import Database, PoolOptions, open_database
from db.statements import for_outbox, quoted_table
from relay.compat import CompatHarvester, CompatOptions, rounds
from relay.compat_table import CompatTable
from relay.election import Deposed
from relay.embeddable import Relay
from relay.memory import MemoryBroker, MemoryElection, MemorySink
from relay.observer import Event, LeaderAcquired, LeaderFenced, LeaderRefreshed, LeaderRevoked, MeterRead, Observer
from relay.record import Record
from relay.sink import Term
from tests.relay.stage import raise_term, until


class Yard:
    """A database with goharvest's table, and a relay of it on a broker in memory."""

    def __init__(self, database: Database, sql: asyncpg.Connection) -> None:
        self.database = database
        self.sql = sql
        self.broker = MemoryBroker()
        self.election = MemoryElection(self._reign)
        self.events: list[Event] = []
        self.name = quoted_table(TABLE)

    async def _reign(self) -> Term:
        await self.database.execute("term.ensure", [self.name])
        row = await raise_term(self.database, self.name)
        return Term(self.name, 0, row["term"], row["layout"], row["batch_no"])

    async def write(self, *rows: tuple[str, str, str | None], headers: Sequence[Sequence[str]] = ((), ())) -> list[int]:
        """(topic, key, value) as goharvest's stasher does, in one transaction; returns the ids."""
        async with self.sql.transaction():
            return [await self._insert(*row, headers) for row in rows]

    async def _insert(self, topic: str, key: str, value: str | None, headers: Sequence[Sequence[str]]) -> int:
        written: int = await self.sql.fetchval(
            f"INSERT INTO {TABLE} (create_time, kafka_topic, kafka_key, kafka_value, kafka_header_keys,"
            " kafka_header_values) VALUES (NOW(), $1, $2, $3, $4, $5) RETURNING id",
            topic, key, value, list(headers[0]), list(headers[1]),
        )  # fmt: skip
        return written

    async def rows(self) -> list[int]:
        return [row["id"] for row in await self.sql.fetch(f"SELECT id FROM {TABLE} ORDER BY id")]

    async def marks(self) -> list[uuid.UUID | None]:
        return [row["leader_id"] for row in await self.sql.fetch(f"SELECT leader_id FROM {TABLE} ORDER BY id")]

    async def parked(self) -> list[tuple[Any, ...]]:
        rows = await self.sql.fetch(
            "SELECT key, record_id, topic, reason, attempts FROM hookwire.compat_parked ORDER BY key"
        )
        return [tuple(row) for row in rows]

    async def probe_now(self) -> None:
        await self.sql.execute("UPDATE hookwire.compat_parked SET probe_at = clock_timestamp()")

    def relay(self, *, meter_seconds: float = 60.0, batch_records_max: int = 100) -> Relay:
        observer = Observer(self.name, self.events.append, meter_seconds)
        options = CompatOptions(batch_records_max, 0.01, 0.02, 0.01, 0.02)
        table = CompatTable(self.database, TABLE)
        return Relay([(CompatHarvester(table, MemorySink(self.broker), self.election, observer, options), observer)])

    async def emptied(self) -> None:
        async def empty() -> bool:
            return not await self.rows()

        await until(empty)

    def kinds(self) -> list[type[Event]]:
        return [type(event) for event in self.events if not isinstance(event, MeterRead)]


TABLE = 'Shop."Out box"'


class FaultyDatabase(Database):
    """Loses the answers to named statements, as many times as ``lost`` says: they take effect."""

    lost: dict[str, int]

    async def fetchval(self, name: str, *args: object) -> Any:
        found = await super().fetchval(name, *args)
        self._lose(name)
        return found

    async def fetch(self, name: str, *args: object) -> Any:
        found = await super().fetch(name, *args)
        self._lose(name)
        return found

    def _lose(self, name: str) -> None:
        if self.lost.get(name, 0) > 0:
            self.lost[name] -= 1
            raise Unavailable(f"the answer to {name} was lost")


@pytest.fixture
async def yard(database_url_both: str) -> AsyncIterator[Yard]:
    async with opened_yard(database_url_both) as yard:
        yield yard


@pytest.fixture
async def yard18(database_url: str) -> AsyncIterator[Yard]:
    """As `yard`, where the server's version has no say."""
    async with opened_yard(database_url) as yard:
        yield yard


@asynccontextmanager
async def opened_yard(url: str) -> AsyncIterator[Yard]:
    sql = await asyncpg.connect(url, timeout=10, command_timeout=60)
    pool = await open_database(PoolOptions(url, connections_min=1, connections_max=4))
    database = FaultyDatabase(pool._pool, pool.options)
    database.lost = {}
    try:
        await sql.execute("CREATE SCHEMA shop")
        await database.with_statements(for_outbox(TABLE)).execute("compat.create_table")
        yield Yard(database, sql)
    finally:
        await pool.aclose()
        await sql.close(timeout=5)


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
    ("records", "cut"),
    [
        ("", []),
        ("ax bx ax", ["ax bx ax"]),
        ("ax ay bx", ["ax bx", "ay"]),
        ("ax ay ay ax by", ["ax by", "ay ay", "ax"]),
    ],
)
def test_within_a_round_a_key_has_one_topic(
    records: str, cut: list[str], record_of: Callable[[str, str], Record]
) -> None:
    """RG-10: the key alone is the unit of order; letters are key and topic."""
    given = [record_of(*word) for word in records.split()]
    found = [" ".join(f"{r.key}{r.topic}" for r in turn) for turn in rounds(given)]
    assert found == cut


@pytest.fixture
def record_of() -> Callable[[str, str], Record]:
    from datetime import UTC, datetime

    def make(key: str, topic: str) -> Record:
        return Record(0, 0, "", "default", topic, key, None, None, {}, b"", datetime.now(UTC))

    return make


# --- relaying -----------------------------------------------------------------------------------------------------


async def test_rows_arrive_as_they_were_written_and_leave_the_table(yard: Yard) -> None:
    """RG-01, RG-08: any topic in each row, headers in order and repeated, null as a tombstone, an empty value kept."""
    headers = (["Seq", "x", "x"], ["1", "a", ""])
    await yard.write(("orders", "k", "v"), ("other", "k", None), ("orders", "l", ""), headers=headers)
    async with yard.relay():
        await yard.emptied()
    sent = [(k.record.kafka_topic, k.record.key, k.record.payload, k.record.tombstone) for k in yard.broker.log]
    pairs = [("Seq", b"1"), ("x", b"a"), ("x", b"")]
    assert sorted(sent) == [("orders", "k", b"v", False), ("orders", "l", b"", False), ("other", "k", b"", True)]
    assert [list(k.record.kafka_headers or ()) for k in yard.broker.log] == [pairs] * 3


async def test_a_key_keeps_its_order_across_topics(yard: Yard) -> None:
    """RG-10."""
    ids = await yard.write(*[(topic, "k", "v") for topic in "abacab"], ("a", "l", "v"))
    async with yard.relay():
        await yard.emptied()
    assert yard.broker.ids("k") == ids[:-1]


async def test_a_foreign_mark_is_claimable(yard: Yard) -> None:
    """RG-04: a goharvest that died left its marks; so did a hookwire that goharvest takes over from."""
    ids = await yard.write(("t", "k", "1"), ("t", "k", "2"))
    await yard.sql.execute(f"UPDATE {TABLE} SET leader_id = gen_random_uuid()")
    async with yard.relay():
        await yard.emptied()
    assert yard.broker.ids() == ids


async def test_a_row_that_commits_late_is_found(yard18: Yard) -> None:
    """RG-05: marks start at the lowest id again, there is no cursor."""
    async with yard18.relay():
        late = yard18.sql.transaction()
        await late.start()
        low = await yard18._insert("t", "k", "low", ((), ()))
        other = await asyncpg.connect(yard18.database.options.url)
        high = await other.fetchval(
            f"INSERT INTO {TABLE} (create_time, kafka_topic, kafka_key, kafka_header_keys, kafka_header_values)"
            " VALUES (now(), 't', 'l', '{}', '{}') RETURNING id"
        )
        await other.close()
        await until(lambda: yard18.broker.ids() == [high])
        await late.commit()
        await until(lambda: yard18.broker.ids() == [high, low])


@pytest.mark.parametrize("statement", ["compat.mark", "compat.purge"])
async def test_after_an_unknown_outcome_the_identity_is_a_fresh_one(yard: Yard, statement: str) -> None:
    """RG-06: the mark took effect and its answer was lost. What Kafka keeps is not sent again within the reign."""
    ids = await yard.write(("t", "k", "1"), ("t", "k", "2"))
    yard.database.lost[statement] = 1  # type: ignore[attr-defined]
    async with yard.relay():
        await until(lambda: LeaderRefreshed in yard.kinds())
        await yard.emptied()
    assert (yard.broker.ids(), yard.kinds()) == (ids, [LeaderAcquired, LeaderRefreshed, LeaderRevoked])


async def test_an_answer_of_the_broker_that_is_lost_repeats_one_batch_in_order(yard18: Yard) -> None:
    """RG-01, RR-01."""
    ids = await yard18.write(*[("t", "k", str(n)) for n in range(5)])
    yard18.broker.answers_lost = 1
    async with yard18.relay():
        await yard18.emptied()
    assert yard18.broker.ids() == ids * 2


async def test_a_deposed_relay_marks_and_parks_nothing_more(yard: Yard) -> None:
    """RR-08: the statement itself refuses it."""
    await yard.write(("t", "k", "v"))
    table = CompatTable(yard.database, TABLE)
    table.begin()
    old, _new = await yard._reign(), await yard._reign()
    assert (await table.mark(old, 10), await yard.marks()) == ([], [None])


async def test_only_rows_with_our_mark_are_purged_or_reset(yard: Yard) -> None:
    """RL-05: another relay has marked them since; it will send them, and this one must stand back."""
    ids = await yard.write(("t", "k", "1"), ("t", "l", "2"))
    table = CompatTable(yard.database, TABLE)
    table.begin()
    await table.mark(await yard._reign(), 10)
    stranger = uuid.uuid4()
    await yard.sql.execute(f"UPDATE {TABLE} SET leader_id = $1 WHERE id = $2", stranger, ids[1])
    await table.reset(ids)
    assert await yard.marks() == [None, stranger]
    with pytest.raises(Deposed, match="is goharvest still running"):
        await table.purge(ids)


async def test_what_another_relay_marks_ends_our_reign(yard18: Yard) -> None:
    """RO-01: goharvest was started on the same table. Nothing is lost; the one that was overtaken re-elects itself."""
    ids = await yard18.write(("t", "k", "1"))
    yard18.broker.gate.clear()
    relay = yard18.relay()
    async with relay:
        await until(lambda: relay.in_flight_records == 1)
        await yard18.sql.execute(f"UPDATE {TABLE} SET leader_id = gen_random_uuid()")
        yard18.broker.gate.set()
        await yard18.emptied()
    assert (yard18.kinds()[:3], set(yard18.broker.ids())) == ([LeaderAcquired, LeaderFenced, LeaderAcquired], set(ids))


# --- poison -------------------------------------------------------------------------------------------------------


async def test_a_poison_record_parks_its_key_and_nobody_else(yard: Yard) -> None:
    """RL-07: goharvest would begin anew for ever."""
    good, bad, behind = await yard.write(("t", "good", "v"), ("t", "bad", "x" * 50), ("t", "bad", "v"))
    yard.broker.record_bytes_max = 10
    async with yard.relay():
        await until(lambda: yard.broker.ids() == [good])
        await until(yard.parked)
        later = (await yard.write(("t", "good", "w")))[0]
        await until(lambda: yard.broker.ids() == [good, later])
        assert (await yard.parked(), await yard.marks()) == ([("bad", bad, "t", "too_large", 1)], [None, None])
        yard.broker.record_bytes_max = None
        await yard.probe_now()
        await yard.emptied()
    assert (yard.broker.ids("bad"), await yard.parked()) == ([bad, behind], [])


async def test_a_probe_that_is_refused_waits_twice_as_long(yard18: Yard) -> None:
    await yard18.write(("t", "bad", "x" * 50))
    yard18.broker.record_bytes_max = 10
    async with yard18.relay():
        await until(yard18.parked)
        await yard18.probe_now()

        async def tried_twice() -> bool:
            return [row[4] for row in await yard18.parked()] == [2]

        await until(tried_twice)
    seconds = await yard18.sql.fetchval(
        "SELECT extract(epoch FROM probe_at - clock_timestamp()) FROM hookwire.compat_parked"
    )
    assert 2 < seconds <= 4


async def test_a_parked_record_that_somebody_deletes_frees_its_key(yard18: Yard) -> None:
    bad, behind = await yard18.write(("t", "bad", "x" * 50), ("t", "bad", "v"))
    yard18.broker.record_bytes_max = 10
    async with yard18.relay():
        await until(yard18.parked)
        await yard18.sql.execute(f"DELETE FROM {TABLE} WHERE id = $1", bad)
        await yard18.probe_now()
        await yard18.emptied()
    assert yard18.broker.ids() == [behind]


async def test_a_missing_topic_parks_every_key_before_it_and_comes_back_by_itself(yard18: Yard) -> None:
    """RO-08, RG-10: a key's records of other topics wait too; once the topic takes records, all of its keys go on."""
    ids = await yard18.write(
        *[("gone", f"k{n}", "1") for n in range(20)], *[("there", f"k{n}", "2") for n in range(20)]
    )
    (other,) = await yard18.write(("there", "other", "v"))
    yard18.broker.missing.add("gone")
    async with yard18.relay():
        await until(lambda: yard18.broker.ids() == [other])

        async def all_parked() -> bool:
            return len(await yard18.parked()) == 20

        await until(all_parked)
        yard18.broker.missing.clear()
        await yard18.sql.execute("UPDATE hookwire.compat_parked SET probe_at = now() WHERE key = 'k0'")
        await yard18.emptied()
    in_order = all(yard18.broker.ids(f"k{n}") == [ids[n], ids[n + 20]] for n in range(20))
    assert (in_order, await yard18.parked()) == (True, [])


async def test_headers_of_unequal_number_park_their_record_alone(yard18: Yard) -> None:
    """RL-23: in goharvest they fail the whole mark."""
    (bad,) = await yard18.write(("t", "bad", "v"), headers=(["a", "b"], ["1"]))
    (good,) = await yard18.write(("t", "good", "v"))
    async with yard18.relay():
        await until(lambda: yard18.broker.ids() == [good])
        await until(yard18.parked)
    assert await yard18.parked() == [("bad", bad, "t", "headers_unequal", 1)]


# --- the object that programs embed ---------------------------------------------------------------------------------


async def test_a_relay_goes_through_its_states_and_tells_of_them(yard18: Yard) -> None:
    """Issue 4 item 10: start, stop, wait, state, is_leader, leader id, in-flight counts and keys; the events."""
    await yard18.write(("t", "a", "1"), ("t", "b", "2"), ("t", "a", "3"))
    yard18.broker.gate.clear()
    relay = yard18.relay(meter_seconds=0.01)
    states: list[object] = [relay.state, relay.is_leader]
    await relay.start()
    await until(lambda: relay.in_flight_records == 3)
    states += [relay.state, relay.is_leader, len(relay.leader_ids), relay.in_flight_keys]
    marks = {str(mark) for mark in await yard18.marks()}
    states.append(marks == set(relay.leader_ids))
    yard18.broker.gate.set()
    relay.stop()
    states.append(relay.state)
    await relay.wait()
    states += [relay.state, relay.is_leader, relay.in_flight_records, await yard18.rows()]
    assert states == [
        "created", False, "running", True, 1, {"a", "b"}, True, "stopping", "stopped", False, 0, [],
    ]  # fmt: skip
    last = yard18.events[-1]
    assert isinstance(last, MeterRead)
    assert (last.total, yard18.kinds()) == (3, [LeaderAcquired, LeaderRevoked])


async def test_the_meter_is_read_also_when_nothing_moves(yard18: Yard) -> None:
    """RL-12."""
    async with yard18.relay(meter_seconds=0.01):
        await until(lambda: any(isinstance(event, MeterRead) for event in yard18.events))


async def test_a_relay_that_waits_for_its_seat_stops_at_once(yard18: Yard) -> None:
    yard18.election.free.clear()
    async with yard18.relay() as relay:
        await until(lambda: relay.state == "running")
    assert (relay.state, yard18.kinds()) == ("stopped", [])


async def test_a_relay_is_started_once(yard18: Yard) -> None:
    async with yard18.relay() as relay:
        with pytest.raises(RuntimeError, match="running"):
            await relay.start()


async def test_a_deposed_relay_stands_again(yard18: Yard) -> None:
    """RO-04: fenced means re-elect, never a crash."""
    async with yard18.relay() as relay:
        await until(lambda: relay.is_leader)
        yard18.election.depose()
        await until(lambda: LeaderFenced in yard18.kinds() and relay.is_leader)
    assert yard18.kinds() == [LeaderAcquired, LeaderFenced, LeaderAcquired, LeaderRevoked]


async def test_two_relays_take_turns_on_one_table(yard18: Yard) -> None:
    """RO-01: at most one leads; the rows that come meanwhile are relayed once, in order."""
    async with asyncio.TaskGroup() as group:
        first, second = yard18.relay(batch_records_max=3), yard18.relay(batch_records_max=3)
        await first.start()
        await second.start()
        ids = await yard18.write(*[("t", "k", str(n)) for n in range(10)])
        await yard18.emptied()
        leader, standby = (first, second) if first.is_leader else (second, first)
        leader.stop()
        await leader.wait()
        ids += await yard18.write(*[("t", "k", str(n)) for n in range(10)])
        await yard18.emptied()
        standby.stop()
        group.create_task(standby.wait())
    assert yard18.broker.ids("k") == ids

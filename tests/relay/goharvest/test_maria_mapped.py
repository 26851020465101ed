"""Anybody's outbox table in MariaDB: mapped columns, purge by delete or by mark, locks and late commits (GU-18)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiomysql
import pytest

from db.mariadb.database import maria_options
from relay.election.port import LeadershipLost
from relay.embeddable import Relay
from relay.goharvest.compat import CompatHarvester, CompatOptions
from relay.goharvest.mapping import mapping_of
from relay.goharvest.maria_installation import ensure_mapped_tables
from relay.goharvest.maria_mapped_table import MariaMappedTable
from relay.goharvest.maria_mapping import order_hint
from relay.goharvest.outbox_table import TableRefused
from relay.observer import Observer
from relay.sink import Features, Refusal, Term
from tests.relay.goharvest.harness import FaultyMariaDatabase, connected
from tests.relay.memory import MemoryBroker, MemoryElection, MemorySink
from tests.waiting import until

DEBEZIUM = """CREATE TABLE outbox (
    id char(36) PRIMARY KEY DEFAULT (uuid()), aggregatetype varchar(255) NOT NULL, aggregateid varchar(3000),
    type varchar(255), payload json, place bigint NOT NULL AUTO_INCREMENT UNIQUE, done boolean NOT NULL DEFAULT 0,
    note varbinary(9), number int UNIQUE) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4"""
ORDERED: dict[str, Any] = {"preset": "debezium", "table": "outbox", "order": "place"}
MARKED = ORDERED | {"mark": "done = 1", "waits": "done = 0"}
NAME = "`outbox`"


class Place:
    """Debezium's table in a database of its own, and relays of it on a broker in memory."""

    def __init__(self, database: FaultyMariaDatabase, url: str, sql: aiomysql.Connection) -> None:
        self.database = database
        self.url = url
        self.sql = sql
        self.broker = MemoryBroker()
        self.election = MemoryElection(self.begin_term)
        self._turn = asyncio.Lock()

    async def begin_term(self) -> Term:
        await self.database.execute("lease.ensure", sink=NAME)
        async with self.database.lend() as connection, connection.cursor() as cursor:  # it may be cancelled
            await cursor.execute("UPDATE hookwire_terms SET lease_until = '1970-01-01'")
        done = await self.database.execute("lease.take", sink=NAME, owner="test", lease_seconds=60)
        return Term(NAME, 0, done.last_id, 1, 0)

    async def run(self, what: str, *given: object, sql: aiomysql.Connection | None = None) -> list[tuple[Any, ...]]:
        async with self._turn, (sql or self.sql).cursor() as cursor:
            await cursor.execute(what, given)
            return list(await cursor.fetchall())

    async def write(self, *rows: tuple[str | None, str | None], sql: aiomysql.Connection | None = None) -> None:
        """(aggregateid, payload as JSON) of the type order."""
        for row in rows:
            what = "INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ('order', %s, 'Made', %s)"
            await self.run(what, *row, sql=sql)

    async def table(self, **mapping: Any) -> MariaMappedTable:
        table = MariaMappedTable(self.database, mapping_of(mapping or ORDERED, "mysql"))
        await table.look_at()
        return table

    async def relay(self, **mapping: Any) -> Relay:
        table = await self.table(**mapping)
        sink = MemorySink(self.broker, Features(window="batch", batch_records_max=100, overlap=1))
        observer = Observer(table.name, lambda _: None, 60.0)
        options = CompatOptions(100, 0.01, 0.02, 0.01, 0.02)
        return Relay([(CompatHarvester(table, sink, self.election, observer, options), observer)])

    async def emptied(self) -> None:
        async def empty() -> bool:
            return (await self.run("SELECT COUNT(*) FROM outbox WHERE done = 0")) == [(0,)]

        await until(empty, 60)

    def sent(self) -> list[tuple[str | None, bytes]]:
        return [(kept.record.key, kept.record.payload) for kept in self.broker.log]


@pytest.fixture
async def place(mariadb_url: str) -> AsyncIterator[Place]:
    sql = await connected(mariadb_url)
    database = FaultyMariaDatabase(maria_options(mariadb_url))
    database.lost = {}
    try:
        async with sql.cursor() as cursor:
            await cursor.execute(DEBEZIUM)
        await ensure_mapped_tables(database)
        yield Place(database, mariadb_url, sql)
    finally:
        await database.aclose()
        sql.close()


@asynccontextmanager
async def other(place: Place) -> AsyncIterator[aiomysql.Connection]:
    """A transaction of another writer, which is committed at the end."""
    connection = await connected(place.url)
    try:
        await connection.begin()
        yield connection
        await connection.commit()
    finally:
        connection.close()


async def test_a_row_of_debeziums_table_becomes_a_record_as_its_router_makes_it(place: Place) -> None:
    """GU-18. NULL is a tombstone; a row without a key has no order."""
    await place.write(("7", '{"n": 1}'), (None, None))
    ids = [row[0] for row in await place.run("SELECT id FROM outbox ORDER BY place")]
    async with await place.relay():
        await place.emptied()

    records = [kept.record for kept in place.broker.log]
    assert [(r.kafka_topic, r.key, r.payload, r.tombstone, r.kafka_headers, r.content_type) for r in records] == [
        ("outbox.event.order", "7", b'{"n": 1}', False, (("id", ids[0].encode()),), "application/json"),
        ("outbox.event.order", None, b"", True, (("id", ids[1].encode()),), "application/json"),
    ]


async def test_rows_may_be_marked_and_stay(place: Place) -> None:
    await place.write(*(("a", str(n)) for n in range(3)))
    for _ in range(2):
        async with await place.relay(**MARKED):
            await place.emptied()

    left = await place.run("SELECT COUNT(*) FROM outbox")
    assert (place.sent(), left) == ([("a", b"0"), ("a", b"1"), ("a", b"2")], [(3,)])


async def test_a_row_that_commits_late_is_sent_late_and_never_lost(place: Place) -> None:
    """The slow transaction holds locks on its row: no claim and no purge waits for them."""
    async with await place.relay():
        async with other(place) as slow:
            await place.write(("a", "1"), sql=slow)
            await place.write(("a", "2"))

            async def second() -> bool:
                return place.sent() == [("a", b"2")]

            await until(second, 60)
        await place.emptied()

    assert place.sent() == [("a", b"2"), ("a", b"1")]


async def test_a_refused_row_parks_its_key_and_no_other(place: Place) -> None:
    """A row without a key parks itself alone, a key that no index could hold its hash."""
    place.broker.record_bytes_max = 5
    long = "k" * 3_000
    await place.write(("a", '"too long"'), ("a", "1"), ("b", "2"), (None, '"too long"'), (long, '"too long"'))
    async with await place.relay():

        async def parked() -> bool:
            return await place.run("SELECT COUNT(*) FROM hookwire_parked_rows") == [(3,)]

        await until(parked, 60)
        first = place.sent()
        place.broker.record_bytes_max = None
        await place.run("UPDATE hookwire_parked_rows SET probe_at = '2000-01-01'")
        await place.emptied()

    assert first == [("b", b"2")]
    assert [payload for key, payload in place.sent() if key == "a"] == [b'"too long"', b"1"]
    assert len([key for key, _ in place.sent() if key == long]) == 1


@pytest.mark.parametrize("mapping", [ORDERED, MARKED], ids=["deleted", "marked"])
async def test_a_relay_that_has_lost_the_leadership_purges_nothing(place: Place, mapping: dict[str, Any]) -> None:
    await place.write(("a", "1"))
    table, term = await place.table(**mapping), await place.begin_term()
    claimed = await table.mark(term, 10)
    await place.begin_term()
    with pytest.raises(LeadershipLost):
        await table.purge([record.id for record in claimed])
    assert (await place.run("SELECT done FROM outbox"), await table.mark(term, 10)) == ([(0,)], [])


async def test_rows_that_stay_after_a_purge_end_the_relay_with_a_sentence(place: Place) -> None:
    """They would be sent again and again. The server counts them as found."""
    await place.write(("a", "1"), ("b", "2"))
    table, term = await place.table(**ORDERED | {"mark": "done = 0", "waits": "done = 0"}), await place.begin_term()
    claimed = await table.mark(term, 10)
    with pytest.raises(TableRefused, match="2 of 2 rows that were sent and then marked still wait"):
        await table.purge([record.id for record in claimed])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("bigint unsigned", "18446744073709551615"), ("int", "-5"), ("varchar(90) COLLATE utf8mb4_bin", "'Ä b'"),
        ("uuid", "uuid()"), ("binary(16)", "UNHEX('00FF') "), ("char(9) CHARACTER SET latin1", "'ü'"),
    ],
    ids=str,
)  # fmt: skip
async def test_rows_are_found_again_by_an_id_of_any_type(place: Place, kind: str, value: str) -> None:
    await place.run(f"ALTER TABLE outbox DROP PRIMARY KEY, DROP id, ADD id {kind} NOT NULL PRIMARY KEY")
    await place.run(f"INSERT INTO outbox (id, aggregatetype, payload) VALUES ({value}, 'order', '1')")
    table, term = await place.table(**ORDERED | {"headers": "JSON_OBJECT('n', 1)"}), await place.begin_term()
    await table.purge([record.id for record in await table.mark(term, 10)])
    assert await place.run("SELECT COUNT(*) FROM outbox") == [(0,)]


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"id": "upper(id)"}, "name of a column"),
        ({"id": "nowhere"}, "no column nowhere"),
        ({"id": "type"}, "type of `outbox` needs a unique index"),
        ({"id": "number"}, "number of `outbox` may be NULL"),
        ({"topic": "place"}, "topic is of the type bigint"),
        ({"topic": "note"}, "topic is of the type binary"),
        ({"key": "now()"}, "key is of the type datetime"),
        ({"payload": "place"}, "payload is of the type bigint"),
        ({"headers": "place"}, "headers is of the type bigint"),
        ({"waits": "type", "mark": "done = 1"}, "waits is of the type text"),
        ({"topic": "no_such_column"}, "no_such_column"),
        ({"key": "aggregateid,,"}, "syntax"),
        ({"mark": "nowhere = 1", "waits": "done = 0"}, "no row can be marked in `outbox`: .*nowhere"),
        ({"table": "no_such_table"}, "no column id"),
        ({"id": "wide", "table": "odd"}, "wide of `odd` takes ids of up to 900 characters"),
        ({"table": "odd"}, "`odd` is kept by MyISAM"),
    ],
    ids=str,
)
async def test_types_are_checked_at_the_start_by_name(place: Place, parts: dict[str, str], words: str) -> None:
    if parts.get("table") == "odd":
        await place.run("CREATE TABLE odd LIKE outbox")
        await place.run("ALTER TABLE odd ENGINE = MyISAM, ADD wide varchar(900) CHARACTER SET latin1 NOT NULL UNIQUE")
    with pytest.raises(TableRefused, match=words):
        await place.table(**ORDERED | parts)


async def test_a_claim_reads_only_by_an_index_that_can_sort(place: Place) -> None:
    """A claim by an index that the server ignores was refused; words cannot be sorted by."""
    await place.run("ALTER TABLE outbox MODIFY place bigint NOT NULL DEFAULT 1, ALTER INDEX place IGNORED")
    await place.run("ALTER TABLE outbox ADD INDEX spare (place), ADD FULLTEXT INDEX a (type), ADD INDEX b (type)")
    hints = [
        await order_hint(place.database, mapping_of(ORDERED | {"order": by}, "mysql"))
        for by in ("place", "type", "done")
    ]
    assert hints == ["FORCE INDEX (`spare`)", "FORCE INDEX (`b`)", ""]


async def test_a_row_without_a_key_and_with_a_long_id_parks_itself(place: Place) -> None:
    await place.run("ALTER TABLE outbox DROP PRIMARY KEY, DROP id, ADD id varchar(700) NOT NULL PRIMARY KEY")
    await place.run("INSERT INTO outbox (id, aggregatetype, payload) VALUES (REPEAT('ü', 700), 'order', '1')")
    table, term = await place.table(**ORDERED | {"headers": "JSON_OBJECT('n', 1)"}), await place.begin_term()
    (claimed,) = await table.mark(term, 10)
    await table.park(term, [Refusal(claimed, "record", "too_large", "")])
    assert await table.mark(term, 10) == []


async def test_a_user_who_may_not_delete_is_told_at_the_start(place: Place) -> None:
    """The first row would be sent again and again."""
    at = maria_options(place.url)
    name = f"reader_{at.database[-8:]}"
    await place.run(f"CREATE USER {name} IDENTIFIED BY 'r'")
    await place.run(f"GRANT SELECT ON {at.database}.* TO {name}")
    reader = FaultyMariaDatabase(maria_options(place.url.replace("hookwire:secret", f"{name}:r")))
    reader.lost = {}
    try:
        with pytest.raises(TableRefused, match="no row can be deleted from `outbox`: DELETE command denied"):
            await MariaMappedTable(reader, mapping_of(ORDERED, "mysql")).look_at()
    finally:
        await reader.aclose()
        await place.run(f"DROP USER {name}")

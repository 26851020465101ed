"""goharvest's table on each database, a relay of it on a broker in memory, and what the tests do to both."""

from __future__ import annotations

import asyncio
import json
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, ClassVar, Literal

import aiomysql
import asyncpg

from db.errors import Unavailable
from db.mariadb.database import Done, MariaDatabase, for_outbox, maria_options
from db.pool import Database, PoolOptions, open_database
from db.statements import for_outbox as for_postgres_outbox
from db.statements import quoted_table
from relay.embeddable import Relay
from relay.goharvest.compat import CompatHarvester, CompatOptions
from relay.goharvest.compat_table import CompatTable
from relay.goharvest.maria_installation import ensure_tables
from relay.goharvest.maria_table import MariaTable
from relay.goharvest.outbox_table import OutboxTable
from relay.observer import Event, MeterRead, Observer
from relay.sink import Features, Term
from tests.relay.harness import raise_term
from tests.relay.memory import MemoryBroker, MemoryElection, MemorySink
from tests.waiting import until

TABLE = 'Shop."Out box"'
MARIA_TABLE = "`Out box`"
CREATE_MARIA_TABLE = for_outbox(MARIA_TABLE)[1]["outbox.create_table"]
Headers = Sequence[Sequence[str | None]]


class Harness(ABC):
    """A database with an outbox, and a relay of it on a broker in memory. ``statements`` are those that mark and purge;
    ``marks_rows`` says whether a claim shows in the table."""

    statements: ClassVar[dict[str, str]]
    marks_rows = True

    def __init__(self, name: str, lost: dict[str, int]) -> None:
        self.name = name
        self.broker = MemoryBroker()
        self.election = MemoryElection(self.begin_term)
        self.events: list[Event] = []
        self._lost = lost

    def lose(self, what: str) -> None:
        """The next mark, or purge, takes effect, and its answer is lost."""
        self._lost[self.statements[what]] = 1

    @abstractmethod
    def table(self) -> OutboxTable:
        """The table, as a relay of its own sees it."""

    @abstractmethod
    async def begin_term(self) -> Term:
        """Raise the term, whoever rules."""

    @abstractmethod
    def writing(self) -> AbstractAsyncContextManager[Any]:
        """A transaction of a writer's, on a connection of its own."""

    @abstractmethod
    async def insert(self, writer: Any, topic: str, key: str, value: str | None, headers: Headers = ((), ())) -> int:
        """As goharvest's stasher does; the id."""

    async def write(self, *rows: tuple[str, str, str | None], headers: Headers = ((), ())) -> list[int]:
        """(topic, key, value) in one transaction; returns the ids."""
        async with self.writing() as writer:
            return [await self.insert(writer, *row, headers) for row in rows]

    @abstractmethod
    async def select(self, what: str) -> list[tuple[Any, ...]]:
        """SELECT in the words that both databases have; ``outbox`` and ``parked`` stand for the tables."""

    @abstractmethod
    async def change(self, what: str) -> None:
        """Any other statement in such words; ``now_`` stands for this moment."""

    async def rows(self) -> list[int]:
        return [row[0] for row in await self.select("SELECT id FROM _outbox_ ORDER BY id")]

    async def marks(self) -> list[str | None]:
        rows = await self.select("SELECT leader_id FROM _outbox_ ORDER BY id")
        return [None if row[0] is None else str(row[0]) for row in rows]

    async def mark_foreign(self, *ids: int) -> str:
        """As a stranger marks rows, these or all."""
        stranger = str(uuid.uuid4())
        where = f" WHERE id IN ({', '.join(map(str, ids))})" if ids else ""
        await self.change(f"UPDATE _outbox_ SET leader_id = '{stranger}'{where}")
        return stranger

    @abstractmethod
    async def parked(self) -> list[tuple[Any, ...]]:
        """Key, record's id, topic, reason, attempts."""

    async def probe_now(self, record: int | None = None) -> None:
        where = "" if record is None else f" WHERE record_id = {record}"
        await self.change(f"UPDATE _parked_ SET probe_at = _now_{where}")

    @abstractmethod
    async def probe_seconds(self) -> float:
        """In how many seconds the one parked key is tried again."""

    def relay(
        self, *, meter_seconds: float = 60.0, batch_records_max: int = 100, window: Literal["batch", "record"] = "batch"
    ) -> Relay:
        observer = Observer(self.name, self.events.append, meter_seconds)
        options = CompatOptions(batch_records_max, 0.01, 0.02, 0.01, 0.02)
        sink = MemorySink(self.broker, Features(window=window, batch_records_max=100, overlap=1))
        return Relay([(CompatHarvester(self.table(), sink, self.election, observer, options), observer)])

    async def emptied(self) -> None:
        async def empty() -> bool:
            return not await self.rows()

        await until(empty)

    def kinds(self) -> list[type[Event]]:
        return [type(event) for event in self.events if not isinstance(event, MeterRead)]


class PostgresHarness(Harness):
    statements: ClassVar[dict[str, str]] = {"mark": "compat.mark", "purge": "compat.purge"}

    def __init__(self, database: FaultyDatabase, sql: asyncpg.Connection) -> None:
        super().__init__(quoted_table(TABLE), database.lost)
        self.database = database
        self.sql = sql

    def table(self) -> CompatTable:
        return CompatTable(self.database, TABLE)

    async def begin_term(self) -> Term:
        await self.database.execute("term.ensure", [self.name])
        row = await raise_term(self.database, self.name)
        return Term(self.name, 0, row["term"], row["layout"], row["batch_no"])

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[asyncpg.Connection]:
        connection = await asyncpg.connect(self.database.options.url, timeout=10, command_timeout=60)
        try:
            async with connection.transaction():
                yield connection
        finally:
            await connection.close(timeout=60)

    async def insert(
        self, writer: asyncpg.Connection, topic: str, key: str, value: str | None, headers: Headers = ((), ())
    ) -> int:
        written: int = await writer.fetchval(
            f"INSERT INTO {TABLE} (create_time, kafka_topic, kafka_key, kafka_value, kafka_header_keys,"
            " kafka_header_values) VALUES (NOW(), $1, $2, $3, $4, $5) RETURNING id",
            topic, key, value, list(headers[0]), list(headers[1]),
        )  # fmt: skip
        return written

    async def select(self, what: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self.sql.fetch(_named(what, TABLE, "hookwire.compat_parked", ""))]

    async def change(self, what: str) -> None:
        await self.sql.execute(_named(what, TABLE, "hookwire.compat_parked", "clock_timestamp()"))

    async def parked(self) -> list[tuple[Any, ...]]:
        return await self.select("SELECT key, record_id, topic, reason, attempts FROM _parked_ ORDER BY key")

    async def probe_seconds(self) -> float:
        ((seconds,),) = await self.select("SELECT extract(epoch FROM probe_at - clock_timestamp()) FROM _parked_")
        return float(seconds)


class MariaHarness(Harness):
    statements: ClassVar[dict[str, str]] = {"mark": "outbox.mark", "purge": "outbox.purge"}

    def __init__(self, database: FaultyMariaDatabase, url: str, sql: aiomysql.Connection) -> None:
        super().__init__(for_outbox(MARIA_TABLE)[0], database.lost)
        self.database = database
        self.url = url
        self.sql = sql
        self._turn = asyncio.Lock()  # elections and tests take turns on that connection

    def table(self) -> MariaTable:
        return MariaTable(self.database, MARIA_TABLE, fast=not self.marks_rows)

    async def begin_term(self) -> Term:
        await self.database.execute("lease.ensure", sink=self.name)
        await self.change("UPDATE hookwire_terms SET lease_until = '1970-01-01'")
        done = await self.database.execute("lease.take", sink=self.name, owner="test", lease_seconds=60)
        return Term(self.name, 0, done.last_id, 1, 0)

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[aiomysql.Connection]:
        connection = await connected(self.url)
        try:
            await connection.begin()
            yield connection
            await connection.commit()
        finally:
            connection.close()

    async def insert(
        self, writer: aiomysql.Connection, topic: str, key: str, value: str | None, headers: Headers = ((), ())
    ) -> int:
        async with writer.cursor() as cursor:
            await cursor.execute(
                f"INSERT INTO {MARIA_TABLE} (kafka_topic, kafka_key, kafka_value, kafka_header_keys,"
                " kafka_header_values) VALUES (%s, %s, %s, %s, %s)",
                (topic, key, value, json.dumps(headers[0]), json.dumps(headers[1])),
            )
            return int(cursor.lastrowid)

    async def select(self, what: str) -> list[tuple[Any, ...]]:
        async with self._turn, self.sql.cursor() as cursor:
            await cursor.execute(_named(what, MARIA_TABLE, "hookwire_parked", ""))
            return list(await cursor.fetchall())

    async def change(self, what: str) -> None:
        async with self._turn, self.sql.cursor() as cursor:
            await cursor.execute(_named(what, MARIA_TABLE, "hookwire_parked", "UTC_TIMESTAMP(6)"))

    async def parked(self) -> list[tuple[Any, ...]]:
        rows = await self.select("SELECT kafka_key, record_id, topic, reason, attempts FROM _parked_ ORDER BY 1")
        return [(key.decode(), *rest) for key, *rest in rows]

    async def probe_seconds(self) -> float:
        what = "SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), probe_at) FROM _parked_"
        ((microseconds,),) = await self.select(what)
        return float(microseconds) / 1e6


def _named(what: str, outbox: str, parked: str, now: str) -> str:
    return what.replace("_outbox_", outbox).replace("_parked_", parked).replace("_now_", now)


class FastMariaHarness(MariaHarness):
    statements: ClassVar[dict[str, str]] = {"mark": "outbox.waiting", "purge": "outbox.purge_unmarked"}
    marks_rows = False


class FaultyDatabase(Database):
    """Loses the answers to named statements, as many times as ``lost`` says: they take effect."""

    lost: dict[str, int]

    async def fetchval(self, name: str, *args: object) -> Any:
        found = await super().fetchval(name, *args)
        _lose(self.lost, name)
        return found

    async def fetch(self, name: str, *args: object) -> Any:
        found = await super().fetch(name, *args)
        _lose(self.lost, name)
        return found


class FaultyMariaDatabase(MariaDatabase):
    """As :class:`FaultyDatabase`."""

    lost: dict[str, int]

    async def fetch(self, name: str, **values: object) -> Any:
        found = await super().fetch(name, **values)
        _lose(self.lost, name)
        return found

    async def execute(self, name: str, **values: object) -> Done:
        done = await super().execute(name, **values)
        _lose(self.lost, name)
        return done


def _lose(lost: dict[str, int], name: str) -> None:
    if lost.get(name, 0) > 0:
        lost[name] -= 1
        raise Unavailable(f"the answer to {name} was lost")


@asynccontextmanager
async def on_postgres(url: str) -> AsyncIterator[PostgresHarness]:
    sql = await asyncpg.connect(url, timeout=10, command_timeout=60)
    pool = await open_database(PoolOptions(url, connections_min=1, connections_max=4))
    database = FaultyDatabase(pool._pool, pool.options)
    database.lost = {}
    try:
        await sql.execute("CREATE SCHEMA shop")
        await database.with_statements(for_postgres_outbox(TABLE)).execute("compat.create_table")
        yield PostgresHarness(database, sql)
    finally:
        await pool.aclose()
        await sql.close(timeout=60)


async def connected(url: str) -> aiomysql.Connection:
    """A connection of the tests' own, which sees at once what others commit."""
    at = maria_options(url)
    return await aiomysql.connect(
        host=at.host, port=at.port, user=at.user, password=at.password, db=at.database, charset="utf8mb4",
        autocommit=True,
    )  # fmt: skip


@asynccontextmanager
async def on_mariadb(url: str, *, fast: bool = False) -> AsyncIterator[MariaHarness]:
    sql = await connected(url)
    database = FaultyMariaDatabase(maria_options(url))
    database.lost = {}
    try:
        async with sql.cursor() as cursor:
            await cursor.execute(CREATE_MARIA_TABLE)
        await ensure_tables(database, MARIA_TABLE)
        yield (FastMariaHarness if fast else MariaHarness)(database, url, sql)
    finally:
        await database.aclose()
        sql.close()

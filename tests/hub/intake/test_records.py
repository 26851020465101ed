"""hub/intake/records.py on a real database: each record once, and the offset moves with what is stored."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from app.chaos.seeded_bugs import SEEDED_BUGS
from db.errors import OutcomeUnknown
from db.pool import Database, PoolOptions, open_database
from event.event import Draft
from event.identity import Incarnation
from event.key_hash import hash_key
from hub.intake.records import RecordIntake, RecordOptions
from hub.publish import Publisher
from hub.topics import Topics
from relay.source import (
    IntakeRefused,
    IntakeUnavailable,
    RawRecord,
    SourceMessage,
    SourcePlace,
    SourceRecord,
    Taken,
)
from tests.hub.test_publish import foreign_transaction
from tests.waiting import until

PLACE = SourcePlace("stock", 0, "t")
NAMES = Incarnation("aaaaaaaa", [(7, "bbbbbbbb")])
STORED = "SELECT convert_from(payload, 'UTF8') AS text FROM hookwire.events WHERE topic = 't' ORDER BY id"


@dataclass
class Harness:
    """An intake beside a publisher that runs; ``take`` begins at the offset in the database."""

    intake: RecordIntake
    publisher: Publisher
    database: Database
    sql: asyncpg.Connection

    async def take(self, records: Sequence[SourceRecord]) -> Taken:
        first = await self.offset()
        waiting = [record for record in records if record.offset >= first]
        return await self.intake.take(PLACE, first, records[-1].offset + 1, waiting)

    async def offset(self) -> int:
        return await self.sql.fetchval("SELECT next_offset FROM hookwire.source_offsets")

    async def stored(self) -> list[str]:
        return [row["text"] for row in await self.sql.fetch(STORED)]


def a_record(offset: int, key: str | None = None, value: bytes | None = None, **more: Any) -> SourceRecord:
    body = b"%d" % offset if value is None else value
    message = SourceMessage("", "stock", more.get("message_id", ""), key, more.get("hops", "0"), None, {}, body)
    raw = RawRecord(key and key.encode(), body, [("a", b"\xff")], datetime(2026, 1, 1, tzinfo=UTC))  # type: ignore[arg-type]
    return SourceRecord(offset, hashlib.sha256(body).digest(), raw, more.get("read", message))


@asynccontextmanager
async def taking(database_url: str, bug: str = "", **options: float) -> AsyncIterator[Harness]:
    database = await open_database(PoolOptions(database_url, connections_max=8))
    sql = await asyncpg.connect(database_url)
    await database.execute("source.begin", "stock", [0], [0])
    if bug:
        await database.execute(f"seeded_bug.{bug}")
    publisher = Publisher(database, lambda _owed: None)
    intake = RecordIntake(database, NAMES, publisher, Topics(database, auto_create=True), RecordOptions(**options))  # type: ignore[arg-type]
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(publisher.run())
            try:
                yield Harness(intake, publisher, database, sql)
            finally:
                publisher.stop()
    finally:
        await sql.close()
        await database.aclose()


RECORDS = [a_record(offset, f"k{offset}") for offset in (0, 1, 2, 5, 6)]


@pytest.mark.parametrize(
    ("bug", "offset", "found"),
    [("", 3, ["0", "1", "2", "5", "6"]), ("move_regardless", 7, ["0", "1", "2"])],
    ids=["sound", "seeded bug"],
)
async def test_the_offset_moves_by_the_records_before_the_first_busy_key(
    database_url_both: str, bug: str, offset: int, found: list[str]
) -> None:
    """RR-03, KS-20: the seeded bug moves it by all of them, and loses those from the busy key on."""
    async with taking(database_url_both, bug) as harness:
        async with foreign_transaction(database_url_both, "k5"):
            await harness.take(RECORDS)
            between = await harness.offset()
        if between <= RECORDS[-1].offset:
            await harness.take(RECORDS)
        stored = await harness.stored()

    assert (between, stored) == (offset, found)


def test_the_seeded_bug_is_one_of_the_list() -> None:
    assert "offset-regardless" in SEEDED_BUGS


async def test_a_busy_first_key_waits_alone_and_its_holder_is_named(database_url: str) -> None:
    """RR-03, KS-10: other keys are published meanwhile; nothing is stored, and the offset stays."""
    async with taking(database_url, key_lock_seconds=1.0) as harness:
        async with foreign_transaction(database_url, "k0") as foreign:
            pid = foreign.get_server_pid()
            task = asyncio.create_task(harness.intake.take(PLACE, 0, 7, RECORDS))
            await until(lambda: _waits_for(harness.sql, hash_key("t", "k0").stripe), 60)
            await harness.publisher.publish([Draft("t", b"other", "k1")])
            with pytest.raises(IntakeUnavailable) as raised:
                await task
        left = await harness.offset(), await harness.stored()
        await harness.take(RECORDS)
        stored = await harness.stored()

    assert (f"process {pid} " in str(raised.value), left) == (True, (0, ["other"]))
    assert stored == ["other", "0", "1", "2", "5", "6"]


async def _waits_for(sql: asyncpg.Connection, stripe: int) -> object:
    waiting = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = $1::integer::oid"
    return await sql.fetch(waiting, stripe)


async def test_after_an_unknown_commit_the_offset_tells_what_is_stored(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RR-12, KS-18."""
    async with taking(database_url) as harness:
        fetchrow = Database.fetchrow

        async def unanswered(self: Database, name: str, *arguments: object) -> Any:
            row = await fetchrow(self, name, *arguments)
            if name == "source.take":
                raise OutcomeUnknown("no answer")
            return row

        with monkeypatch.context() as patch:
            patch.setattr(Database, "fetchrow", unanswered)
            with pytest.raises(IntakeUnavailable):
                await harness.take(RECORDS[:3])
        await harness.take(RECORDS)
        stored = await harness.stored()

    assert stored == ["0", "1", "2", "5", "6"]


async def test_a_process_that_was_deposed_takes_nothing(database_url: str) -> None:
    """KS-19."""
    async with taking(database_url) as harness:
        await harness.take(RECORDS)
        late = await harness.intake.take(PLACE, 0, 7, RECORDS)
        stored = await harness.stored()

    assert (late.count, late.next_offset, len(stored)) == (0, 7, 5)


async def test_what_can_be_no_event_is_kept_with_its_bytes_and_its_neighbours_are_stored(database_url: str) -> None:
    """One is refused by its reader, one by the database, one has passed too many hubs, one is the hub's own.

    HA-23: the last is of the original of this clone, under the name before.
    """
    records = [
        a_record(0, "k"),
        a_record(1, "k", read=IntakeRefused("too_large", "it is too large")),
        a_record(2, "k", b"x", hops="7"),
        a_record(3, "\x01", b"bad key"),
        a_record(4, "k", b"own", message_id="evt_aaaaaaaa_8"),
        a_record(5, "k", message_id="evt_bbbbbbbb_8"),
    ]
    async with taking(database_url) as harness:
        outcomes: list[Any] = []
        while await harness.offset() < 6:
            outcomes += (await harness.take(records)).outcomes
        stored = await harness.stored()
        kept = await harness.sql.fetch(
            "SELECT record_offset, reason, key, value, headers::text FROM hookwire.source_refusals ORDER BY id"
        )

    assert [one.reason if isinstance(one, IntakeRefused) else one for one in outcomes] == [
        "stored", "too_large", "too_many_hops", "refused", "returned", "stored",
    ]  # fmt: skip
    assert (stored, [tuple(row) for row in kept]) == (
        ["0", "5"],
        [
            (1, "too_large", b"k", b"1", '["a", "/w=="]'),
            (2, "too_many_hops", b"k", b"x", '["a", "/w=="]'),
            (3, "refused", b"\x01", b"bad key", '["a", "/w=="]'),
        ],
    )


async def test_a_full_table_of_refusals_stops_the_partition(database_url: str) -> None:
    """Nothing is lost: the record waits in Kafka until somebody retries or skips the others."""
    full = (
        "INSERT INTO hookwire.source_refusals (source, partition, record_offset, reason, detail, headers, bytes)"
        " SELECT 'stock', 1, n, 'r', 'd', '[]', 0 FROM generate_series(1, 10000) n"
    )
    async with taking(database_url) as harness:
        await harness.sql.execute(full)
        with pytest.raises(IntakeUnavailable, match="10000 refused records of the source stock"):
            await harness.take([a_record(0, read=IntakeRefused("r", "d"))])
        offset = await harness.offset()

    assert offset == 0


async def test_events_go_to_kafka_only_if_their_topic_says_so(database_url: str) -> None:
    """By default a record would be written back into a Kafka topic."""
    async with taking(database_url) as harness:
        await harness.sql.execute("UPDATE hookwire.sinks SET configured = true")
        await harness.take([a_record(0)])
        await harness.sql.execute("INSERT INTO hookwire.topics (name, sinks) VALUES ('t', '{kafka}') "
                                  "ON CONFLICT (tenant, name) DO UPDATE SET sinks = '{kafka}'")  # fmt: skip
        await harness.take([a_record(1)])
        routes = await harness.sql.fetch("SELECT sinks FROM hookwire.events WHERE topic = 't' ORDER BY id")

    assert [row["sinks"] for row in routes] == [["amqp", "webhooks"], ["kafka"]]

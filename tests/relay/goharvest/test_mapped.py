"""Anybody's outbox table: mapped columns, purge by delete or by mark, what is promised about order (GU-18)."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
import structlog.testing

from app.bridges.publishing_sink import PublishingSink
from app.cli.goharvest.mapped import MappedRelay, read_mapping
from app.settings.settings import Settings, SettingsRefused
from relay.election.port import LeadershipLost
from relay.embeddable import Relay
from relay.goharvest import mapped_table
from relay.goharvest.compat import CompatHarvester, CompatOptions
from relay.goharvest.mapped_table import MappedTable
from relay.goharvest.mapping import MappingRefused, OutboxMapping, mapping_of
from relay.goharvest.outbox_table import TableRefused
from relay.observer import Observer
from relay.sink import Batch, Features, Receipt, Refusal, Sink, Term
from runtime.wake import Wake
from tests.relay.goharvest.harness import FaultyDatabase, on_postgres
from tests.relay.harness import raise_term
from tests.relay.memory import MemoryBroker, MemoryElection, MemorySink
from tests.waiting import until

DEBEZIUM = """CREATE TABLE outbox (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype varchar(255) NOT NULL, aggregateid varchar(255),
    type varchar(255), payload jsonb, place bigserial, done boolean NOT NULL DEFAULT false)"""
PRESET: dict[str, Any] = {"preset": "debezium", "table": "outbox"}
_KEEPING = """CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
    CREATE TRIGGER keeps BEFORE DELETE ON outbox FOR EACH ROW EXECUTE FUNCTION keep()"""
_PARTITIONED = """ALTER TABLE outbox RENAME TO model;
    CREATE TABLE outbox (LIKE model INCLUDING DEFAULTS) PARTITION BY HASH (id);
    CREATE TABLE outbox_0 PARTITION OF outbox FOR VALUES WITH (MODULUS 1, REMAINDER 0)"""
ORDERED = PRESET | {"order": "place"}
MARKED = ORDERED | {"mark": "done = true", "waits": "NOT done"}


class Place:
    """Debezium's table in a database of its own, and relays of it on a broker in memory."""

    def __init__(self, database: FaultyDatabase, sql: asyncpg.Connection) -> None:
        self.database = database
        self.sql = sql
        self.broker = MemoryBroker()
        self.election = MemoryElection(self.begin_term)

    async def begin_term(self) -> Term:
        await self.database.execute("term.ensure", ['"outbox"'])
        row = await raise_term(self.database, '"outbox"')
        return Term('"outbox"', 0, row["term"], row["layout"], row["batch_no"])

    async def write(self, *rows: tuple[str | None, Any], sql: asyncpg.Connection | None = None) -> None:
        """(aggregateid, payload as JSON) of the type order."""
        for key, payload in rows:
            await (sql or self.sql).execute(
                "INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ('order', $1, 'Made', $2)",
                key, payload,
            )  # fmt: skip

    async def table(self, **mapping: Any) -> MappedTable:
        table = MappedTable(self.database, mapping_of(mapping or ORDERED))
        await table.look_at()
        return table

    async def relay(self, sink: Sink | None = None, **mapping: Any) -> Relay:
        table = await self.table(**mapping)
        kept = sink or MemorySink(self.broker, Features(window="batch", batch_records_max=100, overlap=1))
        options = CompatOptions(100, 0.01, 0.02, 0.01, 0.02)
        observer = Observer(table.name, lambda _: None, 60.0)
        return Relay([(CompatHarvester(table, kept, self.election, observer, options), observer)])

    async def waiting(self) -> int:
        return int(await self.sql.fetchval("SELECT count(*) FROM outbox WHERE NOT done"))

    async def emptied(self) -> None:
        async def empty() -> bool:
            return not await self.waiting()

        await until(empty)

    async def parked(self, number: int) -> None:
        async def so_many() -> bool:
            return bool(await self.sql.fetchval("SELECT count(*) = $1 FROM hookwire.compat_parked", number))

        await until(so_many)

    def sent(self) -> list[tuple[str | None, bytes]]:
        return [(kept.record.key, kept.record.payload) for kept in self.broker.log]


@pytest.fixture
async def place(database_url: str) -> AsyncIterator[Place]:
    async with on_postgres(database_url) as harness:
        await harness.sql.execute(DEBEZIUM)
        yield Place(harness.database, harness.sql)


async def test_a_row_of_debeziums_table_becomes_a_record_as_its_router_makes_it(place: Place) -> None:
    """GU-18. NULL is a tombstone; a row without a key has no order."""
    await place.write(("7", '{"n": 1}'), (None, None))
    ids = [str(row["id"]) for row in await place.sql.fetch("SELECT id FROM outbox ORDER BY place")]
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

    left = await place.sql.fetchval("SELECT count(*) FROM outbox")
    assert (place.sent(), left) == ([("a", b"0"), ("a", b"1"), ("a", b"2")], 3)


async def test_a_row_that_commits_late_is_sent_late_and_never_lost(place: Place) -> None:
    """The first of a key is written by a slow transaction: it follows the second, because nothing locks the key."""
    async with other(place) as slow, await place.relay():
        async with slow.transaction():
            await place.write(("a", "1"), sql=slow)
            await place.write(("a", "2"))
            await place.emptied()
        await place.emptied()

    assert place.sent() == [("a", b"2"), ("a", b"1")]


async def test_writers_that_lock_the_key_first_keep_its_order(place: Place) -> None:
    async with other(place) as slow, await place.relay():
        async with slow.transaction():
            await slow.execute("SELECT pg_advisory_xact_lock(hashtext('a'))")
            await place.write(("a", "1"), sql=slow)
            assert not await place.sql.fetchval("SELECT pg_try_advisory_xact_lock(hashtext('a'))")
        async with place.sql.transaction():
            await place.sql.execute("SELECT pg_advisory_xact_lock(hashtext('a'))")
            await place.write(("a", "2"))
        await place.emptied()

    assert place.sent() == [("a", b"1"), ("a", b"2")]


async def test_a_refused_row_parks_its_key_and_no_other(place: Place) -> None:
    """A row without a key parks itself alone."""
    place.broker.record_bytes_max = 5
    await place.write(("a", '"too long"'), ("a", "1"), ("b", "2"), (None, '"too long"'), (None, "3"))
    async with await place.relay():
        await place.parked(2)
        held = await place.sql.fetch("SELECT key, reason, row_id IS NOT NULL FROM hookwire.compat_parked")
        first = place.sent()
        place.broker.record_bytes_max = None
        await place.sql.execute("UPDATE hookwire.compat_parked SET probe_at = now()")
        await place.emptied()

    assert first == [("b", b"2"), (None, b"3")]
    assert sorted(("row" if row[0].startswith("#") else row[0], *row[1:]) for row in held) == [
        ("a", "too_large", True), ("row", "too_large", True),
    ]  # fmt: skip
    assert [payload for key, payload in place.sent() if key == "a"] == [b'"too long"', b"1"]


async def test_a_key_that_grew_beyond_any_index_is_parked_and_goes_on(place: Place) -> None:
    """Its text is random, so that it cannot be compressed."""
    place.broker.record_bytes_max = 5
    await place.sql.execute("ALTER TABLE outbox ALTER aggregateid TYPE text")
    long = secrets.token_hex(5_000)
    await place.write((long, '"too long"'), (long, "1"), ("b", "2"))
    async with await place.relay():
        await place.parked(1)
        first = place.sent()
        place.broker.record_bytes_max = None
        await place.sql.execute("UPDATE hookwire.compat_parked SET probe_at = now()")
        await place.emptied()

    assert (first, place.sent()[1:]) == ([("b", b"2")], [(long, b'"too long"'), (long, b"1")])


async def test_a_row_without_a_key_and_with_a_long_id_parks_itself(place: Place) -> None:
    await place.sql.execute("ALTER TABLE outbox ALTER id TYPE text, ALTER id SET DEFAULT repeat('i', 1000)")
    await place.write((None, "1"))
    table, term = await place.table(), await place.begin_term()
    (claimed,) = await table.mark(term, 10)
    await table.park(term, [Refusal(claimed, "record", "too_large", "")])
    assert await table.mark(term, 10) == []


async def test_a_row_without_an_id_is_told_and_holds_nobody_up(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_table, "_UNSEEN_SECONDS", 0.0)
    await place.write(("a", "1"), ("a", "2"))
    table = await place.table(**ORDERED | {"id": "nullif(place, 1)", "headers": "NULL::jsonb"})
    with structlog.testing.capture_logs() as logs:
        claimed = await table.mark(await place.begin_term(), 10)

    assert ([record.payload for record in claimed], [line["event"] for line in logs]) == (
        [b"2"], ["outbox_rows_without_id"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("part", "expression", "reason"),
    [
        ("topic", "nullif(aggregatetype, 'order')", "topic_missing"),
        ("headers", "to_jsonb(type)", "headers_malformed"),
        ("headers", """'{"half": "\\ud800"}'::json""", "headers_malformed"),
        ("headers", """('{"long": ' || repeat('9', 5000) || '}')::json""", "headers_malformed"),
        ("headers", """('{"deep": ' || repeat('[', 3000) || repeat(']', 3000) || '}')::json""", "headers_malformed"),
    ],
    ids=["topic", "text", "surrogate", "long number", "depth"],
)
async def test_a_row_without_a_topic_or_with_odd_headers_is_refused_alone(
    place: Place, part: str, expression: str, reason: str
) -> None:
    """Its own id is in the log, not a number of the process."""
    await place.write(("a", "1"))
    row = str(await place.sql.fetchval("SELECT id FROM outbox"))
    with structlog.testing.capture_logs() as logs:
        async with await place.relay(**ORDERED | {part: expression}) as relay:

            async def parked_or_over() -> bool:
                parked = await place.sql.fetchval("SELECT count(*) FROM hookwire.compat_parked")
                return parked == 1 or relay.state == "stopped"

            await until(parked_or_over)

    told = [(line["id"], line["reason"]) for line in logs if line["event"] == "compat_record_refused"]
    assert (place.sent(), await place.waiting(), told[:1]) == ([], 1, [(row, reason)])


async def test_a_purge_whose_answer_is_lost_is_made_again_and_a_former_leader_takes_no_row(place: Place) -> None:
    """RR-08: two relays; the one that has lost the term may read, and may not delete."""
    await place.write(("a", "1"))
    place.database.lost["mapped.purge"] = 1
    async with await place.relay():
        await place.emptied()
    await place.write(("a", "2"))
    table = await place.table()
    (record,) = await table.mark(await place.begin_term(), 10)
    await place.begin_term()
    with pytest.raises(LeadershipLost):
        await table.purge([record.id])

    assert (place.sent(), await place.waiting()) == ([("a", b"1")], 1)


async def test_rows_become_events_of_this_hub_once_each(place: Place) -> None:
    """The answer of the purge is lost, so the batch is published twice. Headers of the row are the event's."""
    await place.write(("a", "1"), ("a", "2"), (None, "3"))
    sink = PublishingSink(place.database, "outbox", 1_000)
    first = await place.table()
    claimed = await first.mark(await place.begin_term(), 10)
    for _ in range(2):
        receipt = await sink.send(Batch(await place.begin_term(), claimed))
    rows = await place.sql.fetch("SELECT topic, key, payload, headers->>'id' FROM hookwire.events ORDER BY id")

    assert len(receipt.acknowledged) == 3
    assert [tuple(row) for row in rows] == [
        ("outbox.event.order", record.key, record.payload, record.event_id) for record in claimed
    ]


@pytest.mark.parametrize(
    ("headers", "content_type", "reason"),
    [
        ("jsonb_build_object('x y', '1')", "NULL::text", "invalid_header"),
        ("jsonb_build_object('x', E'a\nb')", "NULL::text", "invalid_header"),
        ("jsonb_build_object('hookwire-event-id', 'evt')", "NULL::text", "invalid_header"),
        ("jsonb_build_object('content-encoding', 'gzip')", "NULL::text", "invalid_header"),
        ("jsonb_build_object('x', repeat('x', 20000))", "NULL::text", "invalid_header"),
        ("(SELECT jsonb_object_agg('h' || n, n) FROM generate_series(1, 65) AS n)", "NULL::text", "invalid_header"),
        ("NULL::jsonb", "E'text/plain\nx: y'", "invalid_cloudevent"),
    ],
    ids=["name", "line", "ours", "coding", "size", "number", "type"],
)
async def test_headers_of_a_row_are_judged_as_those_of_a_publish(
    place: Place, headers: str, content_type: str, reason: str
) -> None:
    await place.write(("a", "1"))
    table = await place.table(**ORDERED | {"headers": headers, "content_type": content_type})
    term = await place.begin_term()
    receipt = await PublishingSink(place.database, "outbox", 1_000).send(Batch(term, await table.mark(term, 10)))
    assert [one.reason for one in receipt.refused] == [reason]


async def test_a_null_payload_is_a_tombstone_of_the_hub_and_needs_a_key(place: Place) -> None:
    await place.write(("a", None), (None, None))
    table, term = await place.table(), await place.begin_term()
    receipt = await PublishingSink(place.database, "outbox", 1_000).send(Batch(term, await table.mark(term, 10)))
    stored = await place.sql.fetch("SELECT key, headers->>'hookwire-tombstone', content_type FROM hookwire.events")

    assert ([tuple(row) for row in stored], [(one.record.key, one.reason) for one in receipt.refused]) == (
        [("a", "true", None)], [(None, "invalid_header")],
    )  # fmt: skip


async def test_a_sink_that_does_nothing_with_a_batch_is_not_asked_again_at_once(place: Place) -> None:
    """The stripe of the first key is busy, for example."""
    acts: list[str] = []

    class Idle(MemorySink):
        async def send(self, batch: Batch) -> Receipt:
            acts.append("send")
            if len(acts) >= 3:
                harvester.stop()
            return Receipt(())

    class Waits(Wake):
        async def wait(self) -> bool:
            acts.append("wait")
            return True

    await place.write(("a", "1"))
    table = await place.table()
    observer = Observer(table.name, lambda _: None, 60.0)
    harvester = CompatHarvester(table, Idle(place.broker), place.election, observer, CompatOptions())
    harvester._wake = Waits()
    await harvester.run()
    assert acts[:3] == ["send", "wait", "send"]


@pytest.mark.parametrize("mapping", [ORDERED, MARKED], ids=["deleted", "marked"])
async def test_rows_leave_whose_id_has_a_type_with_a_length(place: Place, mapping: dict[str, Any]) -> None:
    """A cast to "character" would keep one letter of each."""
    await place.sql.execute("ALTER TABLE outbox ALTER id DROP DEFAULT, ALTER id TYPE char(36)")
    await place.sql.execute(
        "INSERT INTO outbox (id, aggregatetype, aggregateid, payload) VALUES"
        " ('10', 'order', 'a', '1'), ('11', 'order', 'a', '2')"
    )
    table, term = await place.table(**mapping), await place.begin_term()
    await table.purge([record.id for record in await table.mark(term, 10)])
    assert await place.waiting() == 0


@pytest.mark.parametrize(
    ("sql", "mapping"),
    [
        (_KEEPING, ORDERED),
        ("SELECT 1", ORDERED | {"mark": "done = false", "waits": "NOT done"}),
    ],
    ids=["trigger", "mark"],
)  # fmt: skip
async def test_rows_that_stay_after_a_purge_end_the_relay_with_a_sentence(
    place: Place, sql: str, mapping: dict[str, Any]
) -> None:
    """They would be sent again and again."""
    await place.sql.execute(sql)
    await place.write(("a", "1"), ("b", "2"))
    table, term = await place.table(**mapping), await place.begin_term()
    claimed = await table.mark(term, 10)
    with pytest.raises(TableRefused, match=r"2 of 2 rows that were sent and then (deleted|marked) still wait"):
        await table.purge([record.id for record in claimed])


async def test_what_the_hub_cannot_take_is_refused_alone(place: Place) -> None:
    await place.write(("a", "1"), ("b", '"' + "x" * 100 + '"'), ("c", "3"))
    async with await place.relay(PublishingSink(place.database, "outbox", 50)):
        await place.parked(1)
        held = await place.sql.fetch("SELECT key, reason FROM hookwire.compat_parked")

    assert [tuple(row) for row in held] == [("b", "too_large")]


@pytest.mark.parametrize("partitioned", [False, True])
async def test_rows_that_are_inserted_and_never_seen_are_told(
    place: Place, monkeypatch: pytest.MonkeyPatch, partitioned: bool
) -> None:
    """Applications that delete the row in the inserting transaction show a relay an empty table."""
    monkeypatch.setattr(mapped_table, "_UNSEEN_SECONDS", 0.0)
    if partitioned:
        await place.sql.execute(_PARTITIONED)
    table, term = await place.table(), await place.begin_term()
    with structlog.testing.capture_logs() as logs:

        async def told() -> bool:
            async with place.sql.transaction():
                await place.write(("a", "1"))
                await place.sql.execute("DELETE FROM outbox")
            await place.sql.execute("SELECT pg_stat_force_next_flush()")
            await table.mark(term, 10)
            return any(line["event"] == "outbox_rows_unseen" for line in logs)

        await until(told)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"id": "payload"}, "id is of the type jsonb"),
        ({"topic": "place"}, "topic is of the type bigint"),
        ({"key": "payload"}, "key is of the type jsonb"),
        ({"payload": "place"}, "payload is of the type bigint"),
        ({"headers": "aggregateid"}, "headers is of the type character varying"),
        ({"waits": "place", "mark": "done = true"}, "waits is of the type bigint"),
        ({"topic": "no_such_column"}, "no_such_column"),
        ({"key": "aggregateid ||"}, "syntax"),
        ({"table": "no_such_table"}, "no_such_table"),
    ],
    ids=str,
)
async def test_types_are_checked_at_the_start_by_name(place: Place, parts: dict[str, str], words: str) -> None:
    with pytest.raises(TableRefused, match=words):
        await place.table(**ORDERED | parts)


@pytest.mark.parametrize(
    "values",
    [
        {}, {"preset": "other", "table": "a"}, {"preset": "debezium"}, PRESET | {"colour": "red"}, PRESET | {"id": 1},
        PRESET | {"mark": "a = 1"}, PRESET | {"waits": "a"}, PRESET | {"table": "a; DROP TABLE b"},
        PRESET | {"key": ""}, {"table": "a", "id": "id", "topic": "t"},
    ],
    ids=str,
)  # fmt: skip
def test_a_file_that_is_no_mapping_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(MappingRefused):
        mapping_of(values)


@pytest.mark.parametrize("text", ["", "to = 'x'", "to = 'hub'", "to = 'kafka'\ntable = [", "to = 'amqp'\nid = 'a'"])
def test_a_file_that_says_nothing_is_refused_with_its_name(tmp_path: Any, text: str) -> None:
    file = tmp_path / "outbox.toml"
    file.write_text(text)
    with pytest.raises(SettingsRefused, match=r"outbox\.toml"):
        read_mapping(file, Settings())


def test_a_file_is_read(tmp_path: Any) -> None:
    file = tmp_path / "outbox.toml"
    file.write_text('to = "hub"\npreset = "debezium"\ntable = "shop.outbox"\norder = "place"\n')
    assert read_mapping(file, Settings()) == MappedRelay(
        OutboxMapping(
            table="shop.outbox", id="id", topic="'outbox.event.' || aggregatetype", key="aggregateid",
            payload="payload", headers="jsonb_build_object('id', id)", content_type="'application/json'", order="place",
        ),
        "hub",
    )  # fmt: skip


async def test_a_table_of_a_role_that_may_do_less_than_the_relay_is_named(place: Place) -> None:
    """GS-01: its kind; a trigger of that role ran as the owner of the hub, at the first row that was sent."""
    role = f"shop_{secrets.token_hex(4)}"
    await place.sql.execute(f"CREATE ROLE {role}")
    told = []
    try:
        for owner in (role, "CURRENT_USER"):
            await place.sql.execute(f"ALTER TABLE outbox OWNER TO {owner}")
            with structlog.testing.capture_logs() as logs:
                await place.table()
            told.append([line["owner"] for line in logs if line["event"] == "outbox_of_another_role"])
    finally:
        await place.sql.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")

    assert told == [[role], []]


@asynccontextmanager
async def other(place: Place) -> AsyncIterator[asyncpg.Connection]:
    """A connection of another writer."""
    connection = await asyncpg.connect(place.database.options.url)
    try:
        yield connection
    finally:
        await connection.close(timeout=60)

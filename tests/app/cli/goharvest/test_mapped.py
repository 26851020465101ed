"""`hookwire relay --table`: a mapped table on real brokers (GU-18)."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aio_pika
import aiomysql
import asyncpg
import pytest
from aio_pika.abc import AbstractQueue

from app.cli.failure import CommandFailed
from app.cli.goharvest import mapped
from app.cli.goharvest.mapped import MappedRelay, open_mapped, read_mapping, serve_mapped
from app.settings.settings import Settings
from relay.goharvest.mapping import mapping_of
from tests.relay.goharvest.harness import connected
from tests.relay.kafka.kafka_topic import make_topic, read_committed
from tests.waiting import until

_TABLE = """CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype varchar(255) NOT NULL,
    aggregateid varchar(255), payload jsonb, place bigserial)"""


async def relayed(url: str, folder: Path, target: str, kind: str, **settings: Any) -> list[str]:
    """Three rows of two keys and of none, relayed until the table is empty; the rows' ids."""
    sql = await asyncpg.connect(url)
    try:
        await sql.execute(_TABLE)
        asked = MappedRelay(mapping_of({"preset": "debezium", "table": "outbox", "order": "place"}), target)
        loaded = Settings(**{"database_url": url, "data_dir": folder, "log_level": "error", **settings})
        async with open_mapped(loaded, asked) as relay, relay:
            await sql.executemany(
                "INSERT INTO outbox (aggregatetype, aggregateid, payload) VALUES ($1, $2, $3)",
                [(kind, "a", "1"), (kind, "a", "2"), (kind, None, None)],
            )
            ids = [str(row["id"]) for row in await sql.fetch("SELECT id FROM outbox ORDER BY place")]

            async def empty() -> bool:
                return not await sql.fetchval("SELECT count(*) FROM outbox")

            await until(empty, 60)
    finally:
        await sql.close()
    return ids


async def test_kafka_gets_the_records_of_debeziums_router(database_url: str, tmp_path: Path, kafka: Any) -> None:
    kind = f"order-{secrets.token_hex(4)}"
    await make_topic(kafka.bootstrap, f"outbox.event.{kind}", partitions=1)
    ids = await relayed(database_url, tmp_path, "kafka", kind, kafka_bootstrap_servers=kafka.bootstrap)
    found = await read_committed(kafka.bootstrap, f"outbox.event.{kind}")

    assert [(one.key, one.value, one.headers) for one in found] == [
        (b"a", b"1", {"id": ids[0]}), (b"a", b"2", {"id": ids[1]}), (None, None, {"id": ids[2]}),
    ]  # fmt: skip


async def test_relays_of_two_tables_do_not_fence_each_other(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka fences by the transactional id, in which this name is. One table has one name, however it is written."""
    made: list[str] = []
    monkeypatch.setattr(mapped, "KafkaSink", lambda options, _: made.append(options.installation))
    sql = await asyncpg.connect(database_url)
    await sql.execute(f"{_TABLE}; CREATE TABLE other (LIKE outbox)")
    await sql.close()
    loaded = Settings(database_url=database_url, data_dir=tmp_path, kafka_bootstrap_servers="localhost:1")
    for table in ("outbox", "other", '"outbox"'):
        async with open_mapped(loaded, MappedRelay(mapping_of({"preset": "debezium", "table": table}), "kafka")):
            pass
    assert (made[0] != made[1], made[0] == made[2]) == (True, True)


async def test_a_table_that_keeps_its_rows_ends_the_command_with_a_sentence(database_url: str, tmp_path: Path) -> None:
    """A trigger keeps the row, so each claim would find and send it again."""
    sql = await asyncpg.connect(database_url)
    await sql.execute(f"""{_TABLE}; INSERT INTO outbox (aggregatetype, payload) VALUES ('order', '1');
        CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
        CREATE TRIGGER keeps BEFORE DELETE ON outbox FOR EACH ROW EXECUTE FUNCTION keep()""")
    await sql.close()
    loaded = Settings(database_url=database_url, data_dir=tmp_path, log_level="error")
    with pytest.raises(CommandFailed, match="1 of 1 rows that were sent and then deleted still wait"):
        await serve_mapped(loaded, MappedRelay(mapping_of({"preset": "debezium", "table": "outbox"}), "hub"))


async def test_amqp_gets_them_with_their_header(database_url: str, tmp_path: Path, rabbitmq: Any) -> None:
    name = f"mapped-{secrets.token_hex(4)}"
    async with await aio_pika.connect(rabbitmq.url) as connection:
        channel = await connection.channel()
        exchange = await channel.declare_exchange(name, "topic", durable=True)
        queue = await channel.declare_queue(name)
        await queue.bind(exchange, "#")
        ids = await relayed(database_url, tmp_path, "amqp", "order", amqp_url=rabbitmq.url, amqp_exchange=name)
        found = [await queue.get(no_ack=True) for _ in range(3)]
        await queue.delete(if_empty=False)

    sent = [(one.routing_key, one.body, one.headers["id"]) for one in found]
    expected = [("outbox.event.order", body, row) for body, row in zip((b"1", b"2", b""), ids, strict=True)]
    # The row without a key has no order among the others.
    assert ([one for one in sent if one[1]], sorted(map(str, sent))) == (expected[:2], sorted(map(str, expected)))


_IN_MARIADB = """CREATE TABLE outbox (id char(36) PRIMARY KEY DEFAULT (uuid()), aggregatetype varchar(255) NOT NULL,
    aggregateid varchar(255), payload json, place bigint NOT NULL AUTO_INCREMENT UNIQUE) ENGINE = InnoDB"""

_TWO_ROWS = "INSERT INTO outbox (aggregatetype, aggregateid, payload) VALUES (%s, 'a', '1'), (%s, 'a', '2')"


@pytest.mark.parametrize("target", ["hub", "kafka", "amqp"])
async def test_a_table_in_mariadb_reaches_each_target(
    target: str, database_url: str, mariadb_url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Kafka and AMQP need no PostgreSQL: the setting of the database is one that does not answer."""
    kind = f"order-{secrets.token_hex(4)}"
    given: dict[str, Any] = {"database_url": "postgresql://127.0.0.1:1/none", "outbox_url": mariadb_url}
    if target == "hub":
        given["database_url"] = database_url
    elif target == "kafka":
        given["kafka_bootstrap_servers"] = request.getfixturevalue("kafka").bootstrap
        await make_topic(given["kafka_bootstrap_servers"], f"outbox.event.{kind}", partitions=1)
    else:
        given["amqp_url"] = request.getfixturevalue("rabbitmq").url
    settings = Settings(data_dir=tmp_path, log_level="error", amqp_exchange=kind, **given)
    file = tmp_path / "outbox.toml"
    file.write_text(f'to = "{target}"\npreset = "debezium"\ntable = "outbox"\norder = "place"\n')
    async with AsyncExitStack() as stack:
        queue = await stack.enter_async_context(bound(given["amqp_url"], kind)) if target == "amqp" else None
        sql = await connected(mariadb_url)
        stack.callback(sql.close)
        await on(sql, _IN_MARIADB)
        await on(
            sql,
            "INSERT INTO outbox (aggregatetype, aggregateid, payload) VALUES (%s, 'a', '1'), (%s, 'a', '2')",
            kind,
            kind,
        )
        async with open_mapped(settings, read_mapping(file, settings)) as relay, relay:

            async def empty() -> bool:
                return await on(sql, "SELECT COUNT(*) FROM outbox") == [(0,)]

            await until(empty, 60)
        if queue is not None:
            found = [(one.routing_key, one.body) for one in [await queue.get(no_ack=True) for _ in range(2)]]
        elif target == "hub":
            reader = await asyncpg.connect(database_url)
            stack.push_async_callback(reader.close)
            found = [tuple(row) for row in await reader.fetch("SELECT topic, payload FROM hookwire.events ORDER BY id")]
        else:
            name = f"outbox.event.{kind}"
            found = [(name, one.value) for one in await read_committed(given["kafka_bootstrap_servers"], name)]

    assert found == [(f"outbox.event.{kind}", b"1"), (f"outbox.event.{kind}", b"2")]


async def on(sql: aiomysql.Connection, what: str, *given: object) -> list[tuple[Any, ...]]:
    async with sql.cursor() as cursor:
        await cursor.execute(what, given)
        return list(await cursor.fetchall())


@asynccontextmanager
async def bound(url: str, exchange: str) -> AsyncIterator[AbstractQueue]:
    """A queue that gets everything of a new exchange."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exchange)
        await queue.bind(await channel.declare_exchange(exchange, "topic", durable=True), "#")
        yield queue
        await queue.delete(if_empty=False)

"""`hookwire relay --table`: a mapped table on real brokers (GU-18)."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import aio_pika
import asyncpg
import pytest

from app.cli.failure import CommandFailed
from app.cli.goharvest import mapped
from app.cli.goharvest.mapped import MappedRelay, open_mapped, serve_mapped
from app.settings.settings import Settings
from relay.goharvest.mapping import mapping_of
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

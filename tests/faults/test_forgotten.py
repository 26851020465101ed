"""What Kafka has and a database has forgotten is listed, after any restore (HA-24)."""

import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path
from unittest.mock import AsyncMock

import asyncpg
import pytest
from aiokafka import AIOKafkaProducer

import app.checks.forgotten
from app.chaos.arrivals import read_arrivals
from app.checks.forgotten import Comparison, compare_with_kafka
from app.settings.settings import Settings
from db.direct import connect_direct
from db.pool import PoolOptions
from scripts.servers.kafka import KafkaServer
from tests.faults.harness import CALM, Kafka, open_harness
from tests.faults.test_restored import backup, restored

EACH = [pytest.param("database_url", 20, id="postgres18"), pytest.param("database_url15", 5, id="postgres15")]
"""How many restores, on each PostgreSQL."""


async def compared(
    database_url: str, broker: Kafka, records_max: int = 100_000, *, prefix: str | None = None
) -> list[Comparison]:
    """The report on a database."""
    settings = Settings(
        database_url=database_url, kafka_bootstrap_servers=broker.bootstrap,
        kafka_topic_prefix=broker.prefix if prefix is None else prefix,
    )  # fmt: skip
    connection = await connect_direct(PoolOptions(database_url))
    try:
        return await compare_with_kafka(settings, connection, records_max)
    finally:
        await connection.aclose()


async def test_each_record_of_kafka_is_known_forgotten_or_of_others(
    database_url: str, kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HA-24: what lies in Kafka twice counts once, and a record without our header is nobody's. Without a prefix,
    topics that the database does not name are read, too.
    """
    broker = Kafka(kafka.bootstrap)
    sql = await asyncpg.connect(database_url)
    first = await sql.fetchval("SELECT hookwire.publish('t', 'x'::text)")
    await sql.close()
    incarnation = first.split("_")[1]
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap)
    await producer.start()
    for identity in (first, first, f"evt_{incarnation}_999", "evt_zzzzzzzz_5", "", "no id"):
        headers = [("hookwire-event-id", identity.encode())] if identity else []
        await producer.send_and_wait(broker.prefix + "t", b"x", partition=0, headers=headers)
    await producer.stop()
    [found] = await compared(database_url, broker)
    [tail] = await compared(database_url, broker, records_max=1)
    told = await asyncio.to_thread(command, database_url, broker)
    names = frozenset({broker.prefix + "t"})  # the broker is that of other tests, too
    monkeypatch.setattr(app.checks.forgotten, "existing_topics", AsyncMock(return_value=names))
    unnamed = {one.topic: len(one.only_there) for one in await compared(database_url, broker, prefix="")}
    forgotten = [(one.event_id, one.offset) for one in found.only_there]
    assert (found.both, forgotten, found.others) == (1, [(f"evt_{incarnation}_999", 2)], 1)
    assert unnamed.get(broker.prefix + "t") == 1
    assert (tail.both, tail.only_there) == (0, [])
    assert (told.returncode, f"evt_{incarnation}_999" in told.stdout) == (1, True)


def command(database_url: str, broker: Kafka) -> subprocess.CompletedProcess[str]:
    """Run `hookwire forgotten`."""
    settings = {
        "HOOKWIRE_DATABASE_URL": database_url, "HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap,
        "HOOKWIRE_KAFKA_TOPIC_PREFIX": broker.prefix,
    }  # fmt: skip
    words = [sys.executable, "-m", "app.cli", "forgotten"]
    return subprocess.run(words, env=os.environ | settings, check=False, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("database_url_both", "restores"), EACH, indirect=["database_url_both"])
async def test_after_twenty_random_restores_the_report_equals_the_witness(
    database_url_both: str, restores: int, kafka: KafkaServer, tmp_path: Path, seed: int
) -> None:
    """HA-24, GS-09"""
    broker, chance = Kafka(kafka.bootstrap), random.Random(seed)
    async with open_harness(database_url_both, tmp_path, seed, broker, processes=1, **CALM) as harness:
        files = []
        async with harness.scenario.load():
            for number in range(restores):
                await harness.accepts(chance.randint(1, 60))
                folder = tmp_path / str(number)
                folder.mkdir()
                files.append(await asyncio.to_thread(backup, database_url_both, folder))
            await harness.accepts(30)
        await harness.scenario.quiet(60)
        await broker.read(tmp_path)
        sent = {one.event_id for one in read_arrivals(tmp_path / "arrivals-kafka.jsonl") if one.event_id}
        found, expected = [], []
        for file in files:
            async with restored(file, database_url_both) as url:
                sql = await asyncpg.connect(url)
                known = {row["id"] for row in await sql.fetch("SELECT id FROM hookwire.events")}
                owed = {row["id"] for row in await sql.fetch("SELECT id FROM hookwire.outbox WHERE sink = 'kafka'")}
                await sql.close()
                [report] = await compared(url, broker)
            numbers = {int(one.rpartition("_")[2]): one for one in sent}
            expected.append((
                {one for number, one in numbers.items() if number not in known},
                len(numbers.keys() & known), len(numbers.keys() & owed), len(owed - numbers.keys()),
            ))  # fmt: skip
            found.append(({one.event_id for one in report.only_there}, report.both, report.again, report.only_here))
        print(f"forgotten after each restore: {[len(one[0]) for one in found]}")
    assert found == expected

"""A rolling upgrade of three replicas under load, with migrations in the middle (F10)."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

import app
from app.chaos.history import read_history
from db.migrate import migrations
from scripts.servers.kafka import KafkaServer
from tests.faults.harness import CALM, CLEAN, Harness, Kafka, open_harness

ROOMS = ("app", "db", "event", "hub", "jobs", "relay", "reqrep", "webhooks")

# What a release may do to the tables that its predecessor's processes are reading and writing at that moment: another
# row type under their prepared statements, another function under their calls. One table a file, as migrations are.
MIGRATIONS = (
    "ALTER TABLE hookwire.events ADD COLUMN next_version text",
    "ALTER TABLE hookwire.outbox ADD COLUMN next_version text DEFAULT 'next'",
    "ALTER TABLE hookwire.deliveries ADD COLUMN next_version text",
    "ALTER TABLE hookwire.subscriptions ADD COLUMN next_version integer DEFAULT 2",
    "ALTER TABLE hookwire.relay_terms ADD COLUMN next_version text",
    "CREATE OR REPLACE FUNCTION hookwire.stripe_of(digest bytea) RETURNS integer"
    " LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE"
    " RETURN ((get_byte(digest, 1) * 256) + get_byte(digest, 2)) % 1024",
)

# Every attempt at another replica; a time-out of a busy machine costs one, too.
ATTEMPTS_MAX = 15


@pytest.fixture
def next_version(tmp_path: Path) -> Path:
    """The product as it is, with more migrations; what was compiled of it comes along."""
    here, there = Path(app.__path__[0]).parent, tmp_path / "next"
    # Processes beside this test compile meanwhile: their x.pyc.<n> is renamed between listing and copying.
    passing = shutil.ignore_patterns("*.pyc.*")
    for room in ROOMS:
        shutil.copytree(here / room, there / room, ignore=passing)
    for number, text in enumerate(MIGRATIONS, len(migrations()) + 1):
        (there / "db" / "migrations" / f"{number:04}_next.sql").write_text(f"-- Of the next version.\n{text};\n")
    return there


def attempts(harness: Harness) -> Iterator[int]:
    """How many each event took, of those that were repeated."""
    return (attempt.attempt for attempt in read_history(harness.scenario.options.folder / "history.jsonl"))


@pytest.mark.slow
async def test_replicas_are_upgraded_one_after_the_other_and_clients_need_no_more_than_to_repeat(
    database_url: str, kafka: KafkaServer, tmp_path: Path, next_version: Path, seed: int
) -> None:
    """F10, JT-24: I1 I3 I6. The first of the new ones migrates while two old ones publish, relay and deliver."""
    options = {"processes": 3, "keys": 10, "transactors": 4, "kafka_groups": 4, **CALM}
    known = len(migrations())
    async with open_harness(database_url, tmp_path, seed, Kafka(kafka.bootstrap), **options) as harness:
        sql = await asyncpg.connect(database_url)
        versions = []
        async with harness.scenario.load():
            await harness.accepts(100)
            for child in harness.scenario.children:
                code, _ = await child.drain(seconds_max=30)
                assert code == 0
                child.tree = next_version
                await child.start()
                versions.append(await sql.fetchval("SELECT max(version) FROM hookwire.migrations"))
                await harness.accepts(100)
                await harness.receives("ordered", 50)
        await sql.close()
        most = max(attempts(harness))
        print(f"seed {seed}, an event took {most} attempts at most")
        assert (versions, most <= ATTEMPTS_MAX) == ([known + len(MIGRATIONS)] * 3, True)
        assert await harness.concluded(duplicates_max=100) == CLEAN

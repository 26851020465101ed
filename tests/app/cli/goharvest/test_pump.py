"""`hookwire pump`: its reader judges what arrives, its writers write to each outbox (RR-01)."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from urllib.parse import urlsplit

import asyncpg
import pytest
from typer.testing import CliRunner

from app.cli.failure import CommandFailed
from app.cli.goharvest.pump import PumpOptions, Verified, outbox_in_maria, outbox_in_postgres, pump, verify
from app.cli.main import application
from app.settings.settings import SettingsRefused
from db.mariadb.database import for_outbox
from db.pool import PoolOptions, open_database
from relay.kafka.reader import KafkaArrival
from tests.relay.goharvest.harness import MARIA_TABLE, MariaHarness, connected, on_mariadb

OPTIONS = PumpOptions(keys=2, records=4, run="here")


async def arriving(text: str) -> AsyncIterator[KafkaArrival | None]:
    """Words are key and number; `.` is a moment in which nothing comes, `x` is another run's."""
    for word in text.split():
        if word == ".":
            yield None
        elif word == "x":
            yield KafkaArrival("a", b"", (("Seq", b"1"), ("Run", b"other")))
        else:
            yield KafkaArrival(word[0], b"", (("Seq", word[1:].encode()), ("Run", b"here")))
    while True:
        yield None


@pytest.mark.parametrize(
    ("text", "left", "verified", "exit_code"),
    [
        ("a1 b2 a3 b4", {}, Verified(4, 0, 0, 0), 0),
        ("b2 a1 . x b4 a3", {}, Verified(4, 0, 0, 0), 0),
        ("a1 a3 a1 a3 b2 b4", {}, Verified(4, 0, 0, 2), 0),
        ("a3 a1 b2 b4", {}, Verified(4, 0, 1, 0), 1),
        ("a1 b2 b4", {}, Verified(3, 1, 0, 0), 1),
        ("", {}, Verified(0, 4, 0, 0), 1),
        ("a1 b2", {2: False, 3: False, 4: False}, Verified(2, 0, 0, 0, 2), 4),
        ("a1 b2", {3: False}, Verified(2, 1, 0, 0, 1), 1),
        ("a1 b2 b4", {3: True}, Verified(3, 0, 0, 0, 0, 1), 1),
    ],
    ids=[
        "all", "keys apart", "repeated", "disordered", "lost", "nothing", "on their way", "one lost, one on its way",
        "given up",
    ],
)  # fmt: skip
async def test_the_pump_tells_an_event_that_is_altered_or_out_of_order(
    text: str, left: dict[int, bool], verified: Verified, exit_code: int
) -> None:
    """GU-21: a record that the outbox still has is not lost, whatever the time."""

    async def owed() -> Mapping[int, bool]:
        return left

    found = await verify(arriving(text), owed, OPTIONS, 0.01, lambda _: None)
    assert (found, found.exit_code) == (verified, exit_code)


async def test_the_pump_waits_while_records_leave_the_outbox() -> None:
    """GU-21: a look that finds fewer of them begins the wait anew."""
    looks = [{1: False, 2: False}, {2: False}, {}, {}]
    asked: list[dict[int, bool]] = []

    async def owed() -> Mapping[int, bool]:
        asked.append(looks[len(asked)])
        return asked[-1]

    found = await verify(arriving(""), owed, OPTIONS, 0.01, lambda _: None)
    assert (asked, found.lost) == (looks, 4)


async def test_events_of_our_own_are_pumped_too(database_url: str) -> None:
    database = await open_database(PoolOptions(database_url, connections_min=1, connections_max=1))
    sql = await asyncpg.connect(database_url)
    try:
        options = PumpOptions(keys=3, records=50, topic="load", run="r")
        outbox = outbox_in_postgres(database, options)
        await pump(outbox.stash, options, lambda _: None)
        await sql.execute("UPDATE hookwire.outbox SET sink = 'kafka' WHERE id > (SELECT min(id) FROM hookwire.outbox)")
        await sql.execute(
            "INSERT INTO hookwire.relay_dead_letters (sink, event_id, tenant, topic, shard, layout, reason, detail) "
            "SELECT 'kafka', min(id), 'default', 'load', 0, 1, 'refused', '' FROM hookwire.events"
        )
        owed = await outbox.owed()
        rows = await sql.fetch(
            "SELECT topic, headers::jsonb->>'seq' AS seq, xmin::text FROM hookwire.events ORDER BY id"
        )
    finally:
        await sql.close()
        await database.aclose()
    assert [(r["topic"], int(r["seq"])) for r in rows] == [("load", n) for n in range(1, 51)]
    assert len({r["xmin"] for r in rows}) == 3
    assert owed == {1: True, **dict.fromkeys(range(2, 51), False)}


async def test_the_database_may_be_named_as_goharvest_names_it(database_url: str) -> None:
    """goharvest's `-ds` is a connection string of lib/pq (relay.md 2.6)."""
    at = urlsplit(database_url)
    source = f"host={at.hostname} port={at.port} user={at.username} password='' dbname={at.path[1:]} sslmode=disable"
    words = ("--keys", "2", "--records", "30", "--outbox", "loaded", "--create", "--ds", source)
    pumping = await asyncio.create_subprocess_exec(sys.executable, "-m", "app.cli", "pump", *words)
    async with asyncio.timeout(60):
        code = await pumping.wait()
    sql = await asyncpg.connect(database_url)
    try:
        assert (code, await sql.fetchval("SELECT count(*) FROM loaded")) == (0, 30)
    finally:
        await sql.close()


async def carried(harness: MariaHarness) -> AsyncIterator[KafkaArrival | None]:
    """What a relay of the table has brought to the broker."""
    async with harness.relay():
        await harness.emptied()
    for kept in harness.broker.log:
        yield KafkaArrival(kept.record.key, kept.record.payload, kept.record.kafka_headers or ())
    yield None


@pytest.mark.parametrize("blank", [False, True], ids=["values", "tombstones"])
async def test_what_is_pumped_into_mariadb_is_relayed_whole_and_in_order(mariadb_url: str, blank: bool) -> None:
    """20 in a transaction, and ids in the order of the numbers."""
    options = PumpOptions(keys=3, records=50, topic="load", blank=blank, compat=True)
    async with on_mariadb(mariadb_url) as harness:
        outbox = outbox_in_maria(harness.database.with_statements(for_outbox(MARIA_TABLE)[1]), options)
        progress: list[int] = []
        await pump(outbox.stash, options, progress.append)
        owed = await outbox.owed()
        written = await harness.select("SELECT kafka_topic, kafka_header_values, kafka_value FROM _outbox_ ORDER BY id")
        verified = await verify(carried(harness), outbox.owed, options, 60, lambda _: None)
    assert (progress, verified) == ([20, 40, 50], Verified(50, 0, 0, 0))
    assert owed == dict.fromkeys(range(1, 51), False)
    assert [(topic, json.loads(values), value) for topic, values, value in written] == [
        ("load", [str(n), options.run], None if blank else f"value-{n:x}") for n in range(1, 51)
    ]


@pytest.mark.parametrize("named_by", ["--ds", "HOOKWIRE_OUTBOX_URL"])
async def test_a_table_in_mariadb_is_made_and_filled_by_the_command(mariadb_url: str, named_by: str) -> None:
    words = ["--keys", "2", "--records", "30", "--outbox", "`Load ed`", "--create"]
    environment = {**os.environ, "HOOKWIRE_OUTBOX_URL": mariadb_url}
    if named_by == "--ds":
        words += ["--ds", mariadb_url]
        environment["HOOKWIRE_OUTBOX_URL"] = "mysql://nobody@127.0.0.1:1/none"
    pumping = await asyncio.create_subprocess_exec(sys.executable, "-m", "app.cli", "pump", *words, env=environment)
    async with asyncio.timeout(60):
        code = await pumping.wait()
    sql = await connected(mariadb_url)
    try:
        async with sql.cursor() as cursor:
            await cursor.execute("SELECT COUNT(*), COUNT(create_time) FROM `Load ed`")
            assert (code, await cursor.fetchone()) == (0, (30, 30))
    finally:
        sql.close()


@pytest.mark.parametrize(
    ("source", "refusal", "says"),
    [
        ("host=a nonsense=1", SettingsRefused, "--ds: nonsense: no such parameter"),
        ("host=127.0.0.1 port=1 user=u dbname=d", CommandFailed, "the database of --ds cannot be used"),
        ("mysql://u:canary@127.0.0.1/", SettingsRefused, "--ds: must be mysql://user:password@host:3306/database"),
        ("mysql://u:canary/x@127.0.0.1/d", SettingsRefused, "--ds: must be mysql://"),
        ("mariadb://u:canary@127.0.0.1:1/d", CommandFailed, "the database of --ds cannot be used"),
    ],
    ids=["malformed", "nobody there", "malformed mariadb", "a slash in the password", "no mariadb there"],
)
def test_a_data_source_that_cannot_be_used_is_blamed_by_its_flag(
    source: str, refusal: type[Exception], says: str
) -> None:
    words = ["pump", "--keys", "1", "--records", "1", "--outbox", "o", "--ds", source]
    ended = CliRunner().invoke(application("pump"), words)
    assert (type(ended.exception), says in str(ended.exception)) == (refusal, True), ended.exception
    assert "canary" not in str(ended.exception)


def test_events_of_our_own_are_not_pumped_into_mariadb() -> None:
    words = ["pump", "--keys", "1", "--records", "1", "--ds", "mysql://u@127.0.0.1:1/d"]
    ended = CliRunner().invoke(application("pump"), words)
    assert (type(ended.exception), "name a table with --outbox" in str(ended.exception)) == (SettingsRefused, True)

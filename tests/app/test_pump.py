"""The reader of `hookwire pump` judges what arrives (issue 4 item 10, RR-01); the writer is seen at work elsewhere."""

import asyncio
import sys
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import asyncpg
import pytest
from typer.testing import CliRunner

from app.cli import application
from app.commands.failure import CommandFailed
from app.pump import PumpOptions, Verified, pump, verify
from app.settings import SettingsRefused
from db.pool import PoolOptions, open_database
from relay.kafka_reader import Arrival

OPTIONS = PumpOptions(keys=2, records=4, run="here")


async def arriving(text: str) -> AsyncIterator[Arrival | None]:
    """Words are key and number; `.` is a moment in which nothing comes, `x` is another run's."""
    for word in text.split():
        if word == ".":
            yield None
        elif word == "x":
            yield Arrival("a", b"", (("Seq", b"1"), ("Run", b"other")))
        else:
            yield Arrival(word[0], b"", (("Seq", word[1:].encode()), ("Run", b"here")))
    while True:
        yield None


@pytest.mark.parametrize(
    ("text", "verified", "holds"),
    [
        ("a1 b2 a3 b4", Verified(4, 0, 0, 0), True),
        ("b2 a1 . x b4 a3", Verified(4, 0, 0, 0), True),
        ("a1 a3 a1 a3 b2 b4", Verified(4, 0, 0, 2), True),
        ("a3 a1 b2 b4", Verified(4, 0, 1, 0), False),
        ("a1 b2 b4", Verified(3, 1, 0, 0), False),
        ("", Verified(0, 4, 0, 0), False),
    ],
    ids=["all", "keys apart", "repeated", "disordered", "lost", "nothing"],
)
async def test_what_arrives_is_judged(text: str, verified: Verified, holds: bool) -> None:
    found = await verify(arriving(text), OPTIONS, 0.05, lambda _: None)
    assert (found, found.holds) == (verified, holds)


async def test_events_of_our_own_are_pumped_too(database_url: str) -> None:
    database = await open_database(PoolOptions(database_url, connections_min=1, connections_max=1))
    sql = await asyncpg.connect(database_url)
    try:
        await pump(database, PumpOptions(keys=3, records=50, topic="load", run="r"), lambda _: None)
        rows = await sql.fetch(
            "SELECT topic, headers::jsonb->>'seq' AS seq, xmin::text FROM hookwire.events ORDER BY id"
        )
    finally:
        await sql.close()
        await database.aclose()
    assert [(r["topic"], int(r["seq"])) for r in rows] == [("load", n) for n in range(1, 51)]
    assert len({r["xmin"] for r in rows}) == 3


async def test_the_database_may_be_named_as_goharvest_names_it(database_url: str) -> None:
    """goharvest's `-ds` is a connection string of lib/pq (relay.md 2.6)."""
    at = urlsplit(database_url)
    source = f"host={at.hostname} port={at.port} user={at.username} password='' dbname={at.path[1:]} sslmode=disable"
    words = ("--keys", "2", "--records", "30", "--outbox", "loaded", "--create", "--ds", source)
    pumping = await asyncio.create_subprocess_exec(sys.executable, "-m", "app", "pump", *words)
    async with asyncio.timeout(60):
        code = await pumping.wait()
    sql = await asyncpg.connect(database_url)
    try:
        assert (code, await sql.fetchval("SELECT count(*) FROM loaded")) == (0, 30)
    finally:
        await sql.close()


@pytest.mark.parametrize(
    ("source", "refusal", "says"),
    [
        ("host=a nonsense=1", SettingsRefused, "--ds: nonsense: no such parameter"),
        ("host=127.0.0.1 port=1 user=u dbname=d", CommandFailed, "the database of --ds cannot be used"),
    ],
    ids=["malformed", "nobody there"],
)
def test_a_data_source_that_cannot_be_used_is_blamed_by_its_flag(
    source: str, refusal: type[Exception], says: str
) -> None:
    words = ["pump", "--keys", "1", "--records", "1", "--outbox", "o", "--ds", source]
    ended = CliRunner().invoke(application(), words)
    assert (type(ended.exception), says in str(ended.exception)) == (refusal, True), ended.exception

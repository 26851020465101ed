"""Numbers that never come twice, whichever way the database was moved (GB-05, GS-09, HA-21, HA-22)."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from structlog.testing import capture_logs

from db.bound import translated
from db.errors import DatabaseError, ServerTrouble, Unavailable
from db.migrate import migrate
from db.numbers import Numbers
from db.pool import Database, PoolOptions, open_database
from tests.databases import Ensure
from tests.pair import Pair
from tests.programs import program
from tests.waiting import until

_MARGIN = 1_000_000
_LAST_VALUES = """
SELECT sequencename::text, last_value FROM pg_sequences WHERE schemaname = 'hookwire' AND sequencename <> 'horizon'
"""
_USE = """
SELECT hookwire.publish('orders', n::text, 'k' || n) FROM generate_series(1, 5) AS n;
INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state)
VALUES ('sub_1', 'webhook', 'orders', 'https://example.com/', 'active');
SELECT hookwire.submit('mail', n::text) FROM generate_series(1, 5) AS n;
SELECT hookwire.enqueue('index', '{}'::jsonb) FROM generate_series(1, 5);
SELECT hookwire.enqueue_task('report', '{"n": 1}');
SELECT hookwire.request('echo', n::text) FROM generate_series(1, 5) AS n;
"""
"""Draws numbers of many sequences."""


@asynccontextmanager
async def started(url: str) -> AsyncIterator[Database]:
    """The pool of a process that begins."""
    async with aclosing(await open_database(PoolOptions(url))) as database:
        yield database


async def sql(url: str, statement: str, *args: object) -> list[Any]:
    """Run a statement in a session of its own."""
    connection = await asyncpg.connect(url)
    try:
        return list(await connection.fetch(statement, *args))
    finally:
        await connection.close()


async def run(url: str, script: str) -> None:
    """Run statements in a session of their own."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(script)
    finally:
        await connection.close()


async def last_values(url: str) -> dict[str, int]:
    return {name: last or 0 for name, last in await sql(url, _LAST_VALUES)}


async def publish(database: Database, payload: str = "new") -> int:
    """Publish by the pool; return the event's number, 0 where it was refused or the pool has no session."""
    try:
        async with database.lend() as session:
            await session.fetchval("SELECT hookwire.publish('orders', $1::text, 'k1')", payload)
            number: int = await session.fetchval(
                "SELECT min(e.id) FROM hookwire.events e WHERE e.payload = convert_to($1, 'UTF8')", payload
            )
            return number
    except (asyncpg.PostgresError, DatabaseError):
        return 0


@contextmanager
def other_database(url: str, suffix: str) -> Iterator[str]:
    """The URL of an empty database on the same server."""
    name = f"{urlsplit(url).path[1:]}_{suffix}"
    asyncio.run(run(url, f"CREATE DATABASE {name}"))
    try:
        yield urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
    finally:
        asyncio.run(run(url, f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.fixture(autouse=True)
def each_start_looks(trusted_copies: Ensure, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the first one in a copy of the template."""
    monkeypatch.setattr(Numbers, "ensure", trusted_copies)


@pytest.fixture
def moved_to(database_url_both: str) -> Iterator[str]:
    """The URL of an empty database, once on each PostgreSQL."""
    with other_database(database_url_both, "moved") as url:
        yield url


@pytest.fixture
def moved_to18(database_url: str) -> Iterator[str]:
    """The URL of an empty database on PostgreSQL 18."""
    with other_database(database_url, "moved") as url:
        yield url


def copy_without_sequences(url: str, to: str, folder: Path) -> None:
    """Copy the schema and all rows. The sequences stay where a schema begins."""
    dump = folder / "copy.dump"
    program(url, "pg_dump", "--format=custom", f"--file={dump}", url)
    contents = folder / "contents"
    contents.write_text(
        "\n".join(line for line in program(to, "pg_restore", "-l", dump).splitlines() if "SEQUENCE SET" not in line)
    )
    program(to, "pg_restore", "--exit-on-error", f"--use-list={contents}", f"--dbname={to}", dump)


_RETENTION = """
DELETE FROM hookwire.outbox; DELETE FROM hookwire.events WHERE id < (SELECT max(id) FROM hookwire.events)
"""


# --- the database was moved -------------------------------------------------------------------------------------


@pytest.mark.parametrize("removed", ["SELECT", _RETENTION], ids=["all rows", "after retention"])
async def test_after_a_copy_without_sequences_no_number_comes_again(
    database_url_both: str, moved_to: str, tmp_path: Path, removed: str
) -> None:
    """GB-05: publishing failed, or ids came again from 1 on once retention had removed their rows."""
    await run(database_url_both, _USE)
    async with started(database_url_both) as database:
        await database.fetchval("event.ensure_partitions")
    before = await last_values(database_url_both)
    await run(database_url_both, removed)
    await asyncio.to_thread(copy_without_sequences, database_url_both, moved_to, tmp_path)
    async with started(moved_to) as database:
        number = await publish(database)
    assert number > before["event_id"]
    after = await last_values(moved_to)
    assert {name: last for name, last in after.items() if last <= before[name]} == {}


@pytest.mark.slow
async def test_after_a_move_by_logical_replication_no_number_comes_again(pair: Pair, moved_to18: str) -> None:
    """GB-05: replication copies no sequences."""
    await run(pair.primary.url, "ALTER SYSTEM SET wal_level = logical")
    await asyncio.to_thread(pair.primary.restart)
    await migrate(pair.primary.url)
    await run(pair.primary.url, _USE)
    schema = await asyncio.to_thread(program, moved_to18, "pg_dump", "--schema-only", pair.primary.url)
    await run(moved_to18, re.sub(r"(?m)^\\.*$", "", schema))
    await run(pair.primary.url, "CREATE PUBLICATION moving FOR TABLES IN SCHEMA hookwire")
    await run(moved_to18, f"CREATE SUBSCRIPTION moving CONNECTION '{pair.primary.url}' PUBLICATION moving")
    await until(lambda: is_copied(moved_to18))
    await run(moved_to18, "DROP SUBSCRIPTION moving")
    async with started(moved_to18) as database:
        number = await publish(database)
    assert number > 5


async def is_copied(url: str) -> bool:
    [row] = await sql(url, "SELECT bool_and(r.srsubstate = 'r') AS copied FROM pg_subscription_rel r")
    return bool(row["copied"])


async def test_after_the_restore_of_a_dump_ids_are_beyond_what_was_published_since(
    database_url_both: str, moved_to: str, tmp_path: Path
) -> None:
    """GS-09: ids came again that events had after the dump."""
    url = database_url_both
    async with started(url) as database:
        await publish(database)
    dump = tmp_path / "yesterday.dump"
    await asyncio.to_thread(program, url, "pg_dump", "--format=custom", f"--file={dump}", url)
    await run(url, _USE)
    since = await last_values(url)
    await run(moved_to, "SELECT")
    await asyncio.to_thread(program, moved_to, "pg_restore", "--exit-on-error", f"--dbname={moved_to}", dump)
    await run(moved_to, "DELETE FROM hookwire.outbox; DELETE FROM hookwire.events")
    with capture_logs() as lines:
        async with started(moved_to) as database:
            number = await publish(database)
    assert number > since["event_id"]
    [line] = [one for one in lines if one.get("sequence") == "event_id"]
    assert (line["event"], line["last"], line["next"]) == ("sequence_set_forward", 1, _MARGIN + 2)
    assert "numbers were drawn last at system" in line["reason"]


async def test_when_a_standby_takes_over_that_is_behind_no_id_comes_again(pair: Pair) -> None:
    """HA-21, HA-22: the pool sets the sequences forward before it lends a session on the new primary."""
    hosts = f"127.0.0.1:{pair.primary.port},127.0.0.1:{pair.standby.port}"
    await migrate(pair.primary.url)
    async with started(f"postgresql://postgres@{hosts}/postgres") as database:
        await publish(database)
        await until(lambda: has_row(pair.standby.url))
        await asyncio.to_thread(pair.standby.stop)
        await run(
            pair.primary.url, "SELECT hookwire.publish('orders', n::text, 'k' || n) FROM generate_series(1, 200) AS n"
        )
        lost = (await last_values(pair.primary.url))["event_id"]
        await asyncio.to_thread(pair.primary.stop)
        await asyncio.to_thread(pair.standby.start)
        await asyncio.to_thread(pair.standby.promote)
        number = await until(lambda: publish(database, "newer"))
    assert number > lost


async def has_row(url: str) -> bool:
    return bool(await sql(url, "SELECT FROM hookwire.events WHERE payload = 'new'"))


# --- the database was not moved ---------------------------------------------------------------------------------


async def test_an_ordinary_start_burns_no_number(database_url_both: str) -> None:
    """HA-22: also not where the process ends without a word, and a second one begins."""
    await run(database_url_both, _USE)
    before = await last_values(database_url_both)
    with capture_logs() as lines:
        for _ in range(3):
            async with started(database_url_both) as database:
                await database.fetchval("event.ensure_partitions")
    assert await last_values(database_url_both) == before
    assert [line for line in lines if line["event"] == "sequence_set_forward"] == []


async def test_a_new_database_begins_with_one(database_url_both: str) -> None:
    """HA-22: a sequence that never drew a number is behind nothing."""
    async with started(database_url_both) as database:
        await database.fetchval("event.ensure_partitions")
    async with started(database_url_both) as database:
        assert await publish(database) == 1


async def test_what_is_behind_is_set_to_just_above_the_greatest(database_url_both: str) -> None:
    """HA-22: no more than that; the line says from where."""
    await run(database_url_both, _USE)
    async with started(database_url_both):
        pass
    await run(database_url_both, "SELECT setval('hookwire.event_id', 2)")
    with capture_logs() as lines:
        async with started(database_url_both) as database:
            assert await publish(database) == 6
    assert [line for line in lines if line["event"] == "sequence_set_forward"] == [
        {
            "event": "sequence_set_forward", "log_level": "warning", "sequence": "event_id", "last": 2, "used": 5,
            "next": 6, "reason": "it was behind the greatest number that was used",
        }
    ]  # fmt: skip


async def test_a_number_without_a_row_is_known_by_its_mark(database_url_both: str) -> None:
    """HA-22: fences, and messages that were accepted."""
    await run(database_url_both, "SELECT nextval('hookwire.lease_fence') FROM generate_series(1, 70)")
    async with started(database_url_both) as database:
        await database.fetchval("event.ensure_partitions")
    await run(database_url_both, "SELECT setval('hookwire.lease_fence', 3)")
    async with started(database_url_both) as database:
        await database.fetchval("event.ensure_partitions")
    assert (await last_values(database_url_both))["lease_fence"] == 70


async def test_processes_that_start_together_set_forward_once(database_url_both: str) -> None:
    """HA-22."""
    await run(database_url_both, _USE)
    async with started(database_url_both):
        pass
    await run(database_url_both, "UPDATE hookwire.installation SET server = 'another'")
    with capture_logs() as lines:
        pools = await asyncio.gather(*(open_database(PoolOptions(database_url_both)) for _ in range(8)))
    for pool in pools:
        await pool.aclose()
    moved = [line["sequence"] for line in lines if line["event"] == "sequence_set_forward"]
    after = await last_values(database_url_both)
    assert sorted(moved) == sorted(after)
    assert (after["event_id"], after["message_id"]) == (_MARGIN + 5, _MARGIN + 5)
    assert after["relay_members_id_seq"] == _MARGIN // 1000, "an integer"


async def test_while_another_session_draws_from_a_sequence_that_is_behind_nothing_is_lent(
    database_url_both: str,
) -> None:
    """HA-22: its number could be above the greatest that was found."""
    await run(database_url_both, _USE + "SELECT setval('hookwire.event_id', 2)")
    drawing = await asyncpg.connect(database_url_both)
    await drawing.execute("BEGIN; SELECT nextval('hookwire.event_id')")
    with pytest.raises(Unavailable, match="could not be set forward"):
        await open_database(PoolOptions(database_url_both, lock_seconds=0.2))
    await drawing.execute("ROLLBACK")
    async with started(database_url_both) as database:
        assert await publish(database) == 6
    await drawing.close()


async def test_a_role_without_the_right_gets_its_sessions(database_url_both: str) -> None:
    """A worker's role has only the functions that it was granted."""
    role = f"worker_{database_url_both.rpartition('_')[2]}"
    await run(database_url_both, f"{_USE} SELECT setval('hookwire.event_id', 2); CREATE ROLE {role} LOGIN")
    try:
        async with started(database_url_both.replace("postgres@", f"{role}@")) as database:
            assert await database.fetchval("check.backend") > 0
        assert (await last_values(database_url_both))["event_id"] == 2
    finally:
        await run(database_url_both, f"DROP ROLE {role}")


# --- rules ------------------------------------------------------------------------------------------------------


async def test_every_sequence_has_a_rule(database_url_both: str) -> None:
    """HA-22: a sequence that a later migration adds needs one too."""
    await run(database_url_both, "CREATE SEQUENCE hookwire.forgotten")
    rows = await sql(database_url_both, "SELECT n.sequence, n.used FROM hookwire.numbers() n")
    assert {row["sequence"] for row in rows} == {*await last_values(database_url_both)}
    assert [row["sequence"] for row in rows if row["used"] is None] == ["forgotten"]


# --- partitions -------------------------------------------------------------------------------------------------


async def test_a_jump_does_not_raise_the_rate_by_which_partitions_are_made(database_url_both: str) -> None:
    """HA-22: also not where the database was used with low numbers for days after a copy."""
    await run(
        database_url_both,
        f"""{_USE} DELETE FROM hookwire.id_watermarks;
        INSERT INTO hookwire.id_watermarks (day, last_id)
        SELECT current_date - d.ago, d.last_id
        FROM (VALUES (5, 5000000000), (4, 5000001000), (3, 1000), (2, 2000), (1, 3000)) AS d(ago, last_id);
        SELECT setval('hookwire.event_id', 4000)""",
    )
    async with started(database_url_both) as database:
        number = await publish(database)
        await database.fetchval("event.ensure_partitions")
        row = await database.fetchrow("check.partitions")
    assert number == 5_000_001_001
    assert row is not None
    assert (row["ids_per_day"], row["ids_left"] > 20_000_000) == (800, True)


async def test_the_start_makes_the_partition_of_the_next_id(database_url_both: str) -> None:
    """GB-05: the start was refused, and advised to start hookwire."""
    await run(database_url_both, "SELECT setval('hookwire.event_id', 5000000000)")
    async with started(database_url_both) as database:
        assert await publish(database) == 5_000_000_001


async def test_what_a_publish_without_a_partition_logs_names_the_cure(database_url_both: str) -> None:
    """GB-05: the line of the answer 503 has this text."""
    async with started(database_url_both) as database:
        await run(database_url_both, "SELECT setval('hookwire.event_id', 5000000000)")
        async with database.lend() as session:
            with pytest.raises(ServerTrouble, match=r"; call hookwire\.ensure_partitions\(\)"), translated(sent=True):
                await session.fetchval("SELECT hookwire.publish('orders', 'new'::text)")

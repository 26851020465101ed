"""The squash of the migrations (ADR 54): a database of release 0.1.0 goes on, complete and unchanged.

``release_0_1_0.sql.gz`` is a dump of such a database by PostgreSQL 15's pg_dump (``--schema=hookwire --no-owner
--inserts``), at commit b225a5c. The release's own API and SQL functions filled it.
"""

import asyncio
import base64
import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from db.errors import DatabaseError
from db.migrate import REPLACEMENTS, MigrationRefused, migrate, migrations, pending, replaced_migrations
from scripts.servers.given import GivenServer
from scripts.servers.postgres import PostgresServer
from tests.app.cli.test_main import hookwire
from tests.app.conftest import ALL_ROLES, Receiver, RunHub, receiver, running_hub
from tests.app.web.test_signing_keys import verifies
from tests.db.catalog import catalog_of, seeds_of
from tests.db.test_migrate import applied, empty_database, folder, two_migrate_at_once
from tests.waiting import until

__all__ = ["folder", "receiver", "running_hub"]

DUMP = gzip.decompress((Path(__file__).parent / "release_0_1_0.sql.gz").read_bytes()).decode()
SECRET_KEYS = "old:" + base64.b64encode(bytes(range(32))).decode()
SIGNING_KEY = "whsec_gLZH8VDh7mWpSopo76afTH8ksAZhB2XDg0+eVFfher4="
"""That of the subscription to `orders`, as its maker was told."""

NEW_HISTORY = [(m.version, m.name, m.checksum) for m in migrations()]
LABELS = [m.label for m in migrations()[:REPLACEMENTS]]
FILLED = {
    "api_keys", "attempts", "audit", "consumers", "dead_letters", "dead_messages", "dead_tasks", "deliveries",
    "delivery_failures", "events", "held", "holds", "idempotency_keys", "installation", "intents", "job_archive",
    "job_kinds", "job_schedules", "jobs", "layouts", "ledger", "ledger_cursor", "message_archive", "message_log",
    "messages", "outbox", "queues", "rabbithub_resources", "relay_dead_letters", "relay_terms", "request_archive",
    "requests", "sinks", "subscription_secrets", "subscriptions", "task_kinds", "task_rows", "topics",
}  # fmt: skip

Server = PostgresServer | GivenServer


@asynccontextmanager
async def restored(server: Server, *changes: str) -> AsyncIterator[str]:
    """Yield the URL of a database of the release before, with some changes."""
    async with empty_database(server.url) as url:
        sql = await asyncpg.connect(url)
        try:
            for text in (DUMP, "SET search_path TO DEFAULT", *changes):
                await sql.execute(text)
        finally:
            await sql.close()
        yield url


async def columns_of(url: str) -> dict[str, str]:
    """Return the columns of all tables but the history, for a SELECT."""
    sql = await asyncpg.connect(url)
    try:
        return dict(
            await sql.fetch(
                "SELECT c.relname, coalesce(string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum), '')"
                " FROM pg_class c LEFT JOIN pg_attribute a"
                " ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
                " WHERE c.relnamespace = 'hookwire'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
                " AND c.relname <> 'migrations' GROUP BY 1"
            )
        )
    finally:
        await sql.close()


async def rows_of(url: str, columns: dict[str, str]) -> dict[str, list[str]]:
    """Return all rows of these tables, as text of these columns."""
    sql = await asyncpg.connect(url)
    try:
        return {
            name: [row for (row,) in await sql.fetch(f"SELECT ROW({listed})::text FROM hookwire.{name} ORDER BY 1")]
            for name, listed in columns.items()
        }
    finally:
        await sql.close()


# --- an upgrade -------------------------------------------------------------------------------------------------


async def test_the_history_becomes_that_of_a_new_database(postgres: Server) -> None:
    """One start records all, and a second start finds nothing to do."""
    async with restored(postgres) as url:
        planned = await pending(url)
        first, second = await migrate(url), await migrate(url)
        history = await applied(url)
    assert ([m.label for m in first.to_record], first, second.is_empty) == (LABELS, planned, True)
    assert history == NEW_HISTORY


async def test_an_upgrade_keeps_every_row(postgres: Server) -> None:
    """JB-84, JT-24: rows that wait, that are claimed and that have ended; a table that is new is empty."""
    async with restored(postgres) as url:
        columns = await columns_of(url)
        before = await rows_of(url, columns)
        await migrate(url)
        now = await columns_of(url)
        after = await rows_of(url, now | columns)
    assert after == before | {table: [] for table in now.keys() - columns.keys()}
    assert FILLED - {table for table, rows in before.items() if rows} == set()


async def test_an_upgraded_database_has_the_catalog_of_a_new_one(postgres: Server) -> None:
    """Tables, storage options, constraints, functions, triggers, privileges, sequences, comments; and the seeds."""
    async with restored(postgres) as old, empty_database(postgres.url) as new:
        await migrate(old)
        await migrate(new)
        found, expected = await catalog_of(old), await catalog_of(new)
        seeds = await seeds_of(new) - await seeds_of(old)
    assert (found - expected, expected - found) == (set(), set())
    assert (len(expected) > 2000, seeds) == (True, set())


@pytest.mark.parametrize(
    "harm",
    [
        "ALTER TABLE hookwire.relay_terms SET (fillfactor = 60)",
        "ALTER TABLE hookwire.ledger_entries ALTER ids SET STORAGE EXTENDED",
        "ALTER TABLE hookwire.jobs ALTER priority SET DEFAULT 1",
        "ALTER TABLE hookwire.topics DROP CONSTRAINT topics_job_check",
        "ALTER TABLE hookwire.dead_letters DROP COLUMN detail, ADD COLUMN detail text",
        "DROP TRIGGER note_batch_no ON hookwire.relay_terms",
        "DROP INDEX hookwire.events_key",
        "ALTER SEQUENCE hookwire.event_id CACHE 10",
        "ALTER FUNCTION hookwire.publish_batch SECURITY DEFINER",
        "GRANT EXECUTE ON FUNCTION hookwire.claim_jobs TO PUBLIC",
        "REVOKE INSERT ON hookwire.stash FROM PUBLIC",
        "COMMENT ON COLUMN hookwire.outbox.shard IS 'something else'",
        "ALTER VIEW hookwire.job_statistics SET (security_barrier = true)",
    ],
)
async def test_the_comparison_finds_a_difference(database_url: str, harm: str) -> None:
    before = await catalog_of(database_url)
    sql = await asyncpg.connect(database_url)
    try:
        await sql.execute(harm)
    finally:
        await sql.close()
    assert await catalog_of(database_url) != before


async def test_an_upgraded_database_publishes_and_delivers(
    postgres: Server, running_hub: RunHub, receiver: Receiver
) -> None:
    """A subscription of before gets an event of after, signed by its key of before."""
    async with restored(postgres) as url, running_hub(ALL_ROLES, database_url=url, secret_keys=SECRET_KEYS) as hub:
        listed = (await hub.client.get("/subscriptions")).json()["items"]
        [path] = [f"/subscriptions/{item['id']}" for item in listed if str(item.get("callback")).endswith("/hook")]
        changed = await hub.client.patch(path, json={"callback": receiver.callback})
        published = await hub.publish("orders", b'{"n": "after"}', hookwire_key="new")
        async with asyncio.timeout(60):
            while not (new := [d for d in receiver.delivered if d.body == b'{"n": "after"}']):
                await receiver.wait_for(len(receiver.delivered) + 1)
    assert (changed.status_code, published.status_code) == (200, 202)
    assert [verifies(delivered, SIGNING_KEY) for delivered in new] == [True]


WORK = {
    "SELECT payload FROM hookwire.receive('mail', 10) ORDER BY id": [b"waiting", b"claimed", b"delayed"],
    "SELECT payload FROM hookwire.receive_copies('news', 'reader', 10)": [b"copied"],
    "SELECT args FROM hookwire.claim_jobs('{invoice}', 10, 'w')": ['{"n": 3}'],
    "SELECT state FROM hookwire.jobs WHERE args = '{\"n\": 2}'": ["retryable"],
    "SELECT description FROM hookwire.claim_tasks('{resize}', 10, 'w') ORDER BY 1": ['{"n": 1}', '{"n": 2}'],
    "SELECT body FROM hookwire.claim_requests('greet', 10)": [b"again"],
    "SELECT body FROM hookwire.answer_of('32d77c38bf8649359ac5cf8486fce8de')": [b"hi"],
    "SELECT payload FROM hookwire.dead_messages": [b"dead"],
    "SELECT public_id FROM hookwire.api_keys WHERE revoked_at IS NULL": ["key_609804a320bc"],
    "SELECT key FROM hookwire.holds": ["k9"],
}
"""Statements after the upgrade, and the first column of their rows: all that the release left to do."""


async def first_column(sql: asyncpg.Connection, statement: str) -> list[object]:
    """The first column, once there are rows: an older transaction of the server hides a copy."""
    found: list[object] = []

    async def rows() -> bool:
        found[:] = [row[0] for row in await sql.fetch(statement)]
        return bool(found)

    await until(rows)
    return found


async def test_the_command_migrates_and_workers_go_on(postgres: Server) -> None:
    """GS-01: leases of before have ended, so their messages, tasks and jobs are free again."""
    alive = "UPDATE hookwire.requests SET deadline_at = now() + interval '1 day', expires_at = now() + interval '1 day'"
    async with restored(postgres, alive) as url:
        finished = await hookwire("migrate", DATABASE_URL=url)
        sql = await asyncpg.connect(url)
        await sql.execute("SELECT hookwire.reap_messages(9), hookwire.keep_jobs(9), hookwire.clean_tasks(9)")
        done = {statement: await first_column(sql, statement) for statement in WORK}
        await sql.close()
    assert (finished.code, "recorded 0001_publishing" in finished.stdout) == (0, True)
    assert done == WORK


async def test_a_dead_letter_of_before_is_sent_again(
    postgres18: Server, running_hub: RunHub, receiver: Receiver
) -> None:
    """GS-01: to the subscription of before, at its new address."""
    async with restored(postgres18) as url, running_hub(ALL_ROLES, database_url=url, secret_keys=SECRET_KEYS) as hub:
        [dead] = [one for one in (await hub.client.get("/dead-letters")).json()["items"] if one["sink"] == "webhooks"]
        await hub.client.patch(f"/subscriptions/{dead['subscription_id']}", json={"callback": receiver.callback})
        retried = await hub.client.post(f"/dead-letters/{dead['id']}/retry", json={"reason": "after the upgrade"})
        # An event that waits for this subscription may come before or behind it.
        await until(lambda: b'{"n": 1}' in [one.body for one in receiver.delivered])
    assert retried.status_code == 200


async def test_an_idempotency_key_of_before_is_its_event(postgres: Server, running_hub: RunHub) -> None:
    """FC-07: a repeat after the upgrade has the id of before, and other contents are a conflict."""
    async with restored(postgres) as url:
        sql = await asyncpg.connect(url)
        # Clean-up deletes a key after a day, and the dump grows older.
        await sql.execute("UPDATE hookwire.idempotency_keys SET accepted_at = now()")
        event_id = await sql.fetchval("SELECT event_id FROM hookwire.idempotency_keys WHERE key LIKE '%order-2%'")
        await sql.close()
        async with running_hub(("api",), database_url=url, secret_keys=SECRET_KEYS) as hub:
            named = {"hookwire_key": "k1", "content_type": "application/json", "idempotency_key": "order-2"}
            again = await hub.publish("orders", b'{"n": 2}', **named)
            other = await hub.publish("orders", b'{"n": 9}', **named)
    assert (again.status_code, other.status_code) == (202, 422)
    assert again.json()["id"].endswith(f"_{event_id}")


# --- what follows -----------------------------------------------------------------------------------------------


async def test_a_later_migration_follows_on_old_and_new_databases(
    postgres: Server, folder: Callable[..., Path]
) -> None:
    later = folder(**{f"_{len(NEW_HISTORY) + 1:04}_later": "CREATE TABLE hookwire.later ();"})
    async with restored(postgres) as old, empty_database(postgres.url) as new:
        of_old, of_new = await migrate(old, later), await migrate(new, later)
        histories = [await applied(url) for url in (old, new)]
        tables = [set(await columns_of(url)) for url in (old, new)]
    assert [m.label for m in of_old.to_record] == LABELS
    assert [m.name for m in of_new.to_run] == [*(name for _, name, _ in NEW_HISTORY), "later"]
    assert [m.name for m in of_old.to_run] == [*(name for _, name, _ in NEW_HISTORY[REPLACEMENTS:]), "later"]
    assert (histories[0] == histories[1], tables[0] == tables[1], "later" in tables[0]) == (True, True, True)


# --- refused ----------------------------------------------------------------------------------------------------

REFUSED = {
    "one that lacks the last": (
        "DELETE FROM hookwire.migrations WHERE version = 60",
        "the database has 59 of the 60 migrations of hookwire 0.1.0 (commit b225a5c): "
        "start that release on it once, then this one",
    ),
    "one that was begun": (
        "DELETE FROM hookwire.migrations WHERE version > 1",
        "the database has 1 of the 60 migrations of hookwire 0.1.0 (commit b225a5c): "
        "start that release on it once, then this one",
    ),
    "one with an unknown migration": (
        "INSERT INTO hookwire.migrations (version, name, checksum) VALUES (61, 'theirs', 'x')",
        "this database is newer than this version: it is at schema version 61, this hookwire knows 60; "
        "run the newer hookwire",
    ),
    "one with a changed migration": (
        "UPDATE hookwire.migrations SET checksum = 'x' WHERE version = 1",
        "migration 0001_house was changed after it was applied: this database is newer than this version (run the "
        "newer hookwire), or the file was edited (restore it)",
    ),
}


@pytest.mark.parametrize(("change", "sentence"), REFUSED.values(), ids=REFUSED)
async def test_an_incomplete_or_unknown_history_is_refused_and_left_alone(
    postgres18: Server, change: str, sentence: str
) -> None:
    async with restored(postgres18, change) as url:
        before = await applied(url)
        with pytest.raises(MigrationRefused) as refused:
            await migrate(url)
        assert (str(refused.value), await applied(url)) == (sentence, before)


async def test_the_list_of_replaced_migrations_is_the_history_of_the_release(postgres18: Server) -> None:
    async with restored(postgres18) as url:
        assert await applied(url) == [(m.version, m.name, m.checksum) for m in replaced_migrations()]


# --- two at once, and half of it --------------------------------------------------------------------------------


async def test_of_two_processes_that_start_on_an_old_database_one_records(postgres18: Server) -> None:
    async with restored(postgres18) as url:
        labels = [migration.label for migration in migrations()]
        assert (await two_migrate_at_once(url), await applied(url)) == ([[], labels], NEW_HISTORY)


async def test_a_crash_in_the_middle_of_the_recording_leaves_the_old_history(postgres: Server) -> None:
    """The backend ends while the third row is written; the next start does it all."""
    crash = (
        "CREATE FUNCTION public.crash() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$;"
        "CREATE TRIGGER crash BEFORE INSERT ON hookwire.migrations FOR EACH ROW WHEN (NEW.version = 3)"
        " EXECUTE FUNCTION public.crash()"
    )
    async with restored(postgres, crash) as url:
        before = await applied(url)
        with pytest.raises(DatabaseError):
            await migrate(url)
        left = await applied(url)
        sql = await asyncpg.connect(url)
        await sql.execute("DROP TRIGGER crash ON hookwire.migrations")
        await sql.close()
        await migrate(url)
        assert (left, await applied(url)) == (before, NEW_HISTORY)

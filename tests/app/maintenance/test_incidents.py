"""app/maintenance/incidents.py: states that change by themselves, one notice for each change, and what died before."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from app.maintenance.incidents import Incidents
from db.migrate import migrate, migrations
from scripts.servers.postgres import PostgresServer
from tests.app.conftest import opened
from tests.db.test_migrate import empty_database

_RECEIVERS = """
INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state)
SELECT 'sub_' || t, 'webhook', t, 'http://127.0.0.1:9/', 'active' FROM unnest('{a,hookwire.operator}'::text[]) AS t
"""
_INCIDENT = """
INSERT INTO hookwire.incidents (tenant, subscription_id, sink, fingerprint, outcome, status)
SELECT 'default', s.id, 'webhooks', $1, 'server_error', 500 FROM hookwire.subscriptions s WHERE s.topic = 'a'
RETURNING id
"""
_FAIL = """
INSERT INTO hookwire.incident_failures (incident_id, minute, tenant, failures, last_at)
VALUES ($1, date_trunc('minute', now()) - make_interval(mins => $2), 'default', $3, now() - make_interval(mins => $2))
ON CONFLICT (incident_id, minute) DO UPDATE SET failures = excluded.failures
"""
_TOLD = "SELECT payload FROM hookwire.events WHERE topic = 'hookwire.operator' ORDER BY id"


async def told(sql: asyncpg.Connection[Any]) -> list[tuple[str, str]]:
    """The notices so far: type and incident."""
    notices = [json.loads(row["payload"]) for row in await sql.fetch(_TOLD)]
    return [(notice["type"], notice["incident"]) for notice in notices]


async def test_each_change_is_told_once_also_by_two_processes(database_url: str) -> None:
    """CN-03: opened, active, quiet, resolved by a person, opened again by a later failure."""
    async with opened(database_url) as (database, sql):
        await sql.execute(_RECEIVERS)
        both = [Incidents(database), Incidents(database)]

        async def watch() -> None:
            for _ in range(2):
                await asyncio.gather(*(one.watch() for one in both))

        one = await sql.fetchval(_INCIDENT, "f")
        await sql.execute(_FAIL, one, 30, 60)
        await watch()  # 60 in the hour before: five a minute would be usual
        await sql.execute(_FAIL, one, 0, 26)
        await watch()
        await sql.execute(_FAIL, one, 0, 5)
        await watch()
        await database.fetchrow("incident.set_state", "default", one, "resolved", "ada", "repaired", "resolve")
        await watch()
        await sql.execute(
            "UPDATE hookwire.incident_failures SET last_at = now() + interval '1 second' WHERE failures = 5"
        )
        await watch()

        assert await told(sql) == [
            ("incident.opened", "inc_1"), ("incident.active", "inc_1"), ("incident.quiet", "inc_1"),
            ("incident.resolved", "inc_1"), ("incident.opened", "inc_1"),
        ]  # fmt: skip


async def test_held_records_are_an_incident_of_their_sink_and_reason_until_nothing_is_held(database_url: str) -> None:
    """CN-03."""
    async with opened(database_url) as (database, sql):
        await sql.execute(_RECEIVERS)
        await sql.execute(
            "INSERT INTO hookwire.holds (sink, tenant, topic, key, reason, detail, probe_at)"
            " SELECT 'kafka', 'default', 'a', 'k' || n, 'too_large', 'x', now() FROM generate_series(1, 3) n"
        )
        await sql.execute(
            "INSERT INTO hookwire.held (sink, tenant, topic, key, id, shard, layout)"
            " SELECT 'kafka', 'default', 'a', 'k' || 1 + n % 3, n, 1, 1 FROM generate_series(1, 30) n"
        )
        incidents = Incidents(database)
        await incidents.watch()
        states = ["open", "acknowledged", "resolved", "ignored"]
        [row] = await database.fetch_filtered("incident.page", "default", None, states, "held", False, 2**62, 10)
        await sql.execute("DELETE FROM hookwire.holds")
        await incidents.watch()
        state = await sql.fetchval("SELECT state FROM hookwire.incidents")

        assert (row["sink"], row["outcome"], row["waiting"], row["state"]) == ("kafka", "too_large", 30, "open")
        assert (state, await told(sql)) == (
            "resolved", [("incident.opened", "inc_1"), ("incident.resolved", "inc_1")],
        )  # fmt: skip


async def test_minutes_become_part_of_the_sum_and_nothing_is_counted_twice(database_url: str) -> None:
    """CN-03: also a minute of a clock that was ahead, and where a round is killed before its commit.

    An incident of which nothing is left ends, then goes.
    """
    async with opened(database_url) as (database, sql):
        await sql.execute(_RECEIVERS)
        one = await sql.fetchval(_INCIDENT, "f")
        for minutes_ago, failures in ((150, 7), (-300, 4), (90, 2)):
            await sql.execute(_FAIL, one, minutes_ago, failures)
        killed = await asyncpg.connect(database_url)
        await killed.execute("BEGIN")
        await killed.fetchval("SELECT hookwire.watch_incidents(true)")
        await sql.fetchval("SELECT pg_terminate_backend($1, 60000)", killed.get_server_pid())
        await asyncio.gather(*(Incidents(database).watch() for _ in range(4)))
        folded = await sql.fetchrow(
            "SELECT i.failures, f.failures AS unfolded, i.last_at <= now() AS is_past"
            " FROM hookwire.incidents i JOIN hookwire.incident_failures f ON f.incident_id = i.id"
        )
        await sql.execute("DELETE FROM hookwire.incident_failures")
        await sql.execute("UPDATE hookwire.incidents SET last_at = now() - interval '2 days'")
        await Incidents(database).watch()
        state = await sql.fetchval("SELECT state FROM hookwire.incidents")
        await sql.execute("UPDATE hookwire.incidents SET last_at = 'epoch', changed_at = 'epoch'")
        await Incidents(database).watch()
        left = await sql.fetchval("SELECT count(*) FROM hookwire.incidents")

        assert (tuple(folded), state, left) == ((11, 2, True), "resolved", 0)


_LETTERS = """
INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts, last_outcome, last_status)
SELECT n, s.id, 'default', CASE WHEN n % 10 = 0 THEN 'gone' ELSE 'exhausted' END, 3,
       CASE WHEN n % 2 = 1 THEN 'server_error' ELSE 'timeout' END, CASE n % 4 WHEN 1 THEN 500 WHEN 3 THEN 503 END
FROM generate_series(1, $1::integer) n, hookwire.subscriptions s WHERE s.topic = 'a'
"""
_GROUPED = """
SELECT i.kind, i.outcome, i.status, count(d.*) AS letters FROM hookwire.dead_letters d
LEFT JOIN hookwire.incidents i ON i.id = d.incident_id GROUP BY 1, 2, 3 ORDER BY 4 DESC, 3
"""


def grouped(letters: int) -> list[tuple[object, ...]]:
    """What the dead letters are grouped to; those that ended with their subscription are in no incident."""
    return [
        ("before", "timeout", None, letters * 4 // 10), ("before", "server_error", 500, letters // 4),
        ("before", "server_error", 503, letters // 4), (None, None, None, letters // 10),
    ]  # fmt: skip


async def test_what_died_before_is_grouped_by_class_and_status_and_nobody_is_told(database_url: str) -> None:
    """CN-03: in steps, by two processes."""
    async with opened(database_url) as (database, sql):
        await sql.execute(_RECEIVERS)
        await sql.execute(_LETTERS, 5_000)
        await asyncio.gather(*(Incidents(database).watch() for _ in range(2)))
        await Incidents(database).watch()

        assert ([tuple(row) for row in await sql.fetch(_GROUPED)], await told(sql)) == (grouped(5_000), [])


@pytest.mark.slow
async def test_a_database_with_a_hundred_thousand_old_letters_is_upgraded(
    postgres18: PostgresServer, tmp_path: Path
) -> None:
    """CN-03: the letters were made under the schema of before."""
    for migration in migrations():
        if migration.version < next(one.version for one in migrations() if one.name == "numbers_of_incidents"):
            (tmp_path / f"{migration.label}.sql").write_text(migration.text, encoding="utf-8")
    async with empty_database(postgres18.url) as url:
        await migrate(url, tmp_path)
        async with opened(url) as (database, sql):
            await sql.execute(_RECEIVERS)
            await sql.execute(_LETTERS, 100_000)
            await migrate(url)
            await Incidents(database).watch()

            assert [tuple(row) for row in await sql.fetch(_GROUPED)] == grouped(100_000)

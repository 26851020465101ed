"""docs/how-to/production.md: statements run before an upgrade from 0.2.0 do what the migrations would do."""

from __future__ import annotations

import re
from pathlib import Path

import asyncpg

from db.migrate import migrate, migrations
from scripts.dump_schema import SCHEMA_FILE, dump
from scripts.servers.postgres import PostgresServer
from tests.db.test_migrate import empty_database

_PAGE = Path(__file__).parents[2] / "docs/how-to/production.md"
_OF_0_2_0 = 38
_SMALL = {"replays_due", "upstreams_failing", "foreign_topics_failing"}
_REPLACED = {"subscriptions_callback_host"}  # 0064 drops it
_INDEX = re.compile(r"INDEX (?:CONCURRENTLY )?IF NOT EXISTS (\w+)")
_LETTERS = """
INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts, last_outcome, on_purpose)
VALUES (1, 1, 'default', 'exhausted', 1, NULL, true), (2, 1, 'default', 'exhausted', 1, 'expired', false),
       (3, 1, 'default', 'exhausted', 1, 'timeout', false)
"""


async def test_indexes_that_are_built_ahead_are_those_of_the_migrations(
    postgres18: PostgresServer, tmp_path: Path
) -> None:
    """Old dead letters get their kinds, and the schema is the same as without the statements."""
    new = [one for one in migrations() if one.version > _OF_0_2_0]
    for migration in migrations()[:_OF_0_2_0]:
        (tmp_path / f"{migration.label}.sql").write_text(migration.text, encoding="utf-8")
    [block] = re.findall(r"^```sql\n(ALTER TABLE hookwire\.task_rows .*?)^```", _PAGE.read_text("utf-8"), re.M | re.S)
    async with empty_database(postgres18.url) as url:
        await migrate(url, tmp_path)
        sql = await asyncpg.connect(url)
        await sql.execute(_LETTERS)
        for statement in block.split(";")[:-1]:
            await sql.execute(statement)
        await migrate(url)
        kinds = await sql.fetchval("SELECT array_agg(kind ORDER BY event_id) FROM hookwire.dead_letters")
        await sql.close()
        schema = dump(url)

    assert {*_INDEX.findall(block)} == {name for one in new for name in _INDEX.findall(one.text)} - _SMALL - _REPLACED
    assert (kinds, schema) == (["given_up", "too_late", "exhausted"], SCHEMA_FILE.read_text("utf-8"))

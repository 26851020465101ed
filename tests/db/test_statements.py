"""Every named statement is sound on every supported server, and what SQL computes is what is published."""

import json
import re
from pathlib import Path

import asyncpg
import pytest

from db.statements import STATEMENTS, for_mapped, load
from relay.goharvest.mapping import OutboxMapping

FUNCTIONS = Path(__file__).parents[2] / "db" / "functions"
VECTORS = Path(__file__).parents[2] / "openapi" / "key-hash-vectors.json"

# Two commands in one text: the protocol can run that, but not prepare it.
_SEVERAL_COMMANDS = {"migration.create_history"}


# --- the files --------------------------------------------------------------------------------------------------


def test_a_statement_is_called_by_its_file_and_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("-- The a.\n\n-- name: one\nSELECT 1;\n\n-- name: two\n-- Why.\nSELECT\n  2;\n")
    assert load(tmp_path) == {"a.one": "SELECT 1", "a.two": "-- Why.\nSELECT\n  2"}


def test_a_noun_with_many_statements_has_several_files(tmp_path: Path) -> None:
    """HO-08: the part in a file's name is no part of a statement's name, and a name is one statement's in all parts."""
    (tmp_path / "a.read.sql").write_text("-- name: one\nSELECT 1;\n")
    (tmp_path / "a.write.sql").write_text("-- name: two\nSELECT 2;\n")
    assert load(tmp_path) == {"a.one": "SELECT 1", "a.two": "SELECT 2"}
    (tmp_path / "a.sql").write_text("-- name: two\nSELECT 3;\n")
    with pytest.raises(ValueError, match=r"a\.two is defined twice"):
        load(tmp_path)


def test_a_name_stands_for_one_statement(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("-- name: one\nSELECT 1;\n-- name: one\nSELECT 2;\n")
    with pytest.raises(ValueError, match=r"a\.one is defined twice"):
        load(tmp_path)


def test_a_name_without_a_statement_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("-- name: one\n\n-- name: two\nSELECT 2;\n")
    with pytest.raises(ValueError, match=r"a\.one is empty"):
        load(tmp_path)


def test_each_lock_of_the_house_has_a_number_of_its_own() -> None:
    """Two that share one keep each other from work that has nothing to do with theirs."""
    texts = [*STATEMENTS.values(), *(path.read_text("utf-8") for path in FUNCTIONS.glob("*.sql"))]
    numbers = [number for text in texts for number in re.findall(r"advisory_\w*lock\(1215262571, (-\d+)\)", text)]
    assert len(numbers) >= 5
    assert sorted(numbers) == sorted(set(numbers))


# --- on the servers ---------------------------------------------------------------------------------------------


async def test_the_server_accepts_every_statement(database_url_both: str) -> None:
    refused = {}
    connection = await asyncpg.connect(database_url_both)
    try:
        await connection.execute(STATEMENTS["compat.create_table"])  # goharvest's, not ours
        mapping = OutboxMapping(
            table="compat_outbox", id="id", topic="kafka_topic", payload="convert_to(kafka_value, 'UTF8')",
            mark="leader_id = NULL", waits="leader_id IS NULL",
        )  # fmt: skip
        for name, statement in for_mapped(mapping.parts("bigint")).items():
            try:
                if name in _SEVERAL_COMMANDS:
                    await connection.execute(statement)
                else:
                    await connection.prepare(statement)
            except asyncpg.PostgresError as error:
                refused[name] = str(error)
    finally:
        await connection.close()
    assert refused == {}


async def test_the_key_hash_is_the_published_one(database_url_both: str) -> None:
    """RO-02g: three writers compute it, one file holds the vectors."""
    published = json.loads(VECTORS.read_text(encoding="utf-8"))["keyed"]
    connection = await asyncpg.connect(database_url_both)
    try:
        rows = await connection.fetch(
            "SELECT v.topic, v.key, encode(d.digest, 'hex') AS sha256, hookwire.shard_of(d.digest) AS shard, "
            "hookwire.stripe_of(d.digest) AS stripe "
            "FROM jsonb_to_recordset($1::jsonb) AS v(topic text, key text), "
            "LATERAL (SELECT hookwire.key_digest(v.topic, v.key) AS digest) AS d",
            json.dumps(published),
        )
    finally:
        await connection.close()
    assert [dict(row) for row in rows] == published


async def test_ids_are_drawn_one_at_a_time(database_url_both: str) -> None:
    """RP-08: a larger cache hands out stale low numbers per connection."""
    connection = await asyncpg.connect(database_url_both)
    try:
        cached = await connection.fetch(
            "SELECT sequencename, cache_size FROM pg_sequences "
            "WHERE schemaname = 'hookwire' AND sequencename IN ('event_id', 'delivery_fence')"
        )
    finally:
        await connection.close()
    assert sorted(map(tuple, cached)) == [("delivery_fence", 1), ("event_id", 1)]


async def test_every_table_of_users_data_carries_the_tenant(database_url: str) -> None:
    """Named: what belongs to the installation, or is reached through a row that has a tenant."""
    without = {
        "attempt_entries",
        "attempt_rollups",
        "backfill_batches",
        "backfill_failures",
        "backfills",
        "console_sessions",
        "delivery_members",
        "former_incarnations",
        "id_watermarks",
        "inbound_requests",
        "inbound_secrets",
        "inbound_sources",
        "installation",
        "job_kinds",
        "job_rates",
        "job_requests",
        "lake_audits",
        "lake_batches",
        "lake_bounds",
        "lake_marks",
        "lake_proofs",
        "lake_seals",
        "layouts",
        "ledger_cursor",
        "ledger_entries",
        "migrations",
        "number_marks",
        "outbox",
        "outbox_offsets",
        "process_states",
        "rabbithub_subscriptions",
        "readiness",
        "relay_batch_numbers",
        "relay_batches",
        "relay_members",
        "relay_terms",
        "request_keys",
        "sinks",
        "source_offsets",
        "source_patterns",
        "source_refusals",
        "sources",
        "task_kinds",
        "task_workers",
    }
    connection = await asyncpg.connect(database_url)
    try:
        rows = await connection.fetch(
            "SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'hookwire'::regnamespace "
            "AND c.relkind IN ('r', 'p') AND NOT c.relispartition "
            "AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant')"
        )
    finally:
        await connection.close()
    assert {row["relname"] for row in rows} == without

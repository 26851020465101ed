"""The functions of queues and tasks read what they take, and not what is beside it (JT-13, JS-01, JS-02)."""

from __future__ import annotations

import json
from typing import Any

import asyncpg
import pytest

_WAITING = 100_000
_FILL = f"""
SET session_replication_role = replica;
INSERT INTO hookwire.messages (id, queue, created_at, payload, type, key)
    SELECT n, 'q', now(), 'x', 't' || n % 100, 'k' || n % 1000 FROM generate_series(1, {_WAITING}) n;
INSERT INTO hookwire.messages (id, queue, created_at, payload, claim, lease_until, deliveries)
    SELECT n, 'held', now(), 'x', n, now() + interval '1 hour', 1 FROM generate_series(200001, 220000) n;
INSERT INTO hookwire.dead_messages (id, queue, created_at, died_at, deliveries, reason, priority, headers, payload)
    SELECT n, 'q', now(), now(), 5, 'r', 0, '{{}}', 'x' FROM generate_series(1, 20000) n;
INSERT INTO hookwire.message_log (queue, xid, id, created_at, priority, headers, payload)
    SELECT 'q', '3', n, now(), 0, '{{}}', 'x' FROM generate_series(1, {_WAITING}) n;
INSERT INTO hookwire.consumers (queue, name, xid, id, after_id, since) VALUES ('q', 'c', '3', 50000, 0, '-infinity');
INSERT INTO hookwire.task_rows (id, description, kind) SELECT 'w' || n, 'd', 'k' FROM generate_series(1, {_WAITING}) n;
INSERT INTO hookwire.task_rows (id, description, kind, start_time, claim, lease_until, worker)
    SELECT 's' || n, 'd', 'k', now(), n, now() + interval '1 hour', 'w' FROM generate_series(1, 20000) n;
INSERT INTO hookwire.jobs (id, kind, state, args, key, rank_at, attempts_max, run_seconds, created_at)
    SELECT md5('w' || n)::uuid, 'k', 'available', '{{}}', 'k' || n % 1000, now(), 5, 60, now()
    FROM generate_series(1, {_WAITING}) n;
INSERT INTO hookwire.jobs (id, kind, state, args, key, rank_at, attempts_max, run_seconds, created_at, claim,
                           lease_until,
                           run_until)
    SELECT md5('r' || n)::uuid, 'run', 'running', '{{}}', 'k' || n % 1000, now(), 5, 60, now(), n,
           now() + interval '1 hour', now() + interval '1 hour'
    FROM generate_series(1, 20000) n;
INSERT INTO hookwire.jobs (id, kind, state, args, key, rank_at, attempts_max, run_seconds, created_at)
    SELECT md5('l' || n)::uuid, 'limited', 'available', '{{}}', 'hot', now(), 5, 60, now()
    FROM generate_series(1, {_WAITING}) n;
INSERT INTO hookwire.job_kinds (kind, key_running_max) VALUES ('limited', 2);
SET session_replication_role = DEFAULT;
SELECT setval('hookwire.message_id', 300000), setval('hookwire.lease_fence', 300000);
"""
# Pages that a call may read: a batch of 100 rows through a few indexes, with what writing their entries reads.
_CALLS = {
    "SELECT hookwire.receive('q', 100)": 6_000,
    "SELECT hookwire.receive('q', 1)": 400,
    "SELECT hookwire.receive('q', 10, filter => '{\"type\": \"t7\"}')": 6_000,
    "SELECT hookwire.receive('q', 10, filter => '{\"key\": \"k7\"}')": 6_000,
    "SELECT hookwire.accept_held(array_agg(n), array_agg(n)) FROM generate_series(200001, 200100::bigint) n": 4_000,
    "SELECT hookwire.reject_held(ARRAY[200001::bigint], ARRAY[200001::bigint])": 400,
    "SELECT hookwire.submit('q', 'x')": 400,
    "SELECT hookwire.reap_messages(1000)": 400,
    "SELECT hookwire.receive_copies('q', 'c', 100)": 400,
    "SELECT hookwire.claim_task('w7', 'w')": 400,
    "SELECT hookwire.claim_tasks('{k}', 100, 'w')": 8_000,
    "SELECT hookwire.claim_tasks(NULL, 100, 'w')": 8_000,
    "SELECT hookwire.finish_tasks('{s7}', '{7}')": 400,
    "SELECT hookwire.enqueue_task('k')": 600,
    "SELECT hookwire.clean_tasks(500)": 2_000,
    "SELECT hookwire.enqueue('k')": 1_000,
    "SELECT hookwire.enqueue('k', uniq => 'u')": 1_000,
    "SELECT hookwire.claim_jobs('{k}', 100, 'w')": 12_000,
    "SELECT hookwire.claim_jobs(NULL, 1, 'w')": 1_500,
    "SELECT hookwire.claim_jobs('{limited}', 100, 'w')": 1_500,
    "SELECT hookwire.complete_jobs(ARRAY[md5('r7')::uuid], '{7}')": 800,
    "SELECT hookwire.extend_jobs(ARRAY[md5('r7')::uuid], '{7}')": 400,
    "SELECT hookwire.fail_job(md5('r7')::uuid, 7, 'x')": 800,
    "SELECT hookwire.keep_jobs(500)": 800,
}


@pytest.mark.parametrize("analysed", [False, True], ids=["planned while empty", "analysed"])
async def test_no_call_walks_over_what_waits(sql: asyncpg.Connection, analysed: bool) -> None:
    """JB-79, JP-09, JS-01, JS-04, JT-13: planned over empty tables, each call has its plan over 100,000 rows."""
    await sql.execute("SET plan_cache_mode = force_generic_plan; SET jit = off")
    if not analysed:
        for call in _CALLS:
            transaction = sql.transaction()
            await transaction.start()
            try:
                await sql.execute(call)
            except asyncpg.PostgresError as error:
                if error.sqlstate not in ("42704", "HW001"):  # there is no consumer, or no job, yet
                    raise
            finally:
                await transaction.rollback()
    await sql.execute(_FILL)
    if analysed:
        await sql.execute("VACUUM ANALYZE")
    found = {call: await pages(sql, call) for call in _CALLS}

    assert {call: read for call, read in found.items() if read > _CALLS[call]} == {}


async def pages(sql: asyncpg.Connection, call: str) -> int:
    """How many pages it reads; what it did is rolled back."""
    transaction = sql.transaction()
    await transaction.start()
    [run] = json.loads(await sql.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {call}"))
    await transaction.rollback()
    plan: dict[str, Any] = run["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


async def test_an_old_snapshot_makes_claims_no_dearer_than_a_receiver_allows(
    sql: asyncpg.Connection, connect: Any
) -> None:
    """JS-02, JF-43: dead index entries are walked once in half a second, not at each claim."""
    old = await connect()
    snapshot = old.transaction(isolation="repeatable_read")
    await snapshot.start()
    await old.fetchval("SELECT count(*) FROM hookwire.messages")
    await sql.fetch("SELECT hookwire.submit_batch('q', array_fill('x'::bytea, ARRAY[20100]))")
    rows = await sql.fetch("SELECT id, claim FROM hookwire.receive('q', 10000)")
    more = await sql.fetch("SELECT id, claim FROM hookwire.receive('q', 10000)")
    for batch in (rows, more):
        await sql.execute("SELECT hookwire.accept($1, $2)", [row["id"] for row in batch], batch[0]["claim"])
    from_the_start = await pages(sql, "SELECT hookwire.receive('q', 10)")
    from_the_mark = await pages(sql, f"SELECT hookwire.receive('q', 10, after_id => {more[-1]['id']})")
    await snapshot.rollback()

    assert from_the_mark * 2 < from_the_start, (from_the_mark, from_the_start)

"""No statement reads more rows than it needs because its plan was made while the tables were small (GR-01).

Every statement and every function for users is planned over ten rows a table. Then the tables grow to 10,000 rows in
another session, without an ANALYZE. PostgreSQL's own counters say how many rows and pages each one reads after
that, also inside functions.
"""

import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

import asyncpg
import pytest

from db.pool import PoolOptions
from db.statements import STATEMENTS
from tests.db.catalog import stop_autovacuum

_SMALL, _LARGE = 10, 10_000
_ROWS_MAX, _PAGES_MAX = 100, 100
_PAGES_OF_SHARDS_MAX = 600
"""Of the outbox, where a statement looks into each of 64 shards, of one sink or of all four."""

# One word stands for every name and one number for everything else, so that row 7 is what each statement asks for.
_WORD = "CASE n WHEN 7 THEN 'default' ELSE 'x' || n END"
_ODD_IS_CLAIMED = {
    "claim": "CASE n % 2 WHEN 1 THEN n END",
    "lease_until": "CASE n % 2 WHEN 1 THEN now() + interval '1 day' END",
}
# Moments are in the future, so that a sweep finds nothing to do.
_BY_TYPE = {
    "text": _WORD, "text[]": f"ARRAY[{_WORD}]", "jsonb": "'{}'", "bytea": "sha256(n::text::bytea)", "boolean": "false",
    "timestamp with time zone": "now() + interval '1 day'", "uuid": "md5(n::text)::uuid", "xid8": "'3'",
    "timestamp with time zone[]": "'{}'", "boolean[]": "'{}'", "bigint[]": "ARRAY[n]", "smallint[]": "ARRAY[n % 64]",
    "real[]": "ARRAY[n]",
    **dict.fromkeys(("bigint", "integer", "smallint", "real", "double precision", "numeric(20,0)"), "n"),
}  # fmt: skip
# The columns that are not NULL, and more where a statement looks for them.
_FILLED: dict[str, dict[str, str]] = {
    "topics": {}, "topic_schemas": {"version": "n + 1"},
    "events": {"sinks": "'{webhooks}'", "key": "'k' || n"},
    "outbox": {"sink": "'webhooks'", "shard": "n % 64", "layout": "1"},
    "holds": {"sink": "'webhooks'", "grp": "n % 100"},
    "held": {"sink": "'webhooks'", "grp": "n % 100", "shard": "n % 64", "layout": "1"},
    "relay_dead_letters": {"shard": "n % 64", "layout": "1"},
    "idempotency_keys": {"topic": _WORD}, "kept_answers": {"answered_at": "now() + interval '1 day'"},
    "console_sessions": {},
    "subscriptions": {
        "protocol": "(ARRAY['webhook', 'websub', 'rabbithub', 'pull'])[1 + n % 4]", "state": "'active'",
        "identity": "sha256(n::text::bytea)", "lease_until": "now() + interval '9 days'",
    },
    "former_incarnations": {"incarnation": "'abcd2345'"},
    "former_audiences": {}, "subscription_secrets": {}, "fanout_cursors": {}, "delivery_gates": {},
    "delivery_failures": {}, "incident_failures": {},
    "incidents": {"outcome": "'timeout'", "fingerprint": "'x' || n", "subscription_id": "n"},
    "deliveries": {"fence": "CASE n % 2 WHEN 1 THEN n END"},
    "attempts": {"number": "1", "outcome": "'timeout'", "decision": "'retry'", "trigger": "'first'"},
    "dead_letters": {"kind": "'exhausted'"},
    "attempt_entries": {"seconds": "ARRAY[n]", "ages": "ARRAY[n]"},
    "attempt_rollups": {"grain": "'minute'"},
    "ledger_entries": {"sink": "'webhooks'", "outcome": "'sent'", "ids": "ARRAY[n]"},
    "api_keys": {"scopes": "'{admin}'"},
    "queues": {}, "message_log": {}, "consumers": {}, "message_archive": {}, "dead_messages": {"id": "n + 10000"},
    "messages": _ODD_IS_CLAIMED | {"claimed_at": "CASE n % 2 WHEN 1 THEN now() END"},
    "task_rows": _ODD_IS_CLAIMED | {
        "start_time": "CASE n % 2 WHEN 1 THEN now() END", "worker": f"CASE n % 2 WHEN 1 THEN {_WORD} END",
    },
    "task_kinds": {}, "dead_tasks": {}, "task_archive": {"outcome": "'finished'"},
    "jobs": _ODD_IS_CLAIMED | {
        "id": "md5(n::text)::uuid", "queue": "'default'", "uniq": _WORD, "key": _WORD,
        "state": "CASE n % 2 WHEN 1 THEN 'running' ELSE 'available' END",
    },
    "job_archive": {
        "id": "md5('a' || n)::uuid", "seq": "n + 100000", "state": "'completed'", "errors": "'[]'", "uniq": _WORD,
    },
    "job_kinds": {}, "job_rates": {}, "job_requests": {}, "job_schedules": {},
    "services": {}, "request_keys": {}, "request_archive": {"state": "'answered'", "via": "'sql'"},
    "requests": {
        "state": "CASE n % 2 WHEN 1 THEN 'leased' ELSE 'waiting' END", "claim": "CASE n % 2 WHEN 1 THEN n END",
        "via": "'sql'",
    },
    "foreign_topics": {}, "upstreams": {"state": "'active'", "due_at": "NULL"},
    "verification_buckets": {"tenant": "''"},
    "intents": {"mode": "'unsubscribe'", "state": "'verified'", "decided_at": "now()"},
    "rabbithub_resources": {
        "id": "n + 100", "kind": "CASE n % 2 WHEN 1 THEN 'q' ELSE 'x' END",
        "source": "CASE n % 2 WHEN 1 THEN n END", "exchange_type": "CASE n % 2 WHEN 0 THEN 'topic' END",
    },
    "replays": {"state": "'done'", "source": "'dead_letters'"},
    "source_patterns": {"pattern": _WORD},
    "backfills": {"lease_until": "now()"}, "backfill_batches": {"part": "0"}, "backfill_failures": {},
    "audit": {}, "erased_events": {"erased_at": "now()", "content": "n", "rewritten_at": "now()", "lake_at": "now()"},
}  # fmt: skip
_PREPARED = """
INSERT INTO hookwire.relay_terms (sink, grp, term, lease_until)
    SELECT sink, 7, 7, now() + interval '1 day' FROM unnest('{webhooks,kafka,jobs}'::text[]) AS sink;
UPDATE hookwire.installation SET topics_auto_create = false, kinds_auto_create = false, services_auto_create = false;
INSERT INTO hookwire.job_kinds (kind) VALUES ('d');
"""

# --- what is asked ----------------------------------------------------------------------------------------------------

_ARGUMENTS = {
    "text": "'default'", "text[]": "'{default}'", "bytea": "sha256('7')", "bytea[]": "ARRAY[sha256('7')]",
    "uuid": "md5('7')::uuid", "uuid[]": "ARRAY[md5('7')::uuid]", "boolean": "true", "boolean[]": "'{f}'",
    "jsonb": "'{}'", "timestamp with time zone": "now()", "timestamp with time zone[]": "ARRAY[now()]",
    "date": "current_date", "interval": "'7 days'",
    **dict.fromkeys(("smallint[]", "integer[]", "bigint[]", "double precision[]", "real[]"), "'{7}'"),
    **dict.fromkeys(("smallint", "integer", "bigint", "double precision", "real"), "7"),
}  # fmt: skip
# A text that stands for another type.
_READ_AS = {
    "::text::jsonb": "'{}'", "::text[]::jsonb[]": "'{NULL}'", "::text::xid8": "'3'", "::text::uuid": "md5('7')",
    "::text[]::uuid[]": "ARRAY[md5('7')]",
}  # fmt: skip
_SINK = {"outbox": "'webhooks'", "hold": "'webhooks'", "manifest": "'kafka'"}
_OWN: dict[str, dict[int, str]] = {
    "outbox.claim": {10: "NULL"},
    "outbox.claim_heads": {9: "NULL"},
    "outbox.low_water": {6: "NULL"},
    "outbox.purge": {4: "NULL"},
    "manifest.write": {7: "NULL"},
    "manifest.purge": {7: "NULL"},
    "event.publish_batch": {6: "'{NULL}'"},
    "direct.publish": {6: "'{NULL}'", 8: "'{new}'"},
    "delivery.settle": {4: "'{delivered}'", 12: "'{NULL}'", 13: "'{NULL}'", 14: "'{NULL}'"},
    "job.add": {1: """'[{"kind": "default"}]'"""},
    "request.over_among": {1: "ARRAY[md5('7')]"},
    "backfill.passed": {7: "'{NULL}'"},
}

# These read all that they are asked for, or one row for each name that has something to do; their number is not that
# of a hot statement's rows.
_WHOLE = {
    # lists, counts and checks that people ask for, page by page or from end to end
    "backfill.list", "backfill.topics", "backfill.unknown_topics",
    "bulk.count_dead", "bulk.count_jobs", "bulk.count_open",
    "console.topics_lately", "forgotten.topics", "forgotten.waiting", "installation.former",
    "hold.list", "hold.page", "incident.page", "incident.watch",
    "job.archived_kinds", "job.kinds",
    "job.live_counts", "job.put_kind", "job.schedules", "job.statistics", "key.list", "ledger.compare",
    "rabbithub.errors", "rabbithub.mirrored", "rabbithub.room", "rabbithub.subscriptions",
    "request.count", "subscription.count", "subscription.list",
    "source.loops", "task.counts", "task.dead", "task.dead_kinds", "task.kinds", "task.list", "undelivered.dead",
    "undelivered.open", "undelivered.queued", "queue.counts", "task.rates", "outbox.oldest",
    # the verdict: bounded by names and counts, as test_verdict_reads.py measures
    "verdict.behind", "verdict.dead_letters", "verdict.holds", "verdict.jobs", "verdict.queues", "verdict.receivers",
    "verdict.publishers", "verdict.refusals",    "verdict.services",
    "stats.job", "verdict.subscription_counts", "verdict.tasks", "verdict.totals",
    # what operators do
    "intent.revoke", "layout.hash_owed", "layout.holds", "queue.remove", "queue.adopt_transaction_ids",
    "task.purge_dead", "task.redrive", "topic.list", "topic_schema.newest",
    # sweeps that step from name to name, and a relay's holds
    "delivery.due_subscriptions", "delivery.ended_subscriptions", "delivery.forget_former_audiences", "hold.due",
    "hold.open",
    "intent.purge", "job.available", "job.purge_rates", "queue.adopt", "rabbithub.dispatch", "rabbithub.take_back",
    "request.forget_old", "request.waiting_services", "retention.topics", "service.adopt", "upstream.quiet",
}  # fmt: skip
_ELSEWHERE = ("compat.", "gold.", "lake.", "mapped.", "migration.", "partition.", "seeded_bug", "witness.")
_COMMAND = re.compile(r"^(?:ALTER|ANALYZE|BEGIN|CREATE|DROP|LOCK|ROLLBACK|VACUUM)\b", re.MULTILINE)  # is not planned
# These must have been measured. Others may refuse the arguments.
_MEASURED = {
    "event.publish_batch", "direct.publish", "outbox.claim", "outbox.claim_heads", "outbox.low_water", "outbox.purge",
    "manifest.write", "manifest.purge", "hold.claim", "hold.place", "hold.purge", "delivery.fan_out",
    "delivery.fan_out_slice", "delivery.claim", "delivery.settle", "delivery.events", "delivery.release",
    "delivery.promote_heads", "pull.dequeue", "pull.held", "pull.extend", "message.submit", "message.receive",
    "message.accept", "message.reject", "message.reap", "task.clean", "job.add",
    "job.claim", "job.complete", "job.fail", "job.extend", "job.keep", "job.claim_for_callbacks", "request.lease",
    "request.reply", "request.lease_for_callbacks", "key.find", "topic.get", "topic.use", "queue.use", "service.use",
    "due.poll",
    "ledger.fold_events", "ledger.fold_entries", "rollup.fold", "rollup.points",
    "replay.step", "rabbithub.expire", "foreign.ping",
    "event.purge_idempotency_keys", "answer.find", "answer.purge", "event_job.enqueue", "sequence.behind",
    "sequence.set_forward",
}  # fmt: skip

# What users call in sessions of their own.
_CALLS = (
    "SELECT hookwire.publish('default', 'x'::text, key => 'k')",
    """SELECT hookwire.publish_all('[{"topic": "default", "payload": 1}]')""",
    "INSERT INTO hookwire.stash (topic, payload) VALUES ('default', 'x')",
    "SELECT hookwire.submit('default', 'x'::text)",
    "SELECT hookwire.receive('x8', 1)",
    """SELECT hookwire.receive('x8', 1, filter => '{"type": "t"}')""",
    "SELECT hookwire.receive('x8', 1, filter => '{}')",
    "SELECT hookwire.accept('{7}', 7)",
    "SELECT hookwire.reject('{7}', 7)",
    "SELECT hookwire.extend('{7}', 7)",
    "SELECT hookwire.browse('x8', 1)",
    "SELECT hookwire.register_consumer('x8', 'new', now())",
    "SELECT hookwire.receive_copies('x8', 'x8', 1)",
    "SELECT hookwire.accept_copies('default', 'default', 7, '{7}')",
    "SELECT hookwire.enqueue_task('default', is_unique => true)",
    "SELECT hookwire.claim_task('x8', 'w')",
    "SELECT hookwire.claim_tasks('{x8}', 1, 'w')",
    "SELECT hookwire.finish_tasks('{default}', '{7}')",
    "SELECT hookwire.release_tasks('{default}', '{7}')",
    "SELECT hookwire.fail_task('default', 7, 'x')",
    "INSERT INTO hookwire.tasks (id, description) VALUES ('new', 'default')",
    "UPDATE hookwire.tasks SET start_time = now() WHERE id = 'x8'",
    "SELECT hookwire.enqueue('default', uniq => 'new', key => 'k')",
    "SELECT hookwire.enqueue('x8', uniq => 'x8', key => 'k')",
    "SELECT hookwire.claim_jobs('{x8}', 1, 'w')",
    "SELECT hookwire.complete_jobs(ARRAY[md5('7')::uuid], '{7}')",
    "SELECT hookwire.extend_jobs(ARRAY[md5('7')::uuid], '{7}')",
    "SELECT hookwire.fail_job(md5('7')::uuid, 7, 'x')",
    "SELECT hookwire.snooze_job(md5('7')::uuid, 7, 10)",
    "SELECT hookwire.release_jobs(ARRAY[md5('7')::uuid], '{7}')",
    "SELECT hookwire.progress_job(md5('7')::uuid, 7, 1)",
    "SELECT hookwire.cancel_job(md5('8')::uuid, 'a')",
    "SELECT hookwire.assign_job(md5('8')::uuid, 'a', 'a')",
    "SELECT hookwire.request('default', 'x')",
    "SELECT hookwire.answer_of(md5('7'))",
    "SELECT hookwire.claim_requests('x8', 1)",
    "SELECT hookwire.reply(md5('7'), 7, 'x')",
    "SELECT hookwire.close_request(md5('7'))",
)


# The other way of a statement of the pool, which has two.
_OTHER_WAYS = {
    "direct.publish of a common event": """
        SELECT outcome FROM hookwire.publish_batch(
            'default', '{1}', '{default}', '{NULL}', '{NULL}', '{NULL}', ARRAY['x'::bytea], '{NULL}',
            ARRAY[NULL::bytea], false, ROW(7, hookwire.origin(), 15, 5, 8, 8)::hookwire.direct_terms)"""
}


class Read(NamedTuple):
    """What was read of a table or an index."""

    rows: int
    pages: int

    def is_dear(self, relation: str) -> bool:
        return self.rows > _ROWS_MAX or self.pages > (
            _PAGES_OF_SHARDS_MAX if relation.startswith("outbox") else _PAGES_MAX
        )


_COUNTERS = """
SELECT c.relname, pg_stat_get_xact_blocks_fetched(c.oid) AS pages,
       pg_stat_get_xact_tuples_returned(c.oid)
       + CASE c.relkind WHEN 'r' THEN pg_stat_get_xact_tuples_fetched(c.oid) ELSE 0 END AS rows
FROM pg_class c WHERE c.relnamespace = 'hookwire'::regnamespace AND c.relkind IN ('r', 'i')
"""


@pytest.fixture
async def other(database_url_both: str) -> AsyncIterator[asyncpg.Connection]:
    """Fills the tables behind the back of the session under test."""
    connection = await asyncpg.connect(database_url_both)
    await stop_autovacuum(connection)
    await connection.execute(_PREPARED)
    yield connection
    await connection.close(timeout=2)


async def fill(connection: asyncpg.Connection, first: int, last: int) -> None:
    """Add rows of these numbers to every table; serial numbers go on far above them."""
    await connection.execute("SET session_replication_role = replica")
    for table, own in _FILLED.items():
        columns = await connection.fetch(
            """SELECT attname AS name, format_type(atttypid, atttypmod) AS type FROM pg_attribute
               WHERE attrelid = ('hookwire.' || $1)::regclass AND attnum > 0 AND attnotnull AND NOT atthasdef""",
            table,
        )
        values = {c["name"]: "'default'" if c["name"] == "tenant" else _BY_TYPE[c["type"]] for c in columns} | own
        await connection.execute(
            f"INSERT INTO hookwire.{table} ({', '.join(values)}) OVERRIDING SYSTEM VALUE"
            f" SELECT {', '.join(values.values())} FROM generate_series({first}, {last}) AS n"
        )
    await connection.execute("SET session_replication_role = origin")
    for row in await connection.fetch("SELECT sequencename FROM pg_sequences WHERE schemaname = 'hookwire'"):
        await connection.execute(f"SELECT setval('hookwire.{row['sequencename']}', {10 * _LARGE})")


async def reads(connection: asyncpg.Connection, call: str) -> dict[str, Read]:
    """Run it, roll it back, and return what it read of each table and index that it touched."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        before = {row["relname"]: row for row in await connection.fetch(_COUNTERS)}
        await connection.fetch(call)
        after = await connection.fetch(_COUNTERS)
    finally:
        await transaction.rollback()
    return {
        row["relname"]: Read(
            int(row["rows"] - before[row["relname"]]["rows"]), row["pages"] - before[row["relname"]]["pages"]
        )
        for row in after
        if row["relname"] in before
    }


async def grown(
    connection: asyncpg.Connection, other: asyncpg.Connection, calls: Mapping[str, str], runs: int
) -> tuple[dict[str, dict[str, Read]], set[str]]:
    """Run each call over small tables until its plan is kept, and once over large ones.

    Return what is dear after that, and the calls that were refused.
    """
    await fill(other, 1, _SMALL)
    for call in calls.values():
        for _ in range(runs):
            try:
                await reads(connection, call)
            except asyncpg.PostgresError:
                break  # is refused again below
    await fill(other, _SMALL + 1, _LARGE)
    dear, refused = {}, set()
    for name, call in calls.items():
        try:
            found = await reads(connection, call)
        except asyncpg.PostgresError:
            refused.add(name)
            continue
        if wrong := {relation: read for relation, read in found.items() if read.is_dear(relation)}:
            dear[name] = wrong
    return dear, refused


async def prepared(connection: asyncpg.Connection) -> dict[str, str]:
    """Prepare every statement of the pool, and return how each is executed for row 7."""
    calls: dict[str, str] = {}
    for number, (name, text) in enumerate(STATEMENTS.items()):
        if name.startswith(_ELSEWHERE) or name in _WHOLE or _COMMAND.search(text):
            continue
        await connection.execute(f"PREPARE s{number} AS {text}")
        types = await connection.fetchval(
            "SELECT parameter_types::text[] FROM pg_prepared_statements WHERE name = $1", f"s{number}"
        )
        values = {place: _ARGUMENTS.get(kind, f"NULL::{kind}") for place, kind in enumerate(types, 1)}
        for cast, value in _READ_AS.items():
            values |= {int(place): value for place in re.findall(r"\$(\d+)" + re.escape(cast), text)}
        if values and name.partition(".")[0] in _SINK:
            values[1] = _SINK[name.partition(".")[0]]
        values |= _OWN.get(name, {})
        calls[name] = f"EXECUTE s{number}" + (f"({', '.join(values.values())})" if values else "")
    return calls


async def test_no_statement_of_the_pool_reads_more_after_its_tables_grew(
    database_url_both: str, other: asyncpg.Connection
) -> None:
    """GR-01: publishing read every topic per event until the next ANALYZE."""
    settings: dict[str, Any] = PoolOptions(database_url_both).server_settings()
    connection = await asyncpg.connect(database_url_both, server_settings=settings)
    dear, refused = await grown(connection, other, await prepared(connection) | _OTHER_WAYS, runs=1)
    await connection.close(timeout=2)
    assert (dear, refused & (_MEASURED | _OTHER_WAYS.keys())) == ({}, set())


async def test_no_call_of_a_user_reads_more_after_its_tables_grew(
    database_url_both: str, other: asyncpg.Connection
) -> None:
    """GR-01: in a session of a user, who has no settings of ours, after the runs that PostgreSQL plans anew."""
    connection = await asyncpg.connect(database_url_both)
    found = await grown(connection, other, {call: call for call in _CALLS}, runs=7)
    await connection.close(timeout=2)
    assert found == ({}, set())


async def test_every_function_that_users_call_brings_its_planner_settings(other: asyncpg.Connection) -> None:
    """GR-01: a function that a later migration replaces must not lose them."""
    bare = await other.fetch(
        """SELECT p.oid::regprocedure::text FROM pg_proc p
           WHERE p.pronamespace = 'hookwire'::regnamespace AND p.prosecdef
             AND NOT coalesce(p.proconfig, '{}') @> '{enable_seqscan=off,plan_cache_mode=force_generic_plan,jit=off}'"""
    )
    assert [row[0] for row in bare] == []

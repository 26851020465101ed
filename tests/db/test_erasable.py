"""Each column that can hold the content or the key of an event is erased, or is listed here with its reason (GU-14)."""

from __future__ import annotations

import re

import asyncpg

from db.pool import PoolOptions, open_database

MARK = "ada-lovelace"
ERASED = {
    "events": {"content_type", "headers", "key", "payload"},
    "attempts": {"detail", "response_body", "response_headers"},
    "dead_letters": {"detail"},
    "incidents": {"excerpt"},
    "relay_dead_letters": {"detail", "key"},
    "deliveries": {"lane"},
    "idempotency_keys": {"fingerprint"},
    "jobs": {"args", "errors", "key", "progress_note", "result", "resumed", "uniq"},
    "job_rates": {"key"},
    "job_archive": {"args", "errors", "key", "reason", "result", "uniq"},
}
"""Emptied by db/sql/erasure.sql, or gone with the row that it ends. A key only on demand."""

_WORDS = "a word of the hub's own, or a name that an operator or a program chose"
KEPT = {
    "events": dict.fromkeys(("published_by", "sinks", "tenant", "topic"), _WORDS),
    "attempts": dict.fromkeys(("address", "decision", "outcome", "tenant", "trigger", "worker"), _WORDS),
    "dead_letters": dict.fromkeys(("kind", "last_outcome", "tenant"), _WORDS),
    "incidents": {
        "fingerprint": "a digest, which tells no content",
        **dict.fromkeys(("actor", "kind", "outcome", "reason", "sink", "state", "tenant"), _WORDS),
    },
    "relay_dead_letters": dict.fromkeys(("reason", "sink", "tenant", "topic"), _WORDS),
    "deliveries": dict.fromkeys(("last_outcome", "tenant"), _WORDS),
    "idempotency_keys": {
        "key": "a late repeat must be known, until HOOKWIRE_IDEMPOTENCY_SECONDS are over",
        "tenant": _WORDS, "topic": _WORDS,
    },
    "jobs": dict.fromkeys(
        (
            "assignee", "created_by", "due_zone", "kind", "on_due", "performer", "queue", "state", "tenant", "token",
            "worker",
        ),
        _WORDS,
    ),
    "job_rates": {"kind": _WORDS},
    "job_archive": dict.fromkeys(
        ["assignee", "created_by", "ended_by", "kind", "performer", "queue", "state", "tenant", "worker"], _WORDS
    ),
}  # fmt: skip
_SETTINGS = "what operators and subscribers have set; no event flows into it"
_OWN = "sent to the hub as it is, not made from an event; it has ends of its own"
_COUNTS = "counts, times and names"
_WAITING = "of events that wait for a sink: an erasure leaves these out, and the row goes when they have left"
ELSEWHERE = {
    **dict.fromkeys(
        (
            "api_keys",
            "former_audiences",
            "inbound_secrets",
            "inbound_sources",
            "installation",
            "intents",
            "job_kinds",
            "job_schedules",
            "layouts",
            "migrations",
            "queues",
            "rabbithub_resources",
            "rabbithub_subscriptions",
            "services",
            "sinks",
            "source_patterns",
            "sources",
            "subscription_secrets",
            "subscriptions",
            "task_kinds",
            "topic_schemas",
            "topics",
            "upstreams",
            "verification_buckets",
        ),
        _SETTINGS,
    ),
    **dict.fromkeys(
        (
            "attempt_rollups",
            "backfill_failures",
            "backfills",
            "consumers",
            "delivery_gates",
            "delivery_members",
            "delivery_failures",
            "erased_events",
            "fanout_cursors",
            "former_incarnations",
            "incident_failures",
            "lake_audits",
            "lake_backlog",
            "lake_batches",
            "lake_bounds",
            "lake_marks",
            "lake_metrics",
            "lake_proofs",
            "lake_seals",
            "lake_slo",
            "ledger",
            "ledger_entries",
            "number_marks",
            "outbox_offsets",
            "process_states",
            "relay_batch_numbers",
            "relay_batches",
            "relay_members",
            "relay_terms",
            "console_sessions",
            "replays",
            "request_archive",
            "source_offsets",
            "task_workers",
            "outbox",
        ),
        _COUNTS,
    ),
    **dict.fromkeys(
        (
            "dead_messages",
            "dead_tasks",
            "message_archive",
            "message_log",
            "messages",
            "request_keys",
            "requests",
            "task_archive",
            "task_rows",
        ),
        _OWN,
    ),
    "compat_parked": "of goharvest's table, which is another program's",
    "held": _WAITING,
    "holds": _WAITING,
    "audit": "who did what and why; a hold's entry names its key, until HOOKWIRE_HISTORY_RETENTION_DAYS are over",
    "foreign_topics": "digests of entries of another publisher's feed",
    "inbound_requests": "the last 20 refused bodies of a door, which never became events; they end after seven days",
    "source_refusals": "records and messages that never became events; they end by a person or by age",
    "job_requests": "who asked for a job over the API; a job of an event has no such row",
    "kept_answers": "answers to POSTs other than publishing, until HOOKWIRE_IDEMPOTENCY_SECONDS are over",
}
_LISTED = """
api_keys: digest kinds name public_id queues scopes services tenant topics
audit: action actor reason role subject tenant
backfill_failures: outcome
backfills: holder kafka_topics lake topics why
compat_parked: detail key outbox reason row_id tenant topic
console_sessions: digest
consumers: name queue tenant
dead_messages: content_type headers key payload queue reason receiver tenant type
dead_tasks: description id kind reason tenant worker
delivery_failures: last_outcome tenant
delivery_gates: tenant
delivery_members: name server_run
erased_events: tenant
fanout_cursors: tenant
former_incarnations: incarnation
foreign_topics: digest entries etag hub_url last_error last_modified self_url tenant topic url
former_audiences: filter_path tenant topic topic_regex
held: key sink tenant topic
holds: detail key reason sink tenant topic
inbound_requests: address body delivery_id detail outcome reason source topic
inbound_secrets: key_id sealed source
inbound_sources: name preset settings
incident_failures: tenant
installation: incarnation server
attempt_rollups: grain
intents: callback callback_host denial identity key_id mode rabbithub reason requester requester_network sealed
  signature_method stage state tenant topic topic_url verify verify_token
job_kinds: automation escalate_to events kind machine_rule
job_requests: callbacks requester
job_schedules: cron job missed name tenant zone
kept_answers: body caller fingerprint headers key path tenant
lake_audits: failure lake
lake_backlog: subscription tenant topic
lake_batches: batch job
lake_bounds: lake topic
lake_marks: commit_id digest lake table_name
lake_metrics: subscription tenant topic
lake_proofs: digest files lake topic
lake_seals: lake seal_key
lake_slo: subscription tenant
layouts: groups order_scope
ledger: sink tenant topic
ledger_entries: outcome sink
message_archive: content_type headers key payload queue receiver tenant type
message_log: content_type headers key payload queue tenant type
messages: content_type headers key last_reason payload queue receiver tenant type
migrations: checksum name
number_marks: sequence
outbox: sink
outbox_offsets: outbox
process_states: kind name process reason state
queues: made_by name owner tenant
rabbithub_resources: declare_problem exchange_type kind name tenant vhost
rabbithub_subscriptions: details hub_topic last_error
relay_batch_numbers: sink
relay_batches: sink
relay_members: name sinks
relay_terms: owner sink
replays: act actor job_kind job_state kinds reason source state tenant topic
request_archive: caller closed_by service state tenant via worker
request_keys: client digest number
requests: body caller content_type last_error reply reply_content_type service state tenant via worker
services: made_by name tenant without_workers
sinks: name pause_reason paused_by
source_offsets: last_digest reader source trouble
source_refusals: detail headers held_keys key kind reason source value
source_patterns: first_topics passed_over pattern
sources: name
subscription_secrets: key_id sealed tenant
subscriptions: callback callback_host description filter filter_path format header_names headers_key_id
  headers_sealed identity kind metadata name on_410 on_4xx on_exhausted protocol public_id queue request_origin
  requester_network service signature_method state state_reason template tenant topic topic_regex topic_url
  verify_token
task_archive: description id kind outcome tenant worker
task_kinds: compensation_kind kind notify on_crash
task_rows: description id kind last_error tenant worker
task_workers: kinds name
topic_schemas: schema tenant topic
topics: amqp_exchange amqp_exchange_type amqp_routing_key amqp_vhost job kafka_topic made_by moved_to name on_refused
  sinks tenant validator_url
upstreams: given_hub_url given_topic_url hub_url key_id reason sealed self_url state tenant token topic url
verification_buckets: host tenant
"""
"""The columns of these tables. So a new column of one is decided, too: its reason has to fit."""
_COLUMNS = """
    SELECT c.relname AS "table", a.attname AS "column" FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relnamespace = 'hookwire'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
      AND a.attnum > 0 AND NOT a.attisdropped
      AND a.atttypid IN ('text'::regtype, 'text[]'::regtype, 'jsonb'::regtype, 'bytea'::regtype, 'jsonpath'::regtype)"""


async def test_each_column_is_erased_or_has_a_reason(database_url: str) -> None:
    """A new table, or a new column beside the content of events, fails this until somebody has decided."""
    connection = await asyncpg.connect(database_url)
    rows = await connection.fetch(_COLUMNS)
    await connection.close()
    listed = {name: {*columns.split()} for name, columns in re.findall(r"^(\w+): ((?:.+\n(?: +.+\n)*))", _LISTED, re.M)}
    undecided = {
        f"{row['table']}.{row['column']}"
        for row in rows
        if row["column"] not in listed.get(row["table"], set())
        and row["column"] not in ERASED.get(row["table"], set()) | KEPT.get(row["table"], {}).keys()
    }
    decided = {table: columns | KEPT[table].keys() for table, columns in ERASED.items()} | listed
    named = {(table, column) for table, columns in decided.items() for column in columns}
    gone = named - {(row["table"], row["column"]) for row in rows}

    assert (undecided, gone, listed.keys() ^ ELSEWHERE.keys()) == (set(), set(), set())


async def test_no_table_has_the_mark_of_an_erased_event(database_url_both: str) -> None:
    """The mark is in each erased column before."""
    connection = await asyncpg.connect(database_url_both)
    database = await open_database(PoolOptions(database_url_both))
    await connection.execute(_FILL.replace("MARK", MARK))
    before = await marked(connection)
    await database.fetch("erasure.end_deliveries", [7])
    await database.execute("erasure.empty_jobs", [7], "x")
    await database.fetchval("erasure.end_jobs", [7], "x", "ada")
    await database.fetchrow("erasure.erase", [7], "x", True)
    after = await marked(connection)
    await connection.close()
    await database.aclose()

    assert (before, after) == (ERASED, {})


async def marked(connection: asyncpg.Connection[asyncpg.Record]) -> dict[str, set[str]]:
    """The columns of each table that hold the mark, as text or as bytes."""
    found: dict[str, set[str]] = {}
    for row in await connection.fetch(_COLUMNS):
        table, column = row["table"], row["column"]
        count = await connection.fetchval(
            f'SELECT count(*) FROM hookwire."{table}" t WHERE strpos(t."{column}"::text, $1) > 0'
            f" OR strpos(t.\"{column}\"::text, encode(convert_to($1, 'UTF8'), 'hex')) > 0",
            MARK,
        )
        if count:
            found.setdefault(table, set()).add(column)
    return found


_FILL = """
INSERT INTO hookwire.events (id, accepted_at, ordered, tenant, topic, key, content_type, headers, sinks, payload)
    VALUES (7, now(), true, 'default', 't', 'MARK', 'text/MARK', '{"x": "MARK"}', '{}', 'MARK');
INSERT INTO hookwire.attempts (event_id, subscription_id, started_at, number, total_seconds, tenant, outcome, decision,
                               trigger, worker, detail, response_headers, response_body)
    VALUES (7, 1, now(), 1, 0, 'default', 'timeout', 'retry', 'first', 'w', 'MARK', '{"x": "MARK"}', 'MARK');
INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts, detail)
    VALUES (7, 1, 'default', 'exhausted', 1, 'MARK');
INSERT INTO hookwire.incidents (tenant, subscription_id, sink, fingerprint, outcome, excerpt, first_event_id)
    VALUES ('default', 1, 'webhooks', 'f', 'timeout', 'MARK', 7);
INSERT INTO hookwire.relay_dead_letters (sink, event_id, tenant, topic, key, shard, layout, reason, detail)
    VALUES ('kafka', 7, 'default', 't', 'MARK', 1, 1, 'refused', 'MARK');
INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant, lane)
    VALUES (7, 2, now(), now(), 'default', 'MARK');
INSERT INTO hookwire.idempotency_keys (tenant, key, fingerprint, event_id, accepted_at, ordered)
    SELECT 'default', 'k', 'MARK', 7, e.accepted_at, true FROM hookwire.events e;
INSERT INTO hookwire.jobs (kind, state, args, key, uniq, rank_at, attempts_max, run_seconds, progress_note, resumed,
                           result, errors, created_by, created_at)
    VALUES ('k', 'available', '{"event_id": "evt_x_7", "data": "MARK"}', 'MARK', 'MARK', now(), 1, 1, 'MARK', '"MARK"',
            '"MARK"', '["MARK"]', 'topic', now());
INSERT INTO hookwire.job_archive (id, seq, kind, queue, state, args, key, uniq, priority, attempts, attempts_max,
                                  run_seconds, number, result, errors, reason, created_by, created_at, ended_at)
    VALUES (gen_random_uuid(), 0, 'k', 'q', 'completed', '{"event_id": "evt_x_7", "data": "MARK"}', 'MARK', 'MARK', 0,
            1, 1, 1, 1, '"MARK"', '["MARK"]', 'MARK', 'topic', now(), now());
INSERT INTO hookwire.job_rates (kind, key, tokens, counted_at) VALUES ('k', 'MARK', 1, now());
"""

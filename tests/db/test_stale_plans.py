"""No statement goes through a backlog on a plan that was made while the tables were empty (RP-03, RR-07).

A pool keeps prepared statements, and a burst after a quiet hour runs on what was planned in that hour. Here every
statement there is is planned once for all, in each of the states in which a planner knows least; then the tables are
filled behind its back, and each runs with arguments that find something.
"""

import json
import re
from collections.abc import AsyncIterator, Iterable
from typing import Any

import asyncpg
import pytest

from db.statements import for_mapped, for_outbox
from relay.goharvest.mapping import OutboxMapping
from tests.db.catalog import stop_autovacuum

_MAPPING = OutboxMapping(
    table="public.compat", id="id", topic="kafka_topic", key="kafka_key", payload="convert_to(kafka_value, 'UTF8')",
    order="id", mark="kafka_topic = NULL", waits="kafka_topic IS NOT NULL",
)  # fmt: skip
_ROWS = 10_000
_BATCH = 500
_PLACES = 40
"""Subscriptions that are owed something."""

# One word stands for every name and one number for everything else, so that whatever is asked for is there.
_WORD = "webhooks"
_TABLES = (
    "relay_batch_numbers", "relay_batches", "relay_terms", "topics", "outbox", "holds", "held", "deliveries",
    "attempts", "dead_letters", "relay_dead_letters", "idempotency_keys", "intents", "ledger_entries", "compat_parked",
    "foreign_topics", "audit", "events", "subscriptions", "former_audiences",
)  # fmt: skip
_FILL = """
SELECT setval('hookwire.event_id', {rows});
INSERT INTO hookwire.relay_terms (sink, grp, term, lease_until) VALUES ('{word}', 7, 7, now() + interval '1 hour');
INSERT INTO hookwire.topics (tenant, name) VALUES ('{word}', '{word}');
INSERT INTO hookwire.relay_batches (sink, layout, grp, batch_no, shards, ids)
    SELECT '{word}', 1, 7, 7, array_agg(n % 64), array_agg(n) FROM generate_series(1, {batch}) n;
INSERT INTO hookwire.subscriptions (id, public_id, tenant, protocol, topic, callback, state, identity, lease_until)
    OVERRIDING SYSTEM VALUE
    SELECT n, 'sub_' || n, '{word}', CASE n % 3 WHEN 0 THEN 'webhook' WHEN 1 THEN 'websub' ELSE 'rabbithub' END,
           CASE WHEN n % 100 = 0 THEN '{word}' ELSE 't' || n END, 'https://a.example/', 'active',
           sha256(n::text::bytea), now() + interval '9 days'
    FROM generate_series(1, {rows}) n;
INSERT INTO hookwire.former_audiences (subscription_id, until_id, tenant, topic, topic_regex, changed_xid)
    SELECT s.id, {rows}, s.tenant, s.topic, CASE WHEN s.id % 100 = 50 THEN '^none' || s.id % 3 || '$' END, '3'
    FROM hookwire.subscriptions s WHERE s.id % 2 = 0;
INSERT INTO hookwire.events (id, accepted_at, ordered, tenant, topic, key, headers, sinks, payload)
    SELECT n, now(), true, '{word}', CASE WHEN n % 100 = 0 THEN '{word}' ELSE 't' || n END, 'k', '{{}}',
           '{{{word}}}', ''
    FROM generate_series(1, {rows}) n;
INSERT INTO hookwire.outbox (id, layout, shard, sink) SELECT n, 1, n % 64, '{word}' FROM generate_series(1, {rows}) n;
INSERT INTO hookwire.holds (sink, grp, tenant, topic, key, reason, detail, probe_at)
    SELECT '{word}', 7, '{word}', '{word}', k, 'r', 'd', now() + interval '1 hour'
    FROM unnest(ARRAY['{word}', 'k1', 'k2', 'k3']) AS k;
INSERT INTO hookwire.held (sink, grp, tenant, topic, key, id, shard, layout)
    SELECT '{word}', 7, '{word}', '{word}', CASE n % 4 WHEN 0 THEN '{word}' ELSE 'k' || n % 4 END, n, n % 64, 1
    FROM generate_series(1, {rows}) n;
INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant, lane, fence)
    SELECT n, s, CASE WHEN n <= 8 THEN now() ELSE 'infinity' END, now(), '{word}', 'k' || n % 8, 7
    FROM generate_series(1, {rows} / {places}) n, generate_series(1, {places}) s;
INSERT INTO hookwire.attempts (event_id, subscription_id, started_at, number, total_seconds, tenant, outcome, decision,
                               trigger, worker)
    SELECT n, n, now(), 1, 0.1, '{word}', 'timeout', 'retry', 'first', 'w' FROM generate_series(1, {rows}) n;
INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts)
    SELECT n, n, '{word}', 'exhausted', 10 FROM generate_series(1, {rows}) n;
INSERT INTO hookwire.relay_dead_letters (sink, event_id, tenant, topic, shard, layout, reason, detail)
    SELECT '{word}', n, '{word}', '{word}', n % 64, 1, 'r', 'd' FROM generate_series(1, {rows}) n;
INSERT INTO hookwire.idempotency_keys (tenant, key, fingerprint, event_id, accepted_at, ordered)
    SELECT '{word}', 'k' || n, '', n, now() - interval '1 hour', true FROM generate_series(1, {rows}) n;
INSERT INTO hookwire.intents (tenant, mode, topic, topic_url, callback, callback_host, identity, lease_seconds,
                              signature_method, due_at, state, decided_at)
    SELECT '{word}', 'subscribe', 't', 'http://t/', 'http://c/', 'c', sha256(n::text::bytea), 1, 'sha256', now(),
           'verified', now()
    FROM generate_series(1, {rows}) n;
INSERT INTO hookwire.ledger_entries (sink, outcome, ids)
    SELECT '{word}', 'sent', ARRAY[n] FROM generate_series(1, {rows}) n;
INSERT INTO hookwire.compat_parked (outbox, key, record_id, topic, reason, detail, probe_at)
    SELECT '{word}', 'k' || n, n, 't', 'r', 'd', now() FROM generate_series(1, {rows}) n;
INSERT INTO hookwire.foreign_topics (topic, url) SELECT 't' || n, 'http://t/' FROM generate_series(1, {rows}) n;
INSERT INTO hookwire.audit (tenant, actor, action, subject, reason)
    SELECT '{word}', 'a', 'a', 's', 'r' FROM generate_series(1, {rows}) n;
INSERT INTO public.compat (id, create_time, kafka_topic, kafka_key, kafka_header_keys, kafka_header_values, leader_id)
    SELECT n, now(), 't', 'k' || n + {rows}, '{{}}', '{{}}', CASE WHEN n % 2 = 0 THEN gen_random_uuid() END
    FROM generate_series(1, {rows}) n;
UPDATE hookwire.ledger_cursor SET mark_id = {rows}, mark_at = now(), mark_xid = pg_current_xact_id();
"""


def _filled(rows: int) -> str:
    return _FILL.format(word=_WORD, rows=rows, batch=_BATCH, places=min(_PLACES, rows))


_EMPTIED = (
    "SET session_replication_role = replica; {}; DELETE FROM public.compat; RESET session_replication_role".format(
        "; ".join(f"DELETE FROM hookwire.{table}" for table in _TABLES)
    )
)
# What the planner has seen, and how it came to be empty of it.
_STATES: dict[str, tuple[str, ...]] = {
    "never analysed": (),
    "vacuumed while empty": ("VACUUM ANALYZE",),
    "analysed with three rows": (_filled(3), "VACUUM ANALYZE", _EMPTIED),
}


# --- arguments -----------------------------------------------------------------------------------------------------


def _array(items: Iterable[object]) -> str:
    return "'{" + ",".join(map(str, items)) + "}'"


_SHARDS, _IDS = _array(n % 64 for n in range(1, _BATCH + 1)), _array(range(1, _BATCH + 1))
_SEVENS, _NULLS = _array([7] * _BATCH), _array(["NULL"] * _BATCH)
_VALUES = {
    "smallint[]": _SHARDS, "integer[]": _SEVENS, "bigint[]": _IDS, "double precision[]": _SEVENS, "real[]": _SEVENS,
    "text[]": _array([_WORD] * _BATCH), "bytea[]": _NULLS, "boolean[]": _NULLS, "timestamp with time zone[]": _NULLS,
    "text": f"'{_WORD}'", "boolean": "true", "jsonb": "'{}'", "bytea": "sha256('7')",
    "timestamp with time zone": "now()", "interval": "'7 days'", "date": "current_date",
    **dict.fromkeys(("smallint", "integer", "bigint", "double precision", "numeric", "real"), "7"),
}  # fmt: skip
_NOW = _array(["now"] * _BATCH)
_RESULTS = (
    _IDS, _SEVENS, _SEVENS, _array(["delivered", "retry"] * (_BATCH // 2)), _SEVENS, _array(["x"] * _BATCH), _SEVENS,
    _NOW, *[_SEVENS] * 3, *[_NULLS] * 5, "'w'", _NULLS, _NULLS, "20", "300", _NULLS, _NULLS,
)  # fmt: skip
# Where one word is not what a statement can be asked with.
_OWN: dict[str, tuple[str, ...]] = {
    "outbox.low_water": (f"'{_WORD}'", _SHARDS, _IDS, "'1'", "7", "NULL"),
    "hold.place": (
        f"'{_WORD}'",
        "7",
        "7",
        *[_array([_WORD] * _BATCH)] * 2,
        _array(["new"] * _BATCH),
        _SHARDS,
        _IDS,
        *[_array(["x"] * _BATCH)] * 2,
        "7",
    ),
    "delivery.settle": _RESULTS,
    "delivery.release": (_IDS, _SEVENS, _SEVENS),
    "delivery.dead_letter_orphans": (_IDS, _SEVENS, _SEVENS, "'gone'"),
    "delivery.audience": (_array([_WORD]), _array([_WORD])),
    "pull.held": ("7", _IDS, _SEVENS),
    "pull.extend": ("7", _IDS, _SEVENS, "7"),
    "compat.unpark": ("'other'", _IDS),
    "mapped.left": (f"({_IDS})::text[]",),
    "mapped.purge": (f"'{_WORD}'", "1", "1", f"({_IDS})::text[]"),
    "mapped.purge_by_mark": (f"'{_WORD}'", "1", "1", f"({_IDS})::text[]"),
    "filter.test": ("'$.\"a\" == 1'", "'a'", "'a'", "now()", "'a'", "'{}'", "'{}'"),
}


_COMMAND = re.compile(r"^(?:ALTER|ANALYZE|BEGIN|CREATE|DROP|LOCK|ROLLBACK|VACUUM)\b", re.MULTILINE)  # is not planned


async def _planned(connection: asyncpg.Connection) -> dict[str, str]:
    """Every statement that can be prepared, with its plan made: what EXECUTE is to be given."""
    calls = {}
    mapped = {name: text for name, text in for_mapped(_MAPPING.parts("bigint")).items() if name.startswith("mapped.")}
    for number, (name, text) in enumerate({**for_outbox("public.compat"), **mapped}.items()):
        if _COMMAND.search(text):
            continue
        await connection.execute(f"PREPARE s{number} AS {text}")
        kinds = await connection.fetchval(
            "SELECT parameter_types::text[] FROM pg_prepared_statements WHERE name = $1", f"s{number}"
        )
        values = _OWN.get(name) or tuple(_VALUES.get(kind, f"NULL::{kind}") for kind in kinds)
        calls[name] = f"s{number}" + (f"({', '.join(values)})" if values else "")
        nothing = f"({', '.join(['NULL'] * len(values))})" if values else ""
        await connection.execute(f"EXPLAIN EXECUTE s{number}{nothing}")
    return calls


# --- what is looked at ---------------------------------------------------------------------------------------------


def _rows(node: dict[str, Any]) -> int:
    """Rows that a node and those below it took from tables, or looked at for nothing."""
    own = sum(count for what, count in node.items() if what.startswith("Rows Removed")) * node["Actual Loops"]
    if "Relation Name" in node and "Scan" in node["Node Type"]:
        own += node["Actual Rows"] * node["Actual Loops"]
    return int(own + sum(map(_rows, node.get("Plans", []))))


async def _looked_at(connection: asyncpg.Connection, call: str) -> tuple[int, int]:
    """Rows and pages; what it did is rolled back."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        [run] = json.loads(await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE {call}"))
    finally:
        await transaction.rollback()
    plan = run["Plan"]
    return _rows(plan), plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


# A batch of 500, each looked up a few times and written with its index entries.
_ROWS_MAX, _PAGES_MAX = 7_000, 30_000
# What takes records of a batch out of a backlog, again and again: it may not even read the backlog once.
_BATCHES = (
    "outbox.", "manifest.", "hold.", "delivery.", "compat.", "mapped.", "pull.", "ledger.fold_", "replay.step",
    "event.purge_",
)  # fmt: skip
# And these read what they are asked for: all keys that expire, a slice of all subscriptions, all deliveries of one.
_LONG = {
    "hold.list",
    "compat.mark_due",
    "mapped.claim_due",
    "event.purge_idempotency_keys",
    "delivery.fan_out_slice",
    "delivery.cancel_ended",
    "delivery.forget_former_audiences",
    "outbox.oldest",
}
# Run by hand or by the witness, over everything, because everything is what they are asked about.
_WHOLE = {
    "erasure.judge",  # asks each of 64 shards for each event
    "forgotten.judge",  # so does this one
    "erasure.end_deliveries",  # ends all deliveries of its events
    "erasure.erase",  # writes five tables with their indexes
    "layout.hash_owed",
    "witness.dead_letters",
    "witness.on_their_way",
    "compat.pump_owed",
}
# Those that a relay or a worker cannot do without must have been measured, whatever arguments others refuse.
_MEASURED = {
    "outbox.claim", "outbox.claim_heads", "outbox.low_water", "outbox.purge", "manifest.purge", "manifest.settle",
    "manifest.write", "hold.place", "hold.claim", "hold.purge", "hold.skip", "hold.dead_letter", "hold.rekey",
    "delivery.fan_out",
    "delivery.fan_out_slice", "delivery.claim", "delivery.settle", "delivery.events", "delivery.release",
    "delivery.dead_letter_orphans", "delivery.promote_heads", "delivery.due_subscriptions", "ledger.fold_events",
    "ledger.fold_entries", "replay.step", "retention.purge_events", "retention.purge_dead_letters",
    "event.purge_idempotency_keys", "compat.mark", "compat.mark_due", "compat.purge", "compat.reset", "compat.unpark",
    "mapped.claim", "mapped.purge",
    "pull.dequeue", "pull.held", "pull.extend", "rabbithub.dispatch", "rabbithub.take_back", "intent.drop_deliveries",
    "intent.expire", "intent.purge", "due.poll",
}  # fmt: skip


@pytest.fixture
async def sql(database_url_both: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url_both)
    await stop_autovacuum(connection)
    await connection.execute(for_outbox("public.compat")["compat.create_table"])
    await connection.execute("SET jit = off; SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan")
    yield connection
    await connection.close(timeout=60)


@pytest.mark.parametrize("state", _STATES)
async def test_no_statement_goes_through_a_backlog_on_the_plan_of_an_empty_table(
    sql: asyncpg.Connection, state: str
) -> None:
    """RU-05, RP-03, RR-07: neither the backlog times the batch, nor, where batches are taken out of it, the backlog."""
    for step in _STATES[state]:
        await sql.execute(step)
    calls = await _planned(sql)
    await sql.execute(_filled(_ROWS))

    found, refused = {}, set()
    for name in calls.keys() - _WHOLE:
        try:
            found[name] = await _looked_at(sql, calls[name])
        except (
            asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, asyncpg.CardinalityViolationError,
            asyncpg.UndefinedObjectError, asyncpg.UnknownPostgresError,
        ):  # fmt: skip
            refused.add(name)
    assert refused & _MEASURED == set()
    dear = {
        name: (rows, pages)
        for name, (rows, pages) in found.items()
        if rows > 8 * _ROWS
        or pages > 3 * _ROWS
        or (name.startswith(_BATCHES) and name not in _LONG and (rows > _ROWS_MAX or pages > _PAGES_MAX))
    }
    assert dear == {}

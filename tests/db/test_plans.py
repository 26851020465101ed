"""Hot statements keep using their indexes: new, with 10^5 or 10^6 rows, with as many dead ones (RP-03, RR-07).

A plan is asked for as the pool may run it: custom for the given values, and generic as after many runs.
"""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import asyncpg
import pytest

from db.statements import STATEMENTS
from tests.db.catalog import stop_autovacuum

ROWS = 100_000
SUBSCRIPTIONS = 20_000
SHARDS = list(range(64))
_PAGES_MAX = 600  # of 64 shards, each a walk down the index, with room for the schema's own
GROWING = (
    "events", "outbox", "held", "deliveries", "attempts", "dead_letters", "idempotency_keys", "subscriptions",
    "intents",
)  # fmt: skip


def fill(rows: int) -> str:
    """So many events, owed to two sinks and one subscription each."""
    return f"""
SELECT setval('hookwire.event_id', {rows});
INSERT INTO hookwire.relay_terms (sink, grp, term) SELECT sink, 0, 1 FROM unnest('{{webhooks,kafka}}'::text[]) AS sink;
INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state)
    SELECT 'sub_' || n, 'webhook', 't' || n, 'https://a.example/', 'active' FROM generate_series(1, {SUBSCRIPTIONS}) n;
INSERT INTO hookwire.events (id, accepted_at, ordered, tenant, topic, key, headers, sinks, payload)
    SELECT n, now(), true, 'default', 't' || n % {SUBSCRIPTIONS}, 'k', '{{}}', '{{webhooks,kafka}}', 'payload'
    FROM generate_series(1, {rows}) n;
INSERT INTO hookwire.outbox (id, layout, shard, sink)
    SELECT n, 1, n % 64, sink FROM generate_series(1, {rows}) n, unnest('{{webhooks,kafka}}'::text[]) AS sink;
INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant, lane)
    SELECT n, 1 + n % {SUBSCRIPTIONS}, now(), now(), 'default', CASE WHEN n % 2 = 0 THEN 'k' END
    FROM generate_series(1, {rows}) n;
"""


def ledger(rows: int) -> str:
    """What they leave when they are sent, and as many dead letters."""
    return f"""
INSERT INTO hookwire.ledger_entries (sink, outcome, ids)
    SELECT 'kafka', 'sent', array_agg(n) FROM generate_series(1, {rows}) n GROUP BY n / 1000;
INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts)
    SELECT n, 1 + n % {SUBSCRIPTIONS}, 'default', 'exhausted', 10 FROM generate_series(1, {rows}) n;
UPDATE hookwire.ledger_cursor SET mark_id = {rows}, mark_at = now(), mark_xid = pg_current_xact_id();
"""


_MODES = ("custom", "generic")
_DRAIN = "DELETE FROM hookwire.outbox; DELETE FROM hookwire.deliveries"

# Two results: one delivered, one to be retried.
_SETTLED = (
    [1, 2], [2, 3], [1, 1], ["delivered", "retry"], [0.0, 5.0], ["delivered", "server_error"], [204, 500],
    ["now", "now"], [0.1, 0.1], [0.1, 0.1], [0.1, 0.1], ["NULL"] * 2, ["NULL"] * 2, ["NULL"] * 2, ["NULL"] * 2,
    ["NULL"] * 2, "w1", ["NULL"] * 2, ["true", "false"], 20, 300.0, ["NULL", 7], [0.2, "NULL"],
)  # fmt: skip

# name, arguments
HOT: list[tuple[str, tuple[object, ...]]] = [
    ("outbox.claim", ("kafka", SHARDS, [1] * 64, [5, 6, 7], 40, 0, 1, 500, 1_000_000, None)),
    ("outbox.claim_heads", ("webhooks", SHARDS, [1] * 64, [5, 6, 7], 40, 0, 1, 500, None)),
    ("outbox.low_water", ("kafka", SHARDS, [1] * 64, "1", ROWS, None)),
    ("outbox.purge", ("kafka", [n % 64 for n in range(1, 501)], list(range(1, 501)), None)),
    ("manifest.purge", ("kafka", [n % 64 for n in range(1, 501)], list(range(1, 501)), 0, 1, 1, None)),
    (
        "manifest.write",
        ("kafka", 0, 1, [1], [1], 1, None, [n % 64 for n in range(1, 501)], list(range(1, 501)), [1], 1),
    ),
    ("delivery.fan_out", (0, 1, [n % 64 for n in range(1, 501)], list(range(1, 501)))),
    ("delivery.claim", (list(range(1, 33)), [16] * 32, 15.0, 5.0, None)),
    ("delivery.due_subscriptions", ()),
    ("delivery.promote_heads", ()),
    ("delivery.settle", _SETTLED),
    ("delivery.events", (list(range(1, 33)), 1_000_000)),
    ("delivery.ended_subscriptions", ()),
    ("delivery.release", ([1, 2], [2, 3], [1, 1])),
    ("ledger.fold_events", (20_000,)),
    ("ledger.fold_entries", (20, 0)),
    ("rollup.fold", (100, "now")),
    ("replay.step", (500, 0.1)),
    ("replay.unsent", (list(range(1, 51)), [n % 64 for n in range(50)])),
    ("gold.backlog_page", (0, 0, 500)),
    ("event.latest", ("default", "t7")),
    ("event.get", ("default", 7)),
    ("due.poll", ()),
]


@pytest.fixture
async def sql(database_url_both: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url_both)
    await stop_autovacuum(connection)
    await connection.execute("SET jit = off")
    yield connection
    await connection.close(timeout=60)


def literal(value: object) -> str:
    if isinstance(value, list):
        return "'{" + ",".join(map(str, value)) + "}'"
    return f"'{value}'" if isinstance(value, str) else "NULL" if value is None else str(value)


async def reads(connection: asyncpg.Connection, name: str, arguments: Sequence[object], mode: str) -> list[str]:
    """The growing tables that the plan reads from end to end, by themselves or along an index without a condition."""
    await connection.execute(f"SET plan_cache_mode = force_{mode}_plan; PREPARE hot AS {STATEMENTS[name]}")
    try:
        values = f"({', '.join(map(literal, arguments))})" if arguments else ""
        plan = json.loads(await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE hot{values}"))
    finally:
        await connection.execute("DEALLOCATE hot")
    found: list[str] = []

    def walk(node: dict[str, Any], limited: bool) -> None:
        relation, kind = node.get("Relation Name", ""), node["Node Type"]
        along_an_index = kind in ("Index Scan", "Index Only Scan") and "Index Cond" not in node and not limited
        if relation.startswith(GROWING) and (kind == "Seq Scan" or along_an_index):
            found.append(f"{relation} by {kind}")
        for child in node.get("Plans", []):
            walk(child, kind == "Limit")

    walk(plan[0]["Plan"], False)
    return found


async def all_reads(connection: asyncpg.Connection) -> dict[tuple[str, str], list[str]]:
    found = {
        (name, mode): await reads_of_filled(connection, name, arguments, mode)
        for name, arguments in HOT
        for mode in _MODES
    }
    return {which: relations for which, relations in found.items() if relations}


async def reads_of_filled(
    connection: asyncpg.Connection, name: str, arguments: Sequence[object], mode: str
) -> list[str]:
    """Of tables that hold anything: to read an empty one from end to end is cheap and the planner knows it."""
    sizes = dict(
        await connection.fetch("SELECT oid::regclass::text, pg_relation_size(oid) FROM pg_class WHERE relkind = 'r'")
    )
    found = await reads(connection, name, arguments, mode)
    return [read for read in found if sizes["hookwire." + read.partition(" ")[0]] > 0]


async def test_no_hot_statement_reads_a_whole_table(sql: asyncpg.Connection) -> None:
    """RP-03, RP-11."""
    assert await read_whole(sql, ROWS) == {}


async def read_whole(sql: asyncpg.Connection, rows: int) -> dict[str, object]:
    """What is read from end to end while the tables are new, filled, and drained again."""
    found = {"new": await all_reads(sql)}
    await sql.execute(fill(rows))
    await sql.execute(ledger(rows))
    found["filled, not yet analysed"] = await all_reads(sql)
    await sql.execute("VACUUM ANALYZE")
    found["filled"] = await all_reads(sql)
    await sql.execute(_DRAIN)
    found["drained, not yet vacuumed"] = await all_reads(sql)
    return {state: wrong for state, wrong in found.items() if wrong}


async def test_purged_records_that_a_snapshot_keeps_cost_a_claim_nothing(
    sql: asyncpg.Connection, database_url_both: str
) -> None:
    """RR-07, RP-03, RP-11: from the low-water marks on, dead rows are not looked at, however many there are."""
    assert await dear_claims(sql, database_url_both, 10_000) == {}


async def dear_claims(sql: asyncpg.Connection, url: str, rows: int) -> dict[str, int]:
    """Which statements look at many pages after so many records were purged under an old snapshot."""
    await sql.execute(fill(rows))
    reader = await asyncpg.connect(url)
    await reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM hookwire.outbox")
    await sql.execute("DELETE FROM hookwire.outbox; SET enable_seqscan = off")
    low = [rows + 1] * 64
    found = {
        name: await pages(sql, name, arguments)
        for name, arguments in (
            ("outbox.claim", ("kafka", SHARDS, low, [], 64, 0, 1, 500, 1_000_000, None)),
            ("outbox.claim_heads", ("webhooks", SHARDS, low, [], 64, 0, 1, 500, None)),
            ("outbox.low_water", ("kafka", SHARDS, low, "1", rows + 1, None)),
        )
    }
    await reader.close()
    return {name: count for name, count in found.items() if count > _PAGES_MAX}


async def pages(connection: asyncpg.Connection, name: str, arguments: Sequence[object]) -> int:
    """How many pages a statement looks at when it runs."""
    await connection.execute(f"PREPARE hot AS {STATEMENTS[name]}")
    values = ", ".join(map(literal, arguments))
    [plan] = json.loads(await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE hot({values})"))
    await connection.execute("DEALLOCATE hot")
    return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])


# --- a result finds its delivery ------------------------------------------------------------------------------------

# Few moments at which deliveries are due: PostgreSQL 18 can skip through them in an index that has the event last.
_DUE_TOGETHER = f"""
INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant)
    SELECT n, s, now() + make_interval(secs => n / 3000), now(), 'default'
    FROM generate_series(1, {ROWS // 10}) n, generate_series(1, 10) s
"""


@pytest.mark.parametrize("name", ["delivery.settle", "delivery.release"])
async def test_a_result_finds_its_delivery_by_the_key_alone(sql: asyncpg.Connection, name: str) -> None:
    """RR-07: a plan that skips through all moments at which a subscription is due costs as many searches a result."""
    await sql.execute(_DUE_TOGETHER)
    await sql.execute("VACUUM ANALYZE hookwire.deliveries")
    await sql.execute(f"SET plan_cache_mode = force_generic_plan; PREPARE hot AS {STATEMENTS[name]}")
    values = ", ".join(map(literal, dict(HOT)[name]))
    [plan] = json.loads(await sql.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE hot({values})"))
    assert _indexes_by_event(plan["Plan"]) == {"deliveries_pkey"}


def _indexes_by_event(node: dict[str, Any]) -> set[str]:
    """The indexes in which the plan looks for an event, except in a lane."""
    condition = node.get("Index Cond", "")
    found = {node["Index Name"]} if "event_id" in condition and "lane" not in condition else set()
    return found.union(*(_indexes_by_event(child) for child in node.get("Plans", [])))


# --- what the hub looks for again and again -----------------------------------------------------------------------

# 20,000 leases, none of them over, and as many topics of others, none of them pinged.
_LEASES = f"""
INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state, lease_until, identity, permanent)
    SELECT 'sub_' || n, CASE WHEN n % 4 = 0 THEN 'rabbithub' ELSE 'websub' END, 't', 'https://a.example/', 'active',
           now() + interval '9 days', sha256(n::text::bytea), n % 8 = 1
    FROM generate_series(1, {SUBSCRIPTIONS}) n;
INSERT INTO hookwire.foreign_topics (topic, url)
    SELECT 't' || n, 'http://t/' FROM generate_series(1, {SUBSCRIPTIONS}) n;
INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant)
    SELECT n, 1 + n % {SUBSCRIPTIONS}, now(), now(), 'default' FROM generate_series(1, {ROWS}) n;
INSERT INTO hookwire.attempts (event_id, subscription_id, started_at, number, total_seconds, tenant, outcome, decision,
                               trigger, worker)
    SELECT n, n, now(), 1, 0.1, 'default', 'timeout', 'retry', 'first', 'w' FROM generate_series(1, {SUBSCRIPTIONS}) n;
INSERT INTO hookwire.intents (mode, topic, topic_url, callback, callback_host, identity, lease_seconds,
                              signature_method, due_at, state, decided_at)
    SELECT 'subscribe', 't', 'http://t/', 'http://c/', 'c', sha256(n::text::bytea), 1, 'sha256', now(), 'verified',
           now()
    FROM generate_series(1, {SUBSCRIPTIONS}) n;
"""
_SWEPT: list[tuple[str, tuple[object, ...]]] = [
    ("intent.purge", (5_000,)),
    ("intent.pair", ("default", "\\\\x00", "t")),
    ("pull.expire_idle", ()),
    ("due.poll", ()),
    ("intent.expire", (5_000,)),
    ("intent.permanent", (500, 86_400)),
    ("intent.drop_deliveries", (5_000,)),
    ("foreign.claim", (16, 40.0, True)),
    ("upstream.claim", (1, 70.0)),
    ("rabbithub.expire", ()),
    ("rabbithub.dispatch", ()),
    ("rabbithub.take_back", ()),
    ("rabbithub.move_bound", ()),
    ("rabbithub.expiring", (172_800.0,)),
    ("rabbithub.count_error", (7, "answered 500", 3, 60.0)),
    ("diagnosis.requests", ("default", "\\\\x00", 10)),
    ("diagnosis.subscription", ("default", "sub_7")),
    ("diagnosis.attempts", (7, 10)),
    ("diagnosis.owed", (7, 10)),
]


@pytest.mark.parametrize("mode", _MODES)
async def test_no_sweep_reads_what_is_not_due(sql: asyncpg.Connection, mode: str) -> None:
    """WS-48, PS-09, RH-27, RH-28: a sweep costs what is due, not what there is."""
    await sql.execute(_LEASES)
    await sql.execute("VACUUM ANALYZE")

    found = {name: await reads_of_filled(sql, name, arguments, mode) for name, arguments in _SWEPT}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize("mode", _MODES)
async def test_a_claim_of_verifications_reads_open_requests_only(sql: asyncpg.Connection, mode: str) -> None:
    """WS-101: 20,000 decided ones cost nothing."""
    await sql.execute(_LEASES)
    await sql.execute("VACUUM ANALYZE")

    read = set(await reads_of_filled(sql, "intent.claim", (32, 20.0, 32), mode))
    assert read <= {"intents by Index Scan", "subscriptions by Index Only Scan", "subscriptions by Index Scan"}
    claim = STATEMENTS["intent.claim"].replace("$1", "32").replace("$2", "20").replace("$3", "32")
    explained = f"EXPLAIN (ANALYZE, COSTS OFF) {claim}"
    plan = "\n".join(row[0] for row in await sql.fetch(explained))
    assert "Rows Removed" not in plan, plan


# --- lists with filters --------------------------------------------------------------------------------------------

_LAST = 2**63 - 1
_FILTERED: list[tuple[str, tuple[object, ...]]] = [
    ("delivery.list", ("default", 7, None, None, _LAST, _LAST, 51, 0, None, None, 0)),
    ("delivery.list", ("default", None, 7, None, _LAST, _LAST, 51, 0, None, None, 0)),
    *(
        ("delivery.list", ("default", None, None, state, _LAST, _LAST, 51, 0, None, None, 0))
        for state in ("pending", "parked", "sending", "retrying", "dead")
    ),
    ("dead_letter.page", ("default", None, 7, None, _LAST, _LAST, "webhooks", 51, 0, None)),
    ("dead_letter.page", ("default", None, None, None, _LAST, _LAST, "webhooks", 51, 0, 7)),
]


async def test_no_filtered_list_reads_past_what_it_shows(sql: asyncpg.Connection) -> None:
    """As Database.fetch_filtered has them planned: an index finds what the filter names."""
    await sql.execute("SET enable_seqscan = off")  # as the pool does
    await sql.execute(fill(ROWS))
    await sql.execute(ledger(ROWS))
    await sql.execute("VACUUM ANALYZE")
    found = [await examined(sql, name, arguments, "custom", GROWING) for name, arguments in _FILTERED]
    assert max(found) <= _READ_MAX


# --- statistics that are far behind -----------------------------------------------------------------------------

# Analysed when three rows were left, as after a drain; a crash resets the counters that would bring autovacuum back.
_ALMOST_EMPTY = """
INSERT INTO hookwire.relay_terms (sink, grp, term) VALUES ('webhooks', 0, 1);
INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state, ordered)
    SELECT 'sub_' || n, 'webhook', 't', 'https://a.example/', 'active', true FROM generate_series(1, 4) n;
INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant, lane)
    SELECT n, n, now(), now(), 'default', 'k' || n FROM generate_series(1, 3) n;
"""
# Of each subscription eight heads of lanes that are due, and what waits behind them.
_WAITING = """
DELETE FROM hookwire.deliveries;
INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant, lane, fence)
    SELECT n, s, CASE WHEN n <= 8 THEN now() ELSE 'infinity' END, now(), 'default', 'k' || n % 8,
           CASE WHEN n <= 2 THEN 1 END
    FROM generate_series(1, 5000) n, generate_series(1, 4) s;
"""
_READ_MAX = 600


async def examined(
    connection: asyncpg.Connection,
    name: str,
    arguments: Sequence[object],
    mode: str,
    tables: tuple[str, ...] = ("deliveries",),
) -> int:
    """How many rows of these tables the statement looks at when it runs; what it did is rolled back."""
    values = f"({', '.join(map(literal, arguments))})" if arguments else ""
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(f"SET LOCAL plan_cache_mode = force_{mode}_plan; PREPARE hot AS {STATEMENTS[name]}")
    plan = json.loads(await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE hot{values}"))
    await connection.execute("DEALLOCATE hot")
    await transaction.rollback()

    def rows(node: dict[str, Any]) -> int:
        own = 0
        if node.get("Relation Name", "").startswith(tables) and "Scan" in node["Node Type"]:
            own = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        return own + sum(map(rows, node.get("Plans", [])))

    return rows(plan[0]["Plan"])


async def test_what_waits_behind_heads_is_not_read_when_statistics_know_an_almost_empty_table(
    sql: asyncpg.Connection,
) -> None:
    """After a crash the claim took 2.4 s instead of milliseconds (RP-03, F11)."""
    await sql.execute("SET enable_seqscan = off")  # as the pool does
    await sql.execute(_ALMOST_EMPTY)
    await sql.execute("VACUUM ANALYZE hookwire.deliveries")
    await sql.execute(_WAITING)
    waking = [
        ("delivery.claim", ([1, 2, 3, 4], [16] * 4, 15.0, 5.0, None)),
        ("delivery.settle", _SETTLED),
        ("delivery.promote_heads", ()),
    ]
    found = {(name, mode): await examined(sql, name, arguments, mode) for name, arguments in waking for mode in _MODES}
    assert {which: count for which, count in found.items() if count > _READ_MAX} == {}


async def test_a_claim_reads_the_events_it_claims_and_none_that_are_kept_from_before(sql: asyncpg.Connection) -> None:
    """RP-03: merged with the events, claims of 2,000 read all 20,000 that lay before them, each time."""
    await sql.execute("SET enable_seqscan = off")  # as the pool does
    await sql.execute(fill(22_000))
    await sql.execute("VACUUM ANALYZE")
    await sql.execute("DELETE FROM hookwire.outbox WHERE id <= 20000")
    claims: list[tuple[str, tuple[object, ...]]] = [
        ("outbox.claim", ("kafka", SHARDS, [1] * 64, [], 64, 0, 1, 2_000, 10_000_000, None)),
        ("outbox.claim_heads", ("webhooks", SHARDS, [1] * 64, [], 64, 0, 1, 2_000, None)),
    ]
    for name, arguments in claims:
        for mode in _MODES:
            assert await examined(sql, name, arguments, mode, ("events",)) == 2_000, (name, mode)

"""`hookwire.publish`, `publish_batch`: the one place that knows stripes, shards and routing (RR-03, RR-04, RR-12)."""

import asyncio
import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Sequence

import asyncpg
import pytest

from db.statements import STATEMENTS
from event.key_hash import hash_key
from tests.rolled_back import ON_THE_LOOP_OF_THE_FILE

Outcome = tuple[int, str]


@pytest.fixture
async def sql(database_url_both: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url_both)
    yield connection
    await connection.close(timeout=60)


@pytest.fixture
async def other(sql: asyncpg.Connection, database_url_both: str) -> AsyncIterator[asyncpg.Connection]:
    """A second session."""
    connection = await asyncpg.connect(database_url_both)
    yield connection
    await connection.close(timeout=60)


async def stored(connection: asyncpg.Connection) -> list[tuple[object, ...]]:
    rows = await connection.fetch("SELECT topic, key, content_type, headers, payload FROM hookwire.events ORDER BY id")
    return [(r["topic"], r["key"], r["content_type"], json.loads(r["headers"]), r["payload"]) for r in rows]


async def publish_batch(
    connection: asyncpg.Connection,
    drafts: Sequence[tuple[int, str, str | None]],
    idempotency: Sequence[tuple[str, bytes] | None] = (),
    *,
    wait: bool = False,
) -> list[Outcome]:
    """Publishes (unit, topic, key) drafts; gives (item, outcome) in the order of the items."""
    given = list(idempotency) or [None] * len(drafts)
    rows = await connection.fetch(
        STATEMENTS["event.publish_batch"],
        "default",
        [unit for unit, _, _ in drafts],
        [topic for _, topic, _ in drafts],
        [key for _, _, key in drafts],
        ["text/plain"] * len(drafts),
        ["{}"] * len(drafts),
        [b"x"] * len(drafts),
        [known[0] if known else None for known in given],
        [known[1] if known else None for known in given],
        wait,
        None,
    )
    return sorted((row["item"], row["outcome"]) for row in rows)


# --- the three forms of publish ---------------------------------------------------------------------------------


@ON_THE_LOOP_OF_THE_FILE
@pytest.mark.parametrize(
    ("call", "row"),
    [
        ("publish('t', '\\x00ff'::bytea)", ("t", None, None, {}, b"\x00\xff")),
        ("publish('t', ''::bytea)", ("t", None, None, {}, b"")),
        ("publish('t', 'gr\u00fc\u00dfe')", ("t", None, "text/plain; charset=utf-8", {}, "gr\u00fc\u00dfe".encode())),
        ("publish('t', '{\"b\": 1}'::jsonb)", ("t", None, "application/json", {}, b'{"b": 1}')),
        (
            "publish('a.b', 'x'::bytea, key => 'k', content_type => 'a/b', headers => '{\"ce-type\": \"y\"}')",
            ("a.b", "k", "a/b", {"ce-type": "y"}, b"x"),
        ),
    ],
    ids=["bytes", "empty", "text", "jsonb", "everything named"],
)
async def test_publish_stores_the_payload_as_it_is_given(
    rolled_back: asyncpg.Connection, call: str, row: tuple[object, ...]
) -> None:
    """RL-23."""
    await rolled_back.execute(f"SELECT hookwire.{call}")
    assert await stored(rolled_back) == [row]


async def test_publish_returns_the_public_id(sql: asyncpg.Connection) -> None:
    public_id = await sql.fetchval("SELECT hookwire.publish('t', 'x')")
    incarnation = await sql.fetchval("SELECT incarnation FROM hookwire.installation")
    assert public_id == f"evt_{incarnation}_{await sql.fetchval('SELECT id FROM hookwire.events')}"


async def test_a_rollback_leaves_nothing(sql: asyncpg.Connection) -> None:
    transaction = sql.transaction()
    await transaction.start()
    await sql.execute("SELECT hookwire.publish('t', 'x', key => 'k')")
    await transaction.rollback()
    assert await sql.fetchrow(
        "SELECT (SELECT count(*) FROM hookwire.events), (SELECT count(*) FROM hookwire.outbox)"
    ) == (
        0,
        0,
    )


async def test_a_role_may_publish_without_seeing_a_table(sql: asyncpg.Connection) -> None:
    role = f"publisher_{secrets.token_hex(4)}"
    await sql.execute(f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA hookwire TO {role}; SET ROLE {role}")
    try:
        await sql.execute("SELECT hookwire.publish('t', 'x', key => 'k')")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await sql.fetch("SELECT * FROM hookwire.events")
    finally:
        await sql.execute(f"RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}")
    assert len(await stored(sql)) == 1


# --- what is refused --------------------------------------------------------------------------------------------


@ON_THE_LOOP_OF_THE_FILE
@pytest.mark.parametrize(
    "topic", ["", ".", "a..b", ".a", "a.", "a b", "a/b", "a\n", "#", "gr\u00fc\u00dfe", "x" * 250], ids=ascii
)
async def test_an_invalid_topic_is_refused(rolled_back: asyncpg.Connection, topic: str) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match=r"hookwire\.publish: invalid topic"):
        await rolled_back.execute("SELECT hookwire.publish($1, 'x'::text)", topic)


@ON_THE_LOOP_OF_THE_FILE
@pytest.mark.parametrize(
    "key",
    ["", "x" * 1025, "\u00fc" * 513, "a\r\nb", "\x1f7"],
    ids=["empty", "long", "long in bytes", "lines", "control"],
)
async def test_an_invalid_key_is_refused(rolled_back: asyncpg.Connection, key: str) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match=r"invalid key: 1-1024 bytes without control"):
        await rolled_back.execute("SELECT hookwire.publish('t', 'x'::text, key => $1)", key)


@ON_THE_LOOP_OF_THE_FILE
@pytest.mark.parametrize(
    "headers",
    ["[]", '"a"', '{"A": "b"}', '{"a b": "c"}', '{"a": 1}', '{"a": null}', '{"a": "b\\r\\nc: d"}', '{"": "a"}'],
)
async def test_headers_that_no_carrier_could_hold_are_refused(rolled_back: asyncpg.Connection, headers: str) -> None:
    """RL-23."""
    with pytest.raises(asyncpg.InvalidParameterValueError, match="headers must be a JSON object of lower-case names"):
        await rolled_back.execute("SELECT hookwire.publish('t', 'x'::text, headers => $1)", headers)


@ON_THE_LOOP_OF_THE_FILE
@pytest.mark.parametrize(
    ("headers", "wrong"),
    [
        ({"x-a": "a" * 16_384}, "the headers have 16395 bytes as JSON, at most 16384 are accepted"),
        ({"x-a": "\u00e9" * 8_190}, "the headers have 16391 bytes as JSON, at most 16384 are accepted"),
        ({f"x-{n}": "" for n in range(65)}, "there are more than 64 headers"),
        ({"hookwire-link": "<http://a.example/>; rel=hub"}, "the header hookwire-link is the hub's own; leave it out"),
        ({"hookwire-message-id-header": "x-hub-signature"}, "the header hookwire-message-id-header is the hub's own"),
        ({"hookwire-hops": "0"}, "the header hookwire-hops is the hub's own"),
        ({"hookwire-ttl": "0"}, "the header hookwire-ttl is a number of seconds, 1 to 31536000"),
        ({"hookwire-ttl": "1e3"}, "the header hookwire-ttl is a number of seconds, 1 to 31536000"),
        ({"hookwire-ttl": "31536001"}, "the header hookwire-ttl is a number of seconds, 1 to 31536000"),
        ({"hookwire-retry": "always"}, "the header hookwire-retry is never, or left out"),
        ({"content-encoding": "gzip"}, "the header content-encoding would change the body for subscribers"),
        ({"authorization": "Bearer x"}, "the header authorization would be sent to every subscriber"),
        ({"cookie": "a"}, "the header cookie would be sent to every subscriber"),
        ({"proxy-authorization": "a"}, "the header proxy-authorization would be sent to every subscriber"),
        ({"x-forwarded-for": "10.0.0.1"}, "the header x-forwarded-for would be sent to every subscriber"),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else "",
)
async def test_headers_that_no_stranger_may_send_are_refused(
    rolled_back: asyncpg.Connection, headers: dict[str, str], wrong: str
) -> None:
    """FS-03: sixty MiB of headers made the hub run out of memory, again and again. FS-13: forged signatures."""
    with pytest.raises(asyncpg.InvalidParameterValueError, match=f"^hookwire.publish: {wrong}"):
        await rolled_back.execute("SELECT hookwire.publish('t', 'x'::text, headers => $1)", json.dumps(headers))


@ON_THE_LOOP_OF_THE_FILE
@pytest.mark.parametrize(
    "headers",
    [
        {"x-a": "a" * (16_384 - 11)},
        {f"x-{n}": "" for n in range(64)},
        {"hookwire-ttl": "31536000", "hookwire-retry": "never", "ce-type": "y", "traceparent": "00-1"},
    ],
    ids=["bytes", "names", "ours"],
)
async def test_headers_at_the_limits_are_stored(rolled_back: asyncpg.Connection, headers: dict[str, str]) -> None:
    """FS-03, FS-13."""
    await rolled_back.execute("SELECT hookwire.publish('t', 'x'::text, headers => $1)", json.dumps(headers))
    assert [row[3] for row in await stored(rolled_back)] == [headers]


@ON_THE_LOOP_OF_THE_FILE
@pytest.mark.parametrize("content_type", ["a\r\nb", "x" * 256], ids=["two lines", "long"])
async def test_an_invalid_content_type_is_refused(rolled_back: asyncpg.Connection, content_type: str) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match="content_type must be one line of at most 255 bytes"):
        await rolled_back.execute("SELECT hookwire.publish('t', 'x'::text, content_type => $1)", content_type)


async def test_a_payload_is_needed_and_has_a_limit(sql: asyncpg.Connection) -> None:
    await sql.execute("UPDATE hookwire.installation SET payload_bytes_max = 3")
    await sql.execute("SELECT hookwire.publish('t', 'xxx'::bytea)")
    for payload in (b"xxxx", None):
        with pytest.raises(asyncpg.InvalidParameterValueError, match=r"payload (is )?missing"):
            await sql.execute("SELECT hookwire.publish('t', $1::bytea)", payload)


async def test_an_unknown_topic_is_refused_when_topics_are_not_made_by_publishing(sql: asyncpg.Connection) -> None:
    await sql.execute("UPDATE hookwire.installation SET topics_auto_create = false")
    await sql.execute("INSERT INTO hookwire.topics (name) VALUES ('known')")
    await sql.execute("SELECT hookwire.publish('known', 'x')")
    with pytest.raises(asyncpg.UndefinedObjectError, match="unknown topic 'unknown'"):
        await sql.execute("SELECT hookwire.publish('unknown', 'x')")


# --- routing ----------------------------------------------------------------------------------------------------


async def test_one_row_is_owed_to_each_sink_that_the_topic_routes_to(sql: asyncpg.Connection) -> None:
    """RP-09."""
    await sql.execute("UPDATE hookwire.sinks SET configured = name IN ('webhooks', 'amqp')")
    await sql.execute("INSERT INTO hookwire.topics (name, sinks) VALUES ('one', '{kafka}'), ('none', '{}')")
    await publish_batch(sql, [(1, "default", None), (2, "one", None), (3, "none", None)])
    owed = await sql.fetch(
        "SELECT e.topic, array_agg(o.sink ORDER BY o.sink) FILTER (WHERE o.sink IS NOT NULL) AS sinks "
        "FROM hookwire.events e LEFT JOIN hookwire.outbox o USING (id) GROUP BY e.id ORDER BY e.id"
    )
    assert [tuple(row) for row in owed] == [("default", ["amqp", "webhooks"]), ("one", ["kafka"]), ("none", None)]


async def test_what_the_hub_says_of_jobs_and_services_goes_to_no_broker_by_itself(sql: asyncpg.Connection) -> None:
    """The sink `jobs` is never part of the default routing, and brokers are none of these topics'."""
    await sql.execute(
        "UPDATE hookwire.sinks SET configured = true;"
        "INSERT INTO hookwire.topics (name, sinks, job) VALUES"
        """ ('hookwire.job.told', '{kafka}', NULL), ('ruled', '{jobs,kafka}', '{"kind": "k"}')"""
    )
    topics = [
        "hookwire.job.done", "hookwire.service", "hookwire.job.told", "hookwire.jobs", "hookwire.operator", "t",
        "ruled",
    ]  # fmt: skip
    await publish_batch(sql, [(number, topic, None) for number, topic in enumerate(topics)])
    routed = await sql.fetch("SELECT topic, sinks FROM hookwire.events ORDER BY id")
    everywhere = ["amqp", "kafka", "webhooks"]
    assert [tuple(row) for row in routed] == [
        ("hookwire.job.done", ["webhooks"]), ("hookwire.service", ["webhooks"]),
        ("hookwire.job.told", ["kafka"]), ("hookwire.jobs", everywhere),
        ("hookwire.operator", everywhere), ("t", everywhere), ("ruled", ["jobs", "kafka"]),
    ]  # fmt: skip


async def test_a_key_decides_the_shard_and_without_one_the_id_does(sql: asyncpg.Connection) -> None:
    await sql.execute("INSERT INTO hookwire.topics (name, ordered) VALUES ('loose', false)")
    await publish_batch(sql, [(1, "t", "k"), (2, "t", None), (3, "loose", "k")])
    rows = await sql.fetch(
        "SELECT e.ordered, o.shard, e.id & 63 AS of_id, "
        "hookwire.shard_of(hookwire.key_digest(e.topic, e.key)) AS of_key "
        "FROM hookwire.events e JOIN hookwire.outbox o USING (id) ORDER BY e.id"
    )
    assert [(r["ordered"], r["shard"]) for r in rows] == [
        (True, rows[0]["of_key"]),
        (True, rows[1]["of_id"]),
        (False, rows[2]["of_id"]),
    ]


# --- stripes (RR-03) --------------------------------------------------------------------------------------------


async def test_a_key_is_locked_until_the_transaction_ends(sql: asyncpg.Connection, other: asyncpg.Connection) -> None:
    """RL-03, RO-02: so a key's ids become visible in their own order."""
    await other.execute("SET lock_timeout = '100ms'")
    async with sql.transaction():
        await sql.execute("SELECT hookwire.publish('t', '1', key => 'k')")
        with pytest.raises(asyncpg.LockNotAvailableError):
            await other.execute("SELECT hookwire.publish('t', '2', key => 'k')")
        await other.execute("SELECT hookwire.publish('t', '3', key => 'another')")
        await other.execute("SELECT hookwire.publish('t', '4')")
    await other.execute("SELECT hookwire.publish('t', '5', key => 'k')")
    assert [row[4] for row in await stored(sql)] == [b"1", b"3", b"4", b"5"]


async def test_a_topic_without_order_locks_nothing(sql: asyncpg.Connection, other: asyncpg.Connection) -> None:
    """RO-02e."""
    await sql.execute("INSERT INTO hookwire.topics (name, ordered) VALUES ('loose', false)")
    async with sql.transaction():
        await sql.execute("SELECT hookwire.publish('loose', '1', key => 'k')")
        assert await publish_batch(other, [(1, "loose", "k")]) == [(1, "stored")]


async def test_a_shared_commit_leaves_out_the_units_whose_key_is_held(
    sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    """A unit is stored whole or not at all: unit 2's second event waits with its first."""
    async with other.transaction():
        await other.execute("SELECT hookwire.publish('t', 'x', key => 'held')")
        outcomes = await publish_batch(sql, [(1, "t", "free"), (2, "t", "held"), (2, "t", "free"), (3, "t", None)])
    assert outcomes == [(1, "stored"), (2, "busy"), (3, "busy"), (4, "stored")]


async def test_a_waiting_publish_goes_on_when_the_key_is_free(
    sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    async with other.transaction():
        await other.execute("SELECT hookwire.publish('t', 'first', key => 'k')")
        waiting = asyncio.ensure_future(publish_batch(sql, [(1, "t", "k")], wait=True))
        await asyncio.wait([waiting], timeout=0.2)
        assert not waiting.done()
    assert await waiting == [(1, "stored")]


async def test_stripes_are_taken_in_their_own_order_whatever_order_the_keys_come_in(
    sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    """RO-02d: who waits for the lower one holds nothing yet that somebody else could want; else this is a deadlock."""
    low, high = sorted(("a", "b"), key=lambda key: hash_key("t", key).stripe)
    async with other.transaction():
        await other.execute("SELECT hookwire.publish('t', 'x'::text, key => $1)", low)
        waiting = asyncio.ensure_future(publish_batch(sql, [(1, "t", high), (1, "t", low)], wait=True))
        await asyncio.wait([waiting], timeout=0.2)
        await other.execute("SELECT hookwire.publish('t', 'x'::text, key => $1)", high)
    assert await waiting == [(1, "stored"), (2, "stored")]


async def test_a_bulk_transaction_holds_no_more_locks_than_there_are_stripes(sql: asyncpg.Connection) -> None:
    """RO-02c: with a lock for each key, 20,000 of them exhausted the server's table of locks."""
    async with sql.transaction():
        outcomes = await publish_batch(sql, [(n, "t", f"key {n}") for n in range(3_000)])
        held = await sql.fetchval(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
        )
    assert ({outcome for _, outcome in outcomes}, len(outcomes), held <= 1_024) == ({"stored"}, 3_000, True)


async def test_publishing_waits_for_nobody_who_changes_the_topic(
    sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    """RR-04: it writes event and outbox rows only."""
    await sql.execute("INSERT INTO hookwire.topics (name) VALUES ('t')")
    async with other.transaction():
        await other.execute("SELECT FROM hookwire.topics FOR UPDATE")
        assert await publish_batch(sql, [(1, "t", "k")]) == [(1, "stored")]


# --- an event that SQL publishes alone --------------------------------------------------------------------------


async def functions_of(connection: asyncpg.Connection, publishing: str) -> set[str]:
    """Publish; return the functions in PL/pgSQL that were called for it."""
    async with connection.transaction():
        await connection.execute("SET LOCAL track_functions = 'pl'")
        await connection.execute(publishing)
        called = await connection.fetch("SELECT funcname, schemaname FROM pg_stat_xact_user_functions")
    return {row["funcname"] for row in called if row["schemaname"] == "hookwire"}


async def test_an_event_that_sql_publishes_alone_takes_no_other_function(sql: asyncpg.Connection) -> None:
    """GR-02: each function and each statement costs more to begin and end than its work for one event."""
    found = [
        await functions_of(sql, "SELECT hookwire.publish('t', 'x'::bytea, key => 'k')"),
        await functions_of(sql, "SELECT hookwire.publish('t', 'x'::bytea, headers => '{\"x-a\": \"b\"}')"),
    ]
    assert found == [{"publish", "publish_batch"}, {"publish", "publish_batch", "check_headers"}]


ROUTES = {
    "a topic without a row": "SELECT",
    "a topic of its own": "INSERT INTO hookwire.topics (tenant, name) VALUES ('default', 't')",
    "a topic without order": "INSERT INTO hookwire.topics (tenant, name, ordered) VALUES ('default', 't', false)",
    "other sinks": "INSERT INTO hookwire.topics (tenant, name, sinks) VALUES ('default', 't', '{webhooks,kafka}')",
    "no sink": "INSERT INTO hookwire.topics (tenant, name, sinks) VALUES ('default', 't', '{}')",
    "another layout": "UPDATE hookwire.installation SET layout = 7",
    "one order of a key in all topics": """CREATE OR REPLACE FUNCTION hookwire.lane_digest(topic text, key text)
        RETURNS bytea LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN hookwire.key_digest('', key)""",
}


@ON_THE_LOOP_OF_THE_FILE
@pytest.mark.parametrize("key", ["k", None])
@pytest.mark.parametrize("name", ROUTES)
async def test_an_event_that_sql_publishes_alone_leaves_the_same_rows_as_another(
    rolled_back: asyncpg.Connection, name: str, key: str | None
) -> None:
    """GR-02: two events of one call take the general way."""
    await rolled_back.execute("UPDATE hookwire.sinks SET configured = name IN ('amqp', 'webhooks')")
    await rolled_back.execute(ROUTES[name])
    headers = json.dumps({"x-a": "b"})
    told, left = [], []
    for number in (1, 2):
        rows = await rolled_back.fetch(
            "SELECT * FROM hookwire.publish_batch('default', $1, $2, $3, $4, $5, $6, $7, $8, true, publishers => $9)",
            list(range(number)), ["t"] * number, [key] * number, ["a/b"] * number, [headers] * number, [b"x"] * number,
            [None] * number, [None] * number, ["p"] * number,
        )  # fmt: skip
        last = rows[-1]
        told.append({**dict(last), "item": 1, "event_id": None, "accepted_at": None})
        left.append(await rolled_back.fetch(
            "SELECT e.ordered, e.tenant, e.topic, e.key, e.content_type, e.headers, e.sinks, e.payload, e.published_by,"
            " e.accepted_at = $2 AS is_then, o.layout, o.sink, o.shard - CASE WHEN $3 THEN 0 ELSE $1 & 63 END AS shard"
            " FROM hookwire.events e LEFT JOIN hookwire.outbox o ON o.id = e.id WHERE e.id = $1 ORDER BY o.sink",
            last["event_id"], last["accepted_at"], key is not None and last["ordered"],
        ))  # fmt: skip
    locks = await rolled_back.fetchval(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1215262571 AND pid = pg_backend_pid()"
    )
    assert (told[0], left[0], locks) == (told[1], left[1], int(key is not None and told[0]["ordered"]))


# --- idempotency keys (RR-12) -----------------------------------------------------------------------------------


async def test_a_key_used_before_gives_the_first_answer_or_a_conflict(sql: asyncpg.Connection) -> None:
    assert await publish_batch(sql, [(1, "t", "k")], [("i1", b"same")]) == [(1, "stored")]
    outcomes = await publish_batch(
        sql, [(1, "t", "k"), (2, "t", "k"), (3, "t", "k")], [("i1", b"same"), ("i1", b"other"), ("i2", b"same")]
    )
    assert (outcomes, len(await stored(sql))) == ([(1, "replayed"), (2, "conflict"), (3, "stored")], 2)


async def test_a_replay_gives_the_first_id_and_time(sql: asyncpg.Connection) -> None:
    arguments = ("default", [1], ["t"], ["k"], [None], ["{}"], [b"x"], ["i"], [b"f"], False, None)
    first = await sql.fetchrow(STATEMENTS["event.publish_batch"], *arguments)
    again = await sql.fetchrow(STATEMENTS["event.publish_batch"], *arguments)
    assert dict(again) == {**first, "outcome": "replayed"}


@pytest.mark.parametrize("wait", [False, True])
async def test_a_key_of_an_open_transaction_leaves_the_batch(
    sql: asyncpg.Connection, other: asyncpg.Connection, wait: bool
) -> None:
    """FC-09, RR-03: taken by try-lock, with all parts of its request; the others of the batch are stored."""
    drafts = [(1, "t", None), (2, "t", None), (2, "t", None), (3, "t", None), (4, "u", None)]
    known = [("i", b"f"), ("i\x1f1", b"f"), ("j", b"f"), None, ("i", b"f")]
    async with other.transaction():
        await publish_batch(other, [(1, "t", None)], [("i", b"f")])
        during = await publish_batch(sql, drafts, known, wait=wait)
    after = await publish_batch(sql, drafts, known, wait=wait)
    assert during == [(1, "busy"), (2, "busy"), (3, "busy"), (4, "stored"), (5, "stored")]
    assert after == [(1, "replayed"), (2, "stored"), (3, "stored"), (4, "stored"), (5, "replayed")]


async def test_a_busy_unit_tells_whether_its_idempotency_key_is_in_flight(
    sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    """FC-09: what waits for an ordering key may wait for long; what waits for its own first request may not."""
    async with other.transaction():
        await publish_batch(other, [(1, "t", "held")], [("i", b"f")])
        rows = await sql.fetch(
            STATEMENTS["event.publish_batch"], "default", [1, 2], ["t", "t"], [None, "held"], [None] * 2, ["{}"] * 2,
            [b"x"] * 2, ["i", "j"], [b"f"] * 2, False, None,
        )  # fmt: skip
    assert sorted((row["item"], row["outcome"], row["in_flight"]) for row in rows) == [
        (1, "busy", True),
        (2, "busy", False),
    ]


async def test_a_key_of_a_transaction_that_rolled_back_is_free(
    sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    transaction = other.transaction()
    await transaction.start()
    await publish_batch(other, [(1, "t", None)], [("i", b"f")])
    await transaction.rollback()
    assert await publish_batch(sql, [(1, "t", None)], [("i", b"f")]) == [(1, "stored")]


async def test_a_key_is_its_topic_s(sql: asyncpg.Connection) -> None:
    """FC-07, FS-12."""
    drafts = [(1, "t", None), (2, "u", None), (3, "u", None)]
    assert await publish_batch(sql, drafts, [("i", b"f"), ("i", b"g"), ("i", b"f")]) == [
        (1, "stored"),
        (2, "stored"),
        (3, "conflict"),
    ]


@pytest.mark.parametrize("fingerprint", [None, hashlib.sha256(b"i").digest()], ids=["none", "of the code before"])
async def test_without_a_fingerprint_the_event_itself_is_compared(
    sql: asyncpg.Connection, fingerprint: bytes | None
) -> None:
    """FC-07: what a repeat may change is when it was made, and what traces it."""

    async def fate(key: str | None, content_type: str, headers: dict[str, str], payload: bytes) -> str:
        (row,) = await sql.fetch(
            STATEMENTS["event.publish_batch"], "default", [1], ["t"], [key], [content_type], [json.dumps(headers)],
            [payload], ["i"], [fingerprint], False, None,
        )  # fmt: skip
        return str(row["outcome"])

    same = {"ce-id": "1", "ce-source": "/"}
    assert [
        await fate("k", "a/b", same, b"x"),
        await fate("k", "a/b", {**same, "ce-time": "now", "traceparent": "00-1", "hookwire-hops": "1"}, b"x"),
        await fate("l", "a/b", same, b"x"),
        await fate("k", "a/c", same, b"x"),
        await fate("k", "a/b", {**same, "ce-type": "y"}, b"x"),
        await fate("k", "a/b", same, b"y"),
    ] == ["stored", "replayed", *["conflict"] * 4]


async def test_a_busy_unit_claims_no_idempotency_key(sql: asyncpg.Connection, other: asyncpg.Connection) -> None:
    async with other.transaction():
        await other.execute("SELECT hookwire.publish('t', 'x', key => 'held')")
        assert await publish_batch(sql, [(1, "t", "held")], [("i", b"f")]) == [(1, "busy")]
    assert await publish_batch(sql, [(1, "t", "held")], [("i", b"f")]) == [(1, "stored")]

"""The direct path in the database: which events take it, and what its locks keep apart (ADR 47)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio

from db.statements import STATEMENTS
from tests.rolled_back import ON_THE_LOOP_OF_THE_FILE
from tests.waiting import until

WAIT_SECONDS_MAX = 60.0
TOPICS = "INSERT INTO hookwire.topics (name) VALUES ('t'), ('u')"
SUBSCRIBE = """INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state, ordered)
    VALUES ('sub_' || gen_random_uuid(), 'webhook', 't', 'https://a.example/', 'active', $1) RETURNING id"""
BLOCKED = """SELECT count(*) FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND wait_event = 'advisory' AND datname = current_database()"""


@pytest.fixture
async def sql(database_url_both: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url_both)
    await connection.execute(TOPICS)
    yield connection
    await connection.close(timeout=60)


@pytest_asyncio.fixture(loop_scope="module")
async def undone(rolled_back: asyncpg.Connection) -> asyncpg.Connection:
    """As `sql`, in a transaction that is rolled back after the test."""
    await rolled_back.execute(TOPICS)
    return rolled_back


@pytest.fixture
async def other(sql: asyncpg.Connection, database_url_both: str) -> AsyncIterator[asyncpg.Connection]:
    """A second session."""
    connection = await asyncpg.connect(database_url_both)
    yield connection
    await connection.close(timeout=60)


async def publish(
    connection: asyncpg.Connection,
    *drafts: tuple[str, str | None],
    wait: bool = False,
    low: int = 0,
    origin: UUID | None = None,
    deliveries_max: int = 8,
    patterns_max: int = 2,
) -> list[asyncpg.Record]:
    """Publish drafts (topic, key), a unit each, and offer to deliver them; gives the rows."""
    count = len(drafts)
    origin = origin or await connection.fetchval("SELECT hookwire.origin()")
    return list(
        await connection.fetch(
            STATEMENTS["direct.publish"], "default", list(range(count)), [topic for topic, _ in drafts],
            [key for _, key in drafts], [None] * count, [None] * count, [b"x"] * count, [None] * count,
            [None] * count, wait, None, low, origin, 15.0, 5.0, deliveries_max, patterns_max, None,
        )
    )  # fmt: skip


async def ways(connection: asyncpg.Connection, rows: Sequence[asyncpg.Record]) -> list[str]:
    """Which way each stored event went, by what the tables hold; "both" or "none" would be a loss of a promise."""
    found = await connection.fetch(
        "SELECT e.id, EXISTS (SELECT FROM hookwire.outbox o WHERE o.id = e.id AND o.sink = 'webhooks') AS waits,"
        " EXISTS (SELECT FROM hookwire.ledger_entries l WHERE l.sink = 'webhooks' AND e.id = ANY (l.ids)) AS left"
        " FROM hookwire.events e WHERE e.id = ANY ($1::bigint[]) ORDER BY e.id",
        [row["event_id"] for row in rows],
    )
    names = {(True, False): "outbox", (False, True): "direct", (True, True): "both", (False, False): "none"}
    return [names[row["waits"], row["left"]] for row in found]


async def way(connection: asyncpg.Connection, topic: str = "t", key: str | None = "k", **terms: Any) -> str:
    """Which way one event goes."""
    (found,) = await ways(connection, await publish(connection, (topic, key), **terms))
    return found


async def test_a_direct_event_has_its_deliveries_its_claims_and_its_ledger_entry_in_one_commit(
    sql: asyncpg.Connection,
) -> None:
    """RR-10, PL-A01: as the fan-out's purge and the worker's claim together leave them."""
    plain, ordered = await sql.fetchval(SUBSCRIBE, False), await sql.fetchval(SUBSCRIBE, True)
    await sql.execute("UPDATE hookwire.subscriptions SET timeout_seconds = 2, version = 7 WHERE id = $1", plain)
    rows = await publish(sql, ("t", "k"))
    event, fence = rows[0]["event_id"], rows[0]["fence"]
    claims = {(r["subscription_id"], r["version"], r["lease_seconds"], r["is_in_lane"], r["is_owed"]) for r in rows}
    made = await sql.fetch(
        "SELECT subscription_id, fence, attempts, lane, due_at > now() + interval '5 seconds', due_at < 'infinity'"
        " FROM hookwire.deliveries WHERE event_id = $1 ORDER BY 1",
        event,
    )
    assert claims == {(plain, 7, 7.0, False, False), (ordered, 1, 20.0, True, False)}
    assert [tuple(row) for row in made] == [
        (plain, fence, 1, None, True, True),
        (ordered, fence, 1, "k", True, True),
    ]
    assert await ways(sql, rows) == ["direct"]


async def test_an_event_that_nobody_wants_leaves_the_outbox_alone(sql: asyncpg.Connection) -> None:
    rows = await publish(sql, ("t", None))
    assert ([row["subscription_id"] for row in rows], await ways(sql, rows)) == ([None], ["direct"])


@pytest.mark.parametrize("key", ["k", None])
async def test_what_other_sinks_are_owed_is_in_the_outbox(sql: asyncpg.Connection, key: str | None) -> None:
    subscription = await sql.fetchval(SUBSCRIBE, False)
    await sql.execute("UPDATE hookwire.topics SET sinks = '{kafka,webhooks}' WHERE name = 't'")
    (row,) = await publish(sql, ("t", key))
    owed = await sql.fetch("SELECT id, sink FROM hookwire.outbox")
    made = await sql.fetch("SELECT event_id, subscription_id FROM hookwire.deliveries")
    assert [tuple(one) for one in (*owed, *made)] == [(row["event_id"], "kafka"), (row["event_id"], subscription)]
    assert (row["subscription_id"], row["is_owed"]) == (subscription, True)


async def test_a_topic_that_leaves_the_webhooks_during_a_common_commit_owes_them_nothing(
    sql: asyncpg.Connection,
) -> None:
    """GR-04: the ledger would have an entry for a sink that the event does not name. The check of drafts runs between
    the two statements that read the sinks of the topic.
    """
    await sql.fetchval(SUBSCRIBE, False)
    await sql.execute("UPDATE hookwire.topics SET sinks = '{kafka,webhooks}' WHERE name = 't'")
    await sql.execute(
        "CREATE OR REPLACE FUNCTION hookwire.check_drafts(topics text[], keys text[], payloads bytea[]) RETURNS void"
        " LANGUAGE sql AS $$ UPDATE hookwire.topics SET sinks = '{kafka}' WHERE name = 't' $$"
    )
    (row,) = await publish(sql, ("t", None))
    found = [
        await sql.fetchval("SELECT sinks FROM hookwire.events"),
        [one["sink"] for one in await sql.fetch("SELECT sink FROM hookwire.outbox")],
        await sql.fetchval("SELECT count(*) FROM hookwire.deliveries"),
        await sql.fetchval("SELECT count(*) FROM hookwire.ledger_entries"),
        row["subscription_id"],
    ]
    assert found == [["kafka"], ["kafka"], 0, 0, None]


async def test_what_is_for_brokers_alone_is_claimed_by_nobody(sql: asyncpg.Connection) -> None:
    await sql.fetchval(SUBSCRIBE, False)
    await sql.execute("UPDATE hookwire.topics SET sinks = '{kafka}' WHERE name = 't'")
    (row,) = await publish(sql, ("t", None))
    owed = await sql.fetch("SELECT sink FROM hookwire.outbox")
    assert ([one["sink"] for one in owed], row["subscription_id"], row["is_owed"]) == (["kafka"], None, True)


# --- common commits ---------------------------------------------------------------------------------------------


async def functions_of(connection: asyncpg.Connection, *drafts: tuple[str, str | None]) -> set[str]:
    """Publish drafts; return the functions in PL/pgSQL that were called for them."""
    async with connection.transaction():
        await connection.execute("SET LOCAL track_functions = 'pl'")
        await publish(connection, *drafts)
        called = await connection.fetch("SELECT funcname, schemaname FROM pg_stat_xact_user_functions")
    return {row["funcname"] for row in called if row["schemaname"] == "hookwire"}


async def test_events_of_one_topic_without_keys_take_no_other_function(sql: asyncpg.Connection) -> None:
    """GR-04: each function and each statement costs more to begin and end than its work for one event."""
    await sql.fetchval(SUBSCRIBE, False)
    found = [
        await functions_of(sql, ("t", None)),
        await functions_of(sql, ("t", None), ("t", None)),
        await functions_of(sql, ("t", "k")),
        await functions_of(sql, ("t", None), ("u", None)),
    ]
    general = {"publish_batch", "check_drafts", "direct_audience"}
    assert found == [{"publish_batch"}, {"publish_batch"}, general, general]


async def test_a_common_commit_leaves_the_same_rows_as_any_other(sql: asyncpg.Connection) -> None:
    """GR-04: a second topic in the commit makes it an uncommon one."""
    first, second = await sql.fetchval(SUBSCRIBE, False), await sql.fetchval(SUBSCRIBE, True)
    found = []
    for drafts in ([("t", None), ("t", None)], [("t", None), ("t", None), ("u", None)]):
        rows = [row for row in await publish(sql, *drafts) if row["subscription_id"] is not None]
        ids = sorted({row["event_id"] for row in rows})
        told = sorted((ids.index(r["event_id"]), r["item"], r["subscription_id"], *_told(r)) for r in rows)
        stored = await sql.fetch(
            "SELECT e.topic, e.key, e.ordered, e.sinks, e.headers, e.payload, e.tenant, d.subscription_id, d.attempts,"
            " d.tenant, d.lane, d.fence = $2 AS is_fenced, d.created_at = e.accepted_at AS is_made_then,"
            " d.due_at > now() + interval '10 seconds' AS is_leased"
            " FROM hookwire.events e JOIN hookwire.deliveries d ON d.event_id = e.id"
            " WHERE e.id = ANY ($1::bigint[]) ORDER BY e.id, d.subscription_id",
            ids, rows[0]["fence"],
        )  # fmt: skip
        found.append((told, [tuple(row) for row in stored], await ways(sql, rows)))
    common, other = found
    assert (common, len(common[1])) == (other, 4)
    assert {row["subscription_id"] for row in rows} == {first, second}


@ON_THE_LOOP_OF_THE_FILE
@pytest.mark.parametrize(
    ("topic", "sinks", "wanted"),
    [
        ("hookwire.service.echo.reply", None, (["webhooks"], [], 1)),
        ("hookwire.service.echo.reply", ["kafka", "webhooks"], (["kafka", "webhooks"], ["kafka"], 1)),
        ("hookwire.service.echo.reply", ["kafka"], (["kafka"], ["kafka"], 0)),
        ("hookwire.job", None, (["webhooks"], [], 1)),
        ("hookwire.delivery.failed", None, (["kafka", "webhooks"], ["kafka"], 1)),
        ("hookwire.jobs", None, (["kafka", "webhooks"], ["kafka"], 1)),
    ],
)
async def test_the_hubs_own_events_of_jobs_and_services_are_for_webhooks_unless_their_topic_names_sinks(
    undone: asyncpg.Connection, topic: str, sinks: list[str] | None, wanted: object
) -> None:
    """Also in a common commit; a second topic makes it an uncommon one."""
    await undone.execute("UPDATE hookwire.sinks SET configured = name IN ('kafka', 'webhooks')")
    await undone.execute("INSERT INTO hookwire.topics (name, sinks) VALUES ($1, $2)", topic, sinks)
    found = []
    for drafts in ([(topic, None)], [(topic, None), ("u", None)]):
        event = (await publish(undone, *drafts))[0]["event_id"]
        found.append(
            (
                await undone.fetchval("SELECT sinks FROM hookwire.events WHERE id = $1", event),
                await undone.fetchval("SELECT array(SELECT sink FROM hookwire.outbox WHERE id = $1)", event),
                await undone.fetchval("SELECT count(*) FROM hookwire.ledger_entries WHERE $1 = ANY (ids)", event),
            )
        )
    assert found == [wanted] * 2


def _told(row: asyncpg.Record) -> tuple[object, ...]:
    return tuple(row[name] for name in ("outcome", "ordered", "is_owed", "version", "lease_seconds", "is_in_lane"))


@ON_THE_LOOP_OF_THE_FILE
@pytest.mark.parametrize("payload", [None, b"x" * 1_048_577], ids=["none", "too large"])
async def test_a_common_commit_refuses_a_payload_as_any_other(
    undone: asyncpg.Connection, payload: bytes | None
) -> None:
    """GR-04, RR-12."""
    origin = await undone.fetchval("SELECT hookwire.origin()")
    with pytest.raises(asyncpg.InvalidParameterValueError, match="payload missing or larger"):
        await undone.fetch(
            STATEMENTS["direct.publish"], "default", [0], ["t"], [None], [None], [None], [payload], [None], [None],
            False, None, 0, origin, 15.0, 5.0, 8, 2, None,
        )  # fmt: skip


# --- the conditions ---------------------------------------------------------------------------------------------

_OPEN_DELIVERY = """INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant, lane)
    SELECT 0, id, 'infinity', now(), 'default', 'k' FROM hookwire.subscriptions"""
_SOME = """INSERT INTO hookwire.subscriptions (public_id, protocol, callback, state, topic, topic_regex, filter_path)
    SELECT 'sub_' || n, 'webhook', 'https://a.example/', 'active', {}, {}::jsonpath FROM generate_series(1, {}) n"""
_HELD = """INSERT INTO hookwire.holds (sink, tenant, topic, reason, detail, probe_at)
    VALUES ('webhooks', 'default', 'u', 'r', 'd', now())"""
IN_THE_WAY = {
    "an earlier event of the key in the outbox": "SELECT hookwire.publish('t', 'x', key => 'k')",
    "an earlier event of the shard in the outbox": """INSERT INTO hookwire.outbox (id, layout, shard, sink)
        VALUES (nextval('hookwire.event_id'), 1, hookwire.shard_of(hookwire.lane_digest('t', 'k')), 'webhooks')""",
    "an open delivery in the lane": _OPEN_DELIVERY,
    "a hold": _HELD,
    "a record behind a hold": """INSERT INTO hookwire.held (sink, tenant, topic, id, shard, layout)
        VALUES ('webhooks', 'default', 'u', 0, 0, 1)""",
    "a layout that is being changed": """INSERT INTO hookwire.relay_terms (sink, grp, is_open)
        VALUES ('webhooks', 0, false)""",
    "a filter": "UPDATE hookwire.subscriptions SET filter = '{}', filter_path = '$.a'",
    "a batch": "UPDATE hookwire.subscriptions SET format = 'batch', batch_max = 10",
    "a rate limit": "UPDATE hookwire.subscriptions SET rate_per_second = 10",
    "an open breaker": """INSERT INTO hookwire.delivery_gates (subscription_id, trips, open_until)
        SELECT id, 1, now() + interval '1 hour' FROM hookwire.subscriptions""",
    "at most once": "UPDATE hookwire.subscriptions SET at_most_once = true, ordered = false",
    "a pause": "UPDATE hookwire.subscriptions SET paused_until = now() + interval '1 hour'",
    "pull": "UPDATE hookwire.subscriptions SET protocol = 'pull', lease_until = now() - interval '1 hour'",
    "RabbitHub": "UPDATE hookwire.subscriptions SET protocol = 'rabbithub', identity = sha256('x')",
    "an ordered pattern": "UPDATE hookwire.subscriptions SET topic = '#', topic_regex = '^t$'",
    "too many patterns": _SOME.format("'x.*', '^x[.]'", "NULL", 3),
    "too many subscribers": _SOME.format("'t', NULL", "NULL", 8),
    "a pause of the sink": "UPDATE hookwire.sinks SET paused_at = now() WHERE name = 'webhooks'",
    "a topic without a row": "DELETE FROM hookwire.topics",
    "a key without order": "UPDATE hookwire.topics SET ordered = false",
}


@ON_THE_LOOP_OF_THE_FILE
@pytest.mark.parametrize("key", ["k", None])
async def test_an_earlier_event_of_the_same_transaction_is_not_in_the_way(
    undone: asyncpg.Connection, key: str | None
) -> None:
    """So what the tests below put in the way is what sends their events by the outbox."""
    await undone.fetchval(SUBSCRIBE, True)
    before = await way(undone, key=key and "another")
    assert (before, await way(undone, key=key)) == ("direct", "direct")


@ON_THE_LOOP_OF_THE_FILE
@pytest.mark.parametrize("name", IN_THE_WAY)
async def test_what_stands_before_an_event_sends_it_by_the_outbox(undone: asyncpg.Connection, name: str) -> None:
    """RR-10, RR-13: without it the same event goes the direct way."""
    await undone.fetchval(SUBSCRIBE, True)
    before = await way(undone, key="another")
    await undone.execute(IN_THE_WAY[name])
    assert (before, await way(undone)) == ("direct", "outbox")


_OF_A_KEY = (
    "an earlier event of the key in the outbox", "an earlier event of the shard in the outbox",
    "an open delivery in the lane", "a key without order",
)  # fmt: skip


@ON_THE_LOOP_OF_THE_FILE
@pytest.mark.parametrize("sinks", ["webhooks", "kafka,webhooks"])
@pytest.mark.parametrize("name", IN_THE_WAY)
async def test_what_stands_before_an_event_without_a_key_is_all_but_its_key(
    undone: asyncpg.Connection, name: str, sinks: str
) -> None:
    """GR-04: a common commit decides by one statement, under the same conditions, also where other sinks are owed."""
    await undone.fetchval(SUBSCRIBE, True)
    await undone.execute("UPDATE hookwire.topics SET sinks = string_to_array($1, ',')", sinks)
    before = await way(undone, key=None)
    await undone.execute(IN_THE_WAY[name])
    assert (before, await way(undone, key=None)) == ("direct", "direct" if name in _OF_A_KEY else "outbox")


async def test_a_limit_of_deliveries_is_that_of_all_events_of_a_commit(sql: asyncpg.Connection) -> None:
    await sql.execute(_SOME.format("'t', NULL", "NULL", 4))
    found = []
    for keys in (["a", "b"], [None, None]):
        two = await publish(sql, *(("t", key) for key in keys), deliveries_max=8)
        found.append(await ways(sql, two))
        two = await publish(sql, *(("t", key) for key in keys), deliveries_max=7)
        found.append(await ways(sql, two))
    assert found == [["direct"] * 2, ["outbox"] * 2] * 2


_OVER = """UPDATE hookwire.subscriptions
    SET protocol = 'websub', identity = sha256(public_id::bytea), lease_until = now() + interval '1 hour'
        * CASE WHEN public_id = 'sub_' || $1::integer THEN -1 ELSE 1 END"""


@ON_THE_LOOP_OF_THE_FILE
@pytest.mark.parametrize("key", ["k", None])
@pytest.mark.parametrize("kind", ["subscribers", "patterns"])
async def test_a_subscription_whose_lease_is_over_counts_for_the_limit_of(
    kind: str, key: str | None, undone: asyncpg.Connection
) -> None:
    """GR-04: each limit is of what is read. Those that were not read for it would get nothing."""
    topic = "'t', NULL" if kind == "subscribers" else "'#', '^t$'"
    limit = "deliveries_max" if kind == "subscribers" else "patterns_max"
    await undone.execute(_SOME.format(topic, "NULL", 4))
    found = []
    for over in range(1, 5):  # an index chooses which of them are read
        await undone.execute(_OVER, over)
        found.append(await way(undone, key=key, **{limit: 2}))
    assert found == ["outbox"] * 4


BESIDE = {
    "an earlier event of another shard in the outbox": "SELECT hookwire.publish('t', 'x', key => 'other')",
    "an event of another sink": """INSERT INTO hookwire.outbox (id, layout, shard, sink)
        SELECT 1, 1, n, 'kafka' FROM generate_series(0, 63) n""",
    "an open delivery in another lane": _OPEN_DELIVERY.replace("'k'", "'other'"),
    "an ended pause": "UPDATE hookwire.subscriptions SET paused_until = now() - interval '1 hour'",
    "a pattern of another topic": _SOME.format("'x.*', '^x[.]'", "NULL", 2),
    "a filter for another topic": _SOME.format("'u', NULL", "'$.a'", 1),
    "a subscription that is over": "UPDATE hookwire.subscriptions SET state = 'deleted'",
    "a WebSub lease that is over": """UPDATE hookwire.subscriptions SET protocol = 'websub', identity = sha256('x'),
        lease_until = now() - interval '1 second'""",
}


@ON_THE_LOOP_OF_THE_FILE
@pytest.mark.parametrize("key", ["k", None])
@pytest.mark.parametrize("name", BESIDE)
async def test_what_does_not_concern_an_event_is_not_in_its_way(
    undone: asyncpg.Connection, name: str, key: str | None
) -> None:
    await undone.fetchval(SUBSCRIBE, True)
    await undone.execute(BESIDE[name])
    assert await way(undone, key=key) == "direct"


async def test_a_low_water_mark_bounds_what_is_looked_at_and_another_origin_forbids_it(sql: asyncpg.Connection) -> None:
    """RR-07, FC-01: a mark that was remembered from another run of the server says nothing."""
    await sql.execute("SELECT hookwire.publish('t', 'x', key => 'k')")
    last = await sql.fetchval("SELECT max(id) FROM hookwire.events")
    found = [
        await way(sql, low=last + 1),
        await way(sql, low=last + 1, origin=UUID(int=1)),
        await way(sql, key="other", origin=UUID(int=1)),
        await way(sql, key=None, origin=UUID(int=1)),
    ]
    assert found == ["direct", "outbox", "outbox", "outbox"]


async def test_of_two_events_of_a_key_in_one_commit_none_goes_past_the_outbox(sql: asyncpg.Connection) -> None:
    await sql.fetchval(SUBSCRIBE, True)
    rows = await publish(sql, ("t", "k"), ("t", "other"), ("u", "k"), ("t", None), ("t", None))
    assert await ways(sql, rows) == ["outbox", "direct", "outbox", "direct", "direct"]


@pytest.mark.parametrize("key", ["k", None])
async def test_a_transaction_with_an_old_snapshot_takes_the_outbox(sql: asyncpg.Connection, key: str | None) -> None:
    """RR-13: there a later statement sees no more than an earlier one."""
    async with sql.transaction(isolation="repeatable_read"):
        assert await way(sql, key=key) == "outbox"


# --- the locks --------------------------------------------------------------------------------------------------


async def waits_for_a_lock(sql: asyncpg.Connection, backends: int = 1) -> None:

    async def holds() -> object:
        return await sql.fetchval(BLOCKED) >= backends

    await until(holds, WAIT_SECONDS_MAX)


async def test_the_conditions_are_read_after_the_wait_for_the_keys_lock(
    sql: asyncpg.Connection, other: asyncpg.Connection, database_url_both: str
) -> None:
    """RR-13: the former holder's event is seen although it was committed after this statement began."""
    await sql.fetchval(SUBSCRIBE, True)
    watch = await asyncpg.connect(database_url_both)
    holding = other.transaction()
    await holding.start()
    await other.execute("SELECT hookwire.publish('t', 'x', key => 'k')")
    waiting = asyncio.ensure_future(publish(sql, ("t", "k"), wait=True))
    await waits_for_a_lock(watch)
    await holding.commit()
    assert await ways(watch, await waiting) == ["outbox"]
    await watch.close()


_ACTIVATE: dict[str, Callable[[asyncpg.Connection], Awaitable[object]]] = {
    "made": lambda connection: connection.fetchval(SUBSCRIBE, False),
    "activated": lambda connection: connection.execute(
        "UPDATE hookwire.subscriptions SET state = 'active', version = version + 1 WHERE state = 'disabled'"
    ),
    "changed": lambda connection: connection.execute(
        "UPDATE hookwire.subscriptions SET callback = 'https://b.example/', version = version + 1"
    ),
    "moved": lambda connection: connection.execute("UPDATE hookwire.subscriptions SET topic = 't'"),
    "renewed": lambda connection: connection.execute(
        "UPDATE hookwire.subscriptions SET lease_until = now() + interval '1 hour' WHERE protocol = 'websub'"
    ),
}


@pytest.mark.parametrize("key", ["k", None])
@pytest.mark.parametrize("name", _ACTIVATE)
async def test_a_subscription_that_is(
    name: str, key: str | None, sql: asyncpg.Connection, other: asyncpg.Connection, database_url_both: str
) -> None:
    """RR-10: its answer comes after every direct commit that has not seen it, and what is accepted then is for it."""
    await sql.fetchval(SUBSCRIBE, False)
    await sql.execute(
        "UPDATE hookwire.subscriptions SET state = 'disabled', topic = 'u';"
        "INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state, lease_until, identity)"
        " VALUES ('sub_w', 'websub', 'u', 'https://a.example/', 'active', now() - interval '1 hour', sha256('x'))"
    )
    watch = await asyncpg.connect(database_url_both)
    publishing = sql.transaction()
    await publishing.start()
    await publish(sql, ("t", key))
    answer = asyncio.ensure_future(_ACTIVATE[name](other))
    await waits_for_a_lock(watch)
    assert not answer.done()
    await publishing.commit()
    await answer
    await watch.close()


async def test_a_subscription_that_is_being_committed_keeps_events_off_the_direct_way(
    sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    """RR-10: the direct commit does not wait for it."""
    async with other.transaction():
        await other.fetchval(SUBSCRIBE, False)
        before = await way(sql, key=None)
        await other.execute("SET CONSTRAINTS ALL IMMEDIATE")  # as COMMIT does
        during = await way(sql, key=None)
    assert (before, during, await way(sql, key=None)) == ("direct", "outbox", "direct")


async def test_a_pause_and_a_pull_wait_for_no_direct_commit(sql: asyncpg.Connection, other: asyncpg.Connection) -> None:
    """They change nothing that an event's audience is made of, and come often."""
    await sql.fetchval(SUBSCRIBE, False)
    await sql.execute(
        "INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state, lease_until)"
        " VALUES ('sub_p', 'pull', 'u', '', 'active', now())"
    )
    async with sql.transaction(), asyncio.timeout(WAIT_SECONDS_MAX):
        await publish(sql, ("t", "k"))
        await other.execute("UPDATE hookwire.subscriptions SET paused_until = now() WHERE protocol = 'webhook'")
        await other.execute("UPDATE hookwire.subscriptions SET lease_until = now() WHERE protocol = 'pull'")


async def test_subscriptions_that_are_committed_at_once_do_not_wait_for_each_other_to_read(
    sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    """A transaction takes the lock at its end, so that none waits for it with locks still to take."""
    async with sql.transaction(), asyncio.timeout(WAIT_SECONDS_MAX):
        await sql.fetchval(SUBSCRIBE, False)
        assert await other.fetchval(SUBSCRIBE, False) > 0

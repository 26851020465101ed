"""Retention on a real database: old events go, needed ones stay (RR-05, WH-P08, WH-18, WH-25)."""

import json
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, cast

import asyncpg
import pytest

from app.maintenance.ledger import Ledger
from app.maintenance.retention import Removed, Retention, RetentionOptions
from db.errors import Busy, Unavailable
from db.pool import Database, PoolOptions, Row, open_database
from db.statements import STATEMENTS
from tests.app.conftest import opened
from tests.project.stranger import stranger

SIZE = 10_000_000


async def publish(sql: asyncpg.Connection, count: int, topic: str = "t") -> list[int]:
    """Events that no sink is owed any more, folded or not."""
    rows = await sql.fetch(
        "SELECT hookwire.publish($1, n::text) AS id FROM generate_series(1, $2::integer) n", topic, count
    )
    await sql.execute("DELETE FROM hookwire.outbox")
    return [int(row["id"].rpartition("_")[2]) for row in rows]


async def age(database: Database, sql: asyncpg.Connection, days: int = 40, upto: int | None = None) -> None:
    """All events of now, or those up to an id, were drawn so many days ago, and are folded."""
    for _ in "12":
        await Ledger(database).fold()
    await sql.execute(
        "INSERT INTO hookwire.id_watermarks (day, last_id)"
        " SELECT current_date - $1::integer, coalesce($2::bigint, last_value) FROM hookwire.event_id"
        " ON CONFLICT (day) DO UPDATE SET last_id = excluded.last_id",
        days,
        upto,
    )


async def events(sql: asyncpg.Connection) -> list[int]:
    return [row["id"] for row in await sql.fetch("SELECT id FROM hookwire.events ORDER BY id")]


def retention(database: Database, **options: Any) -> Retention:
    usual = {"event_days": 30, "dead_letter_days": 90, "history_days": 365, "gold_days": 400, "batch": 7}
    return Retention(database, RetentionOptions(**{**usual, **options}))


class Slow(Database):
    """Ends statements over more than three rows, as the server does with those that take too long."""

    def __init__(self, inner: Database) -> None:
        super().__init__(inner._pool, inner.options)

    async def fetchrow(self, name: str, *args: object) -> Row | None:
        if name == "retention.purge_events" and cast("int", args[2]) > 3:
            raise Busy("canceling statement due to statement timeout")
        return await super().fetchrow(name, *args)

    async def fetchval(self, name: str, *args: object) -> Any:
        if name.startswith("gold.purge_") and cast("int", args[1]) > 3:
            raise Busy("canceling statement due to statement timeout")
        return await super().fetchval(name, *args)


class Watched(Database):
    """Counts the rows that its walks have looked at, and the statements that were not walks."""

    def __init__(self, inner: Database) -> None:
        super().__init__(inner._pool, inner.options)
        self.examined = 0
        self.statements: list[str] = []

    async def fetch(self, name: str, *args: object) -> Sequence[Row]:
        self.statements.append(name)
        return await super().fetch(name, *args)

    async def fetchrow(self, name: str, *args: object) -> Row | None:
        row = await super().fetchrow(name, *args)
        if row is not None and "examined" in row:
            self.examined += cast("int", row["examined"])
        return row


async def test_batches_that_take_too_long_are_made_smaller(database_url: str) -> None:
    """WH-P08: events with very many attempts; else the same batch would fail in each round, and nothing ever go."""
    async with opened(database_url) as (database, sql):
        old = await publish(sql, 20)
        await age(database, sql)
        assert await retention(Slow(database), batch=5000).once() == Removed(events=19)
        assert await events(sql) == old[-1:]


async def test_old_events_go_with_their_attempts_and_young_ones_stay(database_url_both: str) -> None:
    """RU-09, WH-P08, WH-P09: in batches."""
    async with opened(database_url_both) as (database, sql):
        old = await publish(sql, 20)
        young = await publish(sql, 5)
        await sql.execute(
            "INSERT INTO hookwire.attempts (event_id, subscription_id, started_at, number, total_seconds, tenant,"
            " outcome, decision, trigger, worker)"
            " SELECT n, 1, now(), 1, 0, 'default', 'delivered', 'delivered', 'first', 'w'"
            " FROM unnest($1::bigint[]) n",
            [old[0], young[0]],
        )
        await age(database, sql, upto=old[-1])
        removed = [await retention(database).once() for _ in "12"]
        attempts = [row["event_id"] for row in await sql.fetch("SELECT event_id FROM hookwire.attempts")]
        assert (removed, await events(sql), attempts) == ([Removed(events=20), Removed()], young, [young[0]])


async def test_on_a_young_hub_nothing_is_old(database_url_both: str) -> None:
    """I1: no day has ended that long ago, so no id is old; with and without the watermark of today."""
    async with opened(database_url_both) as (database, sql):
        young = await publish(sql, 5)
        for _ in "12":
            await Ledger(database).fold()
        without = await retention(database).once()
        await age(database, sql, 0)
        with_todays = await retention(database).once()
        assert (without, with_todays, await events(sql)) == (Removed(), Removed(), young)


async def test_a_retention_of_zero_days_keeps_everything(database_url: str) -> None:
    async with opened(database_url) as (database, sql):
        old = await publish(sql, 3)
        await age(database, sql, 4000)
        assert await retention(database, event_days=0, dead_letter_days=0).once() == Removed()
        assert await events(sql) == old


# --- what a round costs -------------------------------------------------------------------------------------------


async def test_what_is_kept_is_read_once_a_day_and_a_round_between_reads_what_it_removes(
    database_url_both: str,
) -> None:
    """WH-P08: dead letters and a topic's long time keep 58 of 60 events; a round in ten minutes reads none of them, no
    subscription and no partition. Freed ones go on the day after."""
    day = date(2026, 1, 15)
    async with opened(database_url_both) as (database, sql):
        await keep(sql, "long", 0)
        ids = await publish(sql, 30) + await publish(sql, 30, "long")
        for event in ids[:27]:
            await sql.execute(NEEDED["a dead letter"], event)
        await past(sql, 10)
        await age(database, sql)
        watched = Watched(database)
        rounds = Retention(watched, RetentionOptions(30, 90, 365, 400, batch=7), lambda: day)
        first, read = await rounds.once(), watched.examined
        watched.statements.clear()
        second, read_again = await rounds.once(), watched.examined - read
        assert (first, read > 60, second, read_again) == (Removed(events=2), True, Removed(), 0)
        assert "retention.partitions" not in watched.statements

        await publish(sql, 10)
        await age(database, sql, 39)  # ten more are old, one of which is the latest; and one is needed no longer
        await sql.execute("DELETE FROM hookwire.dead_letters WHERE event_id = $1", ids[0])
        third = await rounds.once()
        assert (third, watched.examined - read) == (Removed(events=9), 10)

        day += timedelta(days=1)
        assert await rounds.once() == Removed(events=2)  # that one, and what had been the latest of its topic
        assert ids[0] not in await events(sql)


async def test_a_walk_that_failed_goes_on_where_it_was_cut_short(database_url: str) -> None:
    """WH-P08: what it had come to is not read again by the next round."""

    class Breaking(Watched):
        async def fetchrow(self, name: str, *args: object) -> Row | None:
            if name == "retention.purge_events" and 10 < self.examined < 1_000:
                self.examined += 1_000
                raise Unavailable("away")
            return await super().fetchrow(name, *args)

    async with opened(database_url) as (database, sql):
        await publish(sql, 20)
        await age(database, sql)
        breaking = Breaking(database)
        rounds = retention(breaking)
        with pytest.raises(Unavailable):
            await rounds.once()
        assert (await rounds.once(), breaking.examined) == (Removed(events=5), 1_020)


GOLD = {
    "lake_metrics": "INSERT INTO hookwire.lake_metrics (tenant, hour, topic, subscription, attempts, delivered,"
    " retries, dead, p50_seconds, p95_seconds, p99_seconds)"
    " SELECT 'default', now() - make_interval(days => $1), 't', n::text, 1, 1, 0, 0, 1, 1, 1"
    " FROM generate_series(1, 9) n",
    "lake_backlog": "INSERT INTO hookwire.lake_backlog"
    " SELECT 'default', now() - make_interval(days => $1), 't', n::text, 1, 1 FROM generate_series(1, 9) n",
    "lake_slo": "INSERT INTO hookwire.lake_slo"
    " SELECT 'default', current_date - $1::integer, n::text, 1, 1, 1, 1, 0 FROM generate_series(1, 9) n",
    "lake_batches": "INSERT INTO hookwire.lake_batches"
    " SELECT 'metrics', $1::integer || '-' || n, now() - make_interval(days => $1) FROM generate_series(1, 9) n",
}


async def gold(sql: asyncpg.Connection) -> list[int]:
    return [await sql.fetchval(f"SELECT count(*) FROM hookwire.{table}") for table in GOLD]


@pytest.mark.parametrize(
    ("days", "removed", "left"),
    [(400, 36, [9, 9, 9, 9]), (0, 0, [18, 18, 18, 18]), (36_500, 0, [18, 18, 18, 18])],
    ids=["by default", "for ever", "a young hub"],
)
async def test_what_the_pipeline_has_put_here_goes_in_time(
    database_url_both: str, days: int, removed: int, left: list[int]
) -> None:
    """PL-X04: metrics, what waited, service levels, and which entries of the lake's log are here; by sevens."""
    async with opened(database_url_both) as (database, sql):
        empty = await retention(database, gold_days=days).once()
        for statement in GOLD.values():
            for ago in (399, 402):
                await sql.execute(statement, ago)
        rounds = [await retention(database, gold_days=days).once() for _ in "12"]
        assert (empty, rounds, await gold(sql)) == (Removed(), [Removed(gold=removed), Removed()], left)


async def test_what_the_pipeline_has_put_here_goes_in_smaller_batches_where_one_takes_too_long(
    database_url: str,
) -> None:
    """PL-X04: or nothing would ever go."""
    async with opened(database_url) as (database, sql):
        for statement in GOLD.values():
            await sql.execute(statement, 402)
        removed = await retention(Slow(database), batch=25).once()
        assert (removed, await gold(sql)) == (Removed(gold=36), [0] * 4)


async def test_an_entry_of_the_lakes_log_stays_a_day_longer_than_its_rows(database_url: str) -> None:
    """PL-X04: by then the pipeline takes it for old, and does not put it in a second time."""
    async with opened(database_url) as (database, sql):
        for statement in GOLD.values():
            await sql.execute(statement, 401)
        await sql.execute("UPDATE hookwire.lake_batches SET at = at + interval '1 hour'")
        assert (await retention(database).once(), await gold(sql)) == (Removed(gold=27), [0, 0, 0, 9])


async def test_what_is_old_is_found_along_a_key_and_nothing_else_is_read(database_url_both: str) -> None:
    """A round on a large table with nothing old reads a few pages of it."""
    async with opened(database_url_both) as (_, sql):
        await sql.execute(GOLD["lake_metrics"].replace("series(1, 9)", "series(1, 50000)"), 10)
        await sql.execute(GOLD["lake_backlog"].replace("series(1, 9)", "series(1, 50000)"), 10)
        await sql.execute(GOLD["lake_slo"].replace("series(1, 9)", "series(1, 50000)"), 10)
        await sql.execute("ANALYZE")
        for name in ("purge_metrics", "purge_backlog", "purge_slo"):
            await sql.execute(f"PREPARE old AS {STATEMENTS['gold.' + name]}")
            plan = await sql.fetchval("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE old (400, 5000)")
            await sql.execute("DEALLOCATE old")
            node = json.loads(plan)[0]["Plan"]
            assert node["Shared Hit Blocks"] + node["Shared Read Blocks"] < 20


NEEDED = {
    "owed to a broker": "INSERT INTO hookwire.outbox (id, layout, shard, sink) VALUES ($1, 1, 3, 'kafka')",
    "held for a broker": "INSERT INTO hookwire.held (sink, tenant, topic, id, shard, layout)"
    " VALUES ('kafka', 'default', 't', $1, 3, 1)",
    "owed to a subscription": "INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant)"
    " VALUES ($1, 1, now(), now(), 'default')",
    "a dead letter": "INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts)"
    " VALUES ($1, 1, 'default', 'exhausted', 10)",
    "a broker's dead letter": "INSERT INTO hookwire.relay_dead_letters"
    " (sink, event_id, tenant, topic, shard, layout, reason, detail)"
    " VALUES ('kafka', $1, 'default', 't', 3, 1, 'refused', '')",
    "half fanned out": "INSERT INTO hookwire.fanout_cursors VALUES ($1, 'default', 1, 9)",
    "not folded into the ledger": "INSERT INTO hookwire.ledger_entries (sink, outcome, ids)"
    " VALUES ('kafka', 'sent', ARRAY[$1::bigint])",
}


@pytest.mark.parametrize("need", NEEDED.values(), ids=NEEDED.keys())
async def test_what_somebody_needs_stays_however_old_it_is(database_url: str, need: str) -> None:
    """RR-05, I1."""
    async with opened(database_url) as (database, sql):
        ids = await publish(sql, 20)
        await age(database, sql)
        await sql.execute(need, ids[9])
        removed = await retention(database).once()
        assert (removed.events, await events(sql)) == (18, [ids[9], ids[-1]])


async def test_the_latest_event_of_each_topic_stays(database_url: str) -> None:
    """It is what the topic URL answers with (WebSub's content)."""
    async with opened(database_url) as (database, sql):
        a, b = await publish(sql, 3, "a"), await publish(sql, 3, "b")
        await age(database, sql)
        await retention(database).once()
        assert await events(sql) == [a[-1], b[-1]]


async def test_an_event_that_the_ledger_has_not_reached_stays(database_url: str) -> None:
    """PL-A02: the owed side is folded from the events themselves."""
    async with opened(database_url) as (database, sql):
        folded = await publish(sql, 5)
        await age(database, sql)
        late = await publish(sql, 5)
        await sql.execute("UPDATE hookwire.id_watermarks SET last_id = $1", late[-1])
        await retention(database).once()
        assert (set(folded) & set(await events(sql)), await events(sql)) == (set(), late)


async def test_dead_letters_are_kept_for_their_own_time_and_then_free_their_events(database_url: str) -> None:
    """WH-P08: until then their events stay."""
    async with opened(database_url) as (database, sql):
        ids = await publish(sql, 20)
        for days, event in ((100, ids[3]), (50, ids[4])):
            await sql.execute(NEEDED["a dead letter"], event)
            await sql.execute(NEEDED["a broker's dead letter"], event)
            for table in ("dead_letters", "relay_dead_letters"):
                await sql.execute(
                    f"UPDATE hookwire.{table} SET died_at = now() - make_interval(days => $2) WHERE event_id = $1",
                    event,
                    days,
                )
        await age(database, sql, 200)
        removed = await retention(database).once()
        assert (removed, await events(sql)) == (Removed(events=18, dead_letters=2), [ids[4], ids[-1]])


async def test_all_old_dead_letters_of_one_event_go_although_a_batch_ends_among_them(database_url: str) -> None:
    """WH-P08: what a batch left of an event would wait for the next day, and its event with it."""
    async with opened(database_url) as (database, sql):
        ids = await publish(sql, 3)
        await sql.execute(
            "INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts, died_at)"
            " SELECT $1, n, 'default', 'exhausted', 10, now() - make_interval(days => 1 + 99 * (n < 20)::integer)"
            " FROM generate_series(1, 20) n",
            ids[0],
        )
        await age(database, sql, 200)
        removed = await retention(database, batch=7).once()
        left = [row["subscription_id"] for row in await sql.fetch("SELECT subscription_id FROM hookwire.dead_letters")]
        assert (removed, left) == (Removed(events=1, dead_letters=19), [20])


async def test_a_part_that_fails_keeps_no_other_from_being_done(database_url: str) -> None:
    """WH-P08: the failure is told when the round is over."""

    class Failing(Database):
        async def fetchrow(self, name: str, *args: object) -> Row | None:
            if name == "retention.purge_events":
                raise Busy("canceling statement due to statement timeout")
            return await super().fetchrow(name, *args)

    async with opened(database_url) as (database, sql):
        ids = await publish(sql, 3)
        await age(database, sql)
        await past(sql, 400)
        with pytest.raises(Busy):
            await retention(Failing(database._pool, database.options)).once()
        audited, replays, _ = await history(sql)
        assert (await events(sql), audited, replays) == (ids, 0, ["paused"])


# --- what people did, and subscriptions that have ended -----------------------------------------------------------


async def past(sql: asyncpg.Connection, days: int) -> None:
    """One of each: an audit entry, a replay that is done and one that is paused, a subscription of each state."""
    ago = f"now() - make_interval(days => {days})"
    await sql.execute(
        f"INSERT INTO hookwire.audit (at, tenant, actor, action, subject) VALUES ({ago}, 'default', 'a', 'a', 's')"
    )
    await sql.execute(
        "INSERT INTO hookwire.replays (tenant, state, source, actor, lower_event_id, last_event_id, upper_event_id,"
        f" updated_at) SELECT 'default', state, 'dead_letters', 'a', 0, 0, 9, {ago}"
        " FROM unnest(ARRAY['done', 'paused']) state"
    )
    await sql.execute(
        "INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state, updated_at)"
        f" SELECT gen_random_uuid()::text, protocol, 't', 'http://c.example/', state, {ago}"
        " FROM unnest(ARRAY['webhook', 'rabbithub']) protocol,"
        " unnest(ARRAY['active', 'disabled', 'gone', 'deleted']) state"
    )


async def history(sql: asyncpg.Connection) -> tuple[int, list[str], list[str]]:
    return (
        await sql.fetchval("SELECT count(*) FROM hookwire.audit"),
        [row["state"] for row in await sql.fetch("SELECT state FROM hookwire.replays ORDER BY id")],
        [
            f"{row['protocol']} {row['state']}"
            for row in await sql.fetch("SELECT protocol, state FROM hookwire.subscriptions ORDER BY id")
        ],
    )


STANDING = ["webhook active", "webhook disabled", "rabbithub active", "rabbithub disabled", "rabbithub gone"]


async def test_old_history_goes_and_what_may_go_on_stays(database_url_both: str) -> None:
    """WH-25, RH-28: in batches of one; a paused replay may go on, a RabbitHub subscription may be brought back."""
    async with opened(database_url_both) as (database, sql):
        await past(sql, 366)
        young = await sql.fetchval("SELECT max(id) FROM hookwire.subscriptions")
        await past(sql, 364)
        removed = [await retention(database, batch=1).once() for _ in "12"]
        audit, replays, subscriptions = await history(sql)
        assert (removed, audit, replays) == (
            [Removed(history=5), Removed()], 1, ["paused", "done", "paused"],
        )  # fmt: skip
        assert (subscriptions[:5], len(subscriptions)) == (STANDING, 13)
        assert await sql.fetchval("SELECT count(*) FROM hookwire.subscriptions WHERE id > $1", young) == 8


async def test_api_keys_that_have_ended_long_ago_go_and_no_other(database_url_both: str) -> None:
    """WH-25: by the earlier of expiry and revocation; a key without either is for ever, and so is the first."""
    ends = {
        "for ever": (None, None), "expired": (366, None), "revoked": (None, 366), "revoked early": (-100, 366),
        "lately": (364, None), "both lately": (364, 3), "to come": (-366, None),
        "bootstrap": (None, 366),
    }  # fmt: skip
    async with opened(database_url_both) as (database, sql):
        for name, (expired, revoked) in ends.items():
            await sql.execute(
                "INSERT INTO hookwire.api_keys (public_id, name, digest, scopes, expires_at, revoked_at)"
                " VALUES ($1, $1, sha256($1::text::bytea), '{read}', now() - make_interval(days => $2::integer),"
                " now() - make_interval(days => $3::integer))",
                name,
                expired,
                revoked,
            )
        removed = [await retention(database, batch=2, history_days=days).once() for days in (0, 365, 365)]
        left = [row["name"] for row in await sql.fetch("SELECT name FROM hookwire.api_keys ORDER BY id")]
        assert (removed, left) == (
            [Removed(), Removed(history=3), Removed()], ["for ever", "lately", "both lately", "to come", "bootstrap"],
        )  # fmt: skip


@pytest.mark.parametrize("days", [0, 36_500])
async def test_on_a_young_hub_and_with_zero_days_no_history_goes(database_url: str, days: int) -> None:
    async with opened(database_url) as (database, sql):
        empty = await retention(database, history_days=days).once()
        await past(sql, 4000)
        before = await history(sql)
        removed = await retention(database, history_days=days).once()
        assert (empty, removed, await history(sql)) == (Removed(), Removed(), before)


SPOKEN_OF = {
    "attempts": "INSERT INTO hookwire.attempts (event_id, subscription_id, started_at, number, total_seconds, tenant,"
    " outcome, decision, trigger, worker)"
    " VALUES (7, $1, now(), 1, 0, 'default', 'delivered', 'delivered', 'first', 'w')",
    "deliveries": "INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant)"
    " VALUES (7, $1, now(), now(), 'default')",
    "dead letters": "INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts)"
    " VALUES (7, $1, 'default', 'gone', 1)",
    "a paused replay": "INSERT INTO hookwire.replays (tenant, state, source, subscription_id, actor, lower_event_id,"
    " last_event_id, upper_event_id) VALUES ('default', 'paused', 'events', $1, 'a', 0, 0, 9)",
    "a queue": "INSERT INTO hookwire.rabbithub_resources (vhost, kind, name, source) VALUES ('/', 'q', 'q', $1)",
}


@pytest.mark.parametrize("mention", SPOKEN_OF.values(), ids=SPOKEN_OF.keys())
async def test_an_ended_subscription_that_something_speaks_of_stays(database_url: str, mention: str) -> None:
    """Else what it has got could not be listed any more."""
    async with opened(database_url) as (database, sql):
        ended = [
            await sql.fetchval(
                "INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state, updated_at)"
                " VALUES ($1, 'webhook', 't', 'http://c.example/', 'deleted', now() - interval '2 years') RETURNING id",
                name,
            )
            for name in ("spoken of", "forgotten")
        ]
        await sql.execute(mention, ended[0])
        await sql.execute(
            "INSERT INTO hookwire.delivery_failures (subscription_id, failures, settled_at, failed)"
            " SELECT unnest($1::bigint[]), 9, '{}', '{}'",
            ended,
        )
        removed = await retention(database).once()
        left = [row["id"] for row in await sql.fetch("SELECT id FROM hookwire.subscriptions")]
        counted = [row["id"] for row in await sql.fetch("SELECT subscription_id AS id FROM hookwire.delivery_failures")]
        assert (removed, left, counted) == (Removed(history=1), ended[:1], ended[:1])


# --- topics with a time of their own ------------------------------------------------------------------------------


async def keep(sql: asyncpg.Connection, topic: str, days: int) -> None:
    """The topic's own time."""
    await sql.execute("INSERT INTO hookwire.topics (name, retention_days) VALUES ($1, $2)", topic, days)


@pytest.mark.parametrize(
    ("own", "hub", "stays"),
    [
        (7, 30, [False, False]),
        (60, 30, [True, False]),
        (0, 30, [True, False]),
        (7, 0, [False, True]),
        (0, 0, [True, True]),
    ],
    ids=["shorter", "longer", "for ever", "where the hub keeps all", "all for ever"],
)
async def test_a_topic_keeps_its_events_for_a_time_of_its_own(
    database_url_both: str, own: int, hub: int, stays: list[bool]
) -> None:
    """WH-P08: of an event of the topic and one of another, both 40 days old; each topic's latest stays anyway."""
    async with opened(database_url_both) as (database, sql):
        await keep(sql, "own", own)
        ids = await publish(sql, 9, "own") + await publish(sql, 9, "other")
        await age(database, sql, 40)
        for _ in "12":
            await retention(database, event_days=hub).once()
        left = await events(sql)
        assert [ids[0] in left, ids[9] in left] == stays
        assert {ids[8], ids[17]} <= set(left)


async def test_a_topic_s_shorter_time_takes_nothing_that_is_younger_or_needed(database_url: str) -> None:
    """I1, RR-05."""
    async with opened(database_url) as (database, sql):
        await keep(sql, "t", 7)
        old = await publish(sql, 20)
        await age(database, sql, 10)
        young = await publish(sql, 5)
        for _ in "12":
            await Ledger(database).fold()
        await sql.execute(NEEDED["owed to a subscription"], old[3])
        removed = await retention(database).once()
        assert (removed, await events(sql)) == (Removed(events=19), [old[3], *young])


async def test_on_a_young_hub_a_topic_s_shorter_time_takes_nothing(database_url: str) -> None:
    """I1: no day of so long ago has a watermark."""
    async with opened(database_url) as (database, sql):
        await keep(sql, "t", 1)
        young = await publish(sql, 5)
        await age(database, sql, 0)
        assert (await retention(database).once(), await events(sql)) == (Removed(), young)


# --- whole partitions --------------------------------------------------------------------------------------------


async def busy_past(database: Database, sql: asyncpg.Connection) -> list[int]:
    """One event in each of the first three partitions, so many ids apart that a partition fills in a day."""
    ids = []
    for number in (5, SIZE + 5, 2 * SIZE + 5):
        await sql.execute("SELECT setval('hookwire.event_id', $1)", number)
        ids += await publish(sql, 1)
    await age(database, sql, 40, upto=2 * SIZE + 100)
    for day in range(8):
        await sql.execute(
            "INSERT INTO hookwire.id_watermarks VALUES (current_date - $1::integer, $2) ON CONFLICT (day) DO UPDATE"
            " SET last_id = excluded.last_id",
            day,
            (12 - day) * SIZE,
        )
    return ids


async def partitions(sql: asyncpg.Connection) -> set[str]:
    rows = await sql.fetch(
        "SELECT relname FROM pg_class WHERE relnamespace = 'hookwire'::regnamespace"
        " AND relname ~ '_0000000[0-2]$' AND relkind = 'r'"
    )
    return {row["relname"] for row in rows}


async def test_whole_partitions_that_are_old_are_dropped_and_a_new_one_is_waited_for(database_url_both: str) -> None:
    """RU-09, RR-05: in one piece, and its attempts with it; the partition that is not wholly old waits."""
    async with opened(database_url_both) as (database, sql):
        *_, last = await busy_past(database, sql)
        removed = await retention(database).once()
        assert (removed, await partitions(sql), await events(sql)) == (
            Removed(partitions=4),
            {"events_00000002", "attempts_00000002"},
            [last],
        )


async def test_a_column_of_a_partitions_row_type_keeps_no_partition(database_url_both: str) -> None:
    """GS-01: any role with USAGE on the schema can make such a column; it goes with the partition."""
    async with opened(database_url_both) as (database, sql):
        await busy_past(database, sql)
        async with stranger(database_url_both) as other:
            await other.run(
                "CREATE TABLE traps.kept (n integer, e hookwire.events_00000000); INSERT INTO traps.kept VALUES (7)"
            )
            removed = await retention(database).once()
            left = [dict(row) for row in await sql.fetch("SELECT * FROM traps.kept")]
        assert (removed.partitions, left) == (4, [{"n": 7}])


async def test_a_partition_with_something_that_is_needed_stays_and_the_rest_of_it_is_deleted(
    database_url: str,
) -> None:
    """RR-05: I1."""
    async with opened(database_url) as (database, sql):
        first, _, last = await busy_past(database, sql)
        await sql.execute(NEEDED["a dead letter"], first)
        await sql.execute(
            "INSERT INTO hookwire.events (id, accepted_at, ordered, tenant, topic, headers, sinks, payload)"
            " SELECT 1, accepted_at, ordered, tenant, topic, headers, sinks, payload"
            " FROM hookwire.events WHERE id = $1",
            first,
        )
        removed = await retention(database).once()
        assert (removed, await events(sql)) == (Removed(events=1, partitions=2), [first, last])
        assert "events_00000000" in await partitions(sql)


@pytest.mark.parametrize(("days", "kept"), [(0, True), (365, True), (35, False)])
async def test_a_partition_stays_for_a_topic_that_keeps_its_events_for_longer(
    database_url: str, days: int, kept: bool
) -> None:
    """RR-05: its other events are deleted; a time of its own that is over too keeps nothing."""
    async with opened(database_url) as (database, sql):
        await keep(sql, "audit", days)
        ids = await busy_past(database, sql)
        await sql.execute("UPDATE hookwire.events SET topic = 'audit' WHERE id = $1", ids[0])
        await publish(sql, 1, "audit")
        await retention(database).once()
        assert (ids[0] in await events(sql), ids[1] in await events(sql)) == (kept, False)
        assert ("events_00000000" in await partitions(sql)) == kept


async def test_a_partition_is_detached_beside_an_idle_transaction_that_reads(database_url: str) -> None:
    """RR-05: publishing goes on; the detaching waits, is cut short, and is finished by a later round."""
    async with opened(database_url) as (_, sql):
        slow = await open_database(PoolOptions(database_url, statement_seconds=2.0))
        reader = await asyncpg.connect(database_url)
        try:
            await busy_past(slow, sql)
            reading = reader.transaction()
            await reading.start()
            await reader.fetchval("SELECT count(*) FROM hookwire.events")
            first = await retention(slow).once()
            await publish(sql, 1)
            await reading.rollback()
            finished = await retention(slow).once()
        finally:
            await reader.close()
            await slow.aclose()
        # Attempts, which nobody reads, went in the first round.
        assert (first.partitions, finished.partitions) == (2, 2)
        assert await partitions(sql) == {"events_00000002", "attempts_00000002"}

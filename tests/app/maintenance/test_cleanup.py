"""Clean-up on a real database: partitions ahead, old keys deleted, deliveries of ended subscriptions cancelled."""

import asyncio
from typing import Any

import asyncpg
import pytest

from app.maintenance.cleanup import Cleanup
from db.errors import Unavailable
from db.pool import Database
from hub.keys import Keys, NewKey
from tests.app.conftest import opened

DAY = 86_400


async def partitions(sql: asyncpg.Connection) -> int:
    return int(await sql.fetchval("SELECT count(*) FROM pg_inherits WHERE inhparent = 'hookwire.events'::regclass"))


async def remember(sql: asyncpg.Connection, key: str, age_seconds: int) -> None:
    await sql.execute(
        "INSERT INTO hookwire.idempotency_keys (tenant, key, fingerprint, event_id, accepted_at, ordered)"
        " SELECT 'default', $1 || n, 'f', n, now() - make_interval(secs => $2), true FROM generate_series(1, 3) n",
        key,
        age_seconds,
    )


async def subscribe(sql: asyncpg.Connection, protocol: str, state: str, deliveries: int) -> int:
    identity = await sql.fetchval(
        "INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state, state_reason)"
        " VALUES ('sub_' || gen_random_uuid(), $1, 't', 'https://a.example/', $2, 'why') RETURNING id",
        protocol,
        state,
    )
    await sql.execute(
        "INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant, attempts, last_status)"
        " SELECT n, $1, now(), now(), 'default', 2, 500 FROM generate_series(1, $2::bigint) n",
        identity,
        deliveries,
    )
    return int(identity)


async def test_partitions_are_made_ahead_of_the_ids(database_url: str) -> None:
    """RR-05: nobody's transaction ever runs out of them."""
    async with opened(database_url) as (database, sql):
        cleanup = Cleanup(database, DAY)
        before = await partitions(sql)
        nothing = await cleanup.once()
        await sql.execute("SELECT setval('hookwire.event_id', 45000000)")
        made = await cleanup.once()
        await sql.execute("SELECT hookwire.publish('t', 'x'::text)")
        assert (nothing, made % 2, await partitions(sql) - before, made > 0) == (0, 0, made // 2, True)


async def test_kept_answers_are_forgotten_in_time(database_url: str) -> None:
    """GS-10: as long as the keys of publishing."""
    async with opened(database_url) as (database, sql):
        await sql.execute(
            "INSERT INTO hookwire.kept_answers SELECT 'default', '', '/jobs', 'k' || n, 'f', 201, '{}', '',"
            " now() - make_interval(secs => n) FROM unnest(ARRAY[100, 10]) n"
        )
        await Cleanup(database, 60).once()
        assert await sql.fetchval("SELECT array_agg(key) FROM hookwire.kept_answers") == ["k10"]


async def test_sessions_of_the_console_are_deleted_when_their_time_is_over(database_url: str) -> None:
    async with opened(database_url) as (database, sql):
        key, _ = await Keys(database).create(NewKey("test", ["read"]))
        await sql.execute(
            "INSERT INTO hookwire.console_sessions (digest, key_id, expires_at)"
            " SELECT sha256(n::text::bytea), $1, now() + make_interval(secs => n) FROM unnest(ARRAY[-10, 60]) n",
            key["id"],
        )
        await Cleanup(database, 60).once()
        left = await sql.fetch("SELECT digest = sha256('60') AS is_young FROM hookwire.console_sessions")
        assert [row["is_young"] for row in left] == [True]


async def test_idempotency_keys_are_forgotten_in_time(database_url: str) -> None:
    async with opened(database_url) as (database, sql):
        await remember(sql, "old", 100)
        await remember(sql, "young", 10)
        await Cleanup(database, 60).once()
        left = await sql.fetch("SELECT key FROM hookwire.idempotency_keys ORDER BY key")
        assert [row["key"] for row in left] == ["young1", "young2", "young3"]


async def test_requests_at_inbound_sources_are_forgotten_after_a_week(database_url: str) -> None:
    """A refused body may be somebody's data, and a door that gets no more requests kept it for ever."""
    async with opened(database_url) as (database, sql):
        await sql.execute(
            "INSERT INTO hookwire.inbound_sources (name, preset, settings, remember_seconds)"
            " VALUES ('github', 'github', '{}', 60);"
            "INSERT INTO hookwire.inbound_requests (source, outcome, arrived_at, address, bytes, body)"
            " SELECT 'github', 'refused', now() - make_interval(days => n), '', 1, 'x' FROM unnest(ARRAY[6, 8]) AS n"
        )
        await Cleanup(database, DAY).once()
        left = await sql.fetchval(
            "SELECT array_agg(date_part('day', now() - arrived_at)) FROM hookwire.inbound_requests"
        )
        assert left == [6]


async def test_what_is_owed_to_subscriptions_that_ended_is_cancelled(database_url: str) -> None:
    """WH-I10: an end that was cut short, or a fan-out that overlapped with it; WebSub's are dropped (DL-10)."""
    async with opened(database_url) as (database, sql):
        states = ("active", "disabled", "gone", "deleted")
        webhooks = {await subscribe(sql, "webhook", state, 3): state for state in states}
        websubs = {await subscribe(sql, "websub", state, 3): state for state in ("active", "expired", "denied", "gone")}
        await Cleanup(database, DAY).once()
        left = await sql.fetch("SELECT subscription_id, count(*) AS n FROM hookwire.deliveries GROUP BY 1")
        named = webhooks | websubs
        assert sorted((named[row["subscription_id"]], row["n"]) for row in left) == [
            ("active", 3), ("active", 3), ("disabled", 3),
        ]  # fmt: skip
        dead = await sql.fetch(
            "SELECT subscription_id, kind, attempts, last_status, detail, count(*) AS n"
            " FROM hookwire.dead_letters GROUP BY 1, 2, 3, 4, 5"
        )
        assert sorted((named[row["subscription_id"]], *list(row)[1:]) for row in dead) == [
            ("deleted", "gone", 2, 500, "why", 3), ("gone", "gone", 2, 500, "why", 3),
        ]  # fmt: skip


async def test_a_long_queue_is_cancelled_in_batches(database_url: str) -> None:
    async with opened(database_url) as (database, sql):
        await subscribe(sql, "webhook", "gone", 12_000)
        await Cleanup(database, DAY).once()
        assert await sql.fetchval("SELECT count(*) FROM hookwire.dead_letters") == 12_000


async def test_two_processes_keep_one_house(database_url: str) -> None:
    async with opened(database_url) as (database, sql):
        await sql.execute("SELECT setval('hookwire.event_id', 45000000)")
        await subscribe(sql, "webhook", "gone", 500)
        made = await asyncio.gather(*(Cleanup(database, DAY).once() for _ in range(4)))
        assert (sorted(made)[:3], await sql.fetchval("SELECT count(*) FROM hookwire.dead_letters")) == ([0, 0, 0], 500)


class Failing(Database):
    """Fails the first rounds, then lets everything through."""

    def __init__(self, inner: Database, rounds: int) -> None:
        super().__init__(inner._pool, inner.options)
        self._rounds = rounds
        self.done = asyncio.Event()

    async def fetchval(self, name: str, *args: object) -> Any:
        if name == "event.ensure_partitions" and self._rounds > 0:
            self._rounds -= 1
            raise Unavailable("away")
        return await super().fetchval(name, *args)

    async def fetch(self, name: str, *args: object) -> Any:
        self.done.set()
        return await super().fetch(name, *args)


async def test_it_goes_on_when_the_database_was_away_until_it_is_stopped(database_url: str) -> None:
    async with opened(database_url) as (database, _):
        failing = Failing(database, 2)
        cleanup = Cleanup(failing, DAY, interval_seconds=0.01)
        async with asyncio.timeout(45), asyncio.TaskGroup() as tasks:
            tasks.create_task(cleanup.run())
            await failing.done.wait()
            cleanup.stop()


async def test_a_stop_does_not_wait_for_the_next_round(database_url: str) -> None:
    async with opened(database_url) as (database, _):
        cleanup = Cleanup(database, DAY, interval_seconds=3600)
        cleanup.stop()
        async with asyncio.timeout(20):
            await cleanup.run()


@pytest.mark.parametrize("stopped", [False, True])
async def test_a_stop_ends_a_long_round_between_two_batches(database_url: str, stopped: bool) -> None:
    async with opened(database_url) as (database, sql):
        await subscribe(sql, "webhook", "gone", 10)
        cleanup = Cleanup(database, DAY)
        if stopped:
            cleanup.stop()
        await cleanup.once()
        assert await sql.fetchval("SELECT count(*) FROM hookwire.dead_letters") == (0 if stopped else 10)

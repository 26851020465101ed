"""What waits is told while nothing moves (RO-11, RU-11)."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from app.maintenance.rollups import Rollups
from app.verdict.current_verdict import CurrentVerdict
from app.web.backlog import Backlog
from tests.app.conftest import opened
from tests.relay.harness import FaultyDatabase

KAFKA = {"sink": "kafka"}
_OF_A_SINK = ("outbox_waiting", "hold_oldest_seconds")


async def stalled(sql: asyncpg.Connection) -> None:
    """Three events wait for Kafka, the oldest for an hour; of two others that are held, one since yesterday."""
    await sql.execute("UPDATE hookwire.sinks SET configured = (name = 'kafka')")
    await sql.execute("SELECT hookwire.publish('orders', 'x'::bytea, key => 'k') FROM generate_series(1, 3)")
    await sql.execute(
        "UPDATE hookwire.events SET accepted_at = now() - interval '1 hour'"
        " WHERE id = (SELECT min(id) FROM hookwire.events)"
    )
    await sql.executemany(
        "INSERT INTO hookwire.holds (sink, tenant, topic, key, reason, detail, since, probe_at)"
        " VALUES ('kafka', 'default', 'orders', $1, 'too_large', '', now() - $2::text::interval, now())",
        [("", "1 day"), ("a", "1 minute"), ("b", "1 minute"), ("\x1f7", "1 minute")],
    )


async def test_a_relay_that_stands_still_is_seen_by_what_waits(database_url: str) -> None:
    """RU-11, RO-11, RL-12: no relay runs here at all, and nothing was ever acknowledged."""
    registry = CollectorRegistry()
    async with opened(database_url) as (database, sql):
        await stalled(sql)
        await Backlog(CurrentVerdict(database), registry).refresh()

    def told(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"hookwire_{name}", {**KAFKA, **labels})

    assert (told("outbox_waiting"), told("outbox_held"), told("outbox_led")) == (3, 0, 0)
    assert registry.get_sample_value("hookwire_outbox_led", {"sink": "amqp"}) is None, "there is no such sink here"
    assert [told("holds", scope=scope) for scope in ("topic", "key", "record")] == [1, 2, 1]
    assert 3_600 <= (told("outbox_oldest_seconds") or 0) < 3_700
    assert 86_400 <= (told("hold_oldest_seconds") or 0) < 86_500


async def test_without_an_answer_nothing_old_is_told_as_new(database_url: str) -> None:
    registry = CollectorRegistry()
    async with opened(database_url) as (database, sql):
        await stalled(sql)
        faulty = FaultyDatabase(database)
        backlog = Backlog(CurrentVerdict(faulty, 0, 0, 0, 0), registry)
        found = []
        for faults in ({}, {"verdict.totals": 1}, {"outbox.oldest": 1}, {}):
            faulty.faults = dict(faults)
            await backlog.refresh()
            waiting, held = (registry.get_sample_value(f"hookwire_{name}", KAFKA) for name in _OF_A_SINK)
            found.append([registry.get_sample_value("hookwire_database_up"), waiting, held is not None])
    assert found == [[1, 3, True], [0, None, False], [1, None, True], [1, 3, True]]


@pytest.mark.parametrize(("fresh_seconds", "kept_times"), [(60, 0), (0, 1e9)], ids=["just asked", "took long"])
async def test_many_readers_ask_the_database_once(database_url: str, fresh_seconds: float, kept_times: float) -> None:
    registry = CollectorRegistry()
    async with opened(database_url) as (database, sql):
        await stalled(sql)
        backlog = Backlog(CurrentVerdict(database, 0, 0, fresh_seconds, kept_times), registry)
        await backlog.refresh()
        await sql.execute("DELETE FROM hookwire.outbox")
        await backlog.refresh()
    assert registry.get_sample_value("hookwire_outbox_waiting", KAFKA) == 3


async def test_who_reads_while_the_database_is_asked_waits_for_the_answer(database_url: str) -> None:
    registry, seen = CollectorRegistry(), []
    async with opened(database_url) as (database, _):
        backlog = Backlog(CurrentVerdict(database), registry)

        async def read() -> None:
            await backlog.refresh()
            seen.append(registry.get_sample_value("hookwire_database_up"))

        await asyncio.gather(read(), read())
    assert seen == [1, 1]


async def test_a_database_that_is_back_is_told_at_the_next_reading(database_url: str) -> None:
    """However long it was before its silence was noticed: only an answer that took long is kept for long."""
    registry, seen = CollectorRegistry(), []
    async with opened(database_url) as (database, _):
        faulty = FaultyDatabase(database)
        faulty.faults = {"verdict.totals": 1}
        backlog = Backlog(CurrentVerdict(faulty, 0, 1e9, 0, 1e9), registry)
        for _ in "12":
            await backlog.refresh()
            seen.append(registry.get_sample_value("hookwire_database_up"))
    assert seen == [0, 1]


async def test_the_times_of_failing_subscriptions_are_told_by_quantile(database_url: str) -> None:
    registry = CollectorRegistry()
    async with opened(database_url) as (database, sql):
        await sql.execute(
            "INSERT INTO hookwire.subscriptions (public_id, topic, callback, protocol, state, paused_until)"
            " VALUES ('sub_a', 'a', 'http://127.0.0.1:1/', 'webhook', 'active', now() + interval '1 hour')"
        )
        await sql.execute(
            "INSERT INTO hookwire.attempt_entries (subscription_ids, seconds, ages)"
            " SELECT array_agg(s.id), array_agg(0.02 * n), array_agg(NULL::real)"
            " FROM hookwire.subscriptions s, generate_series(1, 100) AS n"
        )
        await Rollups(database).fold()
        await Backlog(CurrentVerdict(database), registry).refresh()
    told = {
        share: registry.get_sample_value(
            "hookwire_subscription_attempt_seconds", {"subscription": "sub_a", "quantile": share}
        )
        for share in ("0.5", "0.95", "0.99")
    }
    assert {share: (told[share] or 0) / (2 * float(share)) for share in told} == pytest.approx(
        dict.fromkeys(told, 1), rel=0.1
    )

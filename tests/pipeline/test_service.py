"""Deliveries, metrics and service levels: attempts as silver and gold, in the lake and in PostgreSQL (PL-02..PL-04)."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

from app.cli.main import application
from app.cli.pipeline.service import _kept_since, _noted_backlog, _put
from db.pool import PoolOptions, open_database
from pipeline.day import counts_of_days
from pipeline.delivery import ATTEMPT, deliveries, delivery_table
from pipeline.delta.snapshot import Change
from pipeline.frame import frame_of
from pipeline.metric import metric_table, metrics
from pipeline.slo import slo
from pipeline.storage import LakeStorage

DAY = datetime(2026, 1, 15, tzinfo=UTC)


def attempts(spark: SparkSession, *given: dict[str, Any]) -> DataFrame:
    usual = {
        "tenant": "default", "event_id": 1, "topic": "orders", "accepted_at": DAY, "subscription": "sub_a",
        "protocol": "webhook", "number": 1, "trigger": "first", "started_at": DAY, "connect_seconds": None,
        "first_byte_seconds": None, "seconds": 0.1, "status": 200, "outcome": "delivered", "decision": "delivered",
    }  # fmt: skip
    return frame_of(spark, [[*(usual | one).values()] for one in given], ATTEMPT)


def failed(status: int | None, outcome: str) -> dict[str, Any]:
    return {"status": status, "outcome": outcome, "decision": "retry"}


def test_each_failure_has_a_class(spark: SparkSession) -> None:
    """PL-02: by who has to mend it."""
    found = [
        (200, "delivered"), (401, "client_error"), (410, "gone"), (429, "throttled"), (502, "throttled"),
        (301, "redirect"), (422, "client_error"), (500, "server_error"), (None, "timeout"), (None, "dns"),
        (None, "bad_response"),
    ]  # fmt: skip
    rows = deliveries(attempts(spark, *(failed(*each) | {"event_id": n} for n, each in enumerate(found))))
    assert [row.error_class for row in rows.orderBy("event_id").collect()] == [
        None, "credentials", "gone", "throttled", "throttled", "redirect", "refused", "failing", "timeout",
        "unreachable", "other",
    ]  # fmt: skip
    assert {row.dt for row in rows.collect()} == {DAY.date()}


def test_an_hour_of_a_subscription_is_one_row(spark: SparkSession) -> None:
    """PL-03, PL-X08: percentiles of the hour's own attempts."""
    tries = [{"event_id": n, "seconds": n / 100} for n in range(1, 100)]
    again = [{"event_id": 3, "number": 2, "started_at": DAY + timedelta(minutes=9), "seconds": 1.0}]
    dead = [failed(500, "server_error") | {"event_id": 200, "decision": "dead", "subscription": "sub_b"}]
    rows = metrics(deliveries(attempts(spark, *tries, *again, *dead))).orderBy("subscription").collect()
    served, broken = (row.asDict() for row in rows)
    assert {name: served[name] for name in ("attempts", "delivered", "retries", "dead")} == {
        "attempts": 100, "delivered": 100, "retries": 1, "dead": 0,
    }  # fmt: skip
    assert (served["p50_seconds"], served["p95_seconds"], served["oldest_seconds"]) == (
        pytest.approx(0.505), pytest.approx(0.9505), 540.0,
    )  # fmt: skip
    assert (served["tries_to_success"], broken["tries_to_success"], broken["dead"]) == (1.01, None, 1)


def test_a_budget_is_that_of_28_days(spark: SparkSession) -> None:
    """PL-04: what failed 28 days ago is forgotten; all together have a row too."""
    good = [{"event_id": n, "started_at": DAY + timedelta(days=27)} for n in range(98)]
    first = [failed(500, "server_error") | {"event_id": 500}]
    other = [{"subscription": "sub_b", "event_id": 600, "started_at": DAY + timedelta(days=28)}]
    rows = slo(metrics(deliveries(attempts(spark, *good, *first, *other))), 0.99).collect()
    found = {(row.subscription, (row.dt - DAY.date()).days): (row.attempts, round(row.burn, 3)) for row in rows}
    assert found == {
        ("sub_a", 0): (1, 100.0), ("sub_a", 27): (99, 1.01), ("sub_b", 28): (1, 0.0),
        ("", 0): (1, 100.0), ("", 27): (99, 1.01), ("", 28): (99, 0.0),
    }  # fmt: skip


ATTEMPTS = """
INSERT INTO hookwire.attempts (event_id, subscription_id, started_at, number, total_seconds, tenant, outcome, decision,
                               trigger, worker)
SELECT n, 1, $1, 1, n / 100.0, 'default', CASE n WHEN 2 THEN 'timeout' ELSE 'delivered' END,
       CASE n WHEN 2 THEN 'retry' ELSE 'delivered' END, 'first', 'w'
FROM generate_series($2::bigint, $3) AS n
"""
SUBSCRIPTION = """
INSERT INTO hookwire.subscriptions (id, public_id, protocol, topic, callback, state) OVERRIDING SYSTEM VALUE
VALUES (1, 'sub_a', 'webhook', 'orders', 'https://a.example/', 'active')
"""


@pytest.fixture
def query(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Plain SQL in the hub's database, which the commands are told of too."""
    monkeypatch.setenv("HOOKWIRE_DATABASE_URL", database_url)

    async def asked(text: str, *arguments: object) -> list[Any]:
        connection = await asyncpg.connect(database_url)
        try:
            return await connection.fetch(text, *arguments)
        finally:
            await connection.close()

    return lambda text, *arguments: asyncio.run(asked(text, *arguments))


def test_a_day_may_be_made_any_number_of_times(
    spark: SparkSession, lake_uri: str, query: Callable[..., list[Any]]
) -> None:
    """PL-02..PL-04, PL-X04, PL-X06: what grew is made anew, what the database forgot stays, a batch is put in once."""

    def hookwire(job: str) -> tuple[int, Any]:
        words = ["pipeline", job, "--since", "2026-01-15", "--until", "2026-01-15", "--lake", lake_uri, "--json"]
        done = CliRunner().invoke(application("pipeline"), words, catch_exceptions=False)
        return done.exit_code, json.loads(done.stdout)

    day, measured = ["2026-01-15"], "SELECT attempts, delivered, round(p50_seconds * 100) FROM hookwire.lake_metrics"
    query(SUBSCRIPTION)
    query(ATTEMPTS, DAY, 1, 3)
    assert hookwire("deliveries") == (0, {"days": day, "rows": 3})
    assert hookwire("metrics") == (0, {"days": day, "rows_in_database": 1, "waiting": 0})
    assert hookwire("metrics") == (0, {"days": [], "rows_in_database": 0, "waiting": 0})
    query(ATTEMPTS, DAY, 4, 5)
    assert (hookwire("deliveries"), hookwire("metrics")[1]["days"]) == ((0, {"days": day, "rows": 5}), day)
    assert [tuple(row) for row in query(measured)] == [(5, 4, 3)]
    query("DELETE FROM hookwire.attempts")
    assert hookwire("deliveries") == (0, {"days": [], "rows": 0})
    assert counts_of_days(delivery_table(LakeStorage(lake_uri)).snapshot()) == {date(2026, 1, 15): 5}
    query("TRUNCATE hookwire.lake_batches, hookwire.lake_metrics")  # killed between the lake and the database
    assert (hookwire("metrics")[1]["rows_in_database"], [tuple(row) for row in query(measured)]) == (1, [(5, 4, 3)])
    code, levels = hookwire("slo")
    assert (code, levels["days"], levels["rows_in_database"]) == (1, day, 2)
    assert [tuple(row) for row in query("SELECT subscription, share FROM hookwire.lake_slo ORDER BY 1")] == [
        ("", 0.8), ("sub_a", 0.8),
    ]  # fmt: skip
    assert [row["subscription"] for row in levels["overdrawn"]] == ["", "sub_a"]


async def test_what_waits_is_counted_page_by_page(database_url: str) -> None:
    """PL-03: as one look over all deliveries would; what has lost its event or its subscription is nobody's."""
    sql = await asyncpg.connect(database_url)
    database = await open_database(PoolOptions(database_url, connections_min=1))
    try:
        nothing = await _noted_backlog(database, 3)
        await sql.execute(SUBSCRIPTION + ", (2, 'sub_b', 'webhook', '#', 'https://b.example/', 'active')")
        await sql.execute(
            "INSERT INTO hookwire.events (id, accepted_at, ordered, tenant, topic, headers, sinks, payload)"
            " SELECT n, now() - make_interval(hours => n), true, 'default', 't' || n % 2, '{}', '{webhooks}', ''"
            " FROM generate_series(1, 5) n"
        )
        await sql.execute(
            "INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant)"
            " SELECT n, s, now(), now(), 'default' FROM generate_series(1, 6) n, generate_series(1, 3) s"
        )
        for page in (1, 3, 18, 1000):
            assert await _noted_backlog(database, page) == 10
            rows = await sql.fetch(
                "SELECT topic, subscription, waiting, round(oldest_seconds / 3600)::integer AS hours, at"
                " FROM hookwire.lake_backlog ORDER BY at DESC, subscription, topic LIMIT 4"
            )
            assert [tuple(row)[:4] for row in rows] == [
                ("t0", "sub_a", 2, 4), ("t1", "sub_a", 3, 5), ("t0", "sub_b", 2, 4), ("t1", "sub_b", 3, 5),
            ]  # fmt: skip
    finally:
        await database.aclose()
        await sql.close()
    assert nothing == 0


async def test_an_entry_that_the_database_has_forgotten_is_not_put_in_again(database_url: str, lake_uri: str) -> None:
    """PL-X04: with HOOKWIRE_GOLD_RETENTION_DAYS its rows go, and a day later the note that it was there."""
    table = metric_table(LakeStorage(lake_uri))
    table.commit(table.snapshot(), Change("metrics", "run", notes={"days": {"2026-01-15": 0}}))
    table.commit(table.snapshot(), Change("check", "run", notes={"quarantined": []}))
    database = await open_database(PoolOptions(database_url, connections_min=1))
    try:
        for since, put in ((datetime.now(UTC) + timedelta(hours=1), 0), (_kept_since(1), 2), (_kept_since(0), 2)):
            await _put(database, None, "metrics", table, since)
            assert len(await database.fetch("gold.batches", "metrics")) == put
    finally:
        await database.aclose()

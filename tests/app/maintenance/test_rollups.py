"""Rollups: what settlements leave behind, folded into minutes, hours and days (CN-10, CN-11)."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from app.maintenance.rollups import Rollups
from runtime.duration_histogram import DurationHistogram
from tests.relay.harness import Harness, relay_harness

AT = (datetime.now(UTC) - timedelta(days=1)).replace(hour=9, minute=30, second=12, microsecond=0)


@pytest.fixture
async def harness(database_url_both: str) -> AsyncIterator[Harness]:
    async with relay_harness(database_url_both) as harness:
        yield harness


async def entry(
    connection: asyncpg.Connection, *attempts: tuple[int, float | None, float | None], at: datetime = AT
) -> None:
    """Write one settlement's entry: subscription, seconds and age of each attempt."""
    await connection.execute(
        "INSERT INTO hookwire.attempt_entries (settled_at, subscription_ids, seconds, ages) VALUES ($1, $2, $3, $4)",
        at, *(list(column) for column in zip(*attempts, strict=True)),
    )  # fmt: skip


async def counts(connection: asyncpg.Connection, subscription: int) -> list[tuple[str, datetime, int, int, int]]:
    """Return grain, begin, attempts, deliveries and timed deliveries of each row."""
    rows = await connection.fetch(
        "SELECT grain, at, attempts, delivered,"
        " coalesce((SELECT sum(n) FROM unnest(age_counts) AS n), 0) AS timed"
        " FROM hookwire.attempt_rollups WHERE subscription_id = $1 ORDER BY grain, at",
        subscription,
    )
    return [(row["grain"], row["at"], row["attempts"], row["delivered"], int(row["timed"])) for row in rows]


async def test_attempts_are_counted_by_minute_hour_and_day(harness: Harness) -> None:
    await entry(harness.connection, (7, 0.01, 0.02), (7, 0.03, None), (8, 0.01, 0.02))
    await entry(harness.connection, (7, 0.02, -1.0), at=AT + timedelta(minutes=1))
    await Rollups(harness.database).fold()
    day = AT.replace(hour=0, minute=0, second=0)
    assert await counts(harness.connection, 7) == [
        ("day", day, 3, 2, 1),
        ("hour", AT.replace(minute=0, second=0), 3, 2, 1),
        ("minute", AT.replace(second=0), 2, 1, 1),
        ("minute", AT.replace(minute=31, second=0), 1, 1, 0),
    ]


async def test_what_ended_before_anything_was_sent_is_counted_and_not_timed(harness: Harness) -> None:
    await entry(harness.connection, (7, -1.0, None), (7, 0.02, 0.03))
    await Rollups(harness.database).fold()
    row = await harness.connection.fetchrow("SELECT * FROM hookwire.attempt_rollups WHERE grain = 'day'")
    assert row is not None
    assert (row["attempts"], row["latency_counts"]) == (2, [1])


async def test_a_late_success_adds_a_delivery_and_no_attempt(harness: Harness) -> None:
    await entry(harness.connection, (7, 0.01, None))
    await entry(harness.connection, (7, None, -1.0))
    await Rollups(harness.database).fold()
    assert (await counts(harness.connection, 7))[0][2:] == (1, 1, 0)


async def test_folding_in_several_processes_counts_each_attempt_once(harness: Harness) -> None:
    for number in range(400):
        await entry(harness.connection, (number % 5, 0.01, 0.02), at=AT - timedelta(seconds=number % 90))
    await asyncio.gather(*(Rollups(harness.database).fold() for _ in range(4)))
    await Rollups(harness.database).fold()
    found = [row for subscription in range(5) for row in await counts(harness.connection, subscription)]
    assert [sum(row[2] for row in found if row[0] == grain) for grain in ("minute", "hour", "day")] == [400] * 3


async def test_an_entry_from_before_a_jump_of_the_clock_is_counted_within_an_hour(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    rollups = Rollups(harness.database)
    for hours in (0, 1):
        await entry(harness.connection, (7, 0.01, 0.02), at=AT + timedelta(hours=hours))
        await rollups.fold()
    await entry(harness.connection, (7, 0.01, 0.02), at=AT - timedelta(days=1))
    monkeypatch.setattr("app.maintenance.entry_walk._WHOLE_SECONDS", 0.0)
    rollups._entries._whole_at = 0.0
    await rollups.fold()
    assert sum(row[2] for row in await counts(harness.connection, 7) if row[0] == "day") == 3


async def test_old_minutes_go_and_their_hours_and_days_stay(harness: Harness) -> None:
    await entry(harness.connection, (7, 0.01, 0.02), at=datetime.now(UTC) - timedelta(days=3))
    await Rollups(harness.database).fold()
    assert [row[0] for row in await counts(harness.connection, 7)] == ["day", "hour"]


async def test_a_quantile_lies_within_a_tenth_of_the_exact_one(harness: Harness) -> None:
    times = [0.0008 * 1.037**n for n in range(300)]
    await entry(harness.connection, *((7, seconds, seconds * 3) for seconds in times))
    await Rollups(harness.database).fold()
    row = await harness.connection.fetchrow("SELECT * FROM hookwire.attempt_rollups WHERE grain = 'minute'")
    assert row is not None
    off = [
        quantile(row, name, share) / (times[max(-(-len(times) * share // 100) - 1, 0)] * factor)
        for name, factor in (("latency", 1), ("age", 3))
        for share in (1, 50, 95, 99, 100)
    ]
    assert [1 / 1.1 <= ratio <= 1.1 for ratio in off] == [True] * 10


def quantile(row: Any, name: str, share: int) -> float:
    times = DurationHistogram()
    times.add(row[f"{name}_buckets"], row[f"{name}_counts"])
    found = times.quantile(share / 100)
    assert found is not None
    return found


async def test_a_failed_fold_leaves_its_entries(harness: Harness) -> None:
    await entry(harness.connection, (7, 0.01, 0.02))
    await harness.connection.execute("ALTER TABLE hookwire.attempt_rollups ADD CHECK (delivered < 0)")
    with pytest.raises(Exception, match="check"):
        await Rollups(harness.database).fold()
    assert await harness.connection.fetchval("SELECT count(*) FROM hookwire.attempt_entries") == 1

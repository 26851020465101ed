"""What the status page shows is asked once for all who look at it (SV-08)."""

from __future__ import annotations

import asyncio

import pytest

from app.verdict.counts import CurrentCounts
from app.verdict.current_verdict import CurrentVerdict
from app.web.console.status.status_page import outage_content
from app.web.outage import Outage, probe_connection
from app.web.overview import Overview, Status
from db.direct import Direct, connect_direct
from db.pool import PoolOptions
from tests.app.conftest import opened
from tests.relay.harness import FaultyDatabase


async def test_many_viewers_ask_the_database_once(database_url: str) -> None:
    async with opened(database_url) as (database, sql):
        overview = Overview(database, CurrentVerdict(database), "http://a", "development", "i", fresh_seconds=60)
        first = await overview.get()
        await sql.execute("SELECT hookwire.publish('orders', 'x'::bytea)")
        second = await overview.get()
    assert isinstance(first, Status)
    assert isinstance(second, Status)
    assert second.totals is first.totals


async def test_no_page_waits_for_a_long_count_and_the_next_one_has_it(database_url: str) -> None:
    """CN-11: it is counted again when the page has been sent."""
    async with opened(database_url) as (database, _):
        counts = CurrentCounts(database, patience_seconds=0)
        first = await counts.get()
        await counts.count()
        second = await counts.get()
    assert first is None
    assert second is not None


async def test_a_database_that_is_back_is_shown_at_the_next_look(database_url: str) -> None:
    async with opened(database_url) as (database, _):
        faulty = FaultyDatabase(database)
        faulty.faults = {"verdict.totals": 1}
        overview = Overview(
            faulty, CurrentVerdict(faulty, 0, 1e9), "http://a", "development", "i", fresh_seconds=0, kept_times=1e9
        )
        shown = [isinstance(await overview.get(), Status) for _ in "12"]
    assert shown == [False, True]


async def test_a_database_that_is_slow_is_told_from_one_that_cannot_be_reached(
    database_url: str, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What helps is not the same: the first has a server to ask who waits for whom."""
    monkeypatch.setattr("app.web.outage._PROBE_SECONDS", 60.0)
    gone = PoolOptions(f"postgresql://nobody@127.0.0.1:{free_port}/none")
    async with opened(database_url) as (database, sql):
        overview = Overview(database, CurrentVerdict(database), "http://a", "development", "i", deadline_seconds=0.1)
        async with sql.transaction():
            await sql.execute("LOCK TABLE hookwire.topics IN ACCESS EXCLUSIVE MODE")
            held = await overview.get()
        found = [held, await probe_connection(gone)]
    told = [outage_content(outage, {}) for outage in found]
    assert found == [Outage.SLOW, Outage.UNREACHABLE]
    assert ["pg_blocking_pids" in words for words in told] == [True, False]
    assert ["cannot be reached" in words for words in told] == [False, True]


async def test_all_who_ask_why_share_one_connection(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A load balancer looks every second, and a server that is slow has connections enough."""
    begun: list[object] = []

    async def connect(options: PoolOptions) -> Direct:
        begun.append(options)
        return await connect_direct(options)

    monkeypatch.setattr("app.web.outage._PROBE_SECONDS", 60.0)
    monkeypatch.setattr("app.web.outage.connect_direct", connect)
    async with opened(database_url) as (database, _):
        overview = Overview(database, CurrentVerdict(database), "http://a", "development", "i", fresh_seconds=60)
        found = await asyncio.gather(*(overview.classify_outage(TimeoutError()) for _ in range(9)))
    assert (found, len(begun)) == ([Outage.SLOW] * 9, 1)

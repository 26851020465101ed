"""What the status page shows is asked once for all who look at it (SV-08)."""

from __future__ import annotations

from app.overview import Overview
from app.pages.status import Status
from tests.app.conftest import opened
from tests.relay.stage import FaultyDatabase


async def test_many_viewers_ask_the_database_once(database_url: str) -> None:
    async with opened(database_url) as (database, sql):
        states = {"kafka": ("leading", "")}
        overview = Overview(database, "http://a", "development", "i", lambda: dict(states), fresh_seconds=60)
        first = await overview.look()
        await sql.execute("SELECT hookwire.publish('orders', 'x'::bytea)")
        states["kafka"] = ("standby", "")
        second = await overview.look()
    assert isinstance(first, Status)
    assert isinstance(second, Status)
    assert second.totals is first.totals
    assert second.relay_states == states, "what needs no database is told as it is"


async def test_a_database_that_is_back_is_shown_at_the_next_look(database_url: str) -> None:
    async with opened(database_url) as (database, _):
        faulty = FaultyDatabase(database)
        faulty.faults = {"outbox.oldest": 1}
        overview = Overview(faulty, "http://a", "development", "i", dict, fresh_seconds=0, kept_times=1e9)
        shown = [await overview.look() is not None for _ in "12"]
    assert shown == [False, True]

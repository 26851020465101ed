"""Retention of the notes of erased events."""

from __future__ import annotations

from app.maintenance.retention import Removed
from tests.app.conftest import opened
from tests.app.maintenance.test_retention import publish, retention


async def test_the_note_of_an_erased_event_goes_with_the_event(database_url: str) -> None:
    async with opened(database_url) as (database, sql):
        kept, gone = await publish(sql, 2)
        await database.fetchrow("erasure.erase", [kept, gone], "x", False)
        await sql.execute("DELETE FROM hookwire.events WHERE id = $1", gone)
        removed = await retention(database).once()
        left = [row["event_id"] for row in await sql.fetch("SELECT event_id FROM hookwire.erased_events")]

    assert (removed, left) == (Removed(erased=1), [kept])

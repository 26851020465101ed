"""Waking the relays of other processes (RR-15)."""

from __future__ import annotations

import asyncio

from app.bridges.notifier import Notifier
from db.direct import connect_direct
from db.pool import PoolOptions, open_database


async def test_rr15_a_commit_here_rings_a_listener_elsewhere_and_many_commits_ring_it_seldom(database_url: str) -> None:
    """RO-09, RR-15."""
    options = PoolOptions(database_url)
    database, listener = await open_database(options), await connect_direct(options)
    notifications: list[int] = []
    notified = asyncio.Event()
    await listener.listen("hookwire_outbox", lambda _: (notifications.append(1), notified.set()))
    notifier = Notifier(database, interval_seconds=0.2)
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        tasks.create_task(notifier.run())
        for _ in range(100):
            notifier.notify()
            await asyncio.sleep(0)
        await notified.wait()
        notifier.stop()
    await listener.aclose()
    await database.aclose()
    assert 1 <= len(notifications) <= 3

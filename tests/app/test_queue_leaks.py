"""What queues and tasks leave behind when their hub has stopped: nothing (JT-14)."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import asyncpg
import httpx

from tests.app.conftest import ALL_ROLES, RunHub
from tests.waiting import until

_SESSIONS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND backend_type = 'client backend'"
)
_LOCKS = (
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


async def test_no_connection_task_or_lock_is_left(running_hub: RunHub, database_url: str) -> None:
    """JT-14, JF-46: receivers that wait, one that went away, claims that were not settled."""
    before = asyncio.all_tasks()
    sql = await asyncpg.connect(database_url)
    async with running_hub(ALL_ROLES) as hub:
        await hub.client.post("/queues/q/messages", content=b"x")
        await hub.client.post("/queues/q/receive", json={"max": 1})
        waiting = asyncio.create_task(hub.client.post("/queues/q/receive", json={"wait_seconds": 20}))
        async with httpx.AsyncClient(base_url=hub.url, timeout=0.2) as gone:
            with suppress(httpx.TimeoutException):
                await gone.post("/queues/q/receive", json={"wait_seconds": 20})
        await sql.execute("SELECT hookwire.enqueue('k', '{}'::jsonb)")
        await hub.client.post("/queues/q/messages", content=b"y")
        await waiting
    await until(lambda: _is_none(sql, _SESSIONS))
    tasks, locks = asyncio.all_tasks() - before, await sql.fetchval(_LOCKS)
    await sql.close()

    assert ([task.get_name() for task in tasks], locks) == ([], 0)


async def _is_none(sql: asyncpg.Connection, question: str) -> bool:
    return await sql.fetchval(question) == 0

"""kill -9 at every statement of the hub about messages and tasks; PostgreSQL killed under open claims (JT-15)."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from app.chaos.child import Child
from app.chaos.client import ChaosClient, NoAnswer
from app.failpoints import QUEUE_POINTS
from tests.waiting import until

JSON = {"Content-Type": "application/json"}
LEFT = {
    "queue.before_submit": [], "queue.after_submit": ["m"], "queue.before_receive": ["m"],
    "queue.after_receive": ["m"], "queue.before_accept": ["m"], "queue.after_accept": [],
    "queue.before_reject": ["m"], "queue.after_reject": ["m"], "queue.before_reap": ["m"], "queue.after_reap": ["m"],
    "task.before_clean": ["m"], "task.after_clean": ["m"],
}  # fmt: skip
"""What is in the queue at the end of the steps below, when the hub died at this point on the way."""


@asynccontextmanager
async def client_of(child: Child) -> AsyncIterator[ChaosClient]:
    client = ChaosClient(child.port, 60)
    try:
        yield client
    finally:
        client.close()


async def ask(child: Child, verb: str, **body: Any) -> Any:
    async with client_of(child) as client:
        return json.loads((await client.request("POST", f"/queues/q/{verb}", json.dumps(body).encode(), JSON)).body)


async def submit(child: Child, text: bytes) -> None:
    async with client_of(child) as client:
        assert (await client.request("POST", "/queues/q/messages", text)).status == 201


async def walk(child: Child, verb: str) -> None:
    """Submit, receive, then settle or let the lease end; each step may be the hub's last."""
    try:
        await submit(child, b"m")
        [item] = (await ask(child, "receive", max=1, lease_seconds=1))["items"]
        if verb in ("accept", "reject"):
            await ask(child, verb, receipts=[item["receipt"]])
    except NoAnswer:
        return


@pytest.mark.slow
@pytest.mark.parametrize("point", QUEUE_POINTS)
async def test_a_hub_that_dies_at_a_statement_about_messages_loses_and_doubles_nothing(
    point: str, database_url: str, tmp_path: Path
) -> None:
    """JT-15, JB-08: a message is in the queue once until it was accepted, whatever died when."""
    child = Child("hub", tmp_path, {"DATABASE_URL": database_url})
    await child.start(f"{point}:kill", wait=point.startswith("queue") and not point.endswith("_reap"))
    if not child.is_running or point.startswith("task.") or point.endswith("_reap"):
        assert await child.ended(60) == -9, f"{point} was not reached"
        await child.start()
        await walk(child, "reap")
    else:
        await walk(child, point.rpartition("_")[2])
        assert await child.ended(60) == -9, f"{point} was not reached"
        await child.start()
    sql = await asyncpg.connect(database_url)
    await until(lambda: is_at_rest(sql))
    left = [row["payload"].decode() for row in await sql.fetch("SELECT payload FROM hookwire.messages ORDER BY id")]
    await sql.close()
    await child.kill()

    assert left == LEFT[point]


async def is_at_rest(sql: asyncpg.Connection) -> bool:
    """No message is claimed any more."""
    return not await sql.fetchval("SELECT count(*) FROM hookwire.messages WHERE claim IS NOT NULL")

"""The SDK's worker against a running hub (JB-82)."""

from __future__ import annotations

from typing import Any

from hookwire.jobs import HttpJobs
from tests.app.conftest import RunHub
from tests.sdk.test_job_worker import add, ended, pool, registered, working
from tests.waiting import until

__all__ = ["pool"]


async def test_the_same_worker_works_over_http(running_hub: RunHub, pool: Any) -> None:
    """JB-82: the standard library is enough; a failed and a snoozed attempt too."""
    async with running_hub() as hub:
        await add(pool, "double", {"n": 4})
        await add(pool, "fails")
        await add(pool, "later")
        async with working(HttpJobs(str(hub.client.base_url)), registered()):
            await ended(pool, 3)
            await until(lambda: pool.fetchval("SELECT count(*) FROM hookwire.jobs WHERE token IS NOT NULL"))
            await pool.execute("SELECT hookwire.resume_job('token-of-16-bytes')")
            found = await ended(pool, 4)

    assert sorted(found, key=str) == [
        ("double", "completed", "8"), ("fails", "discarded", None), ("later", "completed", "1"),
        ("thread", "completed", "true"),
    ]  # fmt: skip

"""The SDK's worker against a running hub (JB-82)."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from hookwire.jobs import Failed, Handlers, HttpJobs, Job, JobWorker, Snoozed, SqlJobs
from tests.app.conftest import RunHub
from tests.sdk.test_job_worker import WAIT_SECONDS, add, ended, pool, registered, working
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


class WatchedJobs(HttpJobs):
    """Sets ``idle`` when a worker has found no job and waits."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.idle = threading.Event()

    async def claim(self, kinds: Sequence[str], most: int, worker: str, lease_seconds: float, queue: str) -> list[Job]:
        if not (found := await super().claim(kinds, most, worker, lease_seconds, queue)):
            asyncio.get_running_loop().call_soon(self.idle.set)
        return found


async def test_a_program_without_an_event_loop_runs_a_worker_until_it_is_stopped(
    running_hub: RunHub, pool: Any
) -> None:
    """JB-78, JB-82: it is stopped from another thread, and no timer of its own comes to help."""
    async with running_hub() as hub:
        await add(pool, "thread")
        jobs = WatchedJobs(str(hub.client.base_url))
        worker = JobWorker(jobs, registered(), lease_seconds=3600, idle_seconds=3600)
        running = asyncio.create_task(asyncio.to_thread(worker.run_blocking))
        found = await ended(pool, 1)
        assert await asyncio.to_thread(jobs.idle.wait, WAIT_SECONDS)
        worker.stop()
        async with asyncio.timeout(WAIT_SECONDS):
            await running
        worker.stop()

    assert (found, worker.completed) == ([("thread", "completed", "true")], 1)


class NoText:
    def __repr__(self) -> str:
        raise ValueError("no text")


KEPT: dict[str, tuple[Any, Any]] = {
    "a NUL": ("a\0b", "a\ufffdb"),
    "half a character": (["a\ud800"], '["a\\ud800"]'),
    "a NaN": (float("nan"), "nan"),
    "a set": ({1}, "{1}"),
    "bytes": (b"done", "b'done'"),
    "an object without a text": (NoText(), None),
    "1 MiB": ("x" * (1 << 20), "x" * 65_536),
    "5 MB": ("x" * 5_000_000, "x" * 65_536),
    "100 levels": (json.loads("[" * 100 + "]" * 100), "[" * 100 + "]" * 100),
}
REFUSED: dict[str, Any] = {
    "an unknown event": None,
    "a negative delay": Snoozed(-1),
    "a short token": Snoozed(60, token="\0"),
    "a negative retry": Failed("no", retry_seconds=-1),
    "a reason with a NUL": ValueError("a\0b \ud800"),
}


@pytest.mark.parametrize("over", ["sql", "http"])
async def test_a_result_that_is_refused_fails_its_job_and_no_other(pool: Any, over: str, running_hub: RunHub) -> None:
    """EY-01: the worker goes on, and completes the other jobs of the same batch."""
    handlers = Handlers()

    @handlers.job("refused")
    async def refused(job: Job) -> Any:
        if job.args == "an unknown event":
            job.publish("no such topic/", 1)
        if isinstance(answer := REFUSED[job.args], Exception):
            raise answer
        return answer

    @handlers.job("good")
    async def good(_job: Job) -> str:
        return "done"

    async with running_hub() as hub:
        for name in REFUSED:
            await add(pool, "refused", name, attempts_max=1)
            await add(pool, "good")
        jobs = SqlJobs(pool) if over == "sql" else HttpJobs(str(hub.client.base_url))
        async with working(jobs, handlers, slots=4):
            found = await ended(pool, 2 * len(REFUSED))
        reasons = await pool.fetch(
            "SELECT args #>> '{}', errors::text FROM hookwire.job_archive WHERE kind = 'refused'"
        )

    assert sorted(found) == sorted(
        [("good", "completed", '"done"')] * len(REFUSED) + [("refused", "discarded", None)] * len(REFUSED)
    )
    assert {name for name, reason in reasons if "refused" in reason} == REFUSED.keys() - {"a reason with a NUL"}


@pytest.mark.parametrize("over", ["sql", "http"])
async def test_work_that_is_done_is_completed_whatever_it_returns(pool: Any, over: str, running_hub: RunHub) -> None:
    """GB-06: the beginning of the result's text is kept, with a note in the trail."""
    handlers = Handlers()

    @handlers.job("kept")
    async def kept(job: Job) -> Any:
        return KEPT[job.args][0]

    async with running_hub() as hub:
        for name in KEPT:
            await add(pool, "kept", name)
        jobs = SqlJobs(pool) if over == "sql" else HttpJobs(str(hub.client.base_url))
        async with working(jobs, handlers, slots=4):
            await ended(pool, len(KEPT))
        rows = await pool.fetch(
            """SELECT args #>> '{}', state, result::text, attempts,
                      (SELECT count(*) FROM hookwire.audit n WHERE n.subject = j.id::text AND n.action = 'job.result')
               FROM hookwire.job_archive j"""
        )

    assert {name: (state, json.loads(result or "null"), *counts) for name, state, result, *counts in rows} == {
        name: ("completed", result, 1, 1) for name, (_, result) in KEPT.items()
    }

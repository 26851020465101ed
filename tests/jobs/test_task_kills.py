"""Workers that are killed at each step, under each policy: nothing is lost, and nothing settles late (JT-06, JF-45)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import asyncpg
import pytest

from tests.waiting import poll

WAIT_SECONDS = 60.0
# Where the worker stops: a statement of ours, before it is run or after it is committed.
_WORKER = """
import asyncio, os, signal, sys
import asyncpg
from hookwire.jobs.sql_tasks import SqlTasks
from hookwire.jobs.task_worker import TaskOptions, TaskWorker

where, url = sys.argv[1:]

def die_at(name):
    if where == name:
        os.kill(os.getpid(), signal.SIGKILL)

class Dying(SqlTasks):
    async def claim_batch(self, *arguments):
        die_at("before the claim")
        claimed = await super().claim_batch(*arguments)
        if claimed:
            die_at("after the claim")
        return claimed

    async def finish(self, tasks):
        die_at("before the settlement")
        done = await super().finish(tasks)
        die_at("after the settlement")
        return done

async def handle(task):
    die_at("during the run")

async def main():
    pool = await asyncpg.create_pool(url, min_size=1, max_size=3)
    options = TaskOptions("dying", slots=1, poll_seconds=0.02, presence_seconds=0.2, count=1)
    await TaskWorker(Dying(pool), handle, options, print).run()

asyncio.run(main())
"""
_STEPS = {
    "before the claim": "waiting",
    "after the claim": "recovered",
    "during the run": "recovered",
    "before the settlement": "recovered",
    "after the settlement": "gone",
}


@pytest.mark.parametrize("policy", ["retry", "compensate", "abandon"])
async def test_a_worker_that_is_killed_at_any_step_loses_nothing(
    database_url: str, policy: str, tmp_path: Path
) -> None:
    """JT-06, JB-32, JB-33, JB-61."""
    sql = await asyncpg.connect(database_url)
    await sql.execute("INSERT INTO hookwire.task_kinds (kind, on_crash) VALUES ('k', $1)", policy)
    (tmp_path / "worker.py").write_text(_WORKER)
    found = {}
    for step in _STEPS:
        await sql.execute(
            "TRUNCATE hookwire.task_rows, hookwire.task_archive, hookwire.dead_tasks, hookwire.task_workers"
        )
        await sql.execute("SELECT hookwire.enqueue_task('k')")
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(tmp_path / "worker.py"), step, database_url,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )  # fmt: skip
        async with asyncio.timeout(WAIT_SECONDS):
            assert await process.wait() == -signal.SIGKILL
            while await sql.fetchval("SELECT count(*) FROM hookwire.task_workers"):
                await sql.execute("SELECT hookwire.clean_tasks(100)")
                await poll()
        found[step] = await outcome(sql, policy)
    await sql.close()

    assert found == _STEPS


async def outcome(sql: asyncpg.Connection, policy: str) -> str:
    """What has become of the only task."""
    live = await sql.fetch("SELECT kind, attempts, start_time FROM hookwire.task_rows")
    archived = await sql.fetch("SELECT outcome FROM hookwire.task_archive")
    dead = await sql.fetchval("SELECT count(*) FROM hookwire.dead_tasks")
    seen = ([tuple(row) for row in live], [row["outcome"] for row in archived], dead)
    recovered = {
        "retry": ([("k", 1, None)], [], 0),
        "compensate": ([("k.compensate", 0, None)], ["compensated"], 0),
        "abandon": ([], [], 1),
    }
    if seen == recovered[policy]:
        return "recovered"
    return {"([('k', 0, None)], [], 0)": "waiting", "([], [], 0)": "gone"}.get(str(seen), str(seen))

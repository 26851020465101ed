"""Worker processes of jobs, to be killed: over SQL, over HTTP, or by SQL functions alone.

Arguments: the way, the database URL, the hub URL. This process forks a worker, prints its pid, and forks the next one
when that has ended: a fork takes milliseconds, a start from nothing a second. Each job gets an event, a follow-up job
and a result that tells its attempt; over SQL also a row of its own in the table ``done``.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from typing import Any

import asyncpg

from hookwire.jobs import Handlers, HttpJobs, Job, JobWorker, SqlJobs

LEASE_SECONDS = 1.0


async def _finish(job: Job) -> dict[str, int]:
    await asyncio.sleep(random.random() * 0.02)
    job.publish("result", {"job": job.id}, key=job.id)
    job.enqueue("next", {"job": job.id})
    return {"attempt": job.attempt}


def _in_transaction() -> Handlers:
    handlers = Handlers()

    @handlers.job("k", in_transaction=True)
    async def run(job: Job, connection: Any) -> dict[str, int]:
        await connection.execute("INSERT INTO done (job) VALUES ($1::text::uuid)", job.id)
        return await _finish(job)

    return handlers


def _plain() -> Handlers:
    handlers = Handlers()
    handlers.job("k")(_finish)
    return handlers


async def _by_functions(url: str) -> None:
    """As a program in another language would."""
    connection = await asyncpg.connect(url)
    while True:
        rows = await connection.fetch(
            "SELECT id, claim, attempts FROM hookwire.claim_jobs('{k}', 5, 'psql', $1)", LEASE_SECONDS
        )
        for row in rows:
            job = str(row["id"])
            extra = (
                [{"topic": "result", "key": job, "payload": {"job": job}}],
                [{"kind": "next", "args": {"job": job}}],
            )
            try:
                await connection.execute(
                    "SELECT hookwire.complete_job($1, $2, $3, $4, $5)", row["id"], row["claim"],
                    json.dumps({"attempt": row["attempts"]}), *map(json.dumps, extra),
                )  # fmt: skip
            except asyncpg.PostgresError as error:
                if error.sqlstate != "HW001":
                    raise
        await asyncio.sleep(0.01 if rows else 0.1)


async def _main(way: str, database: str, hub: str) -> None:
    if way == "functions":
        await _by_functions(database)
    elif way == "http":
        await JobWorker(HttpJobs(hub), _plain(), slots=5, lease_seconds=LEASE_SECONDS, idle_seconds=0.1).run()
    else:
        async with asyncpg.create_pool(database, min_size=1, max_size=4) as pool:
            handlers = _in_transaction()
            await JobWorker(SqlJobs(pool), handlers, slots=5, lease_seconds=LEASE_SECONDS, idle_seconds=0.1).run()


def _supervise(*arguments: str) -> None:
    while True:
        if (pid := os.fork()) == 0:
            random.seed(os.getpid())
            asyncio.run(_main(*arguments))
            os._exit(0)
        print(pid, flush=True)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    _supervise(*sys.argv[1:])

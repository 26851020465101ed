"""Three kinds of workers in one queue, killed again and again: one end for each job, and its effects once (JF-45)."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from pathlib import Path

import asyncpg
import pytest

from tests.app.conftest import RunHub, opened, running_hub
from tests.faults.job_checker import EndedJob, JobEvidence, check_jobs
from tests.faults.job_workers import LEASE_SECONDS
from tests.waiting import lasts

__all__ = ["running_hub"]

_PROGRAM = str(Path(__file__).with_name("job_workers.py"))
_WAYS = ("sql", "http", "functions")
_KILL_SECONDS = 0.5
_ROOT = str(Path(__file__).parents[2])


async def evidence(sql: asyncpg.Connection) -> JobEvidence:
    """What is left in the database."""

    async def column(statement: str) -> list[str]:
        return [str(row[0]) for row in await sql.fetch(statement)]

    ended = await sql.fetch(
        "SELECT id, state, attempts, attempts_max, (result->>'attempt')::int FROM hookwire.job_archive WHERE kind = 'k'"
    )
    bodies = await sql.fetch("SELECT payload FROM hookwire.events WHERE topic LIKE 'hookwire.job.k.%' ORDER BY id")
    numbers: dict[str, list[int]] = {}
    for body in (json.loads(row["payload"]) for row in bodies):
        numbers.setdefault(body["id"], []).append(body["number"])
    return JobEvidence(
        enqueued=await column("SELECT id FROM enqueued"),
        ended=[EndedJob(str(row[0]), *row[1:]) for row in map(tuple, ended)],
        live=await column("SELECT id FROM hookwire.jobs WHERE kind = 'k'"),
        events=await column("SELECT key FROM hookwire.events WHERE topic = 'result'"),
        follow_ups=await column("SELECT args->>'job' FROM hookwire.jobs WHERE kind = 'next'"),
        rows=await column("SELECT job FROM done"),
        numbers=numbers,
    )


async def prepared(sql: asyncpg.Connection, count: int) -> None:
    await sql.execute("CREATE TABLE done (job uuid)")
    await sql.execute(
        "CREATE TABLE enqueued AS SELECT hookwire.enqueue('k', to_jsonb(n), attempts_max => 1000) AS id"
        f" FROM generate_series(1, {count}) n"
    )


class Workers:
    """A supervisor for each way of working, which forks its worker anew whenever that has ended."""

    def __init__(self) -> None:
        self._supervisors: dict[str, Process] = {}
        self._pids: dict[str, int] = {}

    async def start(self, database: str, hub: str) -> None:
        environment = {**os.environ, "PYTHONPATH": _ROOT}
        for way in _WAYS:
            self._supervisors[way] = await asyncio.create_subprocess_exec(
                sys.executable, _PROGRAM, way, database, hub, env=environment, stdout=PIPE, start_new_session=True
            )
            await self._next_pid(way)

    async def kill(self) -> None:
        """SIGKILL for one of them; the next one works when this returns."""
        way = random.choice(_WAYS)
        with suppress(ProcessLookupError):  # it has ended by itself
            os.kill(self._pids[way], signal.SIGKILL)
        await self._next_pid(way)

    async def overtake(self) -> None:
        """Stop one of them until its leases are over, and let it go on."""
        pid = self._pids[random.choice(_WAYS)]
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            await lasts(2 * LEASE_SECONDS)  # the time that is given away is the fault itself
            os.kill(pid, signal.SIGCONT)

    async def end(self) -> None:
        for supervisor in self._supervisors.values():
            os.killpg(supervisor.pid, signal.SIGKILL)
            await supervisor.wait()

    async def _next_pid(self, way: str) -> None:
        output = self._supervisors[way].stdout
        assert output is not None
        async with asyncio.timeout(60):
            self._pids[way] = int(await output.readline())


@pytest.mark.parametrize("jobs", [300, pytest.param(20_000, marks=pytest.mark.soak)])
async def test_killed_workers_of_three_kinds_lose_double_and_settle_nothing_late(
    running_hub: RunHub, database_url: str, jobs: int
) -> None:
    """JF-44, JF-45, JT-15, JP-01: a SIGKILL every half second while there is work, and stops that outlast a lease."""
    workers, kills, overtaken = Workers(), 0, 0
    async with running_hub() as hub, opened(database_url) as (_, sql):
        await prepared(sql, jobs)
        try:
            await workers.start(database_url, str(hub.client.base_url))
            async with asyncio.timeout(120 + jobs / 20):
                while await sql.fetchval("SELECT count(*) FROM hookwire.jobs WHERE kind = 'k'"):
                    await lasts(_KILL_SECONDS)
                    await workers.kill()
                    kills += 1
                    if kills % 12 == 1:
                        await workers.overtake()
                        overtaken += 1
        finally:
            await workers.end()
        found = await evidence(sql)
    print(f"{jobs} jobs: {kills} workers killed, {overtaken} stopped for two leases")

    assert (len(found.ended), check_jobs(found)) == (jobs, [])


# A bug, the function it is put in, and what is replaced there.
_BUGS = {
    "no fence": ("end_jobs", "AND (claims IS NULL OR j.claim = r.claim)", ""),
    "effects without a claim": ("complete_jobs", "x.id = ANY (held) AND", ""),
    "ended twice": ("end_jobs", "DELETE FROM hookwire.jobs j USING",
                    "UPDATE hookwire.jobs j SET state = 'available', claim = NULL FROM"),
    "not archived": ("end_jobs", "p.retention_days > 0", "p.retention_days > 99"),
    "a number that does not rise": ("announce_jobs", "'number', j.number", "'number', 7 - j.number"),
}  # fmt: skip


@pytest.mark.parametrize("bug", [None, *_BUGS], ids=str)
async def test_the_checker_finds_each_seeded_bug(database_url: str, bug: str | None) -> None:
    """JT-25, JB-85: a worker that was overtaken settles late; without a bug the checker has nothing to say."""
    async with opened(database_url) as (_, sql):
        await prepared(sql, 2)
        await sql.execute("INSERT INTO hookwire.job_kinds (kind, events) VALUES ('k', '{running,completed}')")
        if bug is not None:
            function, text, other = _BUGS[bug]
            source = await sql.fetchval(f"SELECT pg_get_functiondef('hookwire.{function}'::regproc)")
            assert text in source
            await sql.execute(source.replace(text, other))
        claims = "SELECT id, claim, attempts FROM hookwire.claim_jobs('{k}', 2, 'w')"
        late = await sql.fetch(claims)
        await sql.execute("SELECT hookwire.release_jobs($1, $2)", [r["id"] for r in late], [r["claim"] for r in late])
        await sql.execute("UPDATE hookwire.jobs SET attempts = 1")
        now = await sql.fetch(claims)
        for row in [*late, *now]:
            job = str(row["id"])
            extra = {
                "events": [{"topic": "result", "key": job, "payload": 1}],
                "jobs": [{"kind": "next", "args": {"job": job}}],
            }
            await sql.fetch(
                "SELECT hookwire.complete_jobs(ARRAY[$1::uuid], ARRAY[$2::bigint], ARRAY[$3::jsonb], ARRAY[$4::jsonb])",
                row["id"], row["claim"], json.dumps({"attempt": row["attempts"]}), json.dumps(extra),
            )  # fmt: skip
        found = check_jobs(await evidence(sql))

    assert bool(found) == (bug is not None), found

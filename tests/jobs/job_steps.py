"""What the tests of jobs do by SQL: enqueue, claim, look."""

from __future__ import annotations

import json
from typing import Any

import asyncpg

Claimed = tuple[Any, int]


async def enqueue(sql: asyncpg.Connection, kind: str = "k", args: Any = None, **options: Any) -> str:
    """Return the id of a job. ``options`` are arguments of hookwire.enqueue."""
    names = "".join(f", {name} => ${n}" for n, name in enumerate(options, 3))
    values = [json.dumps(value) if name == "callbacks" else value for name, value in options.items()]
    return str(await sql.fetchval(f"SELECT hookwire.enqueue($1, $2{names})", kind, json.dumps(args or {}), *values))


async def claim(sql: asyncpg.Connection, *kinds: str, most: int = 1, worker: str = "w") -> list[Claimed]:
    rows = await sql.fetch("SELECT id, claim FROM hookwire.claim_jobs($1, $2, $3)", kinds or ("k",), most, worker)
    return [(str(row["id"]), row["claim"]) for row in rows]


async def claim_one(sql: asyncpg.Connection, *kinds: str, worker: str = "w") -> Claimed:
    [claimed] = await claim(sql, *kinds, worker=worker)
    return claimed


async def complete(sql: asyncpg.Connection, claimed: Claimed, result: Any = None, **extras: Any) -> None:
    given = [json.dumps(extras[name]) if name in extras else None for name in ("events", "jobs")]
    await sql.execute("SELECT hookwire.complete_job($1, $2, $3, $4, $5)", *claimed, json.dumps(result), *given)


async def kind(sql: asyncpg.Connection, name: str = "k", **settings: Any) -> None:
    await sql.execute("SELECT hookwire.put_job_kind($1, $2, 'boss')", name, json.dumps(settings))


async def state(sql: asyncpg.Connection, job: str) -> str:
    return str(await sql.fetchval("SELECT state FROM hookwire.all_jobs WHERE id = $1", job))


async def keep(sql: asyncpg.Connection) -> dict[str, int]:
    """What one pass of the maintainer did."""
    row = await sql.fetchrow("SELECT * FROM hookwire.keep_jobs(100)")
    return {name: count for name, count in row.items() if count}


async def published(sql: asyncpg.Connection) -> list[tuple[str, int]]:
    """Topic and number of each state event, in the order of their commit."""
    rows = await sql.fetch("SELECT topic, payload FROM hookwire.events WHERE topic LIKE 'hookwire.job.%' ORDER BY id")
    return [(row["topic"].removeprefix("hookwire.job."), json.loads(row["payload"])["number"]) for row in rows]


async def trail(sql: asyncpg.Connection, job: str) -> list[tuple[str, str]]:
    """Who did what with a job."""
    rows = await sql.fetch("SELECT actor, verb FROM hookwire.job_trail WHERE job_id = $1 ORDER BY at", job)
    return [(row["actor"], row["verb"]) for row in rows]

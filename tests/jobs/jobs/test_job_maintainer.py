"""The maintainer of jobs: one schedule or job that is refused does not stop the others (JB-49, JB-73)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from db.errors import ServerTrouble
from db.pool import Database, PoolOptions, open_database
from jobs.jobs.job_maintainer import JobMaintainer
from tests.jobs.job_steps import claim_one, complete, enqueue, keep, state

_DUE = "UPDATE hookwire.jobs SET due_at = now() WHERE due_at IS NOT NULL"
_EXPIRED = "UPDATE hookwire.jobs SET lease_until = now() WHERE state = 'running'"
_NO_NEW_KINDS = "UPDATE hookwire.installation SET kinds_auto_create = false"
_REFUSED = [
    {"kind": "slow.one", "uniq": "u", "on_conflict": "error"},
    {"kind": "k", "due_local": "2031-01-01T00:00:00", "due_zone": "No/Where"},
    {"kind": "k", "queue": "bad queue!"},
]


@pytest.fixture
async def database(database_url_both: str) -> AsyncIterator[Database]:
    opened = await open_database(PoolOptions(database_url_both))
    yield opened
    await opened.aclose()


async def schedule(sql: asyncpg.Connection, name: str, job: dict[str, Any]) -> None:
    await sql.execute(
        """INSERT INTO hookwire.job_schedules (name, cron, job, next_at)
           VALUES ($1, '0 3 * * *', $2, now() - interval '10 seconds')""",
        name,
        json.dumps(job),
    )


@pytest.mark.parametrize("job", _REFUSED, ids=["uniq", "zone", "queue"])
async def test_a_refused_schedule_loses_its_tick_and_stops_no_other(
    database: Database, sql: asyncpg.Connection, job: dict[str, Any]
) -> None:
    await enqueue(sql, "slow.one", uniq="u")
    late = await enqueue(sql, delay_seconds=60)
    await sql.execute(_DUE)
    await schedule(sql, "a", job)
    await schedule(sql, "b", {"kind": "other"})

    await JobMaintainer(database).once()
    left = await sql.fetchval("SELECT count(*) FROM hookwire.job_schedules WHERE next_at <= now()")
    made = await sql.fetchval("SELECT count(*) FROM hookwire.jobs WHERE kind = 'other'")

    assert (left, made, await state(sql, late)) == (0, 1, "available")


async def test_due_jobs_are_handled_even_if_schedules_cannot_be_read(
    database: Database, sql: asyncpg.Connection
) -> None:
    late = await enqueue(sql, delay_seconds=60)
    await sql.execute(_DUE)
    maintainer = JobMaintainer(database)

    async def broken() -> int:
        raise ServerTrouble("XX000", "no")

    maintainer.fire = broken  # type: ignore[method-assign]
    await maintainer.once()

    assert await state(sql, late) == "available"


async def test_a_callback_of_an_unknown_kind_is_refused_with_its_job(sql: asyncpg.Connection) -> None:
    await sql.execute("INSERT INTO hookwire.job_kinds (kind) VALUES ('k')")
    await sql.execute(_NO_NEW_KINDS)

    with pytest.raises(asyncpg.UndefinedObjectError, match="typo"):
        await enqueue(sql, callbacks={"on_fail": "typo.kind"})
    with pytest.raises(asyncpg.UndefinedObjectError, match="typo"):
        await sql.execute(
            """SELECT hookwire.admit_job_rule('{"kind": "k", "callbacks": {"on_status": "typo.kind"}}')"""
        )


async def test_an_accepted_callback_outlives_a_setting_that_refuses_its_kind(sql: asyncpg.Connection) -> None:
    await sql.execute("""SELECT hookwire.admit_job_rule('{"kind": "k", "callbacks": {"on_status": "ruled"}}')""")
    await enqueue(sql, attempts_max=1, callbacks={"on_fail": "failed", "on_complete": "done"})
    await enqueue(sql, attempts_max=1, callbacks={"on_fail": "failed", "on_complete": "done"})
    await sql.execute(_NO_NEW_KINDS)
    await complete(sql, await claim_one(sql))
    await claim_one(sql)
    await sql.execute(_EXPIRED)

    assert await keep(sql) == {"discarded": 1}
    rows = await sql.fetch("SELECT kind FROM hookwire.jobs ORDER BY kind")
    assert [row["kind"] for row in rows] == ["done", "failed"]
    await sql.execute("SELECT hookwire.enqueue('k', callbacks => '{\"on_status\": \"ruled\"}')")


async def test_a_result_of_all_levels_is_left_out_of_the_callback(sql: asyncpg.Connection) -> None:
    """The result is one level deeper in the arguments, where it would be refused."""
    deepest: Any = 1
    for _ in range(64):
        deepest = [deepest]
    for result in (deepest, deepest[0]):
        await enqueue(sql, callbacks={"on_complete": "done"})
        await complete(sql, await claim_one(sql), result)
    rows = await sql.fetch(
        "SELECT args->'result' IS NOT NULL AS told FROM hookwire.jobs WHERE kind = 'done' ORDER BY seq"
    )

    assert [row["told"] for row in rows] == [False, True]


async def test_any_number_of_merged_requests_gets_its_callbacks(sql: asyncpg.Connection) -> None:
    job = await enqueue(sql)
    await sql.execute(
        """INSERT INTO hookwire.job_requests (job_id, callbacks)
           SELECT $1, '{"on_complete": "done"}' FROM generate_series(1, 10001)""",
        job,
    )
    await complete(sql, await claim_one(sql))

    assert await sql.fetchval("SELECT count(*) FROM hookwire.jobs WHERE kind = 'done'") == 10_001

"""Releases that cost no attempt: at most 100 in a row, for jobs, messages and tasks."""

from __future__ import annotations

from typing import Any, NamedTuple

import asyncpg
import pytest

MAX = 100
REASON = "released 100 times in a row without an attempt"


class Work(NamedTuple):
    """A sort of work. ``left`` returns attempts, releases and the last error."""

    name: str
    add: str
    claim: str
    release: str
    left: str


JOB = Work(
    "job",
    "SELECT hookwire.enqueue('check')",
    "SELECT id, claim FROM hookwire.claim_jobs(NULL, 1, 'w')",
    "SELECT hookwire.release_jobs(ARRAY[$1::uuid], ARRAY[$2::bigint], reason => $3)",
    "SELECT attempts, releases, errors -> -1 ->> 'error', due_at IS NOT NULL FROM hookwire.jobs",
)
SNOOZED = JOB._replace(
    name="snoozed_job",
    release="SELECT hookwire.snooze_job($1, $2, CASE WHEN $3::text = 'stop' THEN 60 ELSE 0 END)",
)
MESSAGE = Work(
    "message",
    "SELECT hookwire.submit('mail', 'x'::bytea)",
    "SELECT id, claim FROM hookwire.receive('mail', 1)",
    "SELECT hookwire.reject_held(ARRAY[$1::bigint], ARRAY[$2::bigint], counts => false, reason => $3)",
    "SELECT deliveries, releases, last_reason, NULL FROM hookwire.messages",
)
TASK = Work(
    "task",
    "SELECT hookwire.enqueue_task('resize')",
    "SELECT id, claim FROM hookwire.claim_tasks(NULL, 1, 'w')",
    "SELECT hookwire.release_tasks(ARRAY[$1::text], ARRAY[$2::bigint], reason => $3)",
    "SELECT attempts, releases, last_error, due_at IS NOT NULL FROM hookwire.task_rows",
)
MADE_DUE = "UPDATE hookwire.jobs SET state = 'available', due_at = NULL WHERE state IN ('scheduled', 'retryable')"


async def release(sql: asyncpg.Connection, work: Work, times: int, reason: str | None = None) -> tuple[Any, ...]:
    for _ in range(times):
        await sql.execute(MADE_DUE)
        claimed = await sql.fetchrow(work.claim)
        await sql.execute(work.release, claimed["id"], claimed["claim"], reason)
    return tuple(await sql.fetchrow(work.left))


@pytest.mark.parametrize("work", [JOB, SNOOZED, MESSAGE, TASK], ids=lambda work: work.name)
async def test_after_a_hundred_releases_in_a_row_the_attempt_fails(sql: asyncpg.Connection, work: Work) -> None:
    """GB-02: and the count begins anew."""
    await sql.execute(work.add)
    before = (await release(sql, work, MAX))[:2]
    failed = await release(sql, work, 1)

    assert (before, failed[:3]) == ((0, MAX), (1, 0, REASON))


@pytest.mark.parametrize("work", [JOB, SNOOZED, MESSAGE, TASK], ids=lambda work: work.name)
async def test_what_a_stop_or_a_long_snooze_releases_is_not_counted(sql: asyncpg.Connection, work: Work) -> None:
    """GB-02: a worker that stops gives its reason; a snooze of 60 seconds cannot make a fast loop."""
    await sql.execute(work.add)
    left = await release(sql, work, 3, "stop")

    assert left[:2] == (0, 0)


async def test_a_snooze_that_waits_for_a_token_is_not_counted(sql: asyncpg.Connection) -> None:
    """GB-02."""
    await sql.execute(JOB.add)
    claimed = await sql.fetchrow(JOB.claim)
    await sql.execute("SELECT hookwire.snooze_job($1, $2, 1, 'token-of-16-bytes')", claimed["id"], claimed["claim"])

    assert await sql.fetchval("SELECT releases FROM hookwire.jobs") == 0

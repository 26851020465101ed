"""Times and durations that no program can use, at each door in SQL, and a stored one that a reader cannot hold."""

from __future__ import annotations

import asyncpg
import pytest

from db.errors import Refused
from db.pool import PoolOptions, open_database
from tests.app.conftest import RunHub, running_hub
from tests.jobs.job_steps import enqueue
from tests.rolled_back import ON_THE_LOOP_OF_THE_FILE

__all__ = ["running_hub"]

TIMES = ("infinity", "-infinity", "290000-01-01", "4000-01-01 BC")
SECONDS = ("NaN", "Infinity", "-Infinity", "1e300", "1e12", "-1")
TASK = "INSERT INTO hookwire.tasks (id, description, {0}) VALUES (gen_random_uuid(), 'resize', {{}})"
DOORS = {
    "enqueue_due": ("SELECT hookwire.enqueue('k', due_at => {})", TIMES),
    "enqueue_delay": ("SELECT hookwire.enqueue('k', delay_seconds => {})", SECONDS),
    "enqueue_run": ("SELECT hookwire.enqueue('k', run_seconds => {})", SECONDS),
    "enqueue_deadline": ("SELECT hookwire.enqueue('k', deadline_seconds => {})", SECONDS),
    "add_jobs_due": (
        "SELECT hookwire.add_jobs(jsonb_build_array(jsonb_build_object('kind', 'k', 'due_at', {}::text)))", TIMES,
    ),
    "add_jobs_local": (
        "SELECT hookwire.add_jobs(jsonb_build_array("
        "jsonb_build_object('kind', 'k', 'due_zone', 'Europe/Berlin', 'due_local', {}::text)))", TIMES,
    ),
    "claim_jobs": ("SELECT hookwire.claim_jobs(NULL, 1, 'w', {})", SECONDS),
    "extend_jobs": ("SELECT hookwire.extend_jobs(ARRAY[gen_random_uuid()], ARRAY[1::bigint], {})", SECONDS),
    "snooze_job": ("SELECT hookwire.snooze_job(id, claim, {}) FROM hookwire.claim_jobs(NULL, 1, 'w')", SECONDS),
    "fail_job": (
        "SELECT hookwire.fail_job(id, claim, 'x', retry_seconds => {}) FROM hookwire.claim_jobs(NULL, 1, 'w')", SECONDS,
    ),
    "cancel_job": ("SELECT hookwire.cancel_job(id, 'ada', grace_seconds => {}) FROM hookwire.jobs", SECONDS),
    "assign_job": ("SELECT hookwire.assign_job(id, 'ada', 'ada', {}) FROM hookwire.jobs", TIMES),
    "delay_job": ("SELECT hookwire.delay_job(id, 'ada', {}) FROM hookwire.jobs", TIMES),
    "request": ("SELECT hookwire.request('s', 'x', expiry_seconds => {})", SECONDS),
    "claim_requests": ("SELECT hookwire.claim_requests('s', 1, {})", SECONDS),
    "release_request": ("SELECT hookwire.release_request(gen_random_uuid(), 1, {})", SECONDS),
    "extend_requests": ("SELECT hookwire.extend_requests(ARRAY[gen_random_uuid()], ARRAY[1::bigint], {})", SECONDS),
    "submit": ("SELECT hookwire.submit('q', 'x'::text, delay_seconds => {})", SECONDS),
    "receive": ("SELECT hookwire.receive('q', 1, {})", SECONDS),
    "receive_copies": ("SELECT hookwire.receive_copies('q', 'c', 1, {})", SECONDS),
    "extend": ("SELECT hookwire.extend(ARRAY[id], claim, {}) FROM hookwire.receive('q', 1)", SECONDS),
    "reject": ("SELECT hookwire.reject(ARRAY[id], claim, {}) FROM hookwire.receive('q', 1)", SECONDS),
    "register_consumer": ("SELECT hookwire.register_consumer('q', 'c', {})", TIMES[2:]),
    "enqueue_task": ("SELECT hookwire.enqueue_task('k', delay_seconds => {})", SECONDS),
    "task_start": (TASK.format("start_time"), TIMES),
    "task_finish": (TASK.format("finish_time"), TIMES),
    "task_due": (TASK.format("due_at"), TIMES),
    "task_created": (TASK.format("created_at"), TIMES),
    "task_begun": ("UPDATE hookwire.tasks SET start_time = {}", TIMES),
}  # fmt: skip


@ON_THE_LOOP_OF_THE_FILE
@pytest.mark.parametrize("door", DOORS)
async def test_a_time_or_duration_without_a_use_is_refused(rolled_back: asyncpg.Connection, door: str) -> None:
    """GB-08: by a text of ours, not by an overflow somewhere behind the door."""
    statement, values = DOORS[door]
    await rolled_back.execute(
        "SET TimeZone = 'UTC'; INSERT INTO hookwire.queues (name, copies) VALUES ('copied', true)"
    )
    await enqueue(rolled_back)
    await rolled_back.execute("SELECT hookwire.submit('q', 'x'::text); SELECT hookwire.enqueue_task('k')")
    accepted = {}
    for value in values:
        transaction = rolled_back.transaction()
        await transaction.start()
        try:
            accepted[value] = await rolled_back.execute(statement.format(f"'{value}'"))
        except asyncpg.PostgresError as error:
            if error.server_source_function not in ("exec_stmt_raise", "ExecConstraints"):
                accepted[value] = f"{error.sqlstate}: {error}"
        await transaction.rollback()

    assert accepted == {}


async def test_a_task_that_is_inserted_as_begun_crashes_like_any_other(sql: asyncpg.Connection) -> None:
    """GB-08: it had no lease, so it never ended."""
    await sql.execute("INSERT INTO hookwire.task_kinds (kind, crash_seconds) VALUES ('resize', 0.1)")
    await sql.execute("INSERT INTO hookwire.tasks (id, description, start_time) VALUES ('t', 'resize', '9000-01-01')")
    await sql.execute("SELECT pg_sleep(0.2)")
    await sql.execute("SELECT hookwire.clean_tasks(100)")
    row = await sql.fetchrow("SELECT start_time, attempts, last_error IS NOT NULL FROM hookwire.task_rows")

    assert tuple(row) == (None, 1, True)


async def test_one_row_from_afar_keeps_nobody_from_reading_the_others(
    running_hub: RunHub,
) -> None:
    """GB-08: `GET /tasks` was 503 "The database cannot be used" for all."""
    async with running_hub() as hub:
        refused = []
        for moment in TIMES:
            try:
                await hub.sql(TASK.format("due_at").format(f"'{moment}'"))
            except asyncpg.CheckViolationError as error:
                refused.append(error.constraint_name)
        await hub.sql(TASK.format("created_at").format("'9999-12-31 23:59:59.9+00'"))
        answer = await hub.client.get("/tasks")

        assert (answer.status_code, len(answer.json()["items"])) == (200, 1)
        assert set(refused) == {"task_times_are_in_the_years_1_to_9999"}


async def test_a_value_that_cannot_be_decoded_is_not_the_databases_trouble(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GB-08: the connection is as good as before, so neither an outage nor an unknown outcome is told."""
    statements = {"test.afar": "SELECT '290000-01-01'::timestamptz", "test.one": "SELECT 1"}
    database = (await open_database(PoolOptions(database_url))).with_statements(statements)
    try:
        with pytest.raises(Refused, match="a stored value cannot be read"):
            await database.fetchval("test.afar")
        assert await database.fetchval("test.one") == 1
    finally:
        await database.aclose()

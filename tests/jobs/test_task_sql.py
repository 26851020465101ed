"""Transactional tasks as SQL: the article's statements, claims, policies, the cleaner (JB-20..JB-39)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import asyncpg
import pytest

from db.statements import STATEMENTS

INSERT = "INSERT INTO hookwire.tasks (id, description, start_time) VALUES ($1, 'mytask', NULL)"


async def enqueue(sql: asyncpg.Connection, kind: str = "k", **args: Any) -> str:
    return str(await sql.fetchval("SELECT hookwire.enqueue_task($1, $2)", kind, json.dumps(args)))


async def claim(sql: asyncpg.Connection, task: str, worker: str = "w") -> tuple[str, int | None]:
    row = await sql.fetchrow("SELECT outcome, claim FROM hookwire.claim_task($1, $2)", task, worker)
    return tuple(row)


async def clean(sql: asyncpg.Connection) -> dict[str, int]:
    """What one pass did."""
    row = await sql.fetchrow("SELECT * FROM hookwire.clean_tasks(100)")
    return {name: count for name, count in row.items() if count}


async def settings(sql: asyncpg.Connection, kind: str = "k", **values: Any) -> None:
    names, numbers = "".join(f", {name}" for name in values), "".join(f", ${n}" for n in range(2, len(values) + 2))
    await sql.execute(f"INSERT INTO hookwire.task_kinds (kind{names}) VALUES ($1{numbers})", kind, *values.values())


async def crash(sql: asyncpg.Connection, task: str) -> None:
    await sql.execute("UPDATE hookwire.task_rows SET lease_until = now() - interval '1 s' WHERE id = $1", task)


async def test_the_articles_statements_work_as_they_are(sql: asyncpg.Connection, other: asyncpg.Connection) -> None:
    """JB-20, JB-24, JB-29: insert in a transaction, lock, begin, delete."""
    async with sql.transaction():
        await sql.execute(INSERT, "42")
        early = await other.fetch("SELECT id FROM hookwire.tasks WHERE start_time IS NULL")
    late = await other.fetch("SELECT id FROM hookwire.tasks WHERE start_time IS NULL")
    find = "SELECT description FROM hookwire.tasks WHERE id = $1 AND start_time IS NULL FOR UPDATE"
    async with other.transaction():
        found = await other.fetchval(find, "42")
        await other.execute("UPDATE hookwire.tasks SET start_time = now() WHERE id = $1", "42")
    again = await sql.fetch(find, "42")
    begun = await sql.fetchrow("SELECT attempts, claim IS NOT NULL, lease_until > now() FROM hookwire.task_rows")
    await other.execute("DELETE FROM hookwire.tasks WHERE id = $1", "42")
    left = await sql.fetchval("SELECT count(*) FROM hookwire.task_rows")

    assert (early, [row["id"] for row in late], found, again, tuple(begun), left) == (
        [],
        ["42"],
        "mytask",
        [],
        (1, True, True),
        0,
    )


async def test_a_worker_may_set_finish_time_instead_and_the_row_moves_to_the_archive(sql: asyncpg.Connection) -> None:
    """JB-29, the variation."""
    await sql.execute(INSERT, "1")
    await sql.execute("UPDATE hookwire.tasks SET start_time = now() WHERE id = '1'")
    await sql.execute("UPDATE hookwire.tasks SET finish_time = now() WHERE id = '1'")
    seen = await claim(sql, "1")
    done = await clean(sql)
    archived = await sql.fetchrow("SELECT id, kind, outcome, attempts FROM hookwire.task_archive")

    assert (seen, done, tuple(archived)) == (("taken", None), {"archived": 1}, ("1", "mytask", "finished", 1))


async def test_a_rolled_back_task_never_was(sql: asyncpg.Connection) -> None:
    """JB-21."""
    transaction = sql.transaction()
    await transaction.start()
    task = await enqueue(sql)
    await transaction.rollback()

    assert await claim(sql, task) == ("absent", None)


async def test_of_two_workers_exactly_one_claims(sql: asyncpg.Connection, connect: Any) -> None:
    """JB-24, JB-25, JB-27."""
    task = await enqueue(sql)
    sessions = [await connect() for _ in range(4)]
    outcomes = [outcome for outcome, _ in await asyncio.gather(*[claim(session, task) for session in sessions])]

    assert sorted(outcomes) == ["claimed", "taken", "taken", "taken"]


async def test_the_same_description_is_the_same_task_while_it_lives(sql: asyncpg.Connection) -> None:
    """JB-20: by default, unless the kind or the call says otherwise."""
    await settings(sql, "many", is_unique=False)
    first, second = await enqueue(sql, n=1), await enqueue(sql, n=1)
    other = await enqueue(sql, n=2)
    forced = await sql.fetchval("""SELECT hookwire.enqueue_task('k', '{"n": 1}', is_unique => false)""")
    many = {await enqueue(sql, "many"), await enqueue(sql, "many")}
    _, fence = await claim(sql, first)
    await sql.execute("SELECT hookwire.finish_tasks($1, $2)", [first], [fence])
    again = await enqueue(sql, n=1)

    assert (first == second == again, len({first, other, str(forced)}), len(many)) == (True, 3, 2)


async def test_a_description_has_one_live_task_however_it_came_in(sql: asyncpg.Connection) -> None:
    """GM-04, JB-20: a duplicate by plain INSERT is 23505; kinds stay apart; a finished task may come again."""
    await settings(sql, "many", is_unique=False)
    await sql.execute(INSERT, "i3")
    with pytest.raises(asyncpg.UniqueViolationError, match="task_rows_once"):
        await sql.execute(INSERT, "i4")
    made = await sql.fetchval("INSERT INTO hookwire.tasks (kind, description) VALUES ('other', 'mytask') RETURNING id")
    await sql.execute("INSERT INTO hookwire.tasks (id, description) VALUES ('m1', 'many'), ('m2', 'many')")
    await sql.execute(
        "INSERT INTO hookwire.tasks (id, description) VALUES ('\\x41', '\\x41'), ('A', 'A'), ('é', 'é\\')"
    )
    await sql.execute("UPDATE hookwire.tasks SET start_time = now(), finish_time = now() WHERE id = 'i3'")
    await sql.execute(INSERT, "i5")

    assert (len(made), await sql.fetchval("SELECT count(*) FROM hookwire.tasks")) == (36, 8)


async def test_enqueueing_merges_with_a_task_that_was_inserted(sql: asyncpg.Connection) -> None:
    """JB-20: the living id comes back; a finished row that waits for the archive is no living task."""
    await sql.execute("INSERT INTO hookwire.tasks (id, kind, description) VALUES ('i3', 'k', '{\"n\": 1}')")
    merged = await enqueue(sql, n=1)
    first = await enqueue(sql, n=2)
    await sql.execute("UPDATE hookwire.tasks SET start_time = now(), finish_time = now()")
    again = [await enqueue(sql, n=1), await enqueue(sql, n=2)]
    living = await sql.fetch("SELECT id FROM hookwire.tasks WHERE finish_time IS NULL ORDER BY created_at")

    assert (merged, "i3" in again, first in again) == ("i3", False, False)
    assert [row["id"] for row in living] == again


async def test_rows_of_before_the_mark_run_and_are_merged_by_their_id(sql: asyncpg.Connection) -> None:
    """JB-20: the migration marks nothing, so duplicates of an older release stay."""
    task = await enqueue(sql, n=1)
    await sql.execute("INSERT INTO hookwire.task_rows (id, kind, description) VALUES ('twice', 'k', '{\"n\": 2}')")
    await sql.execute("UPDATE hookwire.task_rows SET is_unique = NULL")
    merged = await enqueue(sql, n=1)
    claimed = await sql.fetch("SELECT id FROM hookwire.claim_tasks(NULL, 9, 'w')")

    assert (merged, {row["id"] for row in claimed}) == (task, {task, "twice"})


async def test_a_dead_task_stays_dead_while_its_description_lives(sql: asyncpg.Connection) -> None:
    """JB-20, JB-33: returning it would run it twice."""
    task = await enqueue(sql)
    _, fence = await claim(sql, task)
    await sql.execute("SELECT hookwire.fail_task($1, $2, 'no', true)", task, fence)
    await sql.execute("INSERT INTO hookwire.tasks (id, kind, description) VALUES ('living', 'k', '{}')")
    redriven = [await sql.fetch(STATEMENTS["task.redrive"], None, "test", None)]
    await sql.execute("DELETE FROM hookwire.tasks WHERE id = 'living'")
    redriven.append(await sql.fetch(STATEMENTS["task.redrive"], None, "test", None))

    assert [len(rows) for rows in redriven] == [0, 1]


async def test_a_batch_is_claimed_oldest_first_by_kind(sql: asyncpg.Connection) -> None:
    """JB-64."""
    tasks = [await enqueue(sql, kind, n=n) for n, kind in enumerate(["a", "b", "a", "c"])]
    some = await sql.fetch("SELECT id FROM hookwire.claim_tasks('{a,b}', 2, 'w')")
    rest = await sql.fetch("SELECT id FROM hookwire.claim_tasks(NULL, 9, 'w')")

    assert ([row["id"] for row in some], {row["id"] for row in rest}) == (
        [tasks[0], tasks[2]],
        {tasks[1], tasks[3]},
    )


async def test_a_stale_claim_settles_nothing(sql: asyncpg.Connection) -> None:
    """JB-60, JT-07."""
    task = await enqueue(sql)
    _, old = await claim(sql, task)
    await crash(sql, task)
    await clean(sql)
    _, new = await claim(sql, task)
    late = [
        await sql.fetch("SELECT * FROM hookwire.finish_tasks($1, $2)", [task], [old]),
        await sql.fetch("SELECT * FROM hookwire.release_tasks($1, $2)", [task], [old]),
        await sql.fetchval("SELECT hookwire.fail_task($1, $2, 'x')", task, old),
    ]
    done = await sql.fetch("SELECT * FROM hookwire.finish_tasks($1, $2)", [task], [new])

    assert (late, len(done)) == ([[], [], "stale"], 1)


async def test_the_cleaner_notifies_again_with_damping(sql: asyncpg.Connection, other: asyncpg.Connection) -> None:
    """JB-30, JB-31: not before two intervals are over, then once in an interval."""
    heard: list[str] = []
    await other.add_listener("hookwire_tasks", lambda *notified: heard.append(notified[-1]))
    await settings(sql, notify="notify", cleanup_seconds=60.0)
    task = await enqueue(sql)
    passes = [await clean(sql)]
    for age in (119, 2, 59, 2):
        await sql.execute("UPDATE hookwire.task_rows SET notify_at = notify_at - make_interval(secs => $1)", float(age))
        passes.append(await clean(sql))
    await other.fetchval("SELECT 1")

    assert (passes, heard) == ([{}, {}, {"notified": 1}, {}, {"notified": 1}], [task] * 3)


async def test_a_crashed_task_is_recovered_by_the_policy_of_its_kind(sql: asyncpg.Connection) -> None:
    """JB-32, JB-33: each leaves an audit row."""
    for policy in ("retry", "compensate", "abandon"):
        await settings(sql, policy, on_crash=policy)
        task = await enqueue(sql, policy, n=1)
        await claim(sql, task)
        await crash(sql, task)
    done = await clean(sql)
    live = {
        row["kind"]: row["start_time"] for row in await sql.fetch("SELECT kind, start_time FROM hookwire.task_rows")
    }
    compensation = json.loads(
        await sql.fetchval("SELECT description FROM hookwire.task_rows WHERE kind = 'compensate.compensate'")
    )
    dead = await sql.fetch("SELECT kind, attempts FROM hookwire.dead_tasks")
    audit = await sql.fetch("SELECT action FROM hookwire.audit ORDER BY action")

    assert done == {"retried": 1, "compensated": 1, "abandoned": 1}
    assert live == {"retry": None, "compensate.compensate": None}
    assert (compensation["kind"], json.loads(compensation["description"])) == ("compensate", {"n": 1})
    assert ([tuple(row) for row in dead], [row["action"] for row in audit]) == (
        [("abandon", 1)],
        ["task.abandon", "task.compensate", "task.retry"],
    )


async def test_a_worker_that_is_not_seen_any_more_has_crashed_long_before_the_interval(sql: asyncpg.Connection) -> None:
    """JB-35, JB-62."""
    task = await enqueue(sql)
    beat = (
        "INSERT INTO hookwire.task_workers (name, kinds, slots, seen_until) VALUES ($1, '{k}', 1, now() + $2::interval)"
    )
    from datetime import timedelta

    await sql.execute(beat, "w", timedelta(seconds=-1))
    await sql.execute(beat, "alive", timedelta(hours=1))
    await claim(sql, task, "w")
    other = await enqueue(sql, n=2)
    await claim(sql, other, "alive")
    done = await clean(sql)
    await clean(sql)
    workers = [row["name"] for row in await sql.fetch("SELECT name FROM hookwire.task_workers")]

    assert (done, await claim(sql, task), (await claim(sql, other))[0], workers) == (
        {"retried": 1},
        ("claimed", done and await sql.fetchval("SELECT last_value FROM hookwire.lease_fence")),
        "taken",
        ["alive"],
    )


async def test_a_task_that_kills_its_workers_is_dead_in_the_end(sql: asyncpg.Connection) -> None:
    """JT-08, JB-61."""
    await settings(sql, attempts_max=3)
    task = await enqueue(sql)
    passes = []
    for _ in range(3):
        await claim(sql, task)
        await crash(sql, task)
        passes.append(await clean(sql))

    assert passes == [{"retried": 1}, {"retried": 1}, {"abandoned": 1}]


async def test_a_failed_task_waits_for_its_backoff_and_dies_when_both_limits_are_passed(
    sql: asyncpg.Connection,
) -> None:
    """JB-38, JB-68, JT-23: doubles, then grows by the last step, then is flat; jitter within a fifth."""
    backoffs = await sql.fetchval(
        "SELECT array_agg(hookwire.task_backoff_seconds(n, p) ORDER BY n) FROM generate_series(1, 7) n,"
        " (SELECT jsonb_populate_record(NULL::hookwire.task_kinds,"
        """  '{"backoff_seconds_min": 1, "backoff_seconds_max": 10, "doublings_max": 2}') AS p) s"""
    )
    await settings(sql, attempts_max=1, age_seconds_max=3600.0, backoff_seconds_min=100.0)
    task = await enqueue(sql)
    _, fence = await claim(sql, task)
    young = await sql.fetchval("SELECT hookwire.fail_task($1, $2, 'why')", task, fence)
    wait = await sql.fetchval("SELECT extract(epoch FROM due_at - now()) FROM hookwire.task_rows")
    waiting = await claim(sql, task)
    await sql.execute("UPDATE hookwire.task_rows SET due_at = now(), created_at = now() - interval '2 h'")
    freed = await clean(sql)
    _, fence = await claim(sql, task)
    old = await sql.fetchval("SELECT hookwire.fail_task($1, $2, 'why')", task, fence)

    assert backoffs == [1, 2, 4, 8, 10, 10, 10]
    assert (young, 79 < wait < 121, waiting, freed, old) == ("retry", True, ("waiting", None), {"freed": 1}, "dead")


async def test_two_cleaners_at_once_do_everything_once(sql: asyncpg.Connection, other: asyncpg.Connection) -> None:
    """JB-34, JT-09: one is active; killed in the middle, the next one does it."""
    task = await enqueue(sql)
    await claim(sql, task)
    await crash(sql, task)
    transaction = sql.transaction()
    await transaction.start()
    first, second = await clean(sql), await clean(other)
    await transaction.rollback()

    assert (first, second, await clean(other), await clean(sql)) == ({"retried": 1}, {}, {"retried": 1}, {})


async def test_settings_of_a_kind_count_at_once_and_stand_above_those_of_all(sql: asyncpg.Connection) -> None:
    """JB-37."""
    await sql.execute("UPDATE hookwire.task_kinds SET crash_seconds = 7, giveup_seconds = 8 WHERE kind = '*'")
    await settings(sql, crash_seconds=9.0)
    policy = await sql.fetchrow("SELECT * FROM hookwire.task_policy('k')")

    assert (policy["crash_seconds"], policy["giveup_seconds"], policy["on_crash"]) == (9.0, 8.0, "retry")


async def test_the_relay_is_owed_the_bare_id(sql: asyncpg.Connection) -> None:
    """JB-22: written in the enqueuing transaction, sent after its COMMIT."""
    await sql.execute("UPDATE hookwire.sinks SET configured = true WHERE name = 'amqp'")
    task = await enqueue(sql)
    [event] = await sql.fetch("SELECT id, topic, payload, sinks FROM hookwire.events")
    owed = await sql.fetch("SELECT sink FROM hookwire.outbox WHERE id = $1", event["id"])

    assert (event["topic"], event["payload"], event["sinks"], [row["sink"] for row in owed]) == (
        "hookwire.tasks",
        task.encode(),
        ["amqp"],
        ["amqp"],
    )


async def test_a_role_with_usage_enqueues_and_does_not_work(sql: asyncpg.Connection) -> None:
    """As publishing does: USAGE on the schema is the right to add, nothing else."""
    role = f"app_{await sql.fetchval('SELECT pg_backend_pid()')}"
    await sql.execute(f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA hookwire TO {role}; SET ROLE {role}")
    try:
        await sql.execute("INSERT INTO hookwire.tasks (id, description, start_time) VALUES ('1', 'mytask', NULL)")
        await sql.execute("SELECT hookwire.enqueue_task('k'), hookwire.submit('q', 'x')")
        for statement in (
            "SELECT hookwire.receive('q')",
            "SELECT id FROM hookwire.tasks",
            "DELETE FROM hookwire.tasks",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await sql.execute(statement)
    finally:
        await sql.execute(f"RESET ROLE; REVOKE ALL ON SCHEMA hookwire FROM {role}; DROP ROLE {role}")


_REFUSED = {
    "hookwire.enqueue_task('no good')": "22023",
    "hookwire.enqueue_task('')": "22023",
    "hookwire.enqueue_task('k', NULL)": "22023",
    "hookwire.enqueue_task('k', delay_seconds => -1)": "22023",
    "hookwire.enqueue_task('k', to_jsonb(repeat('x', 1100000)))": "HW003",
}


async def test_what_is_wrong_is_refused_with_its_code(sql: asyncpg.Connection) -> None:
    codes = {}
    for statement in _REFUSED:
        with pytest.raises(asyncpg.PostgresError) as refused:
            await sql.execute(f"SELECT {statement}")
        codes[statement] = refused.value.sqlstate
    await sql.execute("UPDATE hookwire.installation SET kinds_auto_create = false")
    with pytest.raises(asyncpg.UndefinedObjectError):
        await enqueue(sql)

    assert codes == _REFUSED


@pytest.mark.parametrize("task", ["a\nb", "\x1b[2J", "\x7f", ""], ids=repr)
async def test_the_id_of_a_task_is_one_word(sql: asyncpg.Connection, task: str) -> None:
    """FS-23: it stands in logs, in e-mails and on terminals."""
    with pytest.raises(asyncpg.CheckViolationError, match="task_rows_id_check"):
        await sql.execute(INSERT, task)


async def test_of_two_dead_tasks_with_one_id_a_redrive_returns_one_and_keeps_the_other(sql: asyncpg.Connection) -> None:
    """JB-33: both were removed."""
    await sql.execute(
        "INSERT INTO hookwire.dead_tasks (id, kind, description, reason, attempts, created_at)"
        " SELECT 'twice', 'k', d, 'r', 1, now() FROM unnest('{first,second}'::text[]) AS d"
    )
    await sql.fetch(STATEMENTS["task.redrive"], None, "tests", "r")

    live = await sql.fetch("SELECT description FROM hookwire.task_rows")
    dead = await sql.fetch("SELECT description FROM hookwire.dead_tasks")
    assert ([row[0] for row in live], [row[0] for row in dead]) == (["first"], ["second"])


@pytest.mark.parametrize("mark", [False, None])
async def test_dead_twins_that_were_enqueued_as_such_are_redriven_together(
    sql: asyncpg.Connection, mark: bool | None
) -> None:
    """JB-33: their kind has one live task for each description. NULL: enqueued before there was this mark."""
    for _ in range(3):
        await sql.execute("SELECT hookwire.enqueue_task('k', '{}', is_unique => false)")
    await sql.execute("UPDATE hookwire.task_rows SET is_unique = $1", mark)
    await sql.execute("SELECT hookwire.bury_tasks(array_agg(id), 'why') FROM hookwire.task_rows")
    redriven = await sql.fetch(STATEMENTS["task.redrive"], None, "tests", "r")

    assert len(redriven) == 3


async def test_a_notice_is_stored_where_the_topics_own_settings_name_a_sink(sql: asyncpg.Connection) -> None:
    """GM-06, JB-33: without a subscription; an installation with AMQP alone stores none."""
    await sql.execute("UPDATE hookwire.sinks SET configured = true WHERE name = 'amqp'")
    found = []
    for own in (None, "{webhooks}", "{amqp}"):
        await sql.execute(
            "INSERT INTO hookwire.topics (name, sinks) VALUES ('hookwire.operator', $1)"
            " ON CONFLICT (tenant, name) DO UPDATE SET sinks = excluded.sinks",
            own and own.strip("{}").split(),
        )
        task = await enqueue(sql, own=own)
        _, fence = await claim(sql, task)
        await sql.execute("SELECT hookwire.fail_task($1, $2, 'no', true)", task, fence)
        found.append(await sql.fetchval("SELECT count(*) FROM hookwire.events WHERE topic = 'hookwire.operator'"))

    assert found == [0, 0, 1]

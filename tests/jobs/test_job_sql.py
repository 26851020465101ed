"""Jobs and their workers as SQL: enqueue, claim, settle, callbacks, the maintainer (JB-40..JB-57, JB-60..JB-75)."""

from __future__ import annotations

import asyncio
import json
import random
import secrets
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from tests.jobs.job_steps import claim, claim_one, complete, enqueue, keep, kind, published, state


async def test_a_job_exists_if_its_transaction_commits_and_ends_with_its_result(
    sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    """JB-21, JB-52, JB-54, JB-81, JP-10: the row leaves the hot table in the statement that ends it."""
    transaction = sql.transaction()
    await transaction.start()
    job = await enqueue(sql, args={"n": 1})
    early = await claim(other)
    await transaction.commit()
    claimed = await claim_one(other, worker="host-1")
    await complete(other, claimed, {"sum": 2})
    kept = await sql.fetchrow("SELECT state, result, performer, attempts FROM hookwire.job_archive WHERE id = $1", job)
    live = await sql.fetchval("SELECT count(*) FROM hookwire.jobs")

    assert (early, claimed[0], tuple(kept), live) == ([], job, ("completed", '{"sum": 2}', "host-1", 1), 0)


async def test_result_events_and_follow_up_jobs_commit_with_the_handlers_own_rows(sql: asyncpg.Connection) -> None:
    """JB-51, JB-67: all of it or nothing, in one transaction."""
    await sql.execute("CREATE TABLE paid (id integer)")
    await enqueue(sql)
    claimed = await claim_one(sql)
    extras = {"events": [{"topic": "orders.paid", "key": "7", "payload": {"n": 7}}], "jobs": [{"kind": "mail.send"}]}
    seen = []
    for commits in (False, True):
        transaction = sql.transaction()
        await transaction.start()
        await sql.execute("INSERT INTO paid VALUES (7)")
        await complete(sql, claimed, {"ok": True}, **extras)
        await (transaction.commit() if commits else transaction.rollback())
        seen.append(
            tuple(
                await sql.fetchrow(
                    """SELECT (SELECT count(*) FROM paid),
                              (SELECT count(*) FROM hookwire.events WHERE topic = 'orders.paid'),
                              (SELECT count(*) FROM hookwire.jobs WHERE kind = 'mail.send' AND created_by LIKE 'job:%'),
                              (SELECT count(*) FROM hookwire.job_archive)"""
                )
            )
        )

    assert seen == [(0, 0, 0, 0), (1, 1, 1, 1)]


async def test_state_events_are_numbered_for_each_job_and_by_default_the_three_ends(sql: asyncpg.Connection) -> None:
    """JB-51: keyless, to webhooks and pull only; a kind may ask for more."""
    await kind(sql, "loud", events=["available", "running", "completed", "progress"])
    await enqueue(sql)
    await complete(sql, await claim_one(sql))
    await enqueue(sql, "loud")
    claimed = await claim_one(sql, "loud")
    await sql.execute("SELECT hookwire.progress_job($1, $2, 1, 10)", *claimed)
    await complete(sql, claimed, {"r": 1})
    events = await published(sql)
    rows = await sql.fetch("SELECT DISTINCT key, sinks FROM hookwire.events")

    assert events == [("k.completed", 3), ("loud.available", 1), ("loud.running", 2), ("loud.progress", 3),
                      ("loud.completed", 4)]  # fmt: skip
    assert [tuple(row) for row in rows] == [(None, ["webhooks"])]


async def test_a_stale_receipt_changes_nothing_and_is_told(sql: asyncpg.Connection) -> None:
    """JB-60, JT-07, JP-03: every verb of a worker, after another worker has claimed."""
    await enqueue(sql)
    old = await claim_one(sql)
    await sql.execute("SELECT * FROM hookwire.release_jobs(ARRAY[$1::uuid], ARRAY[$2::bigint])", *old)
    new = await claim_one(sql)
    codes = []
    for verb in ("complete_job($1, $2)", "fail_job($1, $2, 'x')", "snooze_job($1, $2, 5)", "progress_job($1, $2, 1)"):
        with pytest.raises(asyncpg.PostgresError) as refused:
            await sql.execute(f"SELECT hookwire.{verb}", *old)
        codes.append(refused.value.sqlstate)
    extended = await sql.fetch("SELECT * FROM hookwire.extend_jobs(ARRAY[$1::uuid], ARRAY[$2::bigint])", *old)
    await complete(sql, new)

    assert (codes, extended, await state(sql, new[0])) == (["HW001"] * 4, [], "completed")


async def test_a_failed_job_is_tried_again_and_discarded_after_its_attempts(sql: asyncpg.Connection) -> None:
    """JB-48, JB-54, JB-68: the errors of each attempt are kept; `dead` gives up at once."""
    job = await enqueue(sql, attempts_max=2)
    outcomes = []
    for error in ("first", "second"):
        outcomes.append(await sql.fetchval("SELECT hookwire.fail_job($1, $2, $3)", *await claim_one(sql), error))
        await sql.execute("UPDATE hookwire.jobs SET due_at = now() WHERE due_at IS NOT NULL")
        await keep(sql)
    errors = json.loads(await sql.fetchval("SELECT errors FROM hookwire.job_archive WHERE id = $1", job))
    await enqueue(sql)
    dead = await sql.fetchval("SELECT hookwire.fail_job($1, $2, 'no', dead => true)", *await claim_one(sql))

    assert (outcomes, [(e["attempt"], e["error"]) for e in errors], dead) == (
        ["retryable", "discarded"],
        [(1, "first"), (2, "second")],
        "discarded",
    )


async def test_an_interruption_and_a_snooze_cost_no_attempt(sql: asyncpg.Connection) -> None:
    """JB-75, JB-78, JP-15."""
    job = await enqueue(sql)
    await sql.execute("SELECT * FROM hookwire.release_jobs(ARRAY[$1::uuid], ARRAY[$2::bigint])", *await claim_one(sql))
    await sql.execute("SELECT hookwire.snooze_job($1, $2, 0)", *await claim_one(sql))
    snoozed = await sql.fetchrow("SELECT state, attempts FROM hookwire.jobs WHERE id = $1", job)
    promoted = await keep(sql)
    attempts = await sql.fetchval("SELECT attempts FROM hookwire.claim_jobs('{k}', 1, 'w')")

    assert (tuple(snoozed), promoted, attempts) == (("scheduled", 0), {"promoted": 1}, 1)


async def test_a_worker_that_is_gone_or_too_slow_loses_the_job(sql: asyncpg.Connection) -> None:
    """JB-49, JB-61, JB-62, JP-01, JP-02: lease, run limit, deadline; no heartbeat passes the run limit."""
    gone = await enqueue(sql, "gone")
    slow = await enqueue(sql, "slow", run_seconds=40.0)
    late = await enqueue(sql, "late", deadline_seconds=100.0)
    await enqueue(sql, "never", deadline_seconds=100.0, delay_seconds=50.0)
    await claim(sql, "gone", "slow", "late", most=3)
    held = await sql.fetchrow("SELECT id, claim FROM hookwire.jobs WHERE kind = 'slow'")
    beats = await sql.fetchval(
        "SELECT lease_until <= now() + interval '40 s'"
        " FROM hookwire.extend_jobs(ARRAY[$1::uuid], ARRAY[$2::bigint], 3600)",
        *held,
    )
    past = "UPDATE hookwire.jobs SET lease_until = now() - interval '1 s'"
    await sql.execute(f"{past} WHERE kind = 'gone'")
    await sql.execute(f"{past}, run_until = now() - interval '1 s' WHERE kind = 'slow'")
    await sql.execute(f"{past}, deadline_at = now() - interval '1 s' WHERE kind IN ('late', 'never')")
    await sql.execute("UPDATE hookwire.jobs SET lease_until = NULL WHERE kind = 'never'")
    kept = await keep(sql)
    rows = await sql.fetch("SELECT kind, state, errors->-1->>'error' AS error FROM hookwire.jobs ORDER BY kind")
    ended = await sql.fetch("SELECT kind, reason FROM hookwire.job_archive ORDER BY kind")

    assert (beats, kept, [tuple(row) for row in rows], [tuple(row) for row in ended]) == (
        True,
        {"returned": 2, "discarded": 2},
        [
            ("gone", "retryable", "its worker stopped reporting: the lease expired"),
            ("slow", "retryable", "ran longer than 40 s"),
        ],
        [("late", "its deadline has passed"), ("never", "its deadline has passed")],
    )
    assert len({gone, slow, late}) == 3


async def test_priority_counts_and_age_overtakes_it(sql: asyncpg.Connection) -> None:
    """JB-69, JP-18: waiting for one ageing interval is worth one step, so a flood of high jobs starves no low one."""
    await kind(sql, ageing_seconds=10)
    low = await enqueue(sql, args={"n": 0}, priority=0)
    high = await enqueue(sql, args={"n": 1}, priority=5)
    [first] = await claim(sql)
    await sql.execute(
        "UPDATE hookwire.jobs SET rank_at = rank_at - interval '51 s' WHERE id = $1", low
    )  # it has waited
    for n in range(20):
        await enqueue(sql, args={"flood": n}, priority=5)
    [second] = await claim(sql)

    assert (first[0], second[0]) == (high, low)


async def test_the_best_of_several_kinds_is_claimed_first(sql: asyncpg.Connection) -> None:
    jobs = [await enqueue(sql, name, priority=priority) for name, priority in (("a", 0), ("b", 9), ("c", 5), ("b", 1))]
    claimed = [job for job, _ in await claim(sql, "a", "b", "c", most=3)]
    everything = await sql.fetch("SELECT id FROM hookwire.claim_jobs(NULL, 10, 'w')")

    assert (claimed, [str(row["id"]) for row in everything]) == ([jobs[1], jobs[2], jobs[3]], [jobs[0]])


async def test_a_limit_for_a_key_is_exact_and_a_blocked_key_blocks_no_other(
    connect: Any, sql: asyncpg.Connection
) -> None:
    """JB-70, JP-03, JP-06, JP-07, JS-06: 8 workers at once; 40 jobs of one key stand before those of others."""
    await kind(sql, key_running_max=2, running_max=7)
    await sql.execute("SELECT hookwire.enqueue('k', to_jsonb(n), key => 'hot') FROM generate_series(1, 40) n")
    await sql.execute("SELECT hookwire.enqueue('k', to_jsonb(n), key => 'k' || n) FROM generate_series(1, 3) n")
    workers = [await connect() for _ in range(8)]
    await asyncio.gather(*(claim(worker, most=5) for worker in workers))
    counts = await sql.fetch(
        "SELECT key, count(*) FROM hookwire.jobs WHERE state = 'running' GROUP BY key ORDER BY key"
    )
    await sql.execute("SELECT hookwire.enqueue('k', to_jsonb(n)) FROM generate_series(1, 9) n")
    more = [await claim(sql, most=10), await claim(sql, most=10)]

    assert [tuple(row) for row in counts] == [("hot", 2), ("k1", 1), ("k2", 1), ("k3", 1)]
    assert [len(claimed) for claimed in more] == [2, 0]


@pytest.mark.parametrize("seed", range(4))
async def test_the_head_of_the_queue_tells_what_a_walk_over_the_keys_tells(sql: asyncpg.Connection, seed: int) -> None:
    """JB-70, JP-07: in order of rank, for claims of any size; where blocked keys fill the head it says so."""
    await kind(sql, key_running_max=2, key_rate_per_second=0.001, key_burst=3)
    chance = random.Random(seed)
    for number in range(60):
        key = chance.choice(["", "a", "b", "c", "d", "e"])
        await sql.execute(
            "SELECT hookwire.enqueue('k', to_jsonb($1::int), key => $2, priority => $3)",
            number, key, chance.randint(-3, 3),
        )  # fmt: skip
    await claim(sql, most=chance.randint(1, 8))
    found = {}
    for room in (1, 2, 5, 9, 14, 60):
        found[room] = await sql.fetchrow(
            "SELECT hookwire.pick_at_head(p, 'default', $1, now()) AS head,"
            " hookwire.pick_by_key(p, 'default', $1, now()) AS walk FROM hookwire.job_policy('k') AS p", room,
        )  # fmt: skip
    told = {room: (row["head"], row["walk"]) for room, row in found.items() if row["head"] is not None}

    assert (60 in told, [room for room, (head, walk) in told.items() if head != walk]) == (True, [])


async def test_a_rate_for_a_key_is_exact(connect: Any, sql: asyncpg.Connection) -> None:
    """JB-71: a burst of 3, then as many as time has earned."""
    await kind(sql, key_rate_per_second=0.001, key_burst=3)
    await sql.execute("SELECT hookwire.enqueue('k', to_jsonb(n), key => 'a') FROM generate_series(1, 20) n")
    await sql.execute("SELECT hookwire.enqueue('k', to_jsonb(n), key => 'b') FROM generate_series(1, 2) n")
    workers = [await connect() for _ in range(6)]
    found = await asyncio.gather(*(claim(worker, most=10) for worker in workers))
    await sql.execute("UPDATE hookwire.job_rates SET counted_at = counted_at - interval '1000 s'")
    later = await claim(sql, most=10)

    assert (sum(len(claimed) for claimed in found), len(later)) == (5, 1)


async def test_the_same_uniq_merges_while_the_job_lives_also_while_it_runs(sql: asyncpg.Connection) -> None:
    """JB-46, JB-47: every requester is called back; '-' stands for the arguments; after the end it is a new job."""
    first = await enqueue(sql, args={"a": 1}, uniq="-", callbacks={"on_complete": "tell"}, requester="ada")
    claimed = await claim_one(sql)
    merged = await enqueue(sql, args={"a": 1}, uniq="-", callbacks={"on_complete": "tell"}, requester="bob")
    other = await enqueue(sql, args={"a": 2}, uniq="-")
    await complete(sql, claimed, {"r": 1})
    told = await sql.fetch("SELECT args FROM hookwire.jobs WHERE kind = 'tell' ORDER BY seq")
    again = await enqueue(sql, args={"a": 1}, uniq="-")
    seen = [
        (args["id"], args["state"], args["requester"], args["result"])
        for args in (json.loads(row["args"]) for row in told)
    ]

    assert (merged, other != first, again != first) == (first, True, True)
    assert seen == [(first, "completed", "ada", {"r": 1}), (first, "completed", "bob", {"r": 1})]


async def test_a_hundred_requests_at_once_are_one_job_and_a_hundred_answers(
    connect: Any, sql: asyncpg.Connection
) -> None:
    """JB-46, JT-18."""
    sessions = [await connect() for _ in range(10)]

    async def ask(session: asyncpg.Connection, number: int) -> list[str]:
        return [
            await enqueue(session, uniq="u", callbacks={"on_complete": "tell"}, requester=f"p{number}-{n}")
            for n in range(10)
        ]

    ids = await asyncio.gather(*(ask(session, number) for number, session in enumerate(sessions)))
    await complete(sql, await claim_one(sql))
    told = await sql.fetchval("SELECT count(DISTINCT args->>'requester') FROM hookwire.jobs WHERE kind = 'tell'")

    assert (len({job for found in ids for job in found}), told) == (1, 100)


async def test_a_job_cannot_end_before_a_request_that_merges_has_committed(
    sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    """JB-46, JT-18: the requester of an open transaction is called back too; heartbeats go on meanwhile."""
    await enqueue(sql, uniq="u")
    claimed = await claim_one(sql)
    transaction = other.transaction()
    await transaction.start()
    await enqueue(other, uniq="u", callbacks={"on_complete": "tell"})
    beat = await sql.fetch("SELECT * FROM hookwire.extend_jobs(ARRAY[$1::uuid], ARRAY[$2::bigint])", *claimed)
    ending = asyncio.ensure_future(complete(sql, claimed))
    await asyncio.wait([ending], timeout=0.2)
    waits = not ending.done()
    await transaction.commit()
    await ending

    assert (len(beat), waits, await other.fetchval("SELECT count(*) FROM hookwire.jobs WHERE kind = 'tell'")) == (
        1,
        True,
        1,
    )


async def test_a_conflict_is_merged_replaced_skipped_or_refused_as_asked(sql: asyncpg.Connection) -> None:
    """JB-47, JP-20: a batch with conflicts inserts the others."""
    first = await enqueue(sql, args={"v": 1}, uniq="u")
    drafts = [
        {"kind": "k", "uniq": "u", "args": {"v": n}, "on_conflict": choice}
        for n, choice in enumerate(("skip", "merge", "replace"))
    ]
    rows = await sql.fetch("SELECT id, outcome FROM hookwire.add_jobs($1)", json.dumps([*drafts, {"kind": "k"}]))
    args = await sql.fetchval("SELECT args FROM hookwire.jobs WHERE id = $1", first)
    with pytest.raises(asyncpg.PostgresError) as refused:
        await enqueue(sql, uniq="u", on_conflict="error")
    await claim(sql, most=2)
    started = await sql.fetchval("SELECT outcome FROM hookwire.add_jobs($1)", json.dumps([drafts[2]]))
    [recent] = [row["id"] for row in await sql.fetch("SELECT id FROM hookwire.jobs WHERE uniq = 'u'")]
    await sql.execute("SELECT hookwire.complete_job(id, claim) FROM hookwire.jobs WHERE id = $1", recent)
    period = await sql.fetchval(
        "SELECT outcome FROM hookwire.add_jobs($1)", json.dumps([{"kind": "k", "uniq": "u", "uniq_seconds": 60}])
    )

    assert [row["outcome"] for row in rows] == ["skipped", "merged", "replaced", "made"]
    assert (json.loads(args), refused.value.sqlstate, started, period) == ({"v": 2}, "HW002", "merged", "skipped")


async def test_callbacks_come_with_each_retry_and_once_with_the_failure(sql: asyncpg.Connection) -> None:
    """JB-50, JB-51, JT-19."""
    hooks = {"on_retry": "again", "on_fail": "failed", "on_complete": "never", "on_status": "any"}
    await enqueue(sql, attempts_max=3, callbacks=hooks)
    for _ in range(3):
        await sql.execute("SELECT hookwire.fail_job($1, $2, 'x', retry_seconds => 0)", *await claim_one(sql))
        await keep(sql)
    rows = await sql.fetch("SELECT kind, count(*) FROM hookwire.jobs GROUP BY kind ORDER BY kind")
    numbers = await sql.fetch("SELECT (args->>'number')::int AS n FROM hookwire.jobs WHERE kind = 'any' ORDER BY seq")

    assert [tuple(row) for row in rows] == [("again", 2), ("any", 9), ("failed", 1)]
    assert [row["n"] for row in numbers] == list(range(1, 10))


async def test_a_job_waits_for_a_token_or_its_own_deadline(sql: asyncpg.Connection) -> None:
    """JB-55: without costing an attempt; what resumes it comes with the next claim."""
    await enqueue(sql)
    await sql.execute("SELECT hookwire.snooze_job($1, $2, 3600, 'token-of-16-bytes')", *await claim_one(sql))
    await sql.execute("""SELECT hookwire.resume_job('token-of-16-bytes', '{"paid": true}')""")
    row = await sql.fetchrow("SELECT id, claim, attempts, resumed FROM hookwire.claim_jobs('{k}', 1, 'w')")
    await sql.execute("SELECT hookwire.snooze_job($1, $2, 0, 'token-of-16-bytes')", row["id"], row["claim"])
    await keep(sql)
    late = await sql.fetchrow("SELECT resumed, errors->-1->>'error' FROM hookwire.jobs")
    with pytest.raises(asyncpg.UndefinedObjectError):
        await sql.execute("SELECT hookwire.resume_job('token-of-16-bytes')")

    assert (row["attempts"], json.loads(row["resumed"]), tuple(late)) == (
        1,
        {"paid": True},
        (None, "nobody resumed it in time"),
    )


async def test_a_token_that_another_job_waits_for_is_refused(sql: asyncpg.Connection) -> None:
    jobs = [await enqueue(sql), await enqueue(sql)]
    first, second = await claim(sql, most=2)
    await sql.execute("SELECT hookwire.snooze_job($1, $2, 3600, 'token-of-16-bytes')", *first)
    with pytest.raises(asyncpg.PostgresError) as refused:
        await sql.execute("SELECT hookwire.snooze_job($1, $2, 3600, 'token-of-16-bytes')", *second)

    assert refused.value.sqlstate == "HW002"
    assert sorted([await state(sql, job) for job in jobs]) == ["running", "scheduled"]


async def test_settings_of_a_kind_that_are_put_at_once_are_stored_and_leave_it_paused(
    connect: Any, sql: asyncpg.Connection
) -> None:
    sessions = [await connect() for _ in range(4)]
    await asyncio.gather(*(kind(session, "new", key_burst=2) for session in sessions))
    await sql.execute("SELECT hookwire.pause_job_kind('new', true, 'boss')")
    await asyncio.gather(*(kind(session, "new", attempts_max=3) for session in sessions))
    stored = await sql.fetchrow("SELECT is_paused, attempts_max, key_burst FROM hookwire.job_kinds WHERE kind = 'new'")

    assert tuple(stored) == (True, 3, None)


async def test_a_paused_kind_and_a_paused_queue_hand_nothing_out(sql: asyncpg.Connection) -> None:
    """JB-77."""
    await enqueue(sql)
    await sql.execute("SELECT hookwire.pause_job_kind('k', true, 'ada')")
    paused = await claim(sql)
    await sql.execute("SELECT hookwire.pause_job_kind('k', false, 'ada')")
    await sql.execute("INSERT INTO hookwire.queues (name, paused) VALUES ('default', true)")
    of_queue = await claim(sql)
    await sql.execute("UPDATE hookwire.queues SET paused = false")

    assert (paused, of_queue, len(await claim(sql))) == ([], [], 1)


async def test_a_far_date_is_kept_as_local_time_and_zone(sql: asyncpg.Connection) -> None:
    """JB-57: the instant is judged again when it comes, by the rules of the zone as they are then."""
    draft = {"kind": "k", "due_local": "2031-07-01T09:00:00", "due_zone": "Europe/Berlin"}
    await sql.execute("SELECT * FROM hookwire.add_jobs($1)", json.dumps([draft]))
    due = await sql.fetchval("SELECT due_at FROM hookwire.jobs")
    await sql.execute("UPDATE hookwire.jobs SET due_at = now()")  # as if the zone's rules had changed since
    kept = await keep(sql)
    again = await sql.fetchval("SELECT due_at FROM hookwire.jobs")

    assert (due, kept, again) == (datetime.fromisoformat("2031-07-01T07:00:00+00:00"), {}, due)


async def test_a_date_that_has_passed_is_not_kept(sql: asyncpg.Connection) -> None:
    """GB-08: the oldest one that is accepted; an older one is refused."""
    draft = {"kind": "k", "due_local": "0001-01-01", "due_zone": "UTC"}
    await sql.execute("SELECT hookwire.add_jobs($1)", json.dumps([draft]))

    assert tuple(await sql.fetchrow("SELECT state, due_at, due_local, due_zone FROM hookwire.jobs")) == (
        "available", None, None, None,
    )  # fmt: skip


async def test_two_maintainers_at_once_do_everything_once(connect: Any, sql: asyncpg.Connection) -> None:
    """JB-34, JB-63, JT-09."""
    await sql.execute("SELECT hookwire.enqueue('k', to_jsonb(n), delay_seconds => 3600) FROM generate_series(1, 300) n")
    await sql.execute("UPDATE hookwire.jobs SET due_at = now() - interval '1 s'")
    sessions = [await connect() for _ in range(2)]

    async def run(session: asyncpg.Connection) -> int:
        total = 0
        while done := (await keep(session)).get("promoted", 0):
            total += done
        return total

    assert sum(await asyncio.gather(*map(run, sessions))) == 300


async def test_a_tick_of_a_schedule_is_enqueued_once_however_many_schedulers_run(
    connect: Any, sql: asyncpg.Connection
) -> None:
    """JB-73."""
    now = datetime.now().astimezone()
    await sql.execute(
        """INSERT INTO hookwire.job_schedules (name, cron, job, next_at)
           VALUES ('nightly', '0 3 * * *', '{"kind": "k"}', $1)""",
        now,
    )
    sessions = [await connect() for _ in range(4)]
    fire = "SELECT hookwire.fire_schedule('nightly', $1, $2, ARRAY[$1::timestamptz])"
    fired = await asyncio.gather(*(session.fetchval(fire, now, now + timedelta(days=1)) for session in sessions))

    assert (sorted(fired), await sql.fetchval("SELECT count(*) FROM hookwire.jobs")) == ([0, 0, 0, 1], 1)


_REFUSED = {
    "hookwire.enqueue('no good')": "22023",
    "hookwire.enqueue('')": "22023",
    "hookwire.enqueue('k', delay_seconds => -1)": "22023",
    "hookwire.enqueue('k', priority => 1001)": "22023",
    "hookwire.enqueue('k', uniq => '')": "22023",
    "hookwire.enqueue('k', on_conflict => 'maybe')": "22023",
    "hookwire.enqueue('k', callbacks => '{\"on_moon\": \"k\"}')": "22023",
    "hookwire.enqueue('k', to_jsonb(repeat('x', 1100000)))": "HW003",
    'hookwire.add_jobs(\'[{"kind": "k", "colour": 1}]\')': "22023",
    'hookwire.add_jobs(\'[{"kind": "k", "due_local": "2031-01-01", "due_zone": "Mars/Olympus"}]\')': "22023",
    'hookwire.add_jobs(\'[{"kind": "k", "due_local": "9999-12-31T23:59:59", "due_zone": "UTC"}]\')': "22023",
    "hookwire.enqueue('k', due_at => '9999-12-31T23:59:59-12:00')": "22023",
    "hookwire.enqueue('k', due_at => 'infinity')": "22023",
    "hookwire.add_jobs('{}')": "22023",
    "hookwire.claim_jobs('{k}', 0, 'w')": "22023",
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


async def test_a_role_with_usage_enqueues_and_does_not_work(sql: asyncpg.Connection) -> None:
    role = f"app_{await sql.fetchval('SELECT pg_backend_pid()')}"
    await sql.execute(f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA hookwire TO {role}; SET ROLE {role}")
    try:
        await enqueue(sql, uniq="u", callbacks={"on_complete": "tell"})
        for statement in ("hookwire.claim_jobs('{k}', 1, 'w')", "hookwire.cancel_job(gen_random_uuid(), 'x')"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await sql.execute(f"SELECT {statement}")
    finally:
        await sql.execute(f"RESET ROLE; REVOKE ALL ON SCHEMA hookwire FROM {role}; DROP ROLE {role}")


@pytest.mark.parametrize("reviewed", [False, True])
async def test_a_result_that_cannot_be_stored_is_kept_as_text_with_a_note(
    sql: asyncpg.Connection, reviewed: bool
) -> None:
    """GB-06: the job is completed, or waits for its review, and no other job of the statement suffers."""
    await kind(sql, needs_review=reviewed)
    results = ["x" * 1_100_000, json.loads("[" * 100 + "]" * 100), 10**1_200, {"ok": True}, None]
    jobs = [await enqueue(sql) for _ in results]
    held = {str(job): number for job, number in await claim(sql, most=len(results))}
    done = await sql.fetch(
        "SELECT hookwire.complete_jobs($1, $2, $3::text[]::jsonb[])",
        jobs, [held[job] for job in jobs], [json.dumps(result) for result in results],
    )  # fmt: skip
    kept = {str(row["id"]): row for row in await sql.fetch("SELECT id, state, result FROM hookwire.all_jobs")}
    notes = await sql.fetch("SELECT subject, reason FROM hookwire.audit WHERE action = 'job.result' ORDER BY id")
    large, deep = "larger than 1 MiB", "nested deeper than 64, or holds a number of more than 1,000 digits"

    assert {str(row[0]) for row in done} == set(jobs)
    assert {kept[job]["state"] for job in jobs} == {"review" if reviewed else "completed"}
    assert [json.loads(kept[job]["result"]) for job in jobs] == [
        "x" * 65_536, "[" * 100 + "]" * 100, str(10**1_200), {"ok": True}, None,
    ]  # fmt: skip
    assert {row["subject"]: row["reason"] for row in notes} == {
        job: f"the result is {why}; the beginning of its text is kept"
        for job, why in zip(jobs, (large, deep, deep), strict=False)
    }


async def test_a_role_that_names_an_actor_stands_beside_it(sql: asyncpg.Connection) -> None:
    """GS-08: every role may say that it is ada; the trail says which role said so."""
    role = f"role_{secrets.token_hex(4)}"
    await sql.execute(
        f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA hookwire TO {role};"
        f" GRANT ALL ON ALL TABLES IN SCHEMA hookwire TO {role};"
        f" GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA hookwire TO {role}"
    )
    try:
        for user in (role, "DEFAULT"):
            await sql.execute(f"SET SESSION AUTHORIZATION {user}")
            await sql.fetchval("SELECT hookwire.enqueue('mail', requester => 'ada@example')")
            await sql.fetchval("SELECT hookwire.enqueue('mail')")
            await sql.execute("SELECT hookwire.pause_job_kind('mail', true, 'ada@example')")
        jobs = await sql.fetch("SELECT created_by FROM hookwire.jobs ORDER BY created_at")
        trail = await sql.fetch("SELECT actor, role FROM hookwire.audit ORDER BY id")
    finally:
        await sql.execute(f"RESET SESSION AUTHORIZATION; DROP OWNED BY {role}; DROP ROLE {role}")

    assert [row["created_by"] for row in jobs] == [f"ada@example sql:{role}", f"sql:{role}", "ada@example", None]
    assert [tuple(row) for row in trail] == [("ada@example", role), ("ada@example", None)]


@pytest.mark.parametrize(
    ("settle", "state"),
    [
        ("SELECT hookwire.complete_job(id, claim, to_jsonb(repeat('x', 20000)))", "completed"),
        ("SELECT hookwire.fail_job(id, claim, repeat('x', 2000), true)", "discarded"),
    ],
)
async def test_a_limit_for_publishers_keeps_no_job_from_ending(
    sql: asyncpg.Connection, settle: str, state: str
) -> None:
    """GB-06: the event about its end was larger, so the work that was done was repeated."""
    await sql.execute("UPDATE hookwire.installation SET payload_bytes_max = 1000")
    await sql.execute("SELECT hookwire.enqueue('k')")
    await sql.execute(f"{settle} FROM hookwire.claim_jobs('{{k}}', 1, 'w')")
    told = await sql.fetchval("SELECT count(*) FROM hookwire.events WHERE topic = $1", f"hookwire.job.k.{state}")

    assert (await sql.fetchval("SELECT state FROM hookwire.job_archive"), told) == (state, 1)

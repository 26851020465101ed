"""People and jobs, by SQL: assign, delay, review, due dates, the ramp, who did what (JB-40..JB-45, JT-20)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import asyncpg
import pytest

from tests.jobs.job_steps import claim, claim_one, complete, enqueue, keep, kind, published, state, trail

WAIT_SECONDS = 60.0


async def do(sql: asyncpg.Connection, verb: str, job: str, *args: Any) -> Any:
    places = "".join(f", ${n}" for n in range(2, len(args) + 2))
    return await sql.fetchval(f"SELECT hookwire.{verb}_job($1{places})", job, *args)


async def test_of_two_people_who_click_at_once_one_wins_and_the_other_is_told(
    sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    """JB-41, JT-20."""
    job = await enqueue(sql)
    results = await asyncio.gather(
        do(sql, "assign", job, "ada", "ada"), do(other, "assign", job, "bob", "bob"), return_exceptions=True
    )
    [error] = [result for result in results if result is not None]
    winner = await sql.fetchval("SELECT assignee FROM hookwire.jobs")

    assert (getattr(error, "sqlstate", error), winner in str(error)) == ("HW002", True)
    assert await trail(sql, job) == [(winner, "assign")]


async def test_a_person_delays_finishes_and_another_one_reviews(sql: asyncpg.Connection) -> None:
    """JB-40, JB-42, JB-43: it comes back to the same person; sent back to who did it; approved by another."""
    await kind(sql, needs_review=True, reviewer_differs=True, events=["review", "completed"])
    job = await enqueue(sql)
    pool = await sql.fetchval("SELECT count(*) FROM hookwire.jobs WHERE assignee IS NULL AND state = 'available'")
    await do(sql, "assign", job, "ada", "boss")
    await sql.execute("SELECT hookwire.delay_job($1, 'ada', now())", job)
    await keep(sql)
    back = await sql.fetchval("SELECT state || ' ' || assignee FROM hookwire.jobs")
    finished = await do(sql, "finish", job, "ada", json.dumps({"pages": 3}))
    with pytest.raises(asyncpg.PostgresError) as refused:
        await do(sql, "approve", job, "ada")
    await do(sql, "send_back", job, "bob", "one page is missing")
    again = await sql.fetchval("SELECT state || ' ' || assignee FROM hookwire.jobs")
    await do(sql, "finish", job, "ada", json.dumps({"pages": 4}))
    await do(sql, "approve", job, "bob")
    ended = await sql.fetchrow("SELECT state, result, performer, ended_by FROM hookwire.job_archive")

    assert (pool, back, finished, refused.value.sqlstate, again) == (
        1,
        "assigned ada",
        "review",
        "HW002",
        "assigned ada",
    )
    assert tuple(ended) == ("completed", '{"pages": 4}', "ada", "bob")
    assert await trail(sql, job) == [
        ("boss", "assign"), ("ada", "delay"), ("ada", "finish"), ("bob", "send-back"), ("ada", "finish"),
        ("bob", "approve"),
    ]  # fmt: skip
    assert [topic for topic, _ in await published(sql)] == ["k.review", "k.review", "k.completed"]


async def test_a_delayed_job_returns_to_the_pool_if_so_asked(sql: asyncpg.Connection) -> None:
    """JB-42."""
    job = await enqueue(sql, assignee="ada")
    await sql.execute("SELECT hookwire.delay_job($1, 'ada', now(), to_pool => true)", job)
    await keep(sql)

    assert tuple(await sql.fetchrow("SELECT state, assignee FROM hookwire.jobs")) == ("available", None)


async def refusal(sql: asyncpg.Connection, statement: str) -> str | None:
    """The SQLSTATE with which it is refused, or None; nothing is left of what was refused."""
    try:
        async with sql.transaction():
            await sql.execute(statement)
    except asyncpg.PostgresError as error:
        return str(error.sqlstate)
    return None


_START = {
    "scheduled": "SELECT hookwire.delay_job($1, 'x', now() + interval '1 day')",
    "available": "SELECT $1::uuid",
    "assigned": "SELECT hookwire.assign_job($1, 'ada', 'ada')",
    "running": "SELECT hookwire.claim_jobs('{k}', 1, $1::text)",
    "review": "SELECT hookwire.assign_job($1, 'ada', 'ada'), hookwire.finish_job($1, 'ada')",
    "completed": "SELECT hookwire.assign_job($1, 'ada', 'ada'), hookwire.finish_job($1, 'ada'),"
    " hookwire.approve_job($1, 'bob')",
    "cancelled": "SELECT hookwire.cancel_job($1, 'x')",
}
_LEGAL = {
    "assign": {"available"},
    "unassign": {"assigned"},
    "delay": {"scheduled", "available", "assigned"},
    "finish": {"assigned"},
    "approve": {"review"},
    "send_back": {"review"},
    "decline": {"review", "assigned"},
    "cancel": {"scheduled", "available", "assigned", "running", "review"},
    "retry": {"scheduled", "cancelled"},
}
_ARGS = {"assign": "'eve', 'eve'", "delay": "'eve', now() + interval '1 day'"}


async def test_a_move_from_any_other_state_is_refused_and_changes_nothing(sql: asyncpg.Connection) -> None:
    """JB-43: the table of moves, verb by verb and state by state."""
    await kind(sql, needs_review=True)
    legal: dict[str, set[str]] = {verb: set() for verb in _LEGAL}
    for verb in _LEGAL:
        for begun, statement in _START.items():
            transaction = sql.transaction()
            await transaction.start()
            job = await enqueue(sql)
            await sql.execute(statement.replace("$1", f"'{job}'"))
            before = await state(sql, job)
            code = await refusal(sql, f"SELECT hookwire.{verb}_job('{job}', {_ARGS.get(verb, repr('eve'))})")
            if code is None:
                legal[verb].add(begun)
            else:
                assert (code, await state(sql, job), before) == ("HW002", begun, begun)
            await transaction.rollback()

    assert legal == _LEGAL


async def test_nothing_of_people_expires_and_a_due_date_does_what_it_says(sql: asyncpg.Connection) -> None:
    """JB-44."""
    await kind(sql, escalate_to="boss", events=["due"])
    jobs = {action: await enqueue(sql, args={"a": action}) for action in ("remind", "escalate", "unassign")}
    for action, job in jobs.items():
        await sql.execute("SELECT hookwire.assign_job($1, 'ada', 'ada', now() + interval '1 day', $2)", job, action)
    early = await keep(sql)
    await sql.execute("UPDATE hookwire.jobs SET due_at = now()")
    due = await keep(sql)
    rows = await sql.fetch("SELECT args->>'a' AS a, state, assignee FROM hookwire.jobs ORDER BY seq")

    assert (early, due, len(await published(sql))) == ({}, {"promoted": 3}, 3)
    assert [tuple(row) for row in rows] == [
        ("remind", "assigned", "ada"),
        ("escalate", "assigned", "boss"),
        ("unassign", "available", None),
    ]


async def test_a_running_job_is_cancelled_by_its_worker_or_when_its_grace_is_over(sql: asyncpg.Connection) -> None:
    """JB-74: the heartbeat tells the worker; the maintainer ends what does not listen."""
    for n in range(2):
        await enqueue(sql, args={"n": n})
    (polite, _), (deaf, _) = claims = await claim(sql, most=2)
    states = [await do(sql, "cancel", job, "boss") for job in (polite, deaf)]
    told = await sql.fetch(
        "SELECT is_cancelled FROM hookwire.extend_jobs($1, $2)", [c[0] for c in claims], [c[1] for c in claims]
    )
    await sql.execute("SELECT hookwire.fail_job($1, $2, 'stopped')", *claims[0])
    await sql.execute("UPDATE hookwire.jobs SET lease_until = now() - interval '1 s'")
    kept = await keep(sql)
    ended = await sql.fetch("SELECT state FROM hookwire.job_archive")

    assert (states, [row[0] for row in told], kept) == (["running"] * 2, [True, True], {"cancelled": 1})
    assert [row["state"] for row in ended] == ["cancelled", "cancelled"]


async def test_an_ended_job_is_retried_under_its_id(sql: asyncpg.Connection) -> None:
    """JB-76."""
    job = await enqueue(sql, uniq="u")
    await do(sql, "cancel", job, "ada", "by mistake")
    await do(sql, "retry", job, "ada")
    [claimed] = await claim(sql)

    assert (claimed[0], await trail(sql, job)) == (job, [("ada", "cancel"), ("ada", "retry")])


async def test_the_ramp_goes_from_people_to_machines_and_keeps_ids_and_history(sql: asyncpg.Connection) -> None:
    """JB-45, JT-21: manual, assisted, mostly (rule and share), automatic."""
    await kind(sql, automation="manual")
    jobs = {await enqueue(sql, args={"n": n, "easy": n < 40}) for n in range(200)}
    manual = await claim(sql, most=1000)
    await kind(sql, automation="mostly", machine_percent=50, machine_rule={"easy": True})
    mostly = await claim(sql, most=1000)
    easy = await sql.fetchval("SELECT bool_and(state = 'running') FROM hookwire.jobs WHERE args @> '{\"easy\": true}'")
    failed = await sql.fetchval("SELECT hookwire.fail_job($1, $2, 'too hard')", *mostly[0])
    to_people = await sql.fetchval("SELECT for_people FROM hookwire.jobs WHERE id = $1", mostly[0][0])
    await kind(sql, automation="assisted")
    assisted = await claim(sql, most=1000)
    await complete(sql, assisted[0], {"draft": 1})
    reviewed = await state(sql, assisted[0][0])
    await do(sql, "send_back", assisted[0][0], "ada")
    await kind(sql, automation="automatic")
    await complete(sql, assisted[1], {"done": 1})
    kept = {str(row["id"]) for row in await sql.fetch("SELECT id FROM hookwire.all_jobs")}

    assert (manual, easy, failed, to_people, reviewed, kept == jobs) == ([], True, "available", True, "review", True)
    assert 40 + 50 <= len(mostly) <= 40 + 110, len(mostly)
    assert (await state(sql, assisted[1][0]), len(mostly) + len(assisted)) == ("completed", 200)


async def test_the_ramp_may_be_switched_while_everybody_works(connect: Any, sql: asyncpg.Connection) -> None:
    """JT-21, JP-14: every job ends once, some by people, some by machines."""
    await sql.execute("SELECT hookwire.enqueue('k', to_jsonb(n)) FROM generate_series(1, 150) n")
    machine, person, boss = [await connect() for _ in range(3)]
    done = asyncio.Event()

    async def work() -> None:
        while not done.is_set():
            for claimed in await claim(machine, most=3):
                await complete(machine, claimed)
            await asyncio.sleep(0)

    async def click() -> None:
        while not done.is_set():
            for row in await person.fetch(
                "SELECT id FROM hookwire.jobs WHERE for_people AND state = 'available' LIMIT 3"
            ):
                for verb in ("assign", "finish"):  # a machine may be allowed to have it meanwhile
                    given = "'ada', 'ada'" if verb == "assign" else "'ada'"
                    assert await refusal(person, f"SELECT hookwire.{verb}_job('{row['id']}', {given})") in (
                        None,
                        "HW002",
                    )
            await asyncio.sleep(0)

    async def switch() -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while await boss.fetchval("SELECT count(*) FROM hookwire.jobs"):
                for automation in ("manual", "mostly", "automatic"):
                    await kind(boss, automation=automation, machine_percent=50)
        done.set()

    await asyncio.gather(work(), click(), switch())
    counts = await sql.fetchrow(
        "SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE state = 'completed') FROM hookwire.job_archive"
    )

    assert tuple(counts) == (150, 150, 150)


async def test_statistics_say_who_did_how_much(sql: asyncpg.Connection) -> None:
    """JB-53."""
    for _ in range(2):
        await enqueue(sql)
        await complete(sql, await claim_one(sql, worker="host-1"))
    job = await enqueue(sql, assignee="ada")
    await do(sql, "finish", job, "ada")
    rows = await sql.fetch(
        "SELECT kind, state, performer, jobs, total_seconds >= 0 FROM hookwire.job_statistics ORDER BY performer"
    )

    assert [tuple(row) for row in rows] == [("k", "completed", "ada", 1, True), ("k", "completed", "host-1", 2, True)]

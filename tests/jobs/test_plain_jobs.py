"""The flat way of enqueueing: it makes the rows that the general one makes, and leaves to it what it cannot make."""

from __future__ import annotations

import json
from typing import Any

import asyncpg
import pytest

from tests.jobs.job_steps import enqueue, kind, published

_ROWS = """
SELECT kind, queue, state, for_people, args, key, uniq, priority, rank_at = created_at, due_at, on_due,
       deadline_at - created_at, attempts, attempts_max, run_seconds, assignee, number, created_by
FROM hookwire.jobs ORDER BY seq
"""
_DRAFTS: list[dict[str, Any]] = [
    {"kind": "k"},
    {"kind": "k", "args": None},
    {"kind": "slow", "args": {"a": [1, {"b": None}]}, "key": "x"},
    {"kind": "k", "args": "text", "queue": "other", "key": ""},
    {"kind": "slow", "args": 5, "queue": None, "key": None, "uniq": None, "callbacks": None},
    {"kind": "5", "args": [], "key": "é" * 512},
]


async def add(
    sql: asyncpg.Connection, drafts: list[dict[str, Any]], actor: str | None = "ada"
) -> list[tuple[Any, ...]]:
    rows = await sql.fetch("SELECT n, outcome, state FROM hookwire.add_jobs($1, $2)", json.dumps(drafts), actor)
    return [tuple(row) for row in rows]


async def made(sql: asyncpg.Connection) -> list[tuple[Any, ...]]:
    """All jobs as rows, without what differs from job to job; they are deleted."""
    rows = [tuple(row) for row in await sql.fetch(_ROWS)]
    await sql.execute("DELETE FROM hookwire.jobs")
    return rows


async def flat(sql: asyncpg.Connection, drafts: list[dict[str, Any]]) -> int:
    """How many of the drafts the flat way takes: all or none."""
    transaction = sql.transaction()
    await transaction.start()
    rows = await sql.fetch("SELECT n FROM hookwire.add_plain_jobs($1, NULL)", json.dumps(drafts))
    await transaction.rollback()
    return len(rows)


async def test_both_ways_make_the_same_rows(sql: asyncpg.Connection) -> None:
    await kind(sql, "slow", deadline_seconds=60.5, attempts_max=3, run_seconds=7)

    taken = await flat(sql, _DRAFTS), await flat(sql, [{**draft, "priority": 0} for draft in _DRAFTS])
    told = await add(sql, _DRAFTS)
    rows = await made(sql)
    told_too = await add(sql, [{**draft, "priority": 0} for draft in _DRAFTS])

    assert taken == (len(_DRAFTS), 0)
    assert told == told_too == [(n, "made", "available") for n in range(1, len(_DRAFTS) + 1)]
    assert rows == await made(sql)


async def test_a_call_may_be_larger_as_text_than_the_largest_text(sql: asyncpg.Connection) -> None:
    """Each job has at most a mebibyte; the text of all is never made at once."""
    numbers = json.dumps({"kind": "k", "args": "NUMBERS"}).replace('"NUMBERS"', f"[{','.join(['1e999'] * 1_000)}]")
    text = f"[{','.join([numbers] * 300)}]"

    assert await sql.fetchval("SELECT count(*) FROM hookwire.add_jobs($1)", text) == 300


async def test_one_job_is_made_as_one_of_many(sql: asyncpg.Connection) -> None:
    await kind(sql, "slow", deadline_seconds=60.5, attempts_max=3)
    options: list[dict[str, Any]] = [{}, {"key": "x"}, {"queue": "other", "key": ""}, {"requester": "ada"}]
    for given in options:
        await enqueue(sql, "slow", {"n": 1}, **given)
    rows = await made(sql)
    for given in options:
        await enqueue(sql, "slow", {"n": 1}, priority=0, **given)

    assert (len(rows), rows) == (len(options), await made(sql))


@pytest.mark.parametrize(
    "settings",
    [{"events": ["available"]}, {"automation": "manual"}, {"automation": "mostly", "machine_percent": 50}],
    ids=["announced", "of people", "shared"],
)
async def test_a_kind_that_needs_more_takes_the_general_way(sql: asyncpg.Connection, settings: dict[str, Any]) -> None:
    await kind(sql, "more", **settings)
    await enqueue(sql, "more", {"n": 1})
    told = await add(sql, [{"kind": "k"}, {"kind": "more"}])
    people = await sql.fetchval("SELECT count(*) FROM hookwire.jobs WHERE for_people")
    topics = await published(sql)

    assert (await flat(sql, [{"kind": "more"}]), await flat(sql, [{"kind": "k"}, {"kind": "more"}])) == (0, 0)
    assert [outcome for _, outcome, _ in told] == ["made", "made"]
    assert len(topics) == (2 if "events" in settings else 0)
    assert people == 2 or settings.get("automation") != "manual"


@pytest.mark.parametrize(
    ("draft", "code"),
    [
        ({"kind": "k", "colour": None}, "22023"),
        ({"kind": "k", "key": "x" * 1025}, "22023"),
        ({"kind": "no name"}, "22023"),
        ({"kind": "k", "queue": ".."}, "22023"),
        ({"args": 1}, "22023"),
        ({"kind": "k", "args": "x" * 1_048_577}, "HW003"),
        (7, "22023"),
    ],
    ids=str,
)
async def test_what_is_refused_is_refused_among_plain_jobs_and_nothing_is_made(
    sql: asyncpg.Connection, draft: Any, code: str
) -> None:
    with pytest.raises(asyncpg.PostgresError) as refused:
        await add(sql, [{"kind": "k"}, draft])

    assert (refused.value.sqlstate, await made(sql)) == (code, [])


async def test_arguments_may_be_as_deep_on_both_ways(sql: asyncpg.Connection) -> None:
    """64 levels, and no more."""
    args = {n: json.loads('{"a":' * n + "1" + "}" * n) for n in (64, 65)}

    assert await flat(sql, [{"kind": "k", "args": args[64]}]) == 1
    assert await add(sql, [{"kind": "k", "args": args[64], "priority": 0}]) == [(1, "made", "available")]
    for draft in ({"kind": "k", "args": args[65]}, {"kind": "k", "args": args[65], "priority": 0}):
        with pytest.raises(asyncpg.PostgresError, match="nested deeper than 64"):
            await add(sql, [draft])
    with pytest.raises(asyncpg.PostgresError, match="nested deeper than 64"):
        await enqueue(sql, args=args[65])


async def test_a_kind_that_nobody_made_is_refused_where_that_is_asked_for(sql: asyncpg.Connection) -> None:
    await kind(sql, "known")
    await sql.execute("UPDATE hookwire.installation SET kinds_auto_create = false")

    assert await add(sql, [{"kind": "known"}]) == [(1, "made", "available")]
    assert await enqueue(sql, "known")
    for asked in (lambda: add(sql, [{"kind": "known"}, {"kind": "new"}]), lambda: enqueue(sql, "new")):
        with pytest.raises(asyncpg.UndefinedObjectError, match="unknown kind 'new'"):
            await asked()
    assert await sql.fetchval("SELECT count(*) FROM hookwire.jobs") == 2


async def test_workers_hear_of_plain_jobs_where_sql_notifies(
    sql: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    heard: list[str] = []
    await other.add_listener("hookwire_jobs", lambda *parts: heard.append(str(parts[2])))
    for notifies in (True, False):
        await sql.execute("UPDATE hookwire.installation SET sql_notify = $1", notifies)
        await enqueue(sql)
        await add(sql, [{"kind": "k"}, {"kind": "k"}])
        await other.execute("SELECT 1")

    assert heard == ["hookwire_jobs"] * 2

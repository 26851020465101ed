"""The sink of jobs: an event enqueues one job by the rule of its topic, in the commit that carries it."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from db.pool import Database, PoolOptions, open_database
from jobs.jobs.event_jobs import EventJobs, JobTermOver
from tests.app.conftest import ALL_ROLES, RunHub, RunningHub, running_hub

__all__ = ["running_hub"]

RULE = {"kind": "invoice.check", "queue": "eu", "priority": 5}
SETTINGS = {"sinks": ["webhooks", "jobs"], "job": RULE}
RULED = (
    """INSERT INTO hookwire.topics (name, sinks, job) VALUES ('a', '{jobs}', '{"kind": "k"}');"""
    " INSERT INTO hookwire.relay_terms (sink, grp, term) VALUES ('jobs', 0, 7);"
)
ARGS = "SELECT args FROM hookwire.jobs ORDER BY seq"


@pytest.fixture
async def database(database_url_both: str) -> AsyncIterator[Database]:
    opened = await open_database(PoolOptions(database_url_both))
    yield opened
    await opened.aclose()


async def put(hub: RunningHub, topic: str, **settings: Any) -> tuple[int, Any]:
    answer = await hub.client.put(f"/topics/{topic}/settings", json=settings)
    return answer.status_code, answer.json()


async def jobs_of(hub: RunningHub, count: int) -> list[dict[str, Any]]:
    found = await hub.until("/jobs?limit=100", lambda answer: len(answer["items"]) >= count)
    return list(reversed(found["items"]))


async def test_each_event_of_a_topic_enqueues_one_job_by_its_rule(running_hub: RunHub) -> None:
    """And goes where it went before; an event of another topic enqueues none."""
    async with running_hub(ALL_ROLES) as hub:
        status, stored = await put(hub, "invoices", **SETTINGS)
        made = await hub.publish("invoices", b'{"invoice": 7}', hookwire_key="ada", content_type="application/json")
        await hub.publish("orders", b"{}")
        [job] = await jobs_of(hub, 1)
        event = await hub.until(
            f"/events/{made.json()['id']}", lambda found: {sink["state"] for sink in found["sinks"]} == {"sent"}
        )
        args = job["args"]

        assert (status, stored["sinks"], {name: stored["job"][name] for name in RULE}) == (
            200, ["jobs", "webhooks"], RULE,
        )  # fmt: skip
        assert (job["kind"], job["queue"], job["priority"], job["key"], job["state"], job["created_by"]) == (
            "invoice.check", "eu", 5, "ada", "available", "topic",
        )  # fmt: skip
        assert (args["event_id"], args["topic"], args["key"], args["content_type"], args["data"]) == (
            made.json()["id"], "invoices", "ada", "application/json", {"invoice": 7},
        )  # fmt: skip
        assert ({sink["sink"]: sink["reason"] for sink in event["sinks"]}, event["summary"].split("; ")[-1]) == (
            {"jobs": "its job was enqueued", "webhooks": "matched with subscriptions"}, "its job enqueued.",
        )  # fmt: skip


async def test_content_of_any_kind_is_in_the_arguments_or_left_out(running_hub: RunHub) -> None:
    """JB-11: numbers of more digits than a reader takes are text."""
    contents = [b"", b"text", b"\xff\x00", b"[1e300]", b"[" + b"1e9999," * 1_000 + b"1]", b"x" * 1_100_000]
    async with running_hub(ALL_ROLES, event_bytes_max=2_000_000) as hub:
        await put(hub, "a", **SETTINGS)
        for content in contents:
            assert (await hub.publish("a", content)).status_code == 202
        await jobs_of(hub, len(contents))
        found = [json.loads(args) for (args,) in await hub.sql(ARGS)]

    names = ("data", "payload", "payload_base64", "is_left_out")
    shown = [{name: args[name] for name in names if name in args} for args in found]
    assert shown == [
        {"payload": ""}, {"payload": "text"}, {"payload_base64": base64.b64encode(b"\xff\x00").decode()},
        {"data": [10**300]}, {"payload": contents[4].decode()}, {"is_left_out": True},
    ]  # fmt: skip


async def test_content_that_no_worker_could_read_is_text_and_harms_no_other_job(running_hub: RunHub) -> None:
    """EY-01: numbers of thousands of digits, and deep nesting. They ended the hub, and every claim of the kind."""
    contents = [
        b"1e5000",
        b"[" * 3000 + b"]" * 3000,
        b'{"a": -' + b"9" * 1_001 + b"}",
        b"[" * 63 + b"1" + b"]" * 63,
        b"{}",
    ]
    async with running_hub(ALL_ROLES) as hub:
        await put(hub, "a", **SETTINGS)
        for content in contents:
            assert (await hub.publish("a", content)).status_code == 202
        listed = await jobs_of(hub, len(contents))
        claimed = await hub.client.post("/jobs/claim", json={"queue": "eu", "max": 10})

    assert [job["args"].get("payload") for job in listed] == [content.decode() for content in contents[:3]] + [None] * 2
    assert (claimed.status_code, len(claimed.json()["items"]), listed[-1]["args"]["data"]) == (200, 5, {})


@pytest.mark.parametrize("value", ["[" * 66 + "]" * 66 + "", "1e1000", "-1e5000"], ids=["deep", "digits", "negative"])
async def test_sql_stores_no_arguments_and_no_result_that_no_worker_could_read(
    sql: asyncpg.Connection, value: str
) -> None:
    """EY-01: HTTP refuses them at the door."""
    value = value.replace("[]", "[1]")
    with pytest.raises(asyncpg.InvalidParameterValueError, match="args are nested deeper than 64"):
        await sql.fetchval("SELECT hookwire.enqueue('k', $1::jsonb)", value)
    job = await sql.fetchval("SELECT hookwire.enqueue('k', '{}')")
    claim = await sql.fetchval("SELECT claim FROM hookwire.claim_jobs('{k}', 1, 'w')")
    await sql.fetchval("SELECT hookwire.complete_job($1, $2, $3::jsonb)", job, claim, value)
    assert await sql.fetchval("SELECT jsonb_typeof(result) FROM hookwire.job_archive WHERE id = $1", job) == "string"


async def test_a_rule_stays_for_events_that_were_routed_by_it(running_hub: RunHub) -> None:
    """The settings of the topic show no rule any more."""
    async with running_hub() as hub:
        await put(hub, "a", **SETTINGS)
        await hub.publish("a", b"1")
        _, without = await put(hub, "a", sinks=[])
        await hub.publish("a", b"2")
    async with running_hub(ALL_ROLES) as hub:
        [job] = await jobs_of(hub, 1)
        left = await hub.sql("SELECT count(*) FROM hookwire.outbox WHERE sink = 'jobs'")

        assert (without["job"], job["args"]["data"], left) == (None, 1, [(0,)])


async def test_a_rule_outlives_a_setting_that_refuses_unknown_kinds(running_hub: RunHub) -> None:
    """Its kind is known from the moment on in which the rule was accepted; another one is not."""
    async with running_hub() as hub:
        await put(hub, "a", **SETTINGS)
    async with running_hub(ALL_ROLES, kinds_auto_create=False) as hub:
        await hub.publish("a", b"1")
        refused = await put(hub, "b", sinks=["jobs"], job={"kind": "unknown"})

        assert (len(await jobs_of(hub, 1)), refused[0], refused[1]["type"].rpartition("/")[2]) == (
            1, 404, "unknown-job",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("topic", "settings", "parameter"),
    [
        ("a", {"sinks": ["jobs"]}, "job"), ("a", {"job": RULE}, "job"), ("a", {"sinks": [], "job": RULE}, "job"),
        ("hookwire.job.k.completed", SETTINGS, "sinks"),
        ("a", {**SETTINGS, "job": {**RULE, "args": {}}}, "job.args"), ("a", {**SETTINGS, "job": {}}, "job.kind"),
    ],
    ids=["no rule", "no sinks", "no sink", "own topic", "args", "no kind"],
)  # fmt: skip
async def test_a_rule_and_the_sink_are_given_together(
    running_hub: RunHub, topic: str, settings: dict[str, Any], parameter: str
) -> None:
    """No rule enqueues a job for a topic of the hub's own."""
    async with running_hub() as hub:
        status, problem = await put(hub, topic, **settings)

        assert (status, problem.get("parameter")) == (400, parameter)


async def test_under_another_term_nothing_is_enqueued(database: Database, sql: asyncpg.Connection) -> None:
    """RR-08, I3: a leader that was deposed writes nothing; a batch that is sent twice enqueues once."""
    await sql.execute(f"{RULED} SELECT hookwire.publish('a', n::text) FROM generate_series(1, 3) n")
    rows = await sql.fetch("SELECT shard, id FROM hookwire.outbox WHERE sink = 'jobs' ORDER BY id")
    batch = ([row["shard"] for row in rows], [row["id"] for row in rows])
    notified: list[str] = []
    event_jobs = EventJobs(database, "abcd2345", lambda: notified.append("added"))
    with pytest.raises(JobTermOver):
        await event_jobs.enqueue(0, 6, *batch)
    before = await sql.fetchval("SELECT count(*) FROM hookwire.jobs")
    done = [await event_jobs.enqueue(0, 7, *batch), await event_jobs.enqueue(0, 7, *batch)]
    after = [json.loads(row["args"])["data"] for row in await sql.fetch(ARGS)]

    assert (len(rows), before, done, after, notified) == (3, 0, [set(batch[1])] * 2, [1, 2, 3], ["added"])


async def test_a_statement_takes_events_up_to_so_many_bytes(database: Database, sql: asyncpg.Connection) -> None:
    """One at least; the others are claimed again."""
    await sql.execute(f"{RULED} SELECT hookwire.publish('a', repeat('x', 60)) FROM generate_series(1, 3) n")
    rows = await sql.fetch("SELECT shard, id FROM hookwire.outbox WHERE sink = 'jobs' ORDER BY id")
    shards, ids = [row["shard"] for row in rows], [row["id"] for row in rows]
    few = await EventJobs(database, "abcd2345", lambda: None, bytes_max=100).enqueue(0, 7, shards, ids)
    one = await EventJobs(database, "abcd2345", lambda: None, bytes_max=1).enqueue(0, 7, shards[2:], ids[2:])

    assert (few, one, await sql.fetchval("SELECT count(*) FROM hookwire.jobs")) == (set(ids[:2]), {ids[2]}, 3)

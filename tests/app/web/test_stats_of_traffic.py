"""Rates and times of topics, queues, kinds and services after real traffic, against a count of their own."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

from app.maintenance.ledger import Ledger
from db.pool import PoolOptions, open_database
from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub
from tests.app.web import test_jobs as jobs
from tests.app.web import test_queues as queues
from tests.app.web import test_services as services
from tests.waiting import until

_ENDED = {
    "queues/q": (
        "SELECT accepted_at - claimed_at, accepted_at - created_at FROM hookwire.message_archive WHERE queue = 'q'",
        "SELECT count(*) FROM hookwire.dead_messages WHERE queue = 'q'",
        "SELECT count(*) FROM hookwire.messages WHERE queue = 'q' AND claim IS NULL",
    ),
    "job-kinds/k": (
        "SELECT ended_at - claimed_at, ended_at - created_at FROM hookwire.job_archive WHERE state = 'completed'",
        "SELECT count(*) FROM hookwire.job_archive WHERE state = 'discarded'",
        "SELECT count(*) FROM hookwire.jobs WHERE state = 'available'",
    ),
    "task-kinds/post": (
        "SELECT finish_time - start_time, finish_time - created_at FROM hookwire.task_archive WHERE kind = 'post'",
        "SELECT count(*) FROM hookwire.dead_tasks",
        "SELECT count(*) FROM hookwire.task_rows WHERE kind = 'post' AND start_time IS NULL",
    ),
    "services/echo": (
        "SELECT NULL::interval, answered_at - created_at FROM hookwire.request_archive WHERE service = 'echo'",
        "SELECT count(*) FROM hookwire.request_archive WHERE state <> 'answered'",
        "SELECT count(*) FROM hookwire.requests WHERE state = 'waiting'",
    ),
}
"""Of each: how long those that are done ran and were there; how many were given up; how many wait."""


async def traffic(hub: RunningHub, receiver: Receiver) -> None:
    """Of each kind some are done, one or none is given up, and one or none is left."""
    await hub.subscribe("a", receiver.callback)
    for topic in ("a", "b", "a", "a"):
        await hub.publish(topic, b"1")
    await hub.sql("INSERT INTO hookwire.queues (name, history, deliveries_max) VALUES ('q', true, 1)")
    await queues.submit(hub, *"12345")
    await queues.settle(hub, "accept", await queues.ask(hub, "receive", max=3))
    await queues.settle(hub, "reject", await queues.ask(hub, "receive", max=1))
    for number in range(4):
        await jobs.enqueue(hub, args={"n": number}, attempts_max=1)
    for verb, more in (("complete", {}), ("complete", {}), ("fail", {"error": "no"})):
        await jobs.settle(hub, verb, await jobs.claim_one(hub), **more)
    await hub.sql("INSERT INTO hookwire.task_kinds (kind, keeps_record) VALUES ('post', true)")
    for number in range(3):
        await hub.sql("SELECT hookwire.enqueue_task('post', jsonb_build_object('n', $1::int))", number)
    await hub.sql(
        "SELECT hookwire.finish_tasks(array_agg(t.id), array_agg(t.claim)) FROM hookwire.claim_tasks(NULL, 2, 'w') t"
    )
    for _ in range(3):
        await services.ask(hub)
    for _ in range(2):
        done = await services.work(hub)
        await hub.client.delete(f"/requests/{done['request']['id']}")
    await receiver.wait_for(3)


async def fold_ledger(hub: RunningHub) -> None:
    database = await open_database(PoolOptions(hub.database_url, connections_min=1, connections_max=2))

    async def is_folded() -> bool:
        await Ledger(database).fold()
        [[done, left]] = await hub.sql(
            "SELECT c.through_id >= e.last_value, (SELECT count(*) FROM hookwire.ledger_entries)"
            " FROM hookwire.ledger_cursor c, hookwire.event_id e"
        )
        return bool(done and not left)

    await until(is_folded)
    await database.aclose()


def nearest_rank(seconds: Sequence[float | None]) -> dict[str, float | None]:
    """The quantiles of these, counted by hand."""
    known = sorted(one for one in seconds if one is not None)
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    return {name: known[ceil(share * len(known)) - 1] if known else None for name, share in shares.items()}


async def counted(hub: RunningHub, path: str) -> dict[str, Any]:
    """What the answer has to be, from the rows themselves."""
    done, failed, waiting = [await hub.sql(statement) for statement in _ENDED[path]]
    runs, ages = ([row[place].total_seconds() if row[place] else None for row in done] for place in (0, 1))
    return {
        "done": len(done), "failed": failed[0][0], "waiting": waiting[0][0], "run_seconds": nearest_rank(runs),
        "age_seconds": nearest_rank(ages),
    }  # fmt: skip


async def test_the_numbers_of_each_kind_of_work_equal_a_count_of_its_rows(
    running_hub: RunHub, receiver: Receiver
) -> None:
    """CN-11: and they equal what the test itself has done."""
    async with running_hub(ALL_ROLES) as hub:
        await traffic(hub, receiver)
        await fold_ledger(hub)
        told = {path: (await hub.client.get(f"/{path}/stats")).json() for path in _ENDED}
        rows = {path: await counted(hub, path) for path in _ENDED}
        topic = (await hub.client.get("/topics/a/stats")).json()
        [[accepted, delivered]] = await hub.sql(
            "SELECT (SELECT count(*) FROM hookwire.events WHERE topic = 'a'),"
            " (SELECT count(DISTINCT event_id) FROM hookwire.attempts WHERE decision = 'delivered')"
        )

    assert {path: {name: told[path][name] for name in rows[path]} for path in told} == rows
    assert {path: [row[name] for name in ("done", "failed", "waiting")] for path, row in rows.items()} == {
        "queues/q": [3, 1, 1], "job-kinds/k": [2, 1, 1], "task-kinds/post": [2, 0, 1], "services/echo": [2, 0, 1],
    }  # fmt: skip
    assert (topic["accepted"], topic["sinks"]) == (
        accepted, [{"sink": "webhooks", "owed": accepted, "sent": delivered, "dead": 0}],
    )  # fmt: skip
    assert (accepted, delivered) == (3, 3)

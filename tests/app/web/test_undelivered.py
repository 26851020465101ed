"""/undelivered: exactly what has not reached whom, and why, page by page."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import asyncpg
import pytest

from db.statements import STATEMENTS
from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub
from tests.app.web.publishing.test_ingest import kind

CALLBACK = "http://127.0.0.1:65534/hook"


async def pages(hub: RunningHub, query: str = "", limit: int = 3) -> list[dict[str, Any]]:
    """All items, read page by page."""
    items, path = [], f"/undelivered?limit={limit}&{query}"
    while path:
        answer = await hub.client.get(path)
        assert answer.status_code == 200, answer.text
        items += answer.json()["items"]
        path = answer.links.get("next", {}).get("url", "")
    return items


def places(items: list[dict[str, Any]]) -> list[tuple[str, str, str | None]]:
    return [(item["state"], item["event_id"], item["subscription_id"]) for item in items]


async def owe(hub: RunningHub, count: int, *subscriptions: str) -> None:
    """Made-up open deliveries and dead letters: of every event's number, even ones given up."""
    for subscription in subscriptions:
        await hub.sql(
            "INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant)"
            " SELECT n, s.id, CASE WHEN n % 3 = 0 THEN 'infinity' ELSE now() + make_interval(secs => 1000 - n) END,"
            " now(), 'default'"
            " FROM generate_series(1, $2::integer, 2) n, hookwire.subscriptions s WHERE public_id = $1",
            subscription,
            count,
        )
        await hub.sql(
            "INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts)"
            " SELECT n, s.id, 'default', 'exhausted', 10 FROM generate_series(2, $2::integer, 2) n,"
            " hookwire.subscriptions s WHERE public_id = $1",
            subscription,
            count,
        )


async def test_what_has_not_arrived_is_told_with_its_reason_and_what_has_is_not(
    running_hub: RunHub, receiver: Receiver
) -> None:
    """WH-R14, WH-P05, WH-10: one is retried, one given up, one waits for a disabled subscription; one has arrived."""
    async with running_hub(ALL_ROLES) as hub:
        retried = await hub.subscribe("a", CALLBACK, retry_schedule_seconds=[3600])
        dead = await hub.subscribe("a", CALLBACK, retry_schedule_seconds=[])
        await hub.subscribe("a", receiver.callback)
        event = (await hub.publish("a", b"1")).json()["id"]
        await receiver.wait_for(1)
        await hub.until("/deliveries?state=dead", lambda page: page["items"])
        await hub.until("/deliveries?state=retrying", lambda page: page["items"])
        await hub.until("/deliveries?state=delivered", lambda page: page["items"])
        first = await pages(hub)
        await hub.client.patch(f"/subscriptions/{retried['id']}", json={"state": "disabled"})
        second = await pages(hub, f"subscription_id={retried['id']}")

        assert places(first) == [("retrying", event, retried["id"]), ("dead", event, dead["id"])]
        assert first[0]["reason"].startswith("the last attempt failed: connect; attempt 2 is at 20")
        assert first[1]["reason"].startswith("given up: its attempts are used up: ")
        assert [item["reason"] for item in second] == [
            "the subscription is disabled: by request; the last attempt failed: connect"
        ]


async def test_what_is_not_fanned_out_yet_is_told_too(running_hub: RunHub) -> None:
    """Acknowledged, and no relay runs: nobody's delivery yet. Of a subscription, what its topic may match."""
    async with running_hub() as hub:
        made = await hub.subscribe("a.*", CALLBACK)
        await hub.sql("UPDATE hookwire.sinks SET configured = true WHERE name = 'webhooks'")
        events = [(await hub.publish(topic)).json()["id"] for topic in ("a.x", "b", "a.y", "a.z", "b")]

        assert places(await pages(hub)) == [("pending", event, None) for event in events]
        assert places(await pages(hub, f"subscription_id={made['id']}")) == [
            ("pending", events[n], None) for n in (0, 2, 3)
        ]


@pytest.mark.parametrize("of_one", [False, True], ids=["of all", "of one subscription"])
async def test_pages_follow_each_other_without_gap_or_repeat(running_hub: RunHub, of_one: bool) -> None:
    """EC-24, WH-A11: across the parts, and across what is due at infinity."""
    async with running_hub() as hub:
        made = [(await hub.subscribe("a", CALLBACK))["id"] for _ in range(2)]
        await owe(hub, 20, *made)
        query = f"subscription_id={made[0]}" if of_one else ""
        whole, paged = await pages(hub, query, 500), await pages(hub, query, 3)

        assert (paged, len(set(places(paged)))) == (whole, 20 if of_one else 40)
        assert Counter(item["state"] for item in paged) == {"pending": len(whole) // 2, "dead": len(whole) // 2}


async def test_a_part_can_be_asked_for_alone(running_hub: RunHub) -> None:
    """WH-15, FT-15: by the words of /events."""
    async with running_hub() as hub:
        await owe(hub, 6, (await hub.subscribe("a", CALLBACK))["id"])

        dead, waiting = await pages(hub, "outcome=dead"), await pages(hub, "outcome=waiting")
        assert [[item["state"] for item in found] for found in (dead, waiting)] == [["dead"] * 3, ["pending"] * 3]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("cursor=x", (400, "invalid-cursor")),
        ("cursor=WyJ4IiwwLDAsMF0", (400, "invalid-cursor")),  # ["x",0,0,0]
        ("cursor=WyJ3YWl0aW5nIiw5OTk5OTk5OTk5OTk5OTk5OTksMCwwXQ", (400, "invalid-cursor")),  # too far in time
        ("outcome=delivered", (400, "invalid-parameter")),
        ("subscription_id=sub_none", (404, "not-found")),
    ],
)
async def test_a_bad_question_is_refused(kept_hub: RunningHub, query: str, expected: tuple[int, str]) -> None:
    """B-49."""
    assert kind(await kept_hub.client.get(f"/undelivered?{query}"))[::2] == expected


async def test_a_page_costs_a_page_however_much_is_owed(running_hub: RunHub, database_url: str) -> None:
    """WH-20: no plan reads more than the page; 100,000 deliveries."""
    async with running_hub() as hub:
        made = (await hub.subscribe("a", CALLBACK))["id"]
        await owe(hub, 100_000, made)
        [(number,)] = await hub.sql("SELECT id FROM hookwire.subscriptions")
        sql = await asyncpg.connect(database_url)
        try:
            await sql.execute("SET enable_seqscan = off")
            await sql.execute("ANALYZE hookwire.deliveries, hookwire.dead_letters")
            questions: list[tuple[str, tuple[object, ...]]] = [
                ("open", ("default", 40_000, 0, 50, 0, 2**62)),
                ("open_of", ("default", number, 1, 0, 10**16, 50, 0, 2**62)),
                ("dead", ("default", 40_000, 0, 50, 0, 2**62)),
                ("dead_of", ("default", number, 40_000, 50, 0, 2**62)),
                ("queued", ("default", None, 0, 50, 0, 2**62)),
            ]
            read = {name: await pages_read(sql, f"undelivered.{name}", *arguments) for name, arguments in questions}
        finally:
            await sql.close()
        assert {name: count for name, count in read.items() if count > 500} == {}


async def pages_read(sql: asyncpg.Connection, name: str, *arguments: object) -> int:
    """Pages that a statement looked at, in memory or not."""
    plan = json.loads(await sql.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {STATEMENTS[name]}", *arguments))
    return int(plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"])

"""GET /events: events are found by topic, key, time and outcome, page by page: FT-13."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from db.statements import STATEMENTS
from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub
from tests.app.web.publishing.test_ingest import kind


async def found(hub: RunningHub, **query: Any) -> list[str]:
    """Ids of all events, read page by page."""
    ids, path = [], str(hub.client.build_request("GET", "/events", params={"limit": 2, **query}).url)
    while path:
        answer = await hub.client.get(path)
        assert answer.status_code == 200, answer.text
        ids += [item["id"] for item in answer.json()["items"]]
        path = answer.links.get("next", {}).get("url", "")
    return ids


async def test_events_are_found_by_topic_key_and_time(running_hub: RunHub) -> None:
    """FT-13: newest first, across pages."""
    async with running_hub() as hub:
        places = [("a", "k"), ("b", "k"), ("a", "l"), ("a", "k"), ("b", None), ("a", None), ("a", "k")]
        made = [
            (await hub.publish(topic, b"1", **({"hookwire_key": key} if key else {}))).json() for topic, key in places
        ]
        ids = [event["id"] for event in made]
        await hub.sql("UPDATE hookwire.events SET accepted_at = accepted_at - interval '5 hours' WHERE id <= 2")
        noon = datetime.fromisoformat(made[0]["accepted_at"]) - timedelta(hours=1)

        assert {
            "all": await found(hub),
            "topic": await found(hub, topic="a"),
            "key": await found(hub, key="k"),
            "both": await found(hub, topic="b", key="k"),
            "since": await found(hub, since=noon.isoformat()),
            "until": await found(hub, until=noon.isoformat()),
            "none": await found(hub, key="nobody"),
        } == {
            "all": ids[::-1],
            "topic": [ids[n] for n in (6, 5, 3, 2, 0)],
            "key": [ids[n] for n in (6, 3, 1, 0)],
            "both": [ids[1]],
            "since": ids[:1:-1],
            "until": ids[1::-1],
            "none": [],
        }


async def test_events_are_found_by_what_became_of_them(running_hub: RunHub, receiver: Receiver) -> None:
    """FT-13: dead, waiting, delivered; each event has one of them."""
    async with running_hub(ALL_ROLES) as hub:
        await hub.subscribe("bad", "http://127.0.0.1:65534/", retry_schedule_seconds=[])
        await hub.subscribe("late", "http://127.0.0.1:65534/", retry_schedule_seconds=[3600])
        await hub.subscribe("good", receiver.callback)
        ids = {topic: (await hub.publish(topic)).json()["id"] for topic in ("bad", "late", "good", "lonely")}
        await hub.until("/deliveries?state=dead", lambda page: page["items"])
        await hub.until("/deliveries?state=delivered", lambda page: page["items"])
        await hub.until("/deliveries?state=retrying", lambda page: page["items"])
        await hub.until(f"/events/{ids['lonely']}", lambda event: event["state"] == "unmatched")

        assert {outcome: await found(hub, outcome=outcome) for outcome in ("dead", "waiting", "delivered")} == {
            "dead": [ids["bad"]],
            "waiting": [ids["late"]],
            "delivered": [ids["lonely"], ids["good"]],
        }


async def test_lists_are_cut_by_time(running_hub: RunHub, receiver: Receiver) -> None:
    """FT-13: deliveries by when their event was accepted."""
    async with running_hub(ALL_ROLES) as hub:
        await hub.subscribe("a", receiver.callback)
        made = [(await hub.publish("a", b"%d" % n)).json() for n in range(3)]
        await hub.until("/deliveries?state=delivered", lambda page: len(page["items"]) == 3)
        cut = made[1]["accepted_at"]
        lists = [
            (await hub.client.get("/deliveries", params={name: cut})).json()["items"] for name in ("since", "until")
        ]

        ids = [event["id"] for event in made]
        assert [[item["event_id"] for item in items] for items in lists] == [[ids[2], ids[1]], [ids[0]]]


async def test_dead_letters_are_cut_by_time(running_hub: RunHub) -> None:
    """FT-13: by when their event was accepted, page by page."""
    async with running_hub() as hub:
        subscription = (await hub.subscribe("a", "http://127.0.0.1:65534/"))["id"]
        made = [(await hub.publish("a", b"%d" % n)).json() for n in range(4)]
        await hub.sql(
            "INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts)"
            " SELECT e.id, s.id, 'default', 'exhausted', 1 FROM hookwire.events e, hookwire.subscriptions s"
            " WHERE s.public_id = $1",
            subscription,
        )
        span = {"since": made[1]["accepted_at"], "until": made[3]["accepted_at"]}
        first = (await hub.client.get("/dead-letters", params={**span, "limit": 1})).json()
        second = (await hub.client.get("/dead-letters", params={**span, "cursor": first["next_cursor"]})).json()

        found = [one["event_id"] for page in (first, second) for one in page["items"]]
        assert found == [made[2]["id"], made[1]["id"]]


@pytest.mark.parametrize(
    "query", ["outcome=lost", "since=yesterday", "since=2026-01-01T00:00:00", "topic=%00", "cursor=x", "keys=k"]
)
async def test_a_bad_search_is_refused(kept_hub: RunningHub, query: str) -> None:
    """FT-13, B-49."""
    assert kind(await kept_hub.client.get(f"/events?{query}"))[0] in (400, 422)


async def test_a_search_costs_a_page_however_many_events_there_are(running_hub: RunHub, database_url: str) -> None:
    """FT-13, CN-06: by index; among 50,000 events of two topics and 5,000 keys, and the ids of a time in 100 steps."""
    async with running_hub() as hub:
        await hub.sql(
            "INSERT INTO hookwire.events (id, accepted_at, ordered, tenant, topic, key, headers, sinks, payload)"
            " SELECT n, now(), true, 'default', 't' || n % 2, 'k' || n % 5000, '{}', '{}', 'x'"
            " FROM generate_series(1, 50000) n"
        )
        sql = await asyncpg.connect(database_url)
        try:
            await sql.execute("ANALYZE hookwire.events; SET plan_cache_mode = force_custom_plan")
            largest = 2**63 - 1
            asked: list[tuple[str, str | None, str | None, str | None]] = [
                ("topic", "t1", None, None), ("key", None, "k7", None), ("all", None, None, None),
                ("key for some topics", None, None, r"\At9\."),
            ]  # fmt: skip
            pages = {
                name: await pages_read(
                    sql,
                    "event.search",
                    "default",
                    topic,
                    key,
                    0,
                    largest,
                    None,
                    None,
                    None,
                    2_000 if own else 51,
                    51,
                    own,
                )
                for name, topic, key, own in asked
            }
            pages["time"] = await pages_read(
                sql, "event.id_range", "default", datetime.fromisoformat("2020-01-01T00:00:00Z"), None, 0.0
            )
        finally:
            await sql.close()

        assert {name: count for name, count in pages.items() if count > 2_000} == {}


async def pages_read(sql: asyncpg.Connection, name: str, *arguments: object) -> int:
    """Pages that a statement looked at, in memory or not."""
    plan = json.loads(await sql.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {STATEMENTS[name]}", *arguments))
    return int(plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"])

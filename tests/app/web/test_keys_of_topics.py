"""A key for some topics sees the rows of these topics in each list, and never another's."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.web.api.route.paging import reached_page
from hub.keys import Grant
from tests.app.conftest import RunHub, RunningHub
from tests.app.web.test_authentication import authorized, bearer

ROUNDS = 7
SOURCES = {"kafka_sources": "mine?topic=mine.orders,yours?topic=yours.orders", "kafka_source_servers": "127.0.0.1:1"}
LISTS = {
    "/events": ROUNDS, "/events?outcome=dead": ROUNDS, "/deliveries": 2 * ROUNDS, "/deliveries?state=dead": ROUNDS,
    "/deliveries?topic=mine.orders": 2 * ROUNDS, "/undelivered": 3 * ROUNDS, "/undelivered?outcome=dead": ROUNDS,
    "/dead-letters": 2 * ROUNDS, "/dead-letters?sink=kafka": ROUNDS, "/dead-letters?kind=exhausted": ROUNDS,
    "/holds": ROUNDS, "/holds?sink=kafka": ROUNDS, "/replays": 2 * ROUNDS, "/sources": 1, "/subscriptions": 2,
    "/topics": 2, "/topics?prefix=m": 2,
}  # fmt: skip
"""Each list, and the number of rows of the key's topics: a row a round."""
REFUSED = {
    "GET /audit": "/dead-letters", "GET /upstreams": "no key's topics", "GET /foreign-topics": "no key's topics",
    "GET /source-refusals": "GET /sources", "GET /metrics": "GET /status",
    "POST /replays": "/subscriptions/{id}/replay",
}  # fmt: skip
"""Routes that such a key may not use, and what the answer says instead."""


async def test_a_key_for_some_topics_sees_their_rows_in_each_list_and_no_others(running_hub: RunHub) -> None:
    """GU-08: it got 403, or needed ?topic= with one exact topic."""
    async with running_hub(access="keys", **SOURCES) as hub:
        await fill(hub)
        key = authorized(await bearer(hub, "read", topics=["mine.#"]))
        pages = {path: await pages_of(hub, path, key) for path in LISTS}
        of_all = authorized(await bearer(hub, "read"))
        whole = {path: await pages_of(hub, path, of_all) for path in LISTS}

    assert {path: len(items) for path, (items, _) in pages.items()} == LISTS
    assert [path for path, (_, told) in pages.items() if "yours" in told] == []
    assert [path for path, (items, _) in pages.items() if items != [i for i in whole[path][0] if i in items]] == []
    assert [path for path in LISTS if "topic=" not in path and "yours" not in whole[path][1]] == ["/topics?prefix=m"]


async def test_one_thing_of_another_topic_is_not_found_and_not_touched(running_hub: RunHub) -> None:
    async with running_hub(access="keys", **SOURCES) as hub:
        theirs = await fill(hub)
        key = authorized(await bearer(hub, "read", "operate", topics=["mine.#"]))
        of_all = authorized(await bearer(hub, "read"))
        codes: dict[str, dict[str, int]] = {"mine": {}, "yours": {}}
        for path in ("/dead-letters", "/holds", "/replays", "/sources"):
            for one in (await hub.client.get(f"{path}?limit=500", headers=of_all)).json()["items"]:
                whose = "yours" if "yours" in str(one) or one.get("subscription_id") == theirs else "mine"
                address = f"{path}/{one.get('id') or one['source']}"
                codes[whose][address] = (await hub.client.get(address, headers=key)).status_code
        retried: dict[str, set[int]] = {"mine": set(), "yours": set()}
        for whose, addresses in codes.items():
            for address in addresses:
                if address.startswith(("/dead-letters", "/holds")):
                    retried[whose].add((await hub.client.post(f"{address}/retry", headers=key)).status_code)
        left = await hub.sql(
            "SELECT count(*) FROM hookwire.dead_letters UNION ALL SELECT count(*) FROM hookwire.relay_dead_letters"
        )

    assert {whose: set(found.values()) for whose, found in codes.items()} == {"mine": {200}, "yours": {404}}
    assert (retried, left) == ({"mine": {200}, "yours": {404}}, [(ROUNDS,)] * 2)


async def test_what_such_a_key_may_not_see_is_refused_with_another_way(running_hub: RunHub) -> None:
    page = (Path(__file__).parents[3] / "docs/how-to/api-keys.md").read_text("utf-8")
    async with running_hub(access="keys") as hub:
        key = authorized(await bearer(hub, "read", "operate", topics=["mine.#"]))
        answers = {
            route: await hub.client.request(*route.split(), headers=key, json={} if "POST" in route else None)
            for route in REFUSED
        }

    assert {route: answer.status_code for route, answer in answers.items()} == dict.fromkeys(REFUSED, 403)
    assert [route for route, words in REFUSED.items() if words not in answers[route].json()["detail"]] == []
    assert [route for route in REFUSED if f"`{route}`" not in page] == []


async def fill(hub: RunningHub) -> str:
    """Store rows of both topics in turn, the other's first; return the other's subscription."""
    admin = authorized(await bearer(hub, "admin"))
    await hub.sql("UPDATE hookwire.sinks SET configured = true WHERE name = 'webhooks'")
    for pattern in ("yours.orders", "yours.*", "mine.orders", "mine.*"):
        body = {"topic": pattern, "callback": f"http://127.0.0.1:9000/{pattern[:4]}{'s' * (pattern[0] == 'y')}"}
        await hub.client.post("/subscriptions", json=body, headers=admin)
    for whose in ("yours", "mine"):
        await hub.client.post(f"/topics/{whose}.carts/events", content=b"{}", headers=admin)
    numbers = {row[0]: row[1] for row in await hub.sql("SELECT topic, id FROM hookwire.subscriptions")}
    await hub.sql("DELETE FROM hookwire.outbox")
    await hub.sql("DELETE FROM hookwire.events")
    for n in range(ROUNDS):
        for whose in ("yours", "mine"):
            topic = f"{whose}.orders"
            made = await hub.client.post(f"/topics/{topic}/events", content=b"{}", headers=admin)
            event = int(made.json()["id"].rpartition("_")[2])
            await hub.sql(ROWS, event, topic, numbers[topic], numbers[f"{whose}.*"], str(n))
    await hub.sql("INSERT INTO hookwire.sources (name) VALUES ('mine'), ('yours')")
    ((theirs,),) = await hub.sql("SELECT public_id FROM hookwire.subscriptions WHERE topic = 'yours.orders'")
    return str(theirs)


ROWS = """
WITH dead AS (
    INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts)
    VALUES ($1, $3, 'default', 'exhausted', 1)
), waiting AS (
    INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant)
    VALUES ($1, $4, now() + interval '1 day', now(), 'default')
), record AS (
    INSERT INTO hookwire.relay_dead_letters (sink, event_id, tenant, topic, shard, layout, reason, detail)
    VALUES ('kafka', $1, 'default', $2, 0, 1, 'too_large', $2)
), hold AS (
    INSERT INTO hookwire.holds (sink, tenant, topic, key, reason, detail, probe_at)
    VALUES ('kafka', 'default', $2, 'k' || $5, 'too_large', '', now() + interval '1 day')
)
INSERT INTO hookwire.replays (tenant, source, subscription_id, topic, actor, lower_event_id, upper_event_id,
                              last_event_id, state)
VALUES ('default', 'dead_letters', $3, $2, 'me', 0, 1, 0, 'done'),
       ('default', 'dead_letters', NULL, $2, 'me', 0, 1, 0, 'done')
RETURNING id
"""


async def pages_of(hub: RunningHub, path: str, key: dict[str, str]) -> tuple[list[Any], str]:
    """All items of a list, three a page, and everything that the answers told, with the contents of cursors."""
    items: list[Any] = []
    told, cursor = "", ""
    while True:
        more = f"{'&' if '?' in path else '?'}limit=3{cursor and f'&cursor={cursor}'}"
        answer = await hub.client.get(path + more, headers=key)
        assert answer.status_code == 200, answer.text
        items += answer.json()["items"]
        cursor = answer.json()["next_cursor"] or ""
        told += answer.text + base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        if not cursor:
            return items, told


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 5), st.integers(1, 7))
def test_pages_of_a_key_for_some_topics_lose_and_repeat_nothing(own: list[bool], limit: int, chunk: int) -> None:
    """Whoever's rows stand between, and wherever a read ends. No page examines more than its bound."""
    rows: list[dict[str, Any]] = [{"n": n, "topic": "mine.x" if mine else "yours.x"} for n, mine in enumerate(own)]
    request: Any = SimpleNamespace(scope={"state": {"grant": Grant("key_1", frozenset(("read",)), ("mine.#",), None)}})
    examined: list[int] = []

    async def read(after: Sequence[Any], most: int) -> tuple[list[Any], list[Any] | None]:
        part = [row for row in rows if row["n"] > after[0]][: min(most, chunk)]
        examined[-1] += most
        return part, [part[-1]["n"]] if part and part[-1] is not rows[-1] else None

    async def every() -> list[Any]:
        found: list[Any] = []
        after: Any = [-1]
        while after is not None:
            examined.append(0)
            page, after = await reached_page(
                request, limit, after, read, lambda row: row["topic"], lambda row: [row["n"]]
            )
            assert len(page) <= limit
            found += page
        return found

    assert asyncio.run(every()) == [row for row in rows if row["topic"] == "mine.x"]
    assert max(examined) <= 2_000


@pytest.mark.parametrize(
    ("topics", "name", "is_reached"),
    [(("a.b",), "a.b", True), (("a.b",), "axb", False), (("a.#", "c"), "a", True), (("a.#", "c"), "c", True),
     (("a.*",), "a.b.c", False), (("#",), "hookwire.operator", False), ((), "a", False)],
)  # fmt: skip
async def test_the_expression_of_a_key_chooses_what_the_key_reaches(
    kept_hub: RunningHub, topics: tuple[str, ...], name: str, is_reached: bool
) -> None:
    grant = Grant("key_1", frozenset(("read",)), topics, None)
    ((chosen,),) = await kept_hub.sql("SELECT $1::text ~ $2::text", name, grant.topics_expression())

    assert (chosen, grant.reaches(name)) == (is_reached, is_reached)

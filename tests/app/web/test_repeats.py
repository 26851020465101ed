"""A POST that makes something is executed once for one Idempotency-Key (GS-10)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from app.web.api.route.repeat_rules import KEPT, OWN, REFUSED, SAFE
from scripts.openapi import OPENAPI_FILE
from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub
from tests.app.web.publishing.test_ingest import kind
from tests.app.web.test_authentication import authorized, bearer

CALLBACK = "http://127.0.0.1:9000/hook"
KEY = {"Idempotency-Key": "once"}
PATHS = json.loads(OPENAPI_FILE.read_text())["paths"]
MAKERS: list[tuple[str, dict[str, Any], str]] = [
    ("/subscriptions", {"topic": "a", "callback": CALLBACK}, "subscriptions"),
    ("/subscriptions/pull", {"topic": "a"}, "subscriptions"),
    ("/subscriptions/{id}/keys", {}, "subscription_secrets"),
    ("/subscriptions/{id}/test", {}, "events"),
    ("/subscriptions/{id}/replay", {"start": "earliest"}, "replays"),
    ("/queues", {}, "queues"),
    ("/queues/q/messages", {"n": 1}, "messages"),
    ("/jobs", {"kind": "k"}, "jobs"),
    ("/replays", {"source": "dead_letters"}, "replays"),
]


def test_each_post_of_the_api_has_a_rule() -> None:
    """GS-10: a route that comes later has to choose."""
    posts = [path for path, item in PATHS.items() if "post" in item]
    rules = [*KEPT, *OWN, *REFUSED, *SAFE]

    assert sorted(rules) == sorted(posts)


def test_each_post_that_honours_the_header_declares_it() -> None:
    """GS-10."""
    declared = {
        path for path, item in PATHS.items()
        if any(one["name"] == "Idempotency-Key" for one in item.get("post", {}).get("parameters", ()))
    }  # fmt: skip

    assert declared == {*KEPT, *OWN}


async def number_of(hub: RunningHub, table: str) -> int:
    [(number,)] = await hub.sql(f"SELECT count(*) FROM hookwire.{table}")
    return int(number)


@pytest.mark.parametrize(("path", "body", "table"), MAKERS, ids=[path for path, _, _ in MAKERS])
async def test_a_repeat_gets_the_first_answer_and_makes_nothing(
    path: str, body: dict[str, Any], table: str, shared_hub: RunHub
) -> None:
    """GS-10: the header was ignored in silence, so a repeat made doubles."""
    async with shared_hub() as hub:
        subscription = await hub.subscribe("a", CALLBACK)
        place = path.format(id=subscription["id"])
        first = await hub.client.post(place, json=body, headers=KEY)
        made = await number_of(hub, table)
        again = await hub.client.post(place, json=body, headers=KEY)
        other = await hub.client.post(place, json={**body, "other": 1}, headers=KEY)
        after = await number_of(hub, table)

    shown = first.json()
    if isinstance(shown, dict) and "secret" in shown:
        assert shown["secret"].startswith("whsec_")
        assert (
            f"POST /subscriptions/{subscription['id'] if '{id}' in path else shown['id']}/keys"
            in again.headers["hookwire-notice"]
        )
        shown["secret"] = None
    assert (first.is_success, first.headers.get("idempotency-replayed")) == (True, None), first.text
    assert (again.status_code, again.json()) == (first.status_code, shown)
    assert (again.headers.get("location"), again.headers["idempotency-replayed"]) == (
        first.headers.get("location"), "true",
    )  # fmt: skip
    assert (kind(other)[::2], after) == ((422, "idempotency-key-reused"), made)


@pytest.mark.parametrize("path", ["/rabbithub/endpoint/x/shop?hub.topic=a", "/hub/content?hub.topic={url}/topics/a"])
async def test_a_repeat_of_content_makes_one_event(path: str, running_hub: RunHub) -> None:
    """GS-10: the routes of other standards."""
    async with running_hub() as hub:
        await hub.publish("a")
        await hub.client.put("/rabbithub/endpoint/x/shop?amqp.exchange_type=topic")
        place, before = path.format(url=hub.url), await number_of(hub, "events")
        first, again = [await hub.client.post(place, content=b"{}", headers=KEY) for _ in "12"]
        made = await number_of(hub, "events") - before

    assert (first.status_code, again.status_code, again.content) == (202, 202, first.content), first.text
    assert (again.headers.get("idempotency-replayed"), made) == ("true", 1)


async def test_the_first_answer_is_not_told_on_another_path(running_hub: RunHub) -> None:
    """GS-10."""
    async with running_hub() as hub:
        answers = [await hub.client.post(f"/queues/{name}/messages", content=b"1", headers=KEY) for name in "ab"]

    assert ["idempotency-replayed" in answer.headers for answer in answers] == [False, False]


async def test_a_kept_event_is_delivered(running_hub: RunHub, receiver: Receiver) -> None:
    """GS-10: workers are woken after COMMIT."""
    async with running_hub(ALL_ROLES) as hub:
        made = await hub.subscribe("a", receiver.callback)
        sent = await hub.client.post(f"/subscriptions/{made['id']}/test", headers=KEY)
        [delivered] = await receiver.wait_for(1)

    assert delivered.headers["webhook-id"] == sent.json()["event_id"]


async def test_a_refused_request_is_not_kept(running_hub: RunHub) -> None:
    """GS-10: who corrects a request may send it with the same key."""
    async with running_hub() as hub:
        bad = await hub.client.post("/subscriptions", json={"topic": "a"}, headers=KEY)
        good = await hub.client.post("/subscriptions", json={"topic": "a", "callback": CALLBACK}, headers=KEY)

    assert (bad.status_code, good.status_code, "idempotency-replayed" in good.headers) == (400, 201, False)


async def test_making_an_api_key_refuses_the_header(running_hub: RunHub) -> None:
    """GS-10."""
    async with running_hub() as hub:
        answer = await hub.client.post("/keys", json={"name": "n", "scopes": ["read"]}, headers=KEY)
        made = await number_of(hub, "api_keys")

    assert (kind(answer)[::2], "shown once" in answer.json()["detail"], made) == ((400, "invalid-header"), True, 0)


async def test_of_concurrent_repeats_one_is_executed(running_hub: RunHub) -> None:
    """GS-10."""
    async with running_hub() as hub:
        answers = await asyncio.gather(*(hub.client.post("/jobs", json={"kind": "k"}, headers=KEY) for _ in range(8)))
        made = await number_of(hub, "jobs")
        late = await hub.client.post("/jobs", json={"kind": "k"}, headers=KEY)

    assert {answer.status_code for answer in answers} <= {201, 409}
    assert (made, late.headers["idempotency-replayed"]) == (1, "true")


async def test_no_secret_is_kept(running_hub: RunHub) -> None:
    """GS-10."""
    async with running_hub() as hub:
        made = await hub.client.post("/subscriptions", json={"topic": "a", "callback": CALLBACK}, headers=KEY)
        [(kept,)] = await hub.sql("SELECT body FROM hookwire.kept_answers")

    assert made.json()["secret"].encode() not in kept


@pytest.mark.parametrize("given", [b"", b"a\tb", b"x" * 256, b"\xff"], ids=["empty", "tab", "long", "no utf-8"])
async def test_a_key_is_printable_and_short(given: bytes, kept_hub: RunningHub) -> None:
    """GS-10."""
    answer = await kept_hub.client.post("/jobs", json={"kind": "k"}, headers={b"Idempotency-Key": given})

    assert kind(answer)[::2] == (400, "invalid-header")


async def test_a_repeated_act_does_not_do_it_again_to_what_came_later(running_hub: RunHub) -> None:
    """GS-10: without ids, the oldest dead letters are purged or redriven; a repeat took the next ones."""

    async def one_dead_message(hub: RunningHub, queue: str) -> None:
        await hub.client.post(f"/queues/{queue}/messages", content=b"1")
        held = (await hub.client.post(f"/queues/{queue}/receive", json={})).json()["items"]
        asked = {"receipts": [item["receipt"] for item in held], "dead": True}
        await hub.client.post(f"/queues/{queue}/reject", json=asked)

    seen = {}
    async with running_hub() as hub:
        for verb in ("purge", "redrive"):
            await one_dead_message(hub, verb)
            first = await hub.client.post(f"/queues/{verb}/dead/{verb}", json={}, headers=KEY)
            [item] = (await hub.client.post(f"/queues/{verb}/receive", json={})).json()["items"] or [None]
            if item is not None:
                asked = {"receipts": [item["receipt"]]}
                await hub.client.post(f"/queues/{verb}/accept", json=asked)
            await one_dead_message(hub, verb)
            again = await hub.client.post(f"/queues/{verb}/dead/{verb}", json={}, headers=KEY)
            left = (await hub.client.get(f"/queues/{verb}/dead")).json()["items"]
            seen[verb] = (len(first.json()["ids"]), again.content == first.content, len(left))

    assert seen == dict.fromkeys(("purge", "redrive"), (1, True, 1))


async def test_a_repeated_pause_does_not_undo_what_somebody_did_since(running_hub: RunHub) -> None:
    """GS-10."""
    async with running_hub() as hub:
        await hub.client.put("/queues/q", json={})
        await hub.client.post("/queues/q/pause", headers=KEY)
        await hub.client.post("/queues/q/resume")
        again = await hub.client.post("/queues/q/pause", headers=KEY)
        is_paused = (await hub.client.get("/queues/q")).json()["paused"]

    assert (again.headers.get("idempotency-replayed"), is_paused) == ("true", False)


async def test_a_key_counts_for_the_caller(running_hub: RunHub) -> None:
    """GS-10: nobody reads the answer to another caller."""
    async with running_hub(access="keys") as hub:
        keys = [authorized(await bearer(hub, "enqueue")) for _ in "12"]
        first, other, again = [
            (await hub.client.post("/queues/q/messages", content=b"1", headers=KEY | key)).json()
            for key in (keys[0], keys[1], keys[0])
        ]

    assert (again == first, other == first) == (True, False)


@pytest.mark.parametrize(("path", "topic"), [("/hub", "{url}/topics/a"), ("/rabbithub/subscribe/x/shop", "a")])
async def test_a_repeated_request_to_subscribe_is_stored_once(path: str, topic: str, running_hub: RunHub) -> None:
    """GS-10: the forms of WebSub and RabbitHub."""
    async with running_hub(["api"]) as hub:
        await hub.publish("a")
        await hub.client.put("/rabbithub/endpoint/x/shop?amqp.exchange_type=topic")
        asked = {
            "hub.mode": "subscribe",
            "hub.topic": topic.format(url=hub.url),
            "hub.callback": CALLBACK,
            "hub.verify": "async",
        }
        first, again = [await hub.client.post(path, data=asked, headers=KEY) for _ in "12"]
        made = await number_of(hub, "intents")

    assert (first.status_code, again.status_code, made) == (202, 202, 1), first.text
    assert again.headers.get("idempotency-replayed") == "true"

"""A subscriber asks for what it missed: start of a pull subscription, replay of its own subscription (FM-12)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.app.conftest import ALL_ROLES, RunHub, RunningHub
from tests.app.web.publishing.test_ingest import kind
from tests.app.web.test_authentication import authorized, bearer
from tests.app.web.test_pull import Puller, bodies, pulling, receipts
from tests.hub.callback import serve_callbacks


async def published(hub: RunningHub, count: int, topic: str = "a") -> list[dict[str, Any]]:
    return [(await hub.publish(topic, b"%d" % number, hookwire_key="k")).json() for number in range(1, count + 1)]


async def fetched(puller: Puller, count: int) -> list[str]:
    """Fetch and acknowledge so many events, the next one after each acknowledgement."""
    found: list[dict[str, Any]] = []
    while len(found) < count:
        fetched = await puller.fetch(max=count - len(found))
        await puller.ask("ack", receipts=receipts(fetched))
        found += fetched
    return bodies(found)


async def test_a_pull_subscription_starts_where_it_is_asked_to(running_hub: RunHub) -> None:
    """FM-12: at an event, at a moment, at the earliest; the sixth message is the one that was asked for."""
    async with running_hub(ALL_ROLES) as hub:
        events = await published(hub, 8)
        moment = datetime.now(UTC).isoformat()
        events += await published(hub, 1, "other")
        for event in events:  # an event that waits for its fan-out reaches new subscriptions, too (RR-10)
            await hub.until(
                f"/events/{event['id']}", lambda found: all(sink["state"] == "sent" for sink in found["sinks"])
            )
        at_event = await pulling(hub, start=events[5]["id"], ordered=True)
        at_first = await pulling(hub, start="earliest", ordered=True)
        at_moment = await pulling(hub, "#", start=moment)
        found = [await fetched(at_event, 3), await fetched(at_first, 8), await fetched(at_moment, 1)]
        await hub.publish("a", b"new", hookwire_key="k")
        new = await fetched(at_event, 1)
        audited = (await hub.client.get("/audit")).json()["items"]

    assert (found, new) == ([["6", "7", "8"], [str(number) for number in range(1, 9)], ["1"]], ["new"])
    assert [one["action"] for one in audited].count("replay.create") == 3


async def test_an_event_that_is_not_yet_there_is_no_start(running_hub: RunHub) -> None:
    """FM-12: a mistyped id would get nothing of the past without a word; the newest one may be asked for."""
    async with running_hub() as hub:
        (event,) = await published(hub, 1)
        newest, above = event["id"], event["id"].rpartition("_")[0] + "_999999999"
        made = await hub.client.post("/subscriptions/pull", json={"topic": "a"})
        paths = {"/subscriptions/pull": {"topic": "b"}, f"/subscriptions/{made.json()['id']}/replay": {}}
        answers = [
            await hub.client.post(path, json={**more, "start": start})
            for start in (above, newest) for path, more in paths.items()
        ]  # fmt: skip
        ((count,),) = await hub.sql("SELECT count(*) FROM hookwire.subscriptions WHERE topic = 'b'")

    assert ([answer.status_code for answer in answers], count) == ([404, 404, 201, 202], 1)


async def test_a_subscriber_has_what_it_missed_delivered_again(running_hub: RunHub) -> None:
    """FM-12: the key needs the scope subscribe and the subscription's topic, and no operator."""
    async with running_hub(ALL_ROLES, access="keys") as hub, serve_callbacks() as callbacks:
        admin = authorized(await bearer(hub, "admin"))
        own = authorized(await bearer(hub, "subscribe", topics=["a"]))
        other = authorized(await bearer(hub, "subscribe", topics=["b"]))
        made = await hub.client.post("/subscriptions", json={"topic": "a", "callback": callbacks.url()}, headers=own)
        event = (await hub.client.post("/topics/a/events", content=b"1", headers=admin)).json()
        await callbacks.wait_for_posts(1)
        path = f"/subscriptions/{made.json()['id']}/replay"
        asked = [await hub.client.post(path, json={"start": event["id"]}, headers=key) for key in (own, other)]
        (_, again, body) = (await callbacks.wait_for_posts(2))[1]

    assert ([answer.status_code for answer in asked], body) == ([202, 404], b"1")
    assert (again["hookwire-replay"], again["webhook-id"]) == ("true", event["id"])


@pytest.mark.parametrize(
    ("start", "problem"),
    [
        ("", (400, "invalid-parameter")),
        ("yesterday", (400, "invalid-parameter")),
        ("2026-01-15T00:00:00", (400, "invalid-parameter")),
        ("9999-12-31T23:59:59-01:00", (400, "invalid-parameter")),
        ("evt_nonsense", (404, "not-found")),
        ("evt_aaaaaaaa_1", (404, "not-found")),
    ],
)
async def test_a_start_that_is_none_is_refused_and_makes_no_subscription(
    kept_hub: RunningHub, start: str, problem: tuple[int, str]
) -> None:
    """FM-12."""
    answer = await kept_hub.client.post("/subscriptions/pull", json={"topic": "a", "start": start})
    made = await kept_hub.sql("SELECT FROM hookwire.subscriptions WHERE topic = 'a'")

    assert (kind(answer)[0], kind(answer)[2], made) == (*problem, [])

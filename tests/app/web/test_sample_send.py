"""A test event reaches one callback, on the path of every other delivery (WH-P10)."""

from __future__ import annotations

import json

from tests.app.conftest import ALL_ROLES, RunHub
from tests.app.web.publishing.test_ingest import kind
from tests.app.web.test_authentication import authorized, bearer
from tests.hub.callback import answers, serve_callbacks


async def test_a_test_event_reaches_this_callback_alone(running_hub: RunHub) -> None:
    """WH-P10: whatever the subscription's topic and filter are; signed, with its attempt."""
    async with running_hub(ALL_ROLES) as hub, serve_callbacks() as callbacks:
        one = await hub.subscribe("orders.*", callbacks.url("/one"), filter={"data": {"amount": {"$gte": 100}}})
        await hub.subscribe("#", callbacks.url("/every"))
        sent = await hub.client.post(f"/subscriptions/{one['id']}/test")
        path = f"/deliveries?event_id={sent.json()['event_id']}"
        page = await hub.until(path, lambda found: found["items"][0]["state"] == "delivered")
        event = await hub.until(f"/events/{sent.json()['event_id']}", lambda found: found["state"] == "delivered")
        attempts = (await hub.client.get(f"/deliveries/{sent.json()['delivery_id']}/attempts")).json()["items"]
        posts = await callbacks.wait_for_posts(1)
        audited = [entry["action"] for entry in (await hub.client.get("/audit")).json()["items"]]

    (request, headers, body) = posts[0]
    assert (sent.status_code, [item["subscription_id"] for item in page["items"]]) == (202, [one["id"]])
    assert (len(posts), "/one" in request, "webhook-signature" in headers) == (1, True, True)
    assert json.loads(body) == {"test": True, "subscription_id": one["id"], "topic": "orders.*"}
    assert (event["topic"], [sink["sink"] for sink in event["sinks"]]) == ("hookwire.test", ["webhooks"])
    assert ([attempt["outcome"] for attempt in attempts], "subscription.test" in audited) == (["delivered"], True)


async def test_a_test_event_passes_an_open_breaker_as_its_probe(running_hub: RunHub) -> None:
    """WH-P10: so a repaired receiver is found well before the breaker's time is over."""
    async with (
        running_hub(ALL_ROLES, breaker_attempts_min=2, breaker_seconds=600) as hub,
        serve_callbacks() as callbacks,
    ):
        callbacks.script = {"/": answers(500)}
        made = await hub.subscribe("a", callbacks.url("/"), retry_schedule_seconds=[0, 3600])
        await hub.publish("a", b"1")
        await hub.until(f"/subscriptions/{made['id']}", lambda one: one["blocked_by"] == "breaker")
        callbacks.script = {}
        sent = (await hub.client.post(f"/subscriptions/{made['id']}/test")).json()
        page = await hub.until(
            f"/deliveries?event_id={sent['event_id']}", lambda found: found["items"][0]["state"] == "delivered"
        )
        path = f"/subscriptions/{made['id']}"
        well = await hub.until(path, lambda one: one["breaker_open_until"] is None)

    assert (page["items"][0]["attempts"], well["health"]) == (1, "healthy")


async def test_only_an_active_subscription_of_a_topic_takes_a_test_event(running_hub: RunHub) -> None:
    async with running_hub(access="keys") as hub:
        admin = authorized(await bearer(hub, "admin"))
        other = authorized(await bearer(hub, "subscribe", topics=["b"]))
        reader = authorized(await bearer(hub, "read"))
        hub.client.headers.update(admin)
        paused = await hub.subscribe("a", "http://127.0.0.1:9000/", state="disabled")
        worker = (
            await hub.client.post("/subscriptions", json={"service": "echo", "callback": "http://127.0.0.1:9000/"})
        ).json()
        asked = [
            await hub.client.post(f"/subscriptions/{one}/test", headers=key)
            for one, key in (
                (paused["id"], admin), (worker["id"], admin), ("sub_none", admin), (paused["id"], other),
                (paused["id"], reader),
            )
        ]  # fmt: skip

    assert [(answer.status_code, kind(answer)[-1]) for answer in asked] == [
        (400, "invalid-parameter"), (400, "invalid-parameter"), (404, "not-found"), (404, "not-found"),
        (403, "forbidden"),
    ]  # fmt: skip

"""GET /events/{id}/timeline and `hookwire events trace`: what happened to one event, and why it is not everywhere."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.test_truth import command
from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub
from tests.app.web.console.harness import browsing
from tests.app.web.publishing.test_ingest import kind
from tests.app.web.test_authentication import authorized, bearer


async def traced(hub: RunningHub, event: str) -> list[tuple[Any, ...]]:
    """Kind, state and reason of each step, without moments."""
    found = (await hub.client.get(f"/events/{event}/timeline")).json()
    return [(step["kind"], step["state"], step["reason"]) for step in found["steps"]]


async def test_a_timeline_has_each_attempt_with_the_receivers_answer_and_who_did_not_match(
    running_hub: RunHub, receiver: Receiver
) -> None:
    """CN-05: the failing receiver, one whose filter refuses the event, and one that came later."""
    receiver.status = 500
    async with running_hub(ALL_ROLES) as hub:
        failing = await hub.subscribe("orders.*", receiver.callback, retry_schedule_seconds=[])
        filtered = await hub.subscribe("orders.new", receiver.callback, filter={"data": {"total": {"$gte": 100}}})
        event = (await hub.publish("orders.new", b'{"total": 5}', content_type="application/json")).json()["id"]
        await hub.until("/dead-letters", lambda page: page["items"])
        later = await hub.subscribe("orders.#", receiver.callback)
        found = (await hub.client.get(f"/events/{event}/timeline")).json()
        steps = found["steps"]
        about = [(step["kind"], step["subscription_id"], step["number"], step["status"]) for step in steps]

        assert about == [
            ("accepted", None, None, None), ("sink", None, None, None),
            ("delivery", failing["id"], None, None), ("attempt", failing["id"], 1, 500),
            ("unmatched", filtered["id"], None, None), ("unmatched", later["id"], None, None),
        ]  # fmt: skip
        assert [step["reason"] for step in steps[4:]] == [
            "its filter of today does not match the event", "it subscribed after the event was accepted",
        ]  # fmt: skip
        assert (found["state"], found["summary"]) == ("dead", "1 given up.")


async def test_the_page_and_the_command_show_the_same_steps(running_hub: RunHub, receiver: Receiver) -> None:
    """CN-05: with the line that publishes the same again."""
    async with running_hub(ALL_ROLES) as hub, browsing(hub) as browser:
        one = await hub.subscribe("a", receiver.callback)
        event = (await hub.publish("a", b"it's", hookwire_key="k")).json()["id"]
        await hub.until(f"/events/{event}", lambda found: found["state"] == "delivered")
        steps = (await hub.client.get(f"/events/{event}/timeline")).json()["steps"]
        code, printed = await command(hub, "events", "trace", event)
        page = await browser.page(f"events/{event}")

        assert (code, printed["steps"]) == (0, steps)
        assert [step["reason"] for step in steps if step["reason"] not in page.text] == []
        assert f"subscriptions/{one['id']}" in page.links
        assert """hookwire publish a 'it'"'"'s' --key k""" in page.text


async def test_a_key_of_few_topics_sees_no_subscription_of_others_and_no_answer_without_its_scope(
    running_hub: RunHub, receiver: Receiver
) -> None:
    """GU-08: the event itself is within its topics."""
    async with running_hub(ALL_ROLES, access="keys") as hub:
        hub.client.headers.update(authorized(await bearer(hub, "admin")))
        await hub.subscribe("#", receiver.callback)
        await hub.subscribe("ours.1", receiver.callback, filter={"data": {"a": 1}})
        event = (await hub.publish("ours.1", b"{}")).json()["id"]
        await hub.until(f"/events/{event}", lambda found: found["state"] == "delivered")
        all_steps = await traced(hub, event)
        hub.client.headers.update(authorized(await bearer(hub, "read", topics=["ours.#"])))
        steps = await traced(hub, event)
        others = await hub.client.get("/events/evt_0_1/timeline")

        [(key,)] = await hub.sql("SELECT public_id FROM hookwire.api_keys WHERE topics IS NULL")

        assert [step[0] for step in all_steps] == ["accepted", "sink", "delivery", "attempt", "unmatched"]
        assert ([step[0] for step in steps], kind(others)[0]) == (["accepted", "sink", "unmatched"], 404)
        assert [found[0][2] for found in (all_steps, steps)] == [
            f"stored for webhooks, without a key; published by the API key {key}", "stored for webhooks, without a key",
        ]  # fmt: skip


@pytest.mark.parametrize("roles", [("api",), ALL_ROLES], ids=["outbox", "direct"])
async def test_each_way_to_publish_keeps_the_key_of_its_publisher(running_hub: RunHub, roles: tuple[str, ...]) -> None:
    """CN-05: one event, a batch, and lines of which one is refused, so that each of the others is stored alone."""
    lines = b'{"data": 1, "idempotency_key": "i"}\n{"data": 2, "idempotency_key": "i"}\n{"data": 3}'
    async with running_hub(roles, access="keys") as hub:
        hub.client.headers.update(authorized(await bearer(hub, "admin")))
        answers = [
            await hub.publish("a", b"1"),
            await hub.publish("a", b"1\n2", content_type="application/x-ndjson"),
            await hub.publish("a", lines, content_type="application/vnd.hookwire.events+ndjson"),
        ]
        stored = await hub.sql("SELECT published_by, count(*) FROM hookwire.events WHERE topic = 'a' GROUP BY 1")
        keys = await hub.sql("SELECT public_id, 5::bigint FROM hookwire.api_keys")

    assert ([answer.status_code for answer in answers], stored) == ([202, 202, 207], keys)

"""GET /events/{id}: the event and what became of it, in one sentence and in detail."""

from __future__ import annotations

import base64

import pytest

from tests.app.conftest import ALL_ROLES, Receiver, RunHub
from tests.app.web.publishing.test_ingest import kind


async def test_a_delivered_event_tells_its_story(running_hub: RunHub, receiver: Receiver) -> None:
    """WH-22: and no replication slot keeps the database's log for it."""
    async with running_hub(ALL_ROLES) as hub:
        subscription = await hub.subscribe("orders.*", receiver.callback)
        accepted = (
            await hub.publish("orders.created", b'{"n": 1}', Hookwire_Key="k", content_type="application/json")
        ).json()
        event = await hub.until(
            f"/events/{accepted['id']}", lambda event: [d["state"] for d in event["deliveries"]] == ["delivered"]
        )

        assert await hub.sql("SELECT 1 FROM pg_replication_slots WHERE database = current_database()") == []
        [delivery] = event.pop("deliveries")
        assert event == {
            **accepted,
            "content_type": "application/json",
            "headers": {},
            "erased_at": None,
            "payload": '{"n": 1}',
            "payload_base64": None,
            "data": {"n": 1},
            "state": "delivered",
            "reason": delivery["reason"],
            "blocked_by": None,
            "next_attempt_at": None,
            "sinks": [
                {
                    "sink": "webhooks",
                    "state": "sent",
                    "reason": "matched with subscriptions",
                    "blocked_by": None,
                    "next_attempt_at": None,
                }
            ],
            "summary": "1 delivered.",
        }
        assert (delivery["subscription_id"], delivery["attempts"], delivery["last_status"]) == (
            subscription["id"],
            1,
            204,
        )


async def test_nobody_asked_for_it_is_an_answer_with_its_reason(running_hub: RunHub) -> None:
    async with running_hub(ALL_ROLES) as hub:
        accepted = (await hub.publish("lonely")).json()
        event = await hub.until(f"/events/{accepted['id']}", lambda event: event["sinks"][0]["state"] == "sent")

        assert event["summary"] == "No subscription's topic and filter matched when it was fanned out."


async def test_an_event_of_a_topic_without_sinks_is_stored_and_says_so(running_hub: RunHub) -> None:
    async with running_hub(ALL_ROLES) as hub:
        await hub.client.put("/topics/a/settings", json={"sinks": []})
        accepted = (await hub.publish("a")).json()
        event = (await hub.client.get(f"/events/{accepted['id']}")).json()

        assert event["summary"] == "It has no receiver: its topic is routed to no sink. It is stored."


async def test_an_event_that_waits_for_a_sink_that_is_not_configured_names_the_setting(running_hub: RunHub) -> None:
    async with running_hub(ALL_ROLES) as hub:
        await hub.client.put("/topics/a/settings", json={"sinks": ["kafka", "amqp"]})
        accepted = (await hub.publish("a")).json()
        event = (await hub.client.get(f"/events/{accepted['id']}")).json()

        assert event["summary"] == "Still owed to amqp, kafka."
        assert [sink["reason"] for sink in event["sinks"]] == [
            "this sink is not configured; set HOOKWIRE_AMQP_URL",
            "this sink is not configured; set HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS",
        ]


async def test_a_failing_delivery_says_when_it_is_tried_again(running_hub: RunHub, receiver: Receiver) -> None:
    receiver.status = 500
    async with running_hub(ALL_ROLES) as hub:
        await hub.subscribe("a", receiver.callback)
        accepted = (await hub.publish("a")).json()
        event = await hub.until(
            f"/events/{accepted['id']}", lambda event: [d["state"] for d in event["deliveries"]] == ["retrying"]
        )

        [delivery] = event["deliveries"]
        assert (event["summary"], delivery["last_status"], delivery["next_attempt_at"] is None) == (
            "1 retrying.", 500, False,
        )  # fmt: skip


@pytest.mark.parametrize("payload", [bytes(range(256)), b"\xff"])
async def test_a_body_that_is_not_text_comes_in_base64(running_hub: RunHub, payload: bytes) -> None:
    async with running_hub() as hub:
        accepted = (await hub.publish("a", payload)).json()
        event = (await hub.client.get(f"/events/{accepted['id']}")).json()

        assert (event["payload"], base64.b64decode(event["payload_base64"])) == (None, payload)


@pytest.mark.parametrize(
    "identity",
    [
        "x",
        "evt_abcdefgh_1",
        "evt_{own}_999999",
        "evt_{own}_0",
        "evt_{own}_9223372036854775808",
        "evt_{own}_-1",
        "%00",
        "%ff",
    ],
)
async def test_an_id_that_names_no_event_is_not_found(shared_hub: RunHub, identity: str) -> None:
    """B-49."""
    async with shared_hub() as hub:
        own = (await hub.publish("a")).json()["id"].split("_")[1]
        answer = await hub.client.get(f"/events/{identity.format(own=own)}")

        assert kind(answer)[::2] == (404, "not-found")


async def test_headers_of_many_megabytes_are_left_out(running_hub: RunHub) -> None:
    """FS-03: an older version stored what an SQL publisher sent; the answer had 63 MB."""
    async with running_hub() as hub:
        event_id = (await hub.publish("a", b"x")).json()["id"]
        await hub.sql("UPDATE hookwire.events SET headers = jsonb_build_object('x-a', repeat('a', 1000000))")
        answer = (await hub.client.get(f"/events/{event_id}")).json()

        assert (answer["headers"], answer["summary"].endswith("more than 64 KiB and are left out here.")) == ({}, True)

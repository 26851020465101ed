"""What an ended subscription was still owed: its own state, a true sentence, and no count that asks for action."""

from __future__ import annotations

from typing import Any

from app.maintenance.cleanup import Cleanup
from tests.app.cli.commands.test_services import hookwire, printed
from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub, opened


async def owed(hub: RunningHub, subscription: str) -> dict[str, Any]:
    """An event that waits for this subscription."""
    event = (await hub.publish("orders")).json()
    await hub.until(f"/deliveries?subscription_id={subscription}", lambda page: page["items"])
    return event


async def test_an_event_says_which_subscription_it_matched_although_that_has_expired(running_hub: RunHub) -> None:
    """GU-07: one answer said both that it was matched and that no subscription matched."""
    async with running_hub(ALL_ROLES) as hub:
        pull = {"topic": "orders", "lifetime_seconds": 60, "on_end": "drop"}
        subscription = (await hub.client.post("/subscriptions/pull", json=pull)).json()["id"]
        event = await owed(hub, subscription)
        await hub.sql("UPDATE hookwire.subscriptions SET lease_until = now()")
        async with opened(hub.database_url) as (database, _):
            await Cleanup(database, 86_400).once()
        found = await hub.until(f"/events/{event['id']}", lambda event: event["state"] == "ended")
        ended = (await hub.client.get(f"/deliveries?subscription_id={subscription}&state=ended")).json()["items"]

    [delivery] = found["deliveries"]
    at = ended[0]["at"][:19]
    assert (delivery["subscription_id"], delivery["state"]) == (subscription, "ended")
    assert delivery["reason"] == found["reason"] == f"dropped at {at}Z: the subscription is expired: nobody asked"
    assert found["summary"] == "1 ended with its subscription or its contents."
    assert ended[0]["id"] == delivery["id"]


async def test_the_deliveries_of_an_ended_endpoint_ask_for_no_action(running_hub: RunHub, receiver: Receiver) -> None:
    """GU-09: thousands of dead letters `gone` hid the real ones, and counted on the status page."""
    receiver.status = 500
    async with running_hub(ALL_ROLES) as hub:
        subscription = (await hub.subscribe("orders", receiver.callback))["id"]
        event = await owed(hub, subscription)
        await hub.client.delete(f"/subscriptions/{subscription}")
        found = await hub.until(f"/events/{event['id']}", lambda event: event["state"] == "ended")
        lists = [
            (await hub.client.get(path)).json()["items"]
            for path in ("/dead-letters", "/undelivered", "/deliveries?state=dead", "/events?outcome=dead")
        ]
        named = (await hub.client.get("/dead-letters?kind=gone")).json()["items"]
        ended = (await hub.client.get("/deliveries?state=ended")).json()["items"]
        page = (await hub.client.get("/")).text
        told = await printed(hub, "deadletters", "list", "--kind", "gone", "--json")
        code = (await hookwire(hub, "undelivered"))[0]

    assert found["reason"].startswith("ended with its subscription at ")
    assert (lists, [one["event_id"] for one in (*named, *ended, *told["dead_letters"])]) == (
        [[]] * 4,
        [event["id"]] * 3,
    )
    assert (code, "subscription deleted" in page) == (0, False)

"""A subscription that is drained sends what waits, and gets nothing new, end to end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.app.conftest import ALL_ROLES, Receiver, RunHub
from tests.app.web.console.harness import browsing
from tests.app.web.publishing.test_ingest import kind
from tests.app.web.test_replays import command
from tests.webhooks.test_condition import receiver as row_of_receiver
from webhooks.condition import subscription_condition


async def test_a_drained_subscription_sends_what_waits_and_gets_nothing_new(
    running_hub: RunHub, receiver: Receiver
) -> None:
    """CN-08, interaction 5."""
    receiver.status = 503
    async with running_hub(ALL_ROLES) as hub, browsing(hub) as browser:
        one = (await hub.subscribe("a", receiver.callback, retry_schedule_seconds=[3600]))["id"]
        old = (await hub.publish("a", b"old")).json()["id"]
        [waits] = (await hub.until("/deliveries?state=retrying", lambda page: page["items"]))["items"]
        form = await browser.page(f"subscriptions/{one}/drain")
        drained = await command(hub, "subscriptions", "drain", one)
        new = (await hub.publish("a", b"new")).json()["id"]
        missed = await hub.until(f"/events/{new}", lambda event: event["state"] == "unmatched")
        receiver.status = 204
        await hub.client.post(f"/deliveries/{waits['id']}/retry")
        await hub.until(f"/events/{old}", lambda event: event["state"] == "delivered")
        after = (await hub.client.get(f"/subscriptions/{one}")).json()
        await browser.send(f"subscriptions/{one}/resume")
        await hub.publish("a", b"next")
        await receiver.wait_for(3)
        resumed = (await hub.client.get(f"/subscriptions/{one}")).json()

        assert ("Now 1 delivery waits" in form.text, "nothing new comes in" in form.text) == (True, True)
        assert (drained.code, drained.stdout.startswith(f"{one}: disabled; it is drained, 1 still to send")) == (
            0,
            True,
        )
        assert (missed["state"], [one.body for one in receiver.delivered]) == ("unmatched", [b"old", b"old", b"next"])
        assert (after["state"], after["drains"], after["reason"]) == (
            "disabled", True, "it is drained, nothing is left to send",
        )  # fmt: skip
        assert (resumed["state"], resumed["drains"]) == ("active", False)


@pytest.mark.parametrize("change", [{"drains": True}, {"drains": True, "state": "active"}])
async def test_only_a_disabled_subscription_is_drained(
    running_hub: RunHub, receiver: Receiver, change: dict[str, Any]
) -> None:
    """CN-08."""
    async with running_hub() as hub:
        one = (await hub.subscribe("a", receiver.callback))["id"]
        answer = await hub.client.patch(f"/subscriptions/{one}", json=change)

        assert (kind(answer)[2], answer.json()["parameter"]) == ("invalid-parameter", "drains")


def test_a_drained_subscription_that_fails_says_so() -> None:
    """CN-08: what waits may not be taken."""
    row = row_of_receiver(drains=True, waiting=1_000)
    failing = row | {"failing_since": row["now"], "failure_outcome": "server_error", "failure_status": 503}

    assert subscription_condition(failing).reason.startswith(
        "it is drained, 1,000+ still to send; failing since 2026-01-15T09:30:00Z: server_error 503"
    )

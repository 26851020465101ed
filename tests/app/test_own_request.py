"""A subscriber's callback that leads back to the hub: FS-09."""

from __future__ import annotations

from tests.app.conftest import ALL_ROLES, Receiver, RunHub


async def test_the_hub_does_not_obey_its_own_deliveries(running_hub: RunHub, receiver: Receiver) -> None:
    """FS-09: by whatever way they come back, such as the address of a container's host; others are served."""
    async with running_hub(ALL_ROLES, access="proxy") as hub:
        await hub.subscribe("a", receiver.callback)
        await hub.publish("a", b"forged")
        ours = (await receiver.wait_for(1))[0].headers["user-agent"]

        found = [
            (await hub.client.post("/topics/b/events", content=b"m", headers={"User-Agent": agent})).status_code
            for agent in (ours, "hookwire/0.2 (+https://another.example; k3v7q2ha)")
        ]

        assert found == [403, 202]

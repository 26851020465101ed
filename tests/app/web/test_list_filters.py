"""Filters of lists: what a person asks first, answered by the hub (GU-16)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.app.cli.commands.test_services import printed
from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub
from tests.app.web.publishing.test_ingest import kind


async def ids(hub: RunningHub, path: str, name: str = "id") -> list[Any]:
    """One member of each item, over all pages."""
    found: list[Any] = []
    link: str | None = path
    while link is not None:
        answer = await hub.client.get(link)
        found += [item[name] for item in answer.json()["items"]]
        link = answer.links["next"]["url"] if "next" in answer.links else None
    return found


async def test_lists_are_filtered_by_the_hub(
    running_hub: RunHub, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GU-16: each filter names one of two; a page that examined two events of a topic leads on."""
    monkeypatch.setattr("app.web.api.operating.deliveries._EXAMINED_MAX", 2)
    async with running_hub(ALL_ROLES) as hub:
        good = (await hub.subscribe("orders.new", receiver.callback, name="Orders", metadata={"owner": "a:b"}))["id"]
        event = (await hub.publish("orders.new")).json()["id"]
        await hub.until("/deliveries?state=delivered", lambda page: page["items"])
        receiver.status = 500
        bad = (await hub.subscribe("mails.new", receiver.callback, metadata={"owner": "mails"}))["id"]
        failed = (await hub.publish("mails.new")).json()["id"]
        await hub.until("/deliveries?state=retrying", lambda page: page["items"])
        for _ in range(3):
            await hub.client.put("/topics/idle/settings", json={"sinks": []})
            await hub.publish("idle")
        between = (await hub.client.get(f"/events/{failed}")).json()["accepted_at"]
        await hub.client.patch(f"/subscriptions/{bad}", json={"description": "x"}, headers={"Hookwire-Actor": "ada"})
        found = {
            path: await ids(hub, path, name)
            for path, name in (
                ("/subscriptions?name=Orders", "id"),
                ("/subscriptions?health=healthy&limit=1", "id"),
                ("/subscriptions?metadata=owner:a:b", "id"),
                ("/subscriptions?metadata=owner:mails&metadata=owner:mails&health=failing", "id"),
                ("/deliveries?topic=orders.new&limit=1", "event_id"),
                ("/deliveries?topic=idle", "event_id"),
                ("/deliveries?outcome=server_error", "event_id"),
                ("/deliveries?outcome=delivered", "event_id"),
                (f"/undelivered?since={between}", "event_id"),
                (f"/undelivered?until={between}", "event_id"),
                ("/topics?prefix=orders", "topic"),
                ("/audit?action=subscription&actor=ada@127.0.0.1", "subject"),
                ("/audit?action=subscription.make&subject=" + good, "subject"),
                ("/audit?action=subscription.make&until=2026-01-01T00:00:00Z", "subject"),
            )
        }
        listed = await printed(hub, "subscriptions", "list", "--health", "failing", "--json")
        late = await printed(hub, "topics", "list", "--prefix", "mails", "--json")
        refused = kind(await hub.client.get("/subscriptions?metadata=owner"))[::2]

    assert list(found.values()) == [
        [good], [good], [good], [bad], [event], [], [failed], [event], [failed], [], ["orders.new"], [bad], [good], [],
    ]  # fmt: skip
    assert ([one["id"] for one in listed], [one["topic"] for one in late]) == ([bad], ["mails.new"])
    assert refused == (400, "invalid-parameter")

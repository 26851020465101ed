"""A sink that a person pauses and resumes, over HTTP, as a command and as pages, end to end."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from app.web.console.acting.sink_acts import sink_forecast
from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub
from tests.app.web.console.harness import Page, browsing
from tests.app.web.publishing.test_ingest import kind
from tests.app.web.test_authentication import authorized, bearer
from tests.app.web.test_replays import command


async def part_of_sink(hub: RunningHub, state: str, waiting: int) -> dict[str, Any]:
    """The sink of webhooks in /status, once it has this state and so many events wait."""

    def found(document: dict[str, Any]) -> dict[str, Any] | None:
        parts = [part for part in document["parts"] if (part["kind"], part["name"]) == ("sink", "webhooks")]
        return next((part for part in parts if (part["state"], part["waiting"]) == (state, waiting)), None)

    document = await hub.until("/status", found)
    part = found(document)
    assert part is not None
    return part | {"verdict": document["verdict"]}


async def test_a_paused_sink_sends_nothing_over_a_restart_and_then_all_in_order(
    running_hub: RunHub, receiver: Receiver
) -> None:
    """CN-08, interaction 5: neither by the outbox nor by the short way to a worker. It is told who did it."""
    async with running_hub(ALL_ROLES) as hub:
        await hub.subscribe("a", receiver.callback, mode="ordered")
        await hub.publish("a", b"0", hookwire_key="k")
        await receiver.wait_for(1)
        paused = await command(hub, "sinks", "pause", "webhooks", "--why", "the shop moves")
        again = (await hub.client.post("/sinks/webhooks/pause", json={"reason": "other"})).json()
        for number in (b"1", b"2"):
            await hub.publish("a", number, hookwire_key="k")
        await part_of_sink(hub, "paused", 2)
    async with running_hub(ALL_ROLES) as hub, browsing(hub) as browser:
        event = (await hub.publish("a", b"3", hookwire_key="k")).json()["id"]
        part = await part_of_sink(hub, "paused", 3)
        status = await command(hub, "status")
        listed = await command(hub, "sinks", "list")
        reason = (await hub.client.get(f"/events/{event}")).json()["reason"]
        metrics = (await hub.client.get("/metrics")).text
        first = await browser.page("../console")
        page = Page((await browser.open("sinks/webhooks")).text)
        sent = [one.body for one in receiver.delivered]
        resumed = await browser.send("sinks/webhooks/resume", reason="moved")
        await receiver.wait_for(4)
        after = await part_of_sink(hub, "ok", 0)
        audit = (await hub.client.get("/audit?action=sink")).json()["items"]

        assert (paused.code, again["reason"], "webhooks is paused by " in paused.stdout) == (0, "the shop moves", True)
        assert (sent, [one.body for one in receiver.delivered]) == ([b"0"], [b"0", b"1", b"2", b"3"])
        assert part["reason"].startswith(f"paused by {again['paused_by']} since ")
        assert part["reason"].endswith(": the shop moves; 3 events wait")
        assert (part["verdict"], status.code, "paused by" in status.stdout) == ("attention", 0, True)
        assert (listed.code, "the shop moves" in listed.stdout) == (1, True)
        assert "this sink is paused since" in reason
        assert 'hookwire_outbox_paused{sink="webhooks"} 1.0' in metrics
        assert ("sinks/webhooks" in first.links, "sinks/webhooks/resume" in page.links) == (True, True)
        assert ("Done: resume." in resumed.text, after["verdict"]) == (True, "ok")
        assert [(one["action"], one["subject"], one["reason"]) for one in audit] == [
            ("sink.resume", "webhooks", "moved"), ("sink.pause", "webhooks", "the shop moves"),
        ]  # fmt: skip


async def test_the_form_of_a_pause_foretells_how_much_waits(running_hub: RunHub) -> None:
    """CN-08: from the events of the last hour that are for this sink; and who may pause it.

    A pause reads no records.
    """
    async with running_hub(access="keys") as hub, browsing(hub, "read", "operate") as browser:
        hub.client.headers.update(authorized(await bearer(hub, "admin")))
        await hub.sql("UPDATE hookwire.sinks SET configured = true WHERE name = 'kafka'")
        for topic, sinks in (("a", ["kafka"]), ("b", ["webhooks"])):
            await hub.client.put(f"/topics/{topic}/settings", json={"sinks": sinks})
        for topic in "aab":
            await hub.publish(topic, b"x" * 1_000)
        await hub.until("/sinks/kafka", lambda sink: sink["waiting"] == 2)
        form = await browser.page("sinks/kafka/pause")
        foretold = await forecast_of(hub, "kafka")
        session = await asyncpg.connect(hub.database_url)
        async with session.transaction():
            await session.execute("LOCK TABLE hookwire.outbox")
            paused = (await hub.client.post("/sinks/kafka/pause")).json()
        await session.close()
        reader, customer = await bearer(hub, "read"), await bearer(hub, "read", "operate", topics=["a"])
        refused = [
            await hub.client.post("/sinks/kafka/pause", headers=authorized(reader)),
            await hub.client.post("/sinks/kafka/pause", headers=authorized(customer)),
            await hub.client.post("/sinks/tape/pause"),
            await hub.client.post("/sinks/kafka/pause", json={"until": "tomorrow"}),
        ]

        assert "each hour of the pause queues about 2 events (2.0 kB). Publishing goes on" in form.text
        assert "hookwire sinks pause kafka" in form.text
        assert (foretold["events_per_hour"], foretold["bytes_per_hour"], foretold["waiting"]) == (2, 2_000, 2)
        assert (paused.get("paused"), paused.get("waiting")) == (True, None), paused
        assert [kind(answer)[2] for answer in refused] == ["forbidden", "forbidden", "not-found", "invalid-parameter"]


async def forecast_of(hub: RunningHub, sink: str) -> dict[str, Any]:
    return dict((await hub.client.get(f"/sinks/{sink}/forecast")).json())


_IDLE: dict[str, Any] = {
    "events_per_hour": 0.0, "bytes_per_hour": 0.0, "waiting": 0, "event_days": None, "source_backlog_max": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("forecast", "words"),
    [
        (
            {},
            "No event of the last hour was for this sink, so it is unknown how much a pause queues."
            " Publishing goes on, and nothing that waits is removed.",
        ),
        (
            {"events_per_hour": 1e6, "bytes_per_hour": 2.5e9, "event_days": 30, "waiting": 1},
            "At the rate of the last hour, each hour of the pause queues about 1,000,000 events (2.5 GB)."
            " Publishing goes on, and nothing that waits is removed: after 30 days the database begins to grow by it."
            " Now 1 event waits.",
        ),
        (
            {"events_per_hour": 0.9, "bytes_per_hour": 7.2, "source_backlog_max": 100_000},
            "At the rate of the last hour, each hour of the pause queues about 1 event (7 B)."
            " Publishing goes on, and nothing that waits is removed."
            " When about 100,000 wait, Kafka sources take no more records.",
        ),
    ],
    ids=["idle", "busy", "webhooks"],
)
def test_a_pause_of_a_sink_is_foretold(forecast: dict[str, Any], words: str) -> None:
    """CN-08: how fast it queues, when retention ends, and what stops."""
    assert sink_forecast(_IDLE | forecast) == words

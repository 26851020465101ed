"""Incidents over HTTP, as commands and as pages, end to end."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub
from tests.app.web.console.harness import browsing
from tests.app.web.publishing.test_ingest import kind
from tests.app.web.test_authentication import authorized, bearer
from tests.app.web.test_replays import command


async def failed(hub: RunningHub, receiver: Receiver, events: int, answer: bytes, topic: str = "a") -> None:
    """So many dead letters of one cause."""
    before = len((await hub.client.get("/dead-letters?limit=500")).json()["items"])
    receiver.status, receiver.answer = 503, answer
    for _ in range(events):
        await hub.publish(topic, b"1")
    await hub.until("/dead-letters?limit=500", lambda page: len(page["items"]) == before + events)


async def incidents(hub: RunningHub, query: str = "") -> list[dict[str, Any]]:
    return list((await hub.client.get(f"/incidents{query}")).json()["items"])


async def test_two_causes_are_told_apart_and_one_is_cured_by_command_and_page(
    running_hub: RunHub, receiver: Receiver
) -> None:
    """CN-03, CN-04: exact counts, dry run first, and the other cause stays."""
    async with running_hub(ALL_ROLES) as hub, browsing(hub) as browser:
        one = (await hub.subscribe("a", receiver.callback, retry_schedule_seconds=[]))["id"]
        await failed(hub, receiver, 3, b"checkout 4711 is down")
        await failed(hub, receiver, 2, b"<h1>full</h1>")
        full, down = await incidents(hub)
        sql = await hub.sql("SELECT count(*) FROM hookwire.attempts WHERE convert_from(response_body, 'UTF8') ~ 'down'")
        page = await browser.page("incidents")
        detail = await browser.open(f"incidents/{down['id']}")
        dry = ("replay", "--dead-letters", "--incident", down["id"], "--rate", "2", "--dry-run")
        listed, counted = await asyncio.gather(
            command(hub, "incidents", "list", "--subscription", one, "--json"), command(hub, *dry)
        )
        acknowledged = await browser.send(f"incidents/{full['id']}/acknowledge", reason="told the shop")
        receiver.status, receiver.answer = 204, b""
        replayed = await command(hub, "replay", "--dead-letters", "--incident", down["id"], "--json")
        left = (await hub.until("/dead-letters", lambda page: len(page["items"]) == 2))["items"]
        resolved = await command(hub, "incidents", "resolve", down["id"], "--why", "repaired")
        states = {item["id"]: item["state"] for item in await incidents(hub)}
        audit = [(item["action"], item["subject"]) for item in (await hub.client.get("/audit?limit=3")).json()["items"]]

        assert [(item["excerpt"], item["status"], item["dead"], item["failures"]) for item in (full, down)] == [
            ("full", 503, 2, 2), ("checkout N is down", 503, 3, sql[0][0]),
        ]  # fmt: skip
        assert ([item["id"] for item in json.loads(listed.stdout)], listed.code) == ([full["id"], down["id"]], 1)
        assert ("checkout N is down" in page.text, "<svg" in detail.text) == (True, True)
        assert counted.stdout.startswith("would send 3, from evt_")
        assert counted.stdout.endswith("in 1.5 s at least\n")
        assert (acknowledged.url.path, json.loads(replayed.stdout)["replayed"]) == (
            f"/console/incidents/{full['id']}", 3,
        )  # fmt: skip
        assert {letter["incident_id"] for letter in left} == {full["id"]}
        assert (resolved.stdout, states) == (f"{down['id']} is resolved\n", {full["id"]: "acknowledged"})
        assert ("incident.resolve", down["id"]) in audit


async def test_a_key_for_some_topics_sees_their_incidents_and_changes_no_others(
    running_hub: RunHub, receiver: Receiver
) -> None:
    """CN-03, SE-04: and the words of receivers need a scope of their own."""
    async with running_hub(ALL_ROLES, access="keys") as hub:
        hub.client.headers.update(authorized(await bearer(hub, "admin")))
        for topic in ("a", "b"):
            await hub.subscribe(topic, receiver.callback, retry_schedule_seconds=[])
            await failed(hub, receiver, 1, b"down", topic)
        await hub.sql(
            "INSERT INTO hookwire.incidents (tenant, kind, sink, fingerprint, outcome)"
            " VALUES ('default', 'held', 'kafka', 'too_large', 'too_large')"
        )
        every = {item["topic"]: item["id"] for item in await incidents(hub)}
        theirs = authorized(await bearer(hub, "read", "operate", topics=["a"]))
        seen = (await hub.client.get("/incidents", headers=theirs)).json()["items"]
        answers = [
            await hub.client.get(f"/incidents/{every['b']}", headers=theirs),
            await hub.client.post(f"/incidents/{every['b']}/ignore", json={}, headers=theirs),
            await hub.client.get(f"/incidents/{every[None]}", headers=theirs),
            await hub.client.get(f"/dead-letters?incident_id={every['b']}", headers=theirs),
            await hub.client.get("/incidents/inc_999999", headers=theirs),
        ]
        own = await hub.client.get(f"/dead-letters?incident_id={every['a']}", headers=theirs)
        ignored = await hub.client.post(f"/incidents/{every['a']}/ignore", json={}, headers=theirs)

        assert sorted(every, key=str) == [None, "a", "b"]
        assert [(item["id"], item["excerpt"]) for item in seen] == [(every["a"], None)]
        assert [(answer.status_code, kind(answer)[-1]) for answer in answers] == [(404, "not-found")] * 5
        assert (len(own.json()["items"]), ignored.json()["state"]) == (1, "ignored")

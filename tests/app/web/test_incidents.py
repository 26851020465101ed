"""Incidents over HTTP, as commands and as pages, end to end."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from app.maintenance.incidents import Incidents
from app.web.api.operating import incidents as operating
from db.pool import PoolOptions, open_database
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


@asynccontextmanager
async def chat_of(hub: RunningHub) -> AsyncIterator[Receiver]:
    """A chat's webhook that gets the notices about incidents."""
    chat = Receiver()
    server = await asyncio.start_server(chat.serve, "127.0.0.1", 0)
    chat.port = server.sockets[0].getsockname()[1]
    await hub.subscribe(
        "hookwire.operator", chat.callback, format="slack", template="{data.type} {data.incident}",
        filter={"data": {"type": {"$in": [f"incident.{change}" for change in ("opened", "active", "resolved")]}}},
    )  # fmt: skip
    yield chat
    server.close()


async def watch(hub: RunningHub) -> None:
    """A round of one more process."""
    database = await open_database(PoolOptions(hub.database_url, connections_min=1, connections_max=2))
    await Incidents(database).watch()
    await database.aclose()


async def test_a_chat_gets_one_line_for_each_change_though_the_receiver_answers_another_page_each_time(
    running_hub: RunHub, receiver: Receiver
) -> None:
    """CN-03: pages of a MiB, each with another token, are one cause. Many rounds tell nothing twice."""
    async with running_hub(ALL_ROLES) as hub, chat_of(hub) as chat:
        await hub.subscribe("a", receiver.callback, retry_schedule_seconds=[])
        for _ in range(3):
            page = b"<html><title>Bad gateway</title><p>request %s</p>" % secrets.token_hex(20).encode()
            await failed(hub, receiver, 1, page.ljust(2**20))
        [incident] = await incidents(hub)
        for _ in range(3):
            await watch(hub)
        await chat.wait_for(2)
        await hub.client.post(f"/incidents/{incident['id']}/resolve", json={"reason": "repaired"})
        for _ in range(3):
            await watch(hub)
        lines = [json.loads(one.body)["text"] for one in await chat.wait_for(3)]
        told = await hub.sql(
            "SELECT count(*) FROM hookwire.events WHERE topic = 'hookwire.operator'"
            " AND convert_from(payload, 'UTF8') LIKE '%incident.%'"
        )

        assert (incident["excerpt"], incident["failures"]) == ("Bad gateway request TOKEN", 3)
        assert sorted(lines) == [f"incident.{change} {incident['id']}" for change in ("active", "opened", "resolved")]
        assert told == [(3,)]


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


async def probed(hub: RunningHub, incident: str, key: str | None = None, **body: Any) -> Any:
    """The answer to a probe, by a key or by nobody."""
    return await hub.client.post(
        f"/incidents/{incident}/probe", json=body, headers=authorized(key) if key is not None else {}
    )


async def test_a_probe_is_sent_to_a_disabled_subscription_and_its_answer_comes_back(
    running_hub: RunHub, receiver: Receiver
) -> None:
    """CN-04: it fails and stays a dead letter, then it is delivered and is none any more; the page does the same."""
    async with running_hub(ALL_ROLES) as hub, browsing(hub) as browser:
        one = (await hub.subscribe("a", receiver.callback, retry_schedule_seconds=[]))["id"]
        await failed(hub, receiver, 3, b"down")
        [incident] = await incidents(hub)
        await hub.client.patch(f"/subscriptions/{one}", json={"state": "disabled"})
        first = (await probed(hub, incident["id"])).json()
        receiver.status, receiver.answer = 204, b""
        page = await browser.send(f"incidents/{incident['id']}/probe", reason="repaired")
        last = await command(hub, "incidents", "probe", incident["id"], "--json")
        path = f"/deliveries/{first['delivery_id']}/attempts"
        attempts = [(one["trigger"], one["decision"]) for one in (await hub.client.get(path)).json()["items"]]
        [left] = (await hub.client.get("/dead-letters")).json()["items"]
        audit = [item["action"] for item in (await hub.client.get("/audit?limit=3")).json()["items"]]

        assert (first["delivered"], first["status"], first["response_body"], first["signed"]) == (
            False, 503, "down", True,
        )  # fmt: skip
        assert "It was delivered, and is no dead letter any more." in page.text
        assert attempts == [("first", "dead"), ("probe", "probe"), ("probe", "delivered")]
        assert (last.code, json.loads(last.stdout)["status"], left["incident_id"]) == (0, 204, incident["id"])
        assert audit == ["incident.probe"] * 3
        signed = {"webhook-signature" in one.headers for one in receiver.delivered}
        assert (signed, len({one.headers["webhook-id"] for one in receiver.delivered})) == ({True}, 3)


async def test_an_edited_probe_is_signed_only_for_an_admin_and_never_for_another_address(
    running_hub: RunHub, receiver: Receiver
) -> None:
    """CN-04: neither are the subscription's secret headers; the audit tells what differs."""
    async with running_hub(ALL_ROLES, access="keys") as hub:
        admin = await bearer(hub, "admin")
        operator = await bearer(hub, "read", "operate")
        reader = await bearer(hub, "read", "operate", "payloads")
        hub.client.headers.update(authorized(admin))
        await hub.subscribe("a", receiver.callback, retry_schedule_seconds=[], headers={"x-secret": "s"})
        await failed(hub, receiver, 1, b"down")
        [incident] = await incidents(hub)
        receiver.status, start, other = 204, len(receiver.delivered), f"{receiver.callback}/other"
        identity = incident["id"]
        answers = [
            await probed(hub, identity, operator, content='{"a": 1}'),
            await probed(hub, identity, admin, content='{"a": 1}', headers={"x-more": "1"}),
            await probed(hub, identity, admin, target=other),
            await probed(hub, identity, reader, target=other, content="x"),
            await probed(hub, identity, operator, target=other, content="x"),
            await probed(hub, identity, admin, headers={"webhook-signature": "v1,x"}),
            await probed(hub, identity, admin, target="ftp://a.example/"),
            await probed(hub, identity, admin, dead_letter_id="dlv_999_999"),
        ]  # fmt: skip
        seen = [
            (one.path, one.body, {"webhook-signature", "x-secret", "hookwire-edited"} & one.headers.keys())
            for one in receiver.delivered[start:]
        ]
        reasons = [item["reason"] for item in (await hub.client.get("/audit?action=incident.probe")).json()["items"]]
        left = (await hub.client.get("/dead-letters")).json()["items"]

        assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 403, 400, 400, 404]
        assert seen == [
            ("/hook", b'{"a": 1}', {"hookwire-edited"}),
            ("/hook", b'{"a": 1}', {"webhook-signature", "x-secret", "hookwire-edited"}),
            ("/hook/other", b"1", {"hookwire-edited"}),
            ("/hook/other", b"x", {"hookwire-edited"}),
        ]  # fmt: skip
        assert reasons[2:] == ["content of 1 B sent as 8 B: ~$; headers +x-more", "content of 1 B sent as 8 B: ~$"]
        assert len(left) == 1


async def test_an_incident_is_known_without_a_count_of_what_it_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """CN-03: each page of its dead letters asks for it, and there may be a hundred thousand."""
    asked: list[str] = []

    async def ask(name: str, *_: Any) -> dict[str, Any]:
        asked.append(name)
        return {"id": 3}

    async def ask_for_all(name: str, *_: Any) -> list[dict[str, Any]]:
        return [await ask(name)]

    monkeypatch.setattr(operating, "_may_see", lambda *_: True)
    context: Any = SimpleNamespace(database=SimpleNamespace(fetchrow=ask, fetch_filtered=ask_for_all))
    await operating.known_incident(None, "inc_3", context)  # type: ignore[arg-type]

    assert asked == ["incident.get"]

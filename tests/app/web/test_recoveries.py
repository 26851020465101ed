"""Recover: one act probes an incident, enables its subscription and sends its dead letters again, end to end."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub
from tests.app.web.console.harness import browsing
from tests.app.web.publishing.test_ingest import kind
from tests.app.web.test_authentication import authorized, bearer
from tests.app.web.test_incidents import failed, incidents
from tests.app.web.test_replays import command
from tests.hub.callback import Callbacks, after, answers, serve_callbacks
from tests.waiting import until

_ONCE = {"Idempotency-Key": "once"}
_TRIPPED = """
INSERT INTO hookwire.delivery_gates (subscription_id, trips, open_until)
SELECT s.id, 1, now() + $1::interval FROM hookwire.subscriptions s
ON CONFLICT (subscription_id) DO UPDATE SET trips = 1, open_until = excluded.open_until
"""


async def state_of(hub: RunningHub, subscription: str) -> str:
    return str((await hub.client.get(f"/subscriptions/{subscription}")).json()["state"])


async def replays(hub: RunningHub) -> list[dict[str, Any]]:
    return list((await hub.client.get("/replays")).json()["items"])


async def test_an_incident_is_recovered_only_when_its_probe_is_delivered(
    running_hub: RunHub, receiver: Receiver
) -> None:
    """CN-04: counted first; a probe that fails changes nothing; a repeat with the same key gets the first answer."""
    async with running_hub(ALL_ROLES) as hub:
        one = (await hub.subscribe("a", receiver.callback, retry_schedule_seconds=[]))["id"]
        await failed(hub, receiver, 4, b"down")
        await hub.client.patch(f"/subscriptions/{one}", json={"state": "disabled"})
        [incident] = await incidents(hub)
        path = f"/incidents/{incident['id']}/recover"
        counted = await command(hub, "incidents", "recover", incident["id"], "--dry-run", "--rate", "2")
        refused = await command(hub, "incidents", "recover", incident["id"])
        before = (await state_of(hub, one), await replays(hub), len(receiver.delivered))
        receiver.status, receiver.answer = 204, b"secret words"
        answered = [await hub.client.post(path, json={"reason": "repaired"}, headers=_ONCE) for _ in range(2)]
        first, again = (answer.json() for answer in answered)
        other = await hub.client.post(path, json={"reason": "x"}, headers=_ONCE)
        twice = await hub.client.post(path, headers=[("idempotency-key", "one"), ("idempotency-key", "two")])
        await receiver.wait_for(4 + 1 + 4)
        await hub.until("/dead-letters", lambda page: page["items"] == [])
        nothing = await hub.client.post(path)
        audit = [(item["action"], item["reason"]) for item in (await hub.client.get("/audit?limit=4")).json()["items"]]

        assert (
            counted.stdout == f"would send one, and if it is delivered enable {one} and send 4 again, in 2 s at least\n"
        )
        assert (refused.code, refused.stdout.splitlines()[1:]) == (
            1, ["down", "the probe was not delivered: nothing was changed"],
        )  # fmt: skip
        assert before == ("disabled", [], 5)
        assert (first["recovered"], first["enabled"], first["probe"]["status"]) == (True, True, 204)
        assert answered[1].headers["idempotency-replayed"] == "true"
        assert again == first | {"probe": first["probe"] | {"response_body": None, "response_headers": None}}
        made = [item["id"] for item in await replays(hub)]
        assert (await state_of(hub, one), made) == ("active", [first["replay_id"], first["missed_replay_id"]])
        assert (kind(other)[2], kind(twice)[2], kind(nothing)[2], len(receiver.delivered)) == (
            "idempotency-key-reused", "invalid-header", "not-found", 9,
        )  # fmt: skip
        assert audit == [
            ("replay.create", "repaired"), ("subscription.change", None), ("replay.create", "repaired"),
            ("incident.probe", "repaired"),
        ]  # fmt: skip


async def test_what_a_disabled_subscription_missed_is_sent_when_its_incident_is_recovered(
    running_hub: RunHub, receiver: Receiver
) -> None:
    """CN-04, interaction 2: everything that was missed: events of the pause have no delivery and no dead letter."""
    async with running_hub(ALL_ROLES) as hub, browsing(hub) as browser:
        one = (await hub.subscribe("a", receiver.callback, retry_schedule_seconds=[]))["id"]
        await failed(hub, receiver, 2, b"down")
        await hub.client.patch(f"/subscriptions/{one}", json={"state": "disabled"})
        for topic, number in (("a", b"m1"), ("b", b"other"), ("a", b"m2")):
            await hub.publish(topic, number)

        async def is_fanned_out() -> bool:
            return await hub.sql("SELECT FROM hookwire.outbox") == []

        await until(is_fanned_out)
        [incident] = await incidents(hub)
        receiver.status = 204
        form = await browser.page(f"incidents/{incident['id']}/recover")
        dry = (await hub.client.post(f"/incidents/{incident['id']}/recover", json={"dry_run": True})).json()
        done = await command(hub, "incidents", "recover", incident["id"], "--why", "repaired")
        sent = [one.body for one in await receiver.wait_for(2 + 2 + 2)]
        await hub.publish("a", b"live")
        await receiver.wait_for(7)
        made = {item["source"]: (item["id"], item["replayed"]) for item in await replays(hub)}

        assert "So would 2 events that it missed while it was disabled." in form.text
        assert (dry["records"], dry["missed"], dry["missed_more"]) == (2, 2, False)
        assert sorted(sent[2:]) == [b"1", b"1", b"m1", b"m2"]
        assert (made["dead_letters"][1], made["events"][1]) == (1, 2)
        assert done.stdout.splitlines()[-1] == (
            f"{one} is enabled; {made['dead_letters'][0]} sends the others again, {made['events'][0]} what it missed"
            " while it was disabled"
        )


async def test_a_key_that_may_not_enable_the_subscription_sends_nothing(
    running_hub: RunHub, receiver: Receiver
) -> None:
    """CN-04, SE-04: the act needs the scopes of the acts that it stands for. A half-open breaker needs no act, and
    that of WebSub closes by itself.
    """
    async with running_hub(ALL_ROLES, access="keys") as hub:
        hub.client.headers.update(authorized(await bearer(hub, "admin")))
        one = (await hub.subscribe("a", receiver.callback, retry_schedule_seconds=[]))["id"]
        await failed(hub, receiver, 2, b"down")
        [incident] = await incidents(hub)
        receiver.status, path = 204, f"/incidents/{incident['id']}/recover"
        operator, other = await bearer(hub, "read", "operate"), await bearer(hub, "operate", topics=["b"])
        await hub.client.patch(f"/subscriptions/{one}", json={"state": "disabled"})
        refused = [await hub.client.post(path, headers=authorized(key)) for key in (operator, other)]
        sent = len(receiver.delivered)
        await hub.client.patch(f"/subscriptions/{one}", json={"state": "active"})
        await hub.sql(_TRIPPED, timedelta(hours=1))
        await hub.sql("UPDATE hookwire.subscriptions SET protocol = 'websub'")
        counted = (await hub.client.post(path, json={"dry_run": True})).json()
        await hub.sql("UPDATE hookwire.subscriptions SET protocol = 'webhook'")
        await hub.sql(_TRIPPED, timedelta(hours=-1))
        done = (await hub.client.post(path, headers=authorized(operator))).json()

        assert [kind(answer)[2] for answer in refused] == ["forbidden", "not-found"]
        assert (sent, counted.get("records"), counted.get("enabled")) == (2, 2, False)
        assert (done.get("recovered"), done.get("enabled")) == (True, False)
        assert done["probe"]["response_body"] is None


async def during_probe(hub: RunningHub, callbacks: Callbacks, state: str, method: str, **change: Any) -> dict[str, Any]:
    """The answer of a recovery of ``state``, during whose probe a request of this method changed the subscription."""
    gate, topic, posted = asyncio.Event(), f"{state}-{method}", len(callbacks.posted)
    path = f"/{topic}"
    callbacks.script[path] = answers(503, b"down")
    one = (await hub.subscribe(topic, callbacks.url(path), retry_schedule_seconds=[]))["id"]
    await hub.publish(topic, b"1")
    await hub.until(f"/dead-letters?subscription_id={one}", lambda page: page["items"])
    [incident] = await incidents(hub, f"?subscription_id={one}")
    await hub.client.patch(f"/subscriptions/{one}", json={"state": state})
    callbacks.script[path] = after(gate, answers(204))
    recovering = asyncio.create_task(hub.client.post(f"/incidents/{incident['id']}/recover", headers=_ONCE))
    await callbacks.wait_for_posts(posted + 2)
    await until(lambda: _holds_no_transaction(hub))
    changed = await hub.client.request(method, f"/subscriptions/{one}", **change)
    gate.set()
    done = (await recovering).json()
    return done | {"changed": changed.is_success}


async def _holds_no_transaction(hub: RunningHub) -> bool:
    """Whether no transaction is open. That of another service is open for a moment only."""
    open_now = "SELECT FROM pg_stat_activity WHERE state LIKE 'idle in%' AND datname = current_database()"
    return await hub.sql(open_now) == []


async def test_a_subscription_that_is_changed_during_the_probe_stays_as_it_was_changed(running_hub: RunHub) -> None:
    """CN-04: a slow receiver holds no transaction, so others change the subscription meanwhile. The only dead letter
    stays, for a second try.
    """
    async with running_hub(ALL_ROLES) as hub, serve_callbacks() as callbacks:
        found = [
            await during_probe(hub, callbacks, "disabled", "PATCH", json={"description": "moved"}),
            await during_probe(hub, callbacks, "disabled", "DELETE"),
            await during_probe(hub, callbacks, "active", "PATCH", json={"state": "disabled"}),
        ]
        before = (await state_of(hub, found[0]["subscription_id"]), await replays(hub))
        again = (await hub.client.post(f"/incidents/{found[0]['incident_id']}/recover", headers=_ONCE)).json()

        assert [
            (one["changed"], one["recovered"], one["enabled"], one["probe"]["delivered"], one["reason"])
            for one in found
        ] == [
            (True, False, False, True,
             "the subscription was changed during the probe: nothing else was done"),
        ] * 3  # fmt: skip
        assert (before, again.get("recovered")) == (("disabled", []), True)


async def test_a_subscription_that_has_ended_is_not_recovered(running_hub: RunHub, receiver: Receiver) -> None:
    """CN-04: its dead letters have nobody to go to."""
    async with running_hub(ALL_ROLES) as hub:
        await hub.subscribe("a", receiver.callback, retry_schedule_seconds=[])
        await failed(hub, receiver, 1, b"down")
        [incident] = await incidents(hub)
        await hub.sql("UPDATE hookwire.subscriptions SET state = 'gone'")
        answer = await hub.client.post(f"/incidents/{incident['id']}/recover")

        assert (kind(answer)[2], len(receiver.delivered)) == ("invalid-parameter", 1)
        assert "has ended" in json.dumps(answer.json())

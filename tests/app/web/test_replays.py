"""Holds, dead letters, replays and the audit trail: over HTTP and as commands, end to end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.app.cli.test_main import Finished, hookwire
from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub
from tests.app.web.publishing.test_ingest import kind


async def given_up(hub: RunningHub, receiver: Receiver, events: int = 1) -> dict[str, Any]:
    """A subscription whose deliveries have all become dead letters; the receiver is well again afterwards."""
    receiver.status = 500
    subscription = await hub.subscribe("a", receiver.callback, retry_schedule_seconds=[])
    for _ in range(events):
        await hub.publish("a")
    await hub.until("/dead-letters", lambda page: len(page["items"]) == events)
    receiver.status = 204
    return subscription


async def command(hub: RunningHub, *words: str) -> Finished:
    return await hookwire(*words, "--url", hub.url)


async def test_a_dead_letter_is_retried_and_its_attempts_say_so(running_hub: RunHub, receiver: Receiver) -> None:
    """WH-P04..P06, WH-P10: same webhook-id, marked, numbered on, trigger manual; who and why are on record."""
    async with running_hub(ALL_ROLES) as hub:
        await given_up(hub, receiver)
        [dead] = (await hub.client.get("/dead-letters")).json()["items"]
        shown = (await hub.client.get(f"/dead-letters/{dead['id']}")).json()
        answer = await hub.client.post(
            f"/dead-letters/{dead['id']}/retry", json={"reason": "repaired"}, headers={"Hookwire-Actor": "alice"}
        )
        await hub.until("/deliveries?state=delivered", lambda page: page["items"])
        attempts = (await hub.client.get(f"/deliveries/{dead['id']}/attempts")).json()["items"]
        first, second = receiver.delivered[0], receiver.delivered[-1]
        audit = (await hub.client.get("/audit")).json()["items"][0]

        assert (shown, dead["kind"]) == (dead, "exhausted")
        assert answer.json() == {"id": dead["id"], "done": "retried"}
        assert [(a["number"], a["trigger"], a["status"]) for a in attempts] == [(1, "first", 500), (2, "manual", 204)]
        assert second.headers["webhook-id"] == first.headers["webhook-id"]
        assert (first.headers.get("hookwire-replay"), second.headers.get("hookwire-replay")) == (None, "true")
        assert (audit["actor"], audit["action"], audit["reason"]) == (
            "alice@127.0.0.1", "dead_letter.retry", "repaired",
        )  # fmt: skip


async def test_the_audit_trail_names_deliveries_by_their_public_ids(running_hub: RunHub, receiver: Receiver) -> None:
    """FT-10: it said `webhooks 1 1`, which no list and no command knows."""
    async with running_hub(ALL_ROLES) as hub:
        await given_up(hub, receiver)
        [dead] = (await hub.client.get("/dead-letters")).json()["items"]
        await hub.client.post(f"/dead-letters/{dead['id']}/purge", json={})
        entry = (await hub.client.get("/audit")).json()["items"][0]

    assert (entry["action"], entry["subject"]) == ("dead_letter.purge", dead["id"])


async def test_a_replay_counts_first_and_then_sends(running_hub: RunHub, receiver: Receiver) -> None:
    """WH-P01..P03: a dry run changes nothing."""
    async with running_hub(ALL_ROLES) as hub:
        subscription = await given_up(hub, receiver, 3)
        asked = {"source": "dead_letters", "subscription_id": subscription["id"]}
        dry = await hub.client.post("/replays", json=asked | {"dry_run": True})
        made = await hub.client.post("/replays", json=asked)
        done = await hub.until(made.headers["location"], lambda replay: replay["state"] == "done")
        await hub.until("/deliveries?state=delivered", lambda page: len(page["items"]) == 3)
        over = await hub.client.post(f"/replays/{done['id']}/cancel", json={})

        assert (dry.status_code, dry.json()["records"], made.status_code) == (200, 3, 201)
        assert (done["replayed"], done["progress"], kind(over)[-1]) == (3, 1.0, "replay-over")


async def test_a_replay_is_paused_resumed_and_cancelled(running_hub: RunHub) -> None:
    """WH-P03. No role delivers here, so that nothing carries it on meanwhile."""
    async with running_hub() as hub:
        subscription = await hub.subscribe("a", "http://127.0.0.1:9000/")
        made = (
            await hub.client.post("/replays", json={"source": "events", "subscription_id": subscription["id"]})
        ).json()
        states = [
            (await hub.client.post(f"/replays/{made['id']}/{verb}", json={})).json()["state"]
            for verb in ("pause", "resume", "cancel")
        ]
        listed = (await hub.client.get("/replays")).json()["items"]
        acts = [act["action"] for act in (await hub.client.get("/audit")).json()["items"]]

        assert (states, [replay["id"] for replay in listed]) == (["paused", "running", "cancelled"], [made["id"]])
        assert acts[:4] == ["replay.cancel", "replay.resume", "replay.pause", "replay.create"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"source": "events"}, "invalid-parameter"),
        ({"source": "events", "subscription_id": "sub_x"}, "not-found"),
        ({"source": "dead_letters", "since": "2026-01-15T09:00:00"}, "invalid-parameter"),
        ({"source": "dead_letters", "since": "0001-01-01T00:00:00+14:00"}, "invalid-parameter"),
        ({"source": "dead_letters", "until": "9999-12-31T23:59:59-14:00"}, "invalid-parameter"),
        ({"source": "dead_letters", "statuses": [42]}, "invalid-parameter"),
        ({"source": "dead_letters", "event_ids": ["evt_aaaaaaaa_1"]}, "not-found"),
    ],
)
async def test_a_replay_of_nothing_that_is_known_is_refused(
    kept_hub: RunningHub, body: dict[str, Any], expected: str
) -> None:
    assert kind(await kept_hub.client.post("/replays", json=body))[-1] == expected


@pytest.mark.parametrize("path", ["/holds/hold_1", "/dead-letters/dlv_1_1", "/dead-letters/dead_kafka_1"])
@pytest.mark.parametrize("verb", ["", "/retry"])
async def test_what_is_not_there_is_said_so(kept_hub: RunningHub, path: str, verb: str) -> None:
    answer = await (kept_hub.client.post(path + verb, json={}) if verb else kept_hub.client.get(path))
    assert kind(answer)[-1] == "not-found"


async def test_a_hold_is_listed_shown_and_purged(running_hub: RunHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """RU-10, RO-08: all that waits becomes dead letters, which can be shown, taken up again and forgotten; only the
    first of them was refused.
    """
    monkeypatch.setattr("app.web.api.operating.holds._GIVE_UP_BATCH", 2)
    async with running_hub() as hub:
        await hub.sql("UPDATE hookwire.sinks SET configured = (name = 'kafka')")
        events = [(await hub.publish("a", hookwire_key="k")).json()["id"] for _ in range(3)]
        await hub.sql(
            "WITH moved AS (DELETE FROM hookwire.outbox RETURNING *) INSERT INTO hookwire.held (sink, tenant, topic,"
            " key, id, shard, layout) SELECT sink, 'default', 'a', 'k', id, shard, layout FROM moved"
        )
        await hub.sql(
            "INSERT INTO hookwire.holds (sink, tenant, topic, key, reason, detail, probe_at)"
            " VALUES ('kafka', 'default', 'a', 'k', 'too_large', 'by far', now())"
        )
        [hold] = (await hub.client.get("/holds?sink=kafka&topic=a")).json()["items"]
        shown = (await hub.client.get(f"/holds/{hold['id']}")).json()
        retried = await hub.client.post(f"/holds/{hold['id']}/retry", json={})
        purged = await hub.client.post(f"/holds/{hold['id']}/give-up", json={"reason": "test data", "all": True})
        listed = await command(hub, "deadletters", "list", "--json")
        letters = json.loads(listed.stdout)["dead_letters"]
        one = json.loads((await command(hub, "deadletters", "show", letters[0]["id"])).stdout)
        again = await command(hub, "deadletters", "retry", letters[0]["id"], "--why", "mended")
        gone = await command(hub, "deadletters", "purge", letters[1]["id"])
        wrong = await command(hub, "deadletters", "give-up", letters[2]["id"])
        left = (await hub.client.get("/dead-letters")).json()["items"]

        assert (hold["scope"], hold["key"], hold["records"], shown["oldest"]) == ("key", "k", 3, events)
        assert (retried.status_code, purged.json()["dead_letters"]) == (200, 3)
        assert ([letter["event_id"] for letter in letters], one) == (events[::-1], letters[0])
        behind = ("purged_with_key", "waited behind a record that was refused: too_large")
        reasons = [(letter["last_outcome"], letter["detail"]) for letter in letters]
        assert reasons == [behind, behind, ("too_large", "by far")]
        assert (again.code, gone.code, wrong.code, [letter["event_id"] for letter in left]) == (0, 0, 2, events[:1])


async def test_the_commands_replay_and_attempts(running_hub: RunHub, receiver: Receiver) -> None:
    async with running_hub(ALL_ROLES) as hub:
        subscription = await given_up(hub, receiver, 2)
        table = await command(hub, "deadletters", "list")
        dry = await command(hub, "replay", "--dead-letters", "--since", "1h", "--dry-run")
        done = await command(hub, "replay", "--dead-letters", "--subscription", subscription["id"], "--json")
        page = await hub.until("/deliveries?state=delivered", lambda page: len(page["items"]) == 2)
        attempts = await command(hub, "attempts", page["items"][0]["event_id"], "--json")
        wrong = await command(hub, "replay", "--dead-letters", "--since", "yesterday")

        assert "2 dead letters" in table.stdout
        assert (dry.code, dry.stdout.partition(",")[0]) == (0, "would send 2")
        assert (json.loads(done.stdout)["replayed"], json.loads(done.stdout)["state"]) == (2, "done")
        assert [(a["trigger"], a["status"]) for a in json.loads(attempts.stdout)] == [("first", 500), ("replay", 204)]
        assert (wrong.code, "--since" in wrong.stderr) == (2, True)


async def test_a_worn_dead_letter_of_a_pull_subscription_is_fetched_again(running_hub: RunHub) -> None:
    """WH-P04, WH-A07: its attempts start anew, or it would be worn from the start."""
    async with running_hub(("api", "relay")) as hub:
        made = (await hub.client.post("/subscriptions/pull", json={"topic": "a"})).json()
        path = f"/subscriptions/{made['id']}"
        await hub.publish("a")
        [held] = (await hub.client.post(f"{path}/dequeue", json={"wait_seconds": 20})).json()["items"]
        await hub.sql("UPDATE hookwire.deliveries SET attempts = 20")
        await hub.client.post(f"{path}/nack", json={"receipts": [held["receipt"]]})
        [dead] = (await hub.client.get("/dead-letters")).json()["items"]
        await hub.client.post(f"/dead-letters/{dead['id']}/retry", json={})
        [again] = (await hub.client.post(f"{path}/dequeue", json={"wait_seconds": 20})).json()["items"]

        assert (dead["kind"], dead["attempts"], again["attempts"]) == ("exhausted", 20, 1)

"""POST /erasures: the contents of events go from every place in the hub, and everything else about them stays."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub
from tests.app.web.publishing.test_ingest import kind

PERSON = b'{"name": "Ada Lovelace"}'
BY_KEY = {"topic": "orders", "key": "customer-17"}


async def published(hub: RunningHub, key: str = "customer-17", **headers: str) -> dict[str, Any]:
    """An event about a person, which no sink waits for any more."""
    event = (await hub.publish("orders", PERSON, Hookwire_Key=key, content_type="application/json", **headers)).json()
    await hub.until(f"/events/{event['id']}", lambda found: all(one["state"] == "sent" for one in found["sinks"]))
    return event


async def refused(hub: RunningHub, receiver: Receiver) -> tuple[dict[str, Any], dict[str, Any]]:
    """A subscription, and an event that its receiver has refused for good."""
    receiver.status = 500
    subscription = await hub.subscribe("orders", receiver.callback, retry_schedule_seconds=[])
    event = await published(hub)
    await hub.until(f"/events/{event['id']}", lambda found: found["state"] == "dead")
    receiver.status = 204
    return subscription, event


async def erase(hub: RunningHub, **asked: Any) -> dict[str, Any]:
    answer = await hub.client.post("/erasures", json=BY_KEY | asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_an_erased_event_keeps_its_row_and_says_so(running_hub: RunHub, receiver: Receiver) -> None:
    """GU-14: content, type and the excerpts of answers are gone; id, key, time and outcome are there."""
    async with running_hub(ALL_ROLES) as hub:
        _, event = await refused(hub, receiver)
        before = (await hub.client.get(f"/events/{event['id']}")).json()
        dry = await erase(hub, dry_run=True)
        unchanged = (await hub.client.get(f"/events/{event['id']}")).json()
        done = await erase(hub, reason="ticket 4711")
        after = (await hub.client.get(f"/events/{event['id']}")).json()
        [attempt] = (await hub.client.get(f"/deliveries/{after['deliveries'][0]['id']}/attempts")).json()["items"]
        [entry] = (await hub.client.get("/audit?limit=1")).json()["items"]
        again = await erase(hub)

    gone = {"payload": None, "data": None, "content_type": None, "erased_at": after["erased_at"]}
    gone["summary"] = f"1 given up. Its contents were erased at {after['erased_at'][:19]}Z."
    assert (unchanged, after, dry) == (before, before | gone, done | {"dry_run": True})
    assert (attempt["response_headers"], attempt["response_body"], attempt["status"]) == (None, None, 500)
    assert (done["events"], done["attempts"], done["erased_before"]) == (1, 1, 0)
    assert (again["events"], again["erased_before"], again["next_after"]) == (0, 1, None)
    assert done["not_reached"][0] == "1 receiver was sent them"
    assert (entry["action"], entry["subject"], entry["reason"], entry["records"]) == (
        "event.erase", "a key of the topic orders", "ticket 4711", 1,
    )  # fmt: skip


async def test_the_address_of_a_topic_is_gone_until_its_next_event(running_hub: RunHub) -> None:
    """An empty 200 would be a tombstone."""
    async with running_hub(ALL_ROLES) as hub:
        await published(hub)
        await erase(hub)
        erased = await hub.client.get("/topics/orders")
        await hub.publish("orders", b"next", Hookwire_Key="customer-18")
        later = await hub.client.get("/topics/orders")

    assert (kind(erased)[::2], "self" in erased.headers["link"]) == ((410, "event-erased"), True)
    assert (later.status_code, later.content) == (200, b"next")


async def test_a_key_is_replaced_by_its_digest_on_demand(running_hub: RunHub) -> None:
    async with running_hub(ALL_ROLES) as hub:
        event = await published(hub)
        await erase(hub, replace_key=True)
        found = (await hub.client.get(f"/events/{event['id']}")).json()

    assert found["key"] == f"sha256:{hashlib.sha256(b'orders' + bytes(1) + b'customer-17').hexdigest()}"


async def test_a_replay_leaves_erased_events_out_and_counts_them(running_hub: RunHub, receiver: Receiver) -> None:
    """Also a filter that cannot judge them any more; a dead letter of one cannot be retried."""
    async with running_hub(ALL_ROLES) as hub:
        subscription, event = await refused(hub, receiver)
        await erase(hub)
        other = await published(hub, "customer-18")
        await hub.until(f"/events/{other['id']}", lambda found: found["state"] == "delivered")
        asked = {"source": "events", "subscription_id": subscription["id"]}
        dry = (await hub.client.post("/replays", json=asked | {"dry_run": True})).json()
        made = await hub.client.post("/replays", json=asked)
        done = await hub.until(made.headers["location"], lambda replay: replay["state"] == "done")
        [dead] = (await hub.client.get("/dead-letters")).json()["items"]
        retried = await hub.client.post(f"/dead-letters/{dead['id']}/retry", json={})

    assert (dry["records"], dry["erased"], dry["oldest"]) == (1, 1, other["id"])
    assert (done["replayed"], done["erased"]) == (1, 1)
    assert (dead["event_id"], dead["detail"], retried.status_code) == (event["id"], None, 404)


async def test_open_deliveries_refuse_it_unless_it_is_forced(running_hub: RunHub) -> None:
    """The next event of the key, which waited behind them, is fetched then."""
    async with running_hub(ALL_ROLES) as hub:
        pull = {"topic": "orders", "ordered": True}
        subscription = (await hub.client.post("/subscriptions/pull", json=pull)).json()["id"]
        first = await published(hub)
        refusal = await hub.client.post("/erasures", json=BY_KEY)
        ids = {"event_ids": [first["id"], first["id"]], "force": True}
        later = await published(hub)
        done = (await hub.client.post("/erasures", json=ids)).json()
        [dead] = (await hub.client.get("/dead-letters?kind=erased")).json()["items"]
        fetched = (await hub.client.post(f"/subscriptions/{subscription}/dequeue", json={"max": 10})).json()

    assert kind(refusal)[::2] == (409, "erasure-waits")
    assert (done["events"], done["deliveries"], dead["event_id"], dead["kind"]) == (1, 1, first["id"], "erased")
    assert [item["event"]["id"] for item in fetched["items"]] == [later["id"]]


async def test_an_event_that_a_sink_waits_for_is_left_out_also_by_force(running_hub: RunHub) -> None:
    async with running_hub(ALL_ROLES) as hub:
        await hub.client.put("/topics/orders/settings", json={"sinks": ["kafka"]})
        event = (await hub.publish("orders", PERSON, Hookwire_Key="customer-17")).json()
        done = await erase(hub, force=True)
        found = (await hub.client.get(f"/events/{event['id']}")).json()

    assert (done["events"], done["unsent"], found["payload"]) == (0, 1, PERSON.decode())


@pytest.mark.parametrize("is_done", [False, True])
async def test_jobs_that_were_made_from_an_event_are_erased_with_it(running_hub: RunHub, is_done: bool) -> None:
    """A live one is cancelled, if that is forced."""
    async with running_hub(ALL_ROLES) as hub:
        await hub.client.put("/topics/orders/settings", json={"sinks": ["jobs"], "job": {"kind": "mail"}})
        event = await published(hub)
        [job] = (await hub.client.get("/jobs")).json()["items"]
        if is_done:
            claim = {"kinds": ["mail"], "max": 1, "lease_seconds": 60, "wait_seconds": 0}
            [held] = (await hub.client.post("/jobs/claim", json=claim)).json()["items"]
            result = {"receipt": held["receipt"], "result": {"told": "Ada"}}
            await hub.client.post(f"/jobs/{job['id']}/complete", json=result)
        without = await hub.client.post("/erasures", json=BY_KEY | {"dry_run": not is_done})
        done = await erase(hub, force=True)
        found = (await hub.client.get(f"/jobs/{job['id']}")).json()

    assert (without.status_code, without.json()["archived_jobs"], without.json()["jobs"]) == (200, is_done, not is_done)
    assert (done["jobs"], done["archived_jobs"]) == (0, 1) if is_done else (1, 1)
    assert (found["args"], found["result"], found["state"]) == (
        {"event_id": event["id"], "is_erased": True}, None, "completed" if is_done else "cancelled",
    )  # fmt: skip


async def test_a_late_repeat_does_not_bring_the_event_back(running_hub: RunHub) -> None:
    async with running_hub(ALL_ROLES) as hub:
        await published(hub, Idempotency_Key="one")
        await erase(hub)
        repeated = await hub.publish(
            "orders", PERSON, Hookwire_Key="customer-17", Idempotency_Key="one", content_type="application/json"
        )

    assert repeated.status_code == 422


async def test_it_is_by_topic_and_key_or_subject_or_ids(running_hub: RunHub) -> None:
    ids = {"event_ids": ["evt_aaaaaaaa_1"]}
    bodies = [
        {}, {"topic": "orders"}, {"key": "k"}, BY_KEY | ids, ids | {"after": "evt_aaaaaaaa_1"},
        ids | {"topic": "orders"}, BY_KEY | {"subject": "s"},
    ]  # fmt: skip
    async with running_hub() as hub:
        answers = [kind(await hub.client.post("/erasures", json=body))[::2] for body in bodies]

    assert answers == [(400, "invalid-parameter")] * len(bodies)

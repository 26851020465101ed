"""/deliveries: by event, subscription and state; every attempt."""

from __future__ import annotations

import pytest

from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub
from tests.app.web.publishing.test_ingest import kind


async def test_deliveries_are_found_by_event_by_subscription_and_by_state(
    running_hub: RunHub, receiver: Receiver
) -> None:
    async with running_hub(ALL_ROLES) as hub:
        first = await hub.subscribe("a", receiver.callback)
        await hub.subscribe("#", receiver.callback)
        event_a = (await hub.publish("a")).json()["id"]
        await hub.publish("b")
        await hub.until("/deliveries?state=delivered", lambda page: len(page["items"]) == 3)

        counts = [
            len((await hub.client.get(f"/deliveries?{query}")).json()["items"])
            for query in (
                "", f"event_id={event_a}", f"subscription_id={first['id']}", "state=dead",
                f"event_id={event_a}&subscription_id={first['id']}&state=delivered",
            )
        ]  # fmt: skip
        assert counts == [3, 2, 1, 0, 1]


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/deliveries?stat=dead", "did you mean state?"),
        ("/undelivered?subscription=sub_1", "did you mean subscription_id?"),
        ("/audit?who=ada", "there are actor, action, subject, since, until, cursor, limit"),
    ],
)
async def test_a_filter_that_a_list_does_not_know_is_refused(kept_hub: RunningHub, path: str, hint: str) -> None:
    """Overlooked, it would be answered with everything, as if it had been heard."""
    answer = await kept_hub.client.get(path)

    assert kind(answer) == (400, "application/problem+json", "invalid-parameter")
    assert answer.json()["detail"].endswith(hint)


async def test_pages_follow_each_other_without_gap_or_repeat(running_hub: RunHub, receiver: Receiver) -> None:
    async with running_hub(ALL_ROLES) as hub:
        await hub.subscribe("a", receiver.callback)
        await hub.subscribe("a", receiver.callback)
        for _ in range(3):
            await hub.publish("a")
        await hub.until("/deliveries?state=delivered", lambda page: len(page["items"]) == 6)
        every = [item["id"] for item in (await hub.client.get("/deliveries")).json()["items"]]
        pages, path = [], "/deliveries?limit=4"
        while path:
            answer = await hub.client.get(path)
            pages += [item["id"] for item in answer.json()["items"]]
            path = answer.links.get("next", {}).get("url", "")

        assert (len(set(every)), pages) == (6, every)


async def test_every_attempt_is_on_record(running_hub: RunHub, receiver: Receiver) -> None:
    receiver.status = 500
    async with running_hub(ALL_ROLES) as hub:
        await hub.subscribe("a", receiver.callback, retry_schedule_seconds=[0])
        await hub.publish("a")
        [dead] = (await hub.until("/deliveries?state=dead", lambda page: page["items"]))["items"]
        attempts = (await hub.client.get(f"/deliveries/{dead['id']}/attempts")).json()["items"]

        told = [(a["number"], a["trigger"], a["status"], a["decision"], a["address"]) for a in attempts]
        assert told == [(1, "first", 500, "retry", "127.0.0.1"), (2, "retry", 500, "dead", "127.0.0.1")]
        assert (dead["attempts"], dead["last_status"], dead["detail"].partition(":")[0]) == (2, 500, "exhausted")


@pytest.mark.parametrize(
    "path",
    [
        "/deliveries?event_id=x",
        "/deliveries?event_id=evt_abcdefgh_1",
        "/deliveries?subscription_id=sub_none",
        "/deliveries?subscription_id=%00",
        "/deliveries/x/attempts",
        "/deliveries/dlv_1/attempts",
        "/deliveries/dlv_9223372036854775808_1/attempts",
        "/deliveries/dlv_1_9999999999999999999/attempts",
        "/deliveries/dlv_%D9%A1_1/attempts",
    ],
)
async def test_what_does_not_exist_is_not_found(kept_hub: RunningHub, path: str) -> None:
    answer = await kept_hub.client.get(path)

    assert kind(answer)[::2] == (404, "not-found")


@pytest.mark.parametrize("query", ["state=lost", "limit=-1", "cursor=WzEsMl", "cursor=WzFd", "event_id=" + "e" * 61])
async def test_a_bad_filter_is_refused(kept_hub: RunningHub, query: str) -> None:
    """B-49."""
    answer = await kept_hub.client.get(f"/deliveries?{query}")

    assert kind(answer)[0] == 400


async def test_a_parked_delivery_is_seen_and_decided_about(running_hub: RunHub, receiver: Receiver) -> None:
    """WH-O03: what waits behind it goes on when it is given up; what is done cannot be decided about."""
    receiver.status = 500
    async with running_hub(ALL_ROLES) as hub:
        await hub.subscribe("a", receiver.callback, mode="ordered", retry_schedule_seconds=[])
        first = (await hub.publish("a", b"1", hookwire_key="k")).json()["id"]
        [parked] = (await hub.until("/deliveries?state=parked", lambda page: page["items"]))["items"]
        story = (await hub.client.get(f"/events/{first}")).json()["summary"]
        tried = await hub.client.post(f"/deliveries/{parked['id']}/retry")
        await receiver.wait_for(2)
        await hub.until("/deliveries?state=parked", lambda page: page["items"])
        receiver.status = 204
        await hub.publish("a", b"2", hookwire_key="k")
        given_up = await hub.client.post(f"/deliveries/{parked['id']}/give-up", json={"reason": "no use"})
        await hub.until("/deliveries?state=delivered", lambda page: page["items"])
        again = await hub.client.post(f"/deliveries/{parked['id']}/try", json={})

        assert (story, tried.json()["done"], given_up.json()["done"], kind(again)[::2]) == (
            "1 parked.", "retried", "given_up", (404, "not-found"),
        )  # fmt: skip
        assert [delivered.body for delivered in receiver.delivered] == [b"1", b"1", b"2"]


async def test_a_page_looks_among_so_many_attempts_and_the_next_page_goes_on(running_hub: RunHub) -> None:
    """CN-10: one event was delivered before 8,000 attempts failed; a page does not read all of these."""
    async with running_hub() as hub:
        one = (await hub.subscribe("a", "http://127.0.0.1:9000/"))["id"]
        await hub.sql(
            "INSERT INTO hookwire.attempts (event_id, subscription_id, started_at, number, total_seconds, tenant,"
            " outcome, decision, trigger, worker) SELECT n, s.id, now(), 1, 0.1, 'default', 'timeout',"
            " CASE n WHEN 1 THEN 'delivered' ELSE 'retry' END, 'first', 'w'"
            " FROM generate_series(1, 8001) AS n, hookwire.subscriptions s"
        )
        pages, path = [], f"/deliveries?state=delivered&subscription_id={one}"
        while path:
            answer = await hub.client.get(path)
            pages.append(len(answer.json()["items"]))
            path = answer.links.get("next", {}).get("url", "")

        assert pages == [0, 1]

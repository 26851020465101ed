"""Pull subscriptions: fetched, held, settled, handed out again; and `hookwire listen` on top of them (WH-A07)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.app.cli.test_main import ended, started
from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub
from tests.waiting import lasts

ROLES = ("api", "relay")


class Puller:
    """A pull subscription of a test's own."""

    def __init__(self, hub: RunningHub, identity: str) -> None:
        self.hub = hub
        self.path = f"/subscriptions/{identity}"

    async def ask(self, verb: str, **asked: Any) -> list[dict[str, Any]]:
        answer = await self.hub.client.post(f"{self.path}/{verb}", json=asked)
        assert answer.status_code == 200, answer.text
        return answer.json()["items"]

    async def fetch(self, **asked: Any) -> list[dict[str, Any]]:
        """Whatever is there, once there is something."""
        async with asyncio.timeout(30):
            while not (found := await self.ask("dequeue", wait_seconds=5, **asked)):
                pass
        return found


async def pulling(hub: RunningHub, topic: str = "a", **more: Any) -> Puller:
    answer = await hub.client.post("/subscriptions/pull", json={"topic": topic, **more})
    assert answer.status_code == 201, answer.text
    return Puller(hub, answer.json()["id"])


def bodies(found: list[dict[str, Any]]) -> list[str]:
    return [one["event"]["payload"] for one in found]


def receipts(found: list[dict[str, Any]]) -> list[str]:
    return [one["receipt"] for one in found]


async def test_what_is_fetched_and_acknowledged_is_delivered(running_hub: RunHub) -> None:
    async with running_hub(ROLES) as hub:
        puller = await pulling(hub)
        published = (await hub.publish("a", b'{"n": 1}', content_type="application/json", hookwire_key="k")).json()
        [one] = await puller.fetch()
        done = await puller.ask("ack", receipts=[one["receipt"]])
        again = await puller.ask("ack", receipts=[one["receipt"]])
        deliveries = (await hub.client.get(f"/deliveries?event_id={published['id']}")).json()["items"]

        event = one["event"]
        assert {name: event[name] for name in published} == published
        assert (event["payload"], event["content_type"], one["attempts"]) == ('{"n": 1}', "application/json", 1)
        assert ([item["state"] for item in done + again], [d["state"] for d in deliveries]) == (
            ["done", "stale"],
            ["delivered"],
        )


async def test_what_is_given_back_or_not_settled_in_time_comes_again_under_another_receipt(running_hub: RunHub) -> None:
    """The fence: an old receipt settles nothing once somebody else holds the delivery (WH-I03)."""
    async with running_hub(ROLES) as hub:
        puller = await pulling(hub)
        await hub.publish("a", b"1")
        first = await puller.fetch(lease_seconds=1)
        second = await puller.fetch(lease_seconds=30)
        late = await puller.ask("ack", receipts=receipts(first))
        extended = await puller.ask("extend", receipts=receipts(second), lease_seconds=60)
        await puller.ask("nack", receipts=receipts(second), reason="not now")
        third = await puller.fetch()

        assert (bodies(first), bodies(second), bodies(third)) == (["1"], ["1"], ["1"])
        assert [item["state"] for item in late + extended] == ["stale", "done"]
        assert third[0]["attempts"] == 3


async def test_a_client_that_leaves_takes_nothing_with_it(running_hub: RunHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its poll ends without one more fetch, so that another client need not wait until a lease is over."""
    monkeypatch.setattr("app.web.api.subscribing.pull._POLL_SECONDS", (1, 1))
    async with running_hub(ROLES) as hub:
        puller = await pulling(hub)
        poll = asyncio.create_task(puller.ask("dequeue", wait_seconds=20, lease_seconds=600))
        await lasts(0.3)
        poll.cancel()
        await asyncio.gather(poll, return_exceptions=True)
        await hub.publish("a", b"1")
        await lasts(1.2)

        assert bodies(await puller.fetch()) == ["1"]


async def test_a_key_is_handed_out_in_order_and_other_keys_meanwhile(running_hub: RunHub) -> None:
    """RU-14, WH-O02."""
    async with running_hub(ALL_ROLES) as hub:
        puller = await pulling(hub, ordered=True)
        for body, key in ((b"a1", "a"), (b"a2", "a"), (b"b1", "b")):
            await hub.publish("a", body, hookwire_key=key)
        heads: list[dict[str, Any]] = []
        while len(heads) < 2:
            heads += await puller.fetch()
        await puller.ask("ack", receipts=receipts(heads))
        rest = await puller.fetch()

        assert (sorted(bodies(heads)), bodies(rest)) == (["a1", "b1"], ["a2"])


async def test_what_must_not_come_again_is_a_dead_letter(running_hub: RunHub) -> None:
    """WH-P05, WH-12."""
    async with running_hub(ROLES) as hub:
        puller = await pulling(hub)
        await hub.publish("a", b"bad")
        await hub.publish("a", b"worn")
        await puller.fetch(max=1)
        found = await puller.fetch()
        held = {one["event"]["payload"]: one["receipt"] for one in found}
        await hub.sql("UPDATE hookwire.deliveries SET attempts = 20")
        letters = [await puller.ask("nack", receipts=list(held.values()), dead=True)]
        await hub.sql("UPDATE hookwire.deliveries SET due_at = now()")
        nothing = await puller.ask("dequeue")
        kinds = await hub.sql("SELECT kind FROM hookwire.dead_letters ORDER BY kind")

        assert (len(letters[0]), nothing, kinds) == (len(held), [], [("aborted",), ("exhausted",)])


async def test_receipts_of_another_subscription_and_nonsense_are_stale(running_hub: RunHub) -> None:
    async with running_hub(ROLES) as hub:
        mine, other = await pulling(hub), await pulling(hub)
        await hub.publish("a", b"1")
        [theirs] = await other.fetch()
        answered = await mine.ask("ack", receipts=[theirs["receipt"], "x", "rcp_1_1_" + "9" * 19])
        still = await other.ask("ack", receipts=[theirs["receipt"]])

        assert [item["state"] for item in answered + still] == ["stale", "stale", "stale", "done"]


async def test_workers_leave_pull_subscriptions_alone_and_webhooks_are_not_fetched(
    running_hub: RunHub, receiver: Receiver
) -> None:
    async with running_hub(ALL_ROLES) as hub:
        puller = await pulling(hub, filter={"data": {"n": {"$gt": 1}}})
        pushed = await hub.subscribe("a", receiver.callback)
        await hub.publish("a", b'{"n": 1}')
        await hub.publish("a", b'{"n": 2}')
        await receiver.wait_for(2)
        found = await puller.fetch()
        refused = await hub.client.post(f"/subscriptions/{pushed['id']}/dequeue", json={})

        assert (bodies(found), [one["attempts"] for one in found], refused.status_code) == (['{"n": 2}'], [1], 404)


async def test_one_that_nobody_asks_ends_by_itself(running_hub: RunHub) -> None:
    async with running_hub(ROLES) as hub:
        puller = await pulling(hub, lifetime_seconds=60)
        await hub.sql("UPDATE hookwire.subscriptions SET lease_until = now() - interval '1 second'")
        await hub.publish("a", b"1")
        await hub.until("/topics", lambda answer: answer["items"] != [])

        assert await puller.ask("dequeue") == []


async def test_nobody_publishes_to_the_hubs_own_topics(running_hub: RunHub) -> None:
    """WH-A09: neither by HTTP nor by SQL."""
    async with running_hub() as hub:
        by_http = await hub.publish("hookwire.subscription.disabled")
        near = await hub.publish("hookwires")
        try:
            await hub.sql("SELECT hookwire.publish('hookwire.x', 'text'::text)")
            by_sql = "stored"
        except Exception as error:  # noqa: BLE001 - whatever the driver calls it
            by_sql = str(error)

        assert (by_http.status_code, near.status_code, "the hub's own" in by_sql) == (422, 202, True)


async def test_listen_prints_forwards_repeats_and_ends_its_subscription(
    running_hub: RunHub, receiver: Receiver
) -> None:
    """The whole command, as a process: a local port that fails first gets the event again."""
    receiver.status = 500
    async with running_hub(ROLES) as hub:
        words = ("listen", "orders.#", "--forward", receiver.callback, "--count", "1", "--json", "--url", hub.url)
        async with started(*words) as process:
            await hub.until("/subscriptions", lambda answer: answer["items"] != [])
            await hub.publish("orders.new", b'{"n": 1}')
            await receiver.wait_for(1)
            receiver.status = 204
            await receiver.wait_for(2)
            finished = await ended(process)
        left = (await hub.client.get("/subscriptions")).json()["items"]

        lines = [json.loads(line)["payload"] for line in finished.stdout.splitlines()]
        assert (finished.code, lines, left) == (0, ['{"n": 1}', '{"n": 1}'], []), finished.stderr
        assert [one.body for one in receiver.delivered] == [b'{"n": 1}'] * 2

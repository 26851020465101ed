"""/rabbithub over HTTP: the scenarios of RabbitHub's own regression scripts, against a whole hub."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.app.conftest import ALL_ROLES, RunHub, RunningHub
from tests.hub.callback import Callbacks, answers, serve_callbacks
from tests.waiting import until

X = "/rabbithub/endpoint/x"
Q = "/rabbithub/endpoint/q"


def form(callbacks: Callbacks, topic: str = "#", path: str = "/cb", **more: str) -> dict[str, str]:
    given = {"mode": "subscribe", "callback": callbacks.url(path), "topic": topic, "verify": "sync", **more}
    return {f"hub.{name}": value for name, value in given.items()}


async def statuses(*answers_: Any) -> list[int]:
    return [(await answer).status_code for answer in answers_]


async def exchange(hub: RunningHub, name: str, exchange_type: str) -> None:
    answer = await hub.client.put(f"{X}/{name}", params={"amqp.exchange_type": exchange_type})
    assert answer.status_code == 201, answer.text


async def test_resources_are_made_described_and_deleted(running_hub: RunHub) -> None:
    """RH-01, RH-02, RH-03, RH-04, RH-05, RH-13, RD-04, RD-08: names are percent-decoded; a virtual host is its own."""
    async with running_hub() as hub:
        put, get, delete = hub.client.put, hub.client.get, hub.client.delete
        made = await put(f"{X}/a%2Fb")
        queue = await put(f"{Q}/")
        found = await statuses(
            put(f"{X}/a%2Fb"), put(f"{X}/a%2Fb?amqp.exchange_type=topic"), put(f"{X}/b?amqp.exchange_type=odd"),
            put(f"{Q}/amq.mine"), put("/rabbithub/v%2Fh/endpoint/x/a%2Fb"), put(f"{Q}/q"), put(f"{Q}/q"),
            get(f"{X}/a%2Fb"), get("/rabbithub/other/endpoint/x/a%2Fb"), delete(f"{X}/"), delete(f"{X}/a%2Fb"),
            delete(f"{X}/a%2Fb"), delete(f"{Q}/q"), get("/rabbithub/v%2Fh/subscribe/x/a%2Fb"),
        )  # fmt: skip

        assert (made.status_code, made.headers["location"]) == (201, f"{hub.url}{X}/a%2Fb")
        assert queue.headers["location"].startswith(f"{hub.url}{Q}/amq.gen.http-")
        assert found == [204, 409, 400, 400, 201, 201, 204, 200, 404, 403, 204, 404, 204, 200]


async def test_an_address_with_a_line_break_is_answered_in_rabbithub_s_words(running_hub: RunHub) -> None:
    """A name cannot hold one, because it stands in headers; found by `make fuzz`."""
    async with running_hub() as hub:
        answers = [await hub.client.put(f"{X}/a%0Ab"), await hub.client.delete("/rabbithub/subscribe/%1F%0Ax/n")]

        assert [(answer.status_code, answer.headers["content-type"]) for answer in answers] == [
            (400, "text/plain; charset=utf-8"), (404, "text/plain; charset=utf-8"),
        ]  # fmt: skip


async def test_a_resource_tells_what_can_be_done_with_it(running_hub: RunHub) -> None:
    """RH-13: XML, or JSON for who prefers it; names are escaped."""
    async with running_hub() as hub:
        await hub.client.put(f"{X}/%3Ca%22", params={"amqp.exchange_type": "topic"})
        xml = await hub.client.get(f"{X}/%3Ca%22")
        as_json = (await hub.client.get(f"{X}/%3Ca%22", headers={"Accept": "application/json"})).json()

        assert (xml.headers["content-type"].split(";")[0], '<application name=\'&lt;a"\'' in xml.text) == (
            "application/xml", True,
        )  # fmt: skip
        assert (as_json["class"], as_json["type"], sorted(as_json["facets"])) == (
            "amqp.exchange", "topic", ["endpoint", "subscribe"],
        )  # fmt: skip


@pytest.mark.parametrize(
    ("exchange_type", "topic", "key", "headers", "arrives"),
    [
        ("direct", "k", "k", "", True),
        ("direct", "k", "other", "", False),
        ("fanout", "k", "other", "", True),
        ("topic", "eu.*.#", "eu.orders.new", "", True),
        ("topic", "eu.*", "us.orders", "", False),
        ("headers", "x-match=all, colour=red, size=l", "k", 'colour=red, size="l"', True),
        ("headers", "x-match=all, colour=red, size=l", "k", "colour=red", False),
        ("headers", "x-match=any, colour=red, size=l", "k", "colour=red", True),
    ],
)
async def test_exchanges_route_as_their_type_says(
    running_hub: RunHub, exchange_type: str, topic: str, key: str, headers: str, arrives: bool
) -> None:
    """RH-06, RH-09, RH-25, RH-38, RH-39, RH-40, RD-12: a sentinel on everything is delivered in any case."""
    async with running_hub(roles=ALL_ROLES) as hub, serve_callbacks() as callbacks:
        await exchange(hub, "e", exchange_type)
        sentinel = {"direct": key, "headers": "", "fanout": "any"}.get(exchange_type, "#") or "x-match=all"
        for path, bound in (("/cb", topic), ("/sentinel", sentinel)):
            answer = await hub.client.post("/rabbithub/subscribe/x/e", data=form(callbacks, bound, path))
            assert answer.status_code == 204, answer.text
        published = await hub.client.post(
            f"{X}/e", params={"hub.topic": key}, content=b"\x00m", headers={"X-Rabbithub-Msg_header": headers}
        )
        posts = await callbacks.wait_for_posts(2 if arrives else 1)

        sent = {target: (about, body) for target, about, body in posts}
        about, body = sent[f"/sentinel?hub.topic={key}"]
        assert (published.status_code, body, f"/cb?hub.topic={key}" in sent) == (202, b"\x00m", arrives)
        assert about["link"] == f'<{hub.url}/hub>; rel="hub", <{hub.url}/rabbithub/subscribe/x/e>; rel="self"'
        assert {name: about.get(name) for name in ("content-type", "x-amqp-exchange", "x-amqp-routing-key")} == {
            "content-type": "application/octet-stream", "x-amqp-exchange": "e", "x-amqp-routing-key": key,
        }  # fmt: skip
        assert ("colour" in about, about["x-amqp-redelivered"]) == (bool(headers), "false")


async def test_a_queue_keeps_its_messages_and_shares_them_out(running_hub: RunHub) -> None:
    """RH-07, RH-08, RH-26, RH-27, RH-39: published before anybody consumes; each to one of two; none lost."""
    async with running_hub(roles=ALL_ROLES) as hub, serve_callbacks() as callbacks:
        await hub.client.put(f"{Q}/q")
        sent = [b"%d" % number for number in range(12)]
        found = await statuses(
            *(hub.client.post(f"{Q}/q", params={"hub.persistmsg": n % 2}, content=body) for n, body in enumerate(sent))
        )
        for path in ("/one", "/two"):
            await hub.client.post("/rabbithub/subscribe/q/q", data=form(callbacks, "t", path))
        posts = await callbacks.wait_for_posts(12)

        assert (found, sorted(body for _, _, body in posts)) == ([202] * 12, sorted(sent))
        assert {target for target, _, _ in posts} == {"/one?hub.topic=", "/two?hub.topic="}
        assert {(about["x-amqp-queue"], about["x-amqp-redelivered"]) for _, about, _ in posts} == {("q", "false")}


async def test_what_an_ended_consumer_held_goes_to_another(running_hub: RunHub) -> None:
    """RH-29, RH-31, RH-41, RD-10, RD-11: a failure ends nothing, and nothing is lost when its consumer goes."""
    async with running_hub(roles=ALL_ROLES) as hub, serve_callbacks() as callbacks:
        callbacks.script["/bad?hub.topic="] = answers(500)
        await hub.client.put(f"{Q}/q")
        await hub.client.post("/rabbithub/subscribe/q/q", data=form(callbacks, "t", "/bad"))
        await hub.client.post(f"{Q}/q", content=b"m")
        await callbacks.wait_for_posts(1)
        status = (await hub.client.get("/rabbithub/subscriptions")).json()["subscriptions"][0]["status"]
        gone = await hub.client.post("/rabbithub/subscribe/q/q", data=form(callbacks, "t", "/bad", mode="unsubscribe"))
        await hub.client.post("/rabbithub/subscribe/q/q", data=form(callbacks, "t", "/good"))
        posts = await callbacks.wait_for_posts(2)

        assert (status, gone.status_code, posts[-1][0], posts[-1][2]) == ("active", 204, "/good?hub.topic=", b"m")


async def test_the_subscriptions_of_a_queue_cannot_take_its_messages_along(running_hub: RunHub) -> None:
    """RH-26, RH-29: by the hub's own API too; the one that keeps them goes with the queue only."""
    async with running_hub(roles=ALL_ROLES) as hub, serve_callbacks() as callbacks:
        callbacks.script["/bad?hub.topic="] = answers(500)
        await hub.client.put(f"{Q}/q")
        await hub.client.post("/rabbithub/subscribe/q/q", data=form(callbacks, "t", "/bad"))
        await hub.client.post(f"{Q}/q", content=b"m")
        await callbacks.wait_for_posts(1)
        listed = (await hub.client.get("/subscriptions")).json()["items"]
        by_protocol = {one["protocol"]: f"/subscriptions/{one['id']}" for one in listed}
        deleted = await statuses(*(hub.client.delete(by_protocol[name]) for name in ("pull", "rabbithub")))
        await hub.client.post("/rabbithub/subscribe/q/q", data=form(callbacks, "t", "/good"))
        posts = await callbacks.wait_for_posts(2)

        assert (deleted, posts[-1][0], posts[-1][2]) == ([400, 204], "/good?hub.topic=", b"m")


async def test_the_key_of_a_subscription_can_be_looked_at(running_hub: RunHub) -> None:
    """WH-S17: a hub.secret is text of any kind."""
    async with running_hub(roles=ALL_ROLES) as hub, serve_callbacks() as callbacks:
        await exchange(hub, "e", "topic")
        await hub.client.post("/rabbithub/subscribe/x/e", data=form(callbacks, secret="s"))
        [made] = (await hub.client.get("/subscriptions")).json()["items"]
        keys = await hub.client.get(f"/subscriptions/{made['id']}/keys")

        assert (keys.status_code, [key["type"] for key in keys.json()["items"]]) == (200, ["hmac"])


async def test_a_subscription_is_listed_made_inactive_and_active_again_and_deleted(running_hub: RunHub) -> None:
    """RH-19, RH-22, RH-23, RH-24, RH-28, RH-29, RH-32, RH-34, RH-36, RH-46, RH-47, RH-48, RD-14, RD-22."""
    async with running_hub() as hub, serve_callbacks() as callbacks:
        await exchange(hub, "e", "topic")
        path, pair = "/rabbithub/subscribe/x/e", {"hub.callback": callbacks.url(), "hub.topic": "#"}
        one = "/rabbithub/subscriptions/x/e"
        more = {"app_name": "shop", "email": "a@b.example", "max_tps": "5", "ha_mode": "all", "lease_seconds": "x"}
        made = await hub.client.post(path, data=form(callbacks, **more))
        shown = (await hub.client.get(one, params=pair)).json()
        soon = (await hub.client.get("/rabbithub/subscriptions?hub.expires=1")).json()
        states = []
        for mode in ("unsubscribe", "subscribe"):
            await hub.client.post(path, data=form(callbacks, mode=mode))
            states.append((await hub.client.get(one, params=pair)).json()["status"])
        ends = await statuses(
            hub.client.get(one), hub.client.delete(path, params=pair), hub.client.delete(path, params=pair),
            hub.client.get(one, params=pair), hub.client.get("/rabbithub/subscriptions/x/none", params=pair),
        )  # fmt: skip

        assert (made.status_code, made.json()["consumers"][0]["status"]) == (201, "ok")
        shown.pop("lease_expiry_time_microsec")
        shown.pop("id")
        assert shown == {
            "vhost": "/", "resource_type": "exchange", "resource_name": "e", "topic": "#", "callback": callbacks.url(),
            "lease_seconds": 2_592_000, "ha_mode": "all", "status": "active", "max_tps": 5,
            "contact": {"app_name": "shop", "email": "a@b.example"}, "outbound_auth": {},
        }  # fmt: skip
        assert (soon, states, ends) == ({"subscriptions": []}, ["inactive", "active"], [400, 200, 404, 404, 404])


async def test_an_ended_lease_makes_it_inactive_and_nothing_is_sent(running_hub: RunHub) -> None:
    """RH-28, WS-48: kept, to be activated again."""
    async with running_hub(roles=ALL_ROLES) as hub, serve_callbacks() as callbacks:
        await exchange(hub, "e", "fanout")
        for path in ("/cb", "/sentinel"):
            await hub.client.post("/rabbithub/subscribe/x/e", data=form(callbacks, path=path))
        await hub.sql("UPDATE hookwire.subscriptions SET lease_until = now() WHERE callback LIKE '%/cb'")
        await hub.until(
            "/rabbithub/subscriptions", lambda a: [s["status"] for s in a["subscriptions"]] == ["inactive", "active"]
        )
        await hub.client.post(f"{X}/e", content=b"m")
        posts = await callbacks.wait_for_posts(1)

        assert [target for target, _, _ in posts] == ["/sentinel?hub.topic="]


async def test_json_subscribes_as_a_form_does(running_hub: RunHub) -> None:
    """RH-20, RD-02: also async, and with a contact."""
    async with running_hub() as hub, serve_callbacks() as callbacks:
        await exchange(hub, "e", "topic")
        wish = {"callback": callbacks.url(), "topic": "a", "mode": "subscribe", "verify": "async", "lease_seconds": 120}
        answer = await hub.client.post(
            "/rabbithub/subscribe/x/e", json={"hub": {**wish, "contact": {"app_name": "shop"}, "max_tps": 3}}
        )
        shown = await hub.until("/rabbithub/subscriptions", lambda found: found["subscriptions"])

        (found,) = shown["subscriptions"]
        assert (answer.status_code, found["lease_seconds"], found["ha_mode"], found["contact"]) == (
            202, 120, "none", {"app_name": "shop"},
        )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"hub.callback": ""}, "hub.callback"),
        ({"hub.mode": "publish"}, "hub.mode"),
        ({"hub.verify": ""}, "hub.verify"),
        ({"hub.verify": "odd"}, "hub.verify"),
        ({"hub.email": "a@b.example"}, "hub.app_name"),
        ({"hub.app_name": "shop", "hub.description": "x" * 1_001}, "hub.description has more than 1000 characters"),
        ({"hub.max_tps": "x"}, "hub.max_tps"),
        ({"hub.topic": "#.a.#.b.#.c.#"}, "hub.topic"),
    ],
)
async def test_a_bad_request_names_what_is_wrong_and_changes_nothing(
    shared_hub: RunHub, topic: str, changes: dict[str, str], text: str
) -> None:
    """RH-19, RH-21, RH-25, RH-34."""
    async with shared_hub() as hub, serve_callbacks() as callbacks:
        await exchange(hub, topic, "topic")
        answer = await hub.client.post(f"/rabbithub/subscribe/x/{topic}", data=form(callbacks) | changes)

        assert (answer.status_code, answer.text.startswith(text), callbacks.targets) == (400, True, [])


async def test_other_wrong_requests_have_their_codes(running_hub: RunHub) -> None:
    """RH-05, RH-06, RH-09, RH-19, RH-20, RH-48, RH-57, RD-04."""
    async with running_hub(event_bytes_max=1000) as hub, serve_callbacks() as callbacks:
        client, subscribe = hub.client, "/rabbithub/subscribe/x/e"
        await exchange(hub, "e", "topic")
        callbacks.script["/404"] = answers(404)
        typed = {"Content-Type": "application/json"}
        found = await statuses(
            client.post(f"{X}/none", content=b"m"), client.post("/rabbithub/subscribe/q/none", data=form(callbacks)),
            client.post(subscribe, data=form(callbacks, path="/404")),
            client.post(subscribe, content=b"{", headers=typed),
            client.post(subscribe, content=b'{"hub": 1}', headers=typed), client.post(f"{X}/e", content=b"m" * 1001),
            client.post(subscribe, content=b"x", headers={"Content-Type": "text/plain"}),
            client.post(f"{X}/e", content=b"m", headers={"X-Rabbithub-Msg_header": "nonsense"}),
            client.get(f"{X}/e?hub.mode=odd"), client.put(subscribe), client.patch(f"{X}/e"),
            client.get("/rabbithub/nothing"), client.get("/rabbithub/endpoint/z/e"),
            client.get("/rabbithub/subscriptions?hub.expires=x"), client.post(f"{X}/e?hub.topic=%00", content=b"m"),
            client.post(f"{X}/e?hub.topic={'k' * 300}", content=b"m"), client.get(f"{X}/e?{'a&' * 100}"),
        )  # fmt: skip

        assert found == [404, 404, 400, 400, 400, 413, 415, 400, 400, 405, 405, 404, 404, 400, 400, 400, 400]


async def test_a_resource_can_be_subscribed_to_another_hub_by_its_token(running_hub: RunHub) -> None:
    """RH-15, RH-16, RH-17: right for this resource and this use only."""
    async with running_hub() as hub:
        await exchange(hub, "e", "fanout")
        await exchange(hub, "other", "fanout")
        asked = {"hub.mode": "generate_token", "hub.intended_use": "subscribe", "rabbithub.data": "x"}
        made = await hub.client.get(f"{X}/e", params=asked)
        token = httpx.QueryParams(made.text)["hub.verify_token"]
        given = {"hub.mode": "subscribe", "hub.verify_token": token, "hub.challenge": "c&1"}
        right = await hub.client.get(f"{X}/e", params=given)
        wrong = await statuses(
            hub.client.get(f"{X}/other", params=given),
            hub.client.get(f"{X}/e", params={**given, "hub.mode": "unsubscribe"}),
            hub.client.get(f"{X}/e", params={**given, "hub.verify_token": token[:-3] + "AAA"}),
            hub.client.get(f"{X}/e", params={**given, "hub.verify_token": "\u00fc.x"}),
            hub.client.get(f"{X}/e", params={**asked, "hub.intended_use": "odd"}),
        )

        assert (made.headers["content-type"].split(";")[0], right.status_code, right.text) == (
            "application/x-www-form-urlencoded", 200, "c&1",
        )  # fmt: skip
        assert wrong == [400] * 5


async def test_a_correlation_id_and_the_message_s_headers_go_along(running_hub: RunHub) -> None:
    """RH-09, RH-11, RH-12: returned and forwarded."""
    async with running_hub(roles=ALL_ROLES) as hub, serve_callbacks() as callbacks:
        await exchange(hub, "e", "fanout")
        await hub.client.post("/rabbithub/subscribe/x/e", data=form(callbacks))
        published = await hub.client.post(
            f"{X}/e?set_correlation_id=X-Trace", content=b"", headers={"X-Trace": "7", "Content-Type": "text/x; a=b"}
        )
        ((_, about, body),) = await callbacks.wait_for_posts(1)

        assert (published.headers["x-trace"], about["x-trace"], about["content-type"], body) == (
            "7", "7", "text/x; a=b", b"",
        )  # fmt: skip


async def test_a_deleted_queue_takes_its_messages_and_subscriptions_along(
    running_hub: RunHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RH-05: unless it was to be empty; messages in batches, since there may be millions."""
    monkeypatch.setattr("hub.rabbithub.resource._BATCH_ROWS", 2)
    async with running_hub(roles=ALL_ROLES) as hub:
        await hub.client.put(f"{Q}/q")
        for _ in range(5):
            await hub.client.post(f"{Q}/q", content=b"m")
        await until(lambda: hub.sql("SELECT 1 FROM hookwire.deliveries HAVING count(*) = 5"))
        kept = await hub.client.delete(f"{Q}/q?if-empty")
        gone = await hub.client.delete(f"{Q}/q")

        assert (kept.status_code, gone.status_code, await hub.sql("SELECT 1 FROM hookwire.deliveries")) == (
            409,
            204,
            [],
        )

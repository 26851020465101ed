"""/foreign-topics and /hub/pairs; and the whole way of a foreign topic: subscribe, ping, delivery."""

from __future__ import annotations

import asyncio
import hmac
from urllib.parse import parse_qs

import pytest

from tests.app.conftest import ALL_ROLES, RunHub, RunningHub
from tests.app.web.publishing.test_ingest import kind
from tests.hub.callback import answers, serve_callbacks
from tests.hub.publisher import Page, serve_topics

URL = "https://blog.example/feed"


async def test_a_topic_is_registered_and_its_options_changed_one_by_one(running_hub: RunHub) -> None:
    """WS-52, WS-79, WS-82."""
    async with running_hub(websub_foreign_topics="registered") as hub:
        form = {"hub.mode": "subscribe", "hub.topic": URL, "hub.callback": "http://cb.example/"}
        before = await hub.client.post("/hub", data=form)
        first = await hub.client.put("/foreign-topics", json={"url": URL, "feed_diff": True})
        second = await hub.client.put("/foreign-topics", json={"url": URL, "always_deliver": True})
        after = await hub.client.post("/hub", data=form)
        listed = (await hub.client.get("/foreign-topics")).json()["items"]

        assert (before.status_code, first.status_code, after.status_code) == (404, 200, 202)
        assert [(t["url"], t["feed_diff"], t["always_deliver"]) for t in listed] == [(URL, True, True)]
        assert second.json() == listed[0]


async def test_a_foreign_topic_goes_to_the_sinks_that_it_is_given(running_hub: RunHub) -> None:
    """FM-04: webhooks alone unless somebody says otherwise; an upstream's likewise; what is left out stays."""
    async with running_hub(websub_foreign_topics="any") as hub:
        urls = [f"{URL}/{name}" for name in ("plain", "kafka", "upstream")]
        answers = [
            await hub.client.put("/foreign-topics", json={"url": urls[0]}),
            await hub.client.put("/foreign-topics", json={"url": urls[1], "sinks": ["kafka", "webhooks"]}),
            await hub.client.put("/foreign-topics", json={"url": urls[1], "feed_diff": True}),
            await hub.client.put("/upstreams", json={"url": urls[2], "sinks": ["amqp"]}),
            await hub.client.put("/foreign-topics", json={"url": urls[1], "sinks": ["odd"]}),
        ]
        listed = {t["url"]: t["sinks"] for t in (await hub.client.get("/foreign-topics")).json()["items"]}
        (upstream,) = (await hub.client.get("/upstreams")).json()["items"]

    assert [answer.status_code for answer in answers] == [200, 200, 200, 202, 400]
    assert (listed, upstream["sinks"]) == (
        {urls[0]: ["webhooks"], urls[1]: ["kafka", "webhooks"], urls[2]: ["amqp"]}, ["amqp"],
    )  # fmt: skip


@pytest.mark.parametrize("url", ["", "ftp://x/", "http://192.168.0.1/", "http://u:p@x.example/"])
async def test_what_cannot_be_fetched_cannot_be_registered(kept_hub: RunningHub, url: str) -> None:
    """WS-21, WS-100."""
    answer = await kept_hub.client.put("/foreign-topics", json={"url": url})
    ours = await kept_hub.client.put("/foreign-topics", json={"url": f"{kept_hub.url}/topics/a"})

    assert kind(answer) == kind(ours) == (400, "application/problem+json", "invalid-parameter")


async def test_a_ping_brings_a_foreign_topic_s_content_to_its_subscriber(running_hub: RunHub) -> None:
    """WS-06, WS-26, WS-50, WS-53, WS-54, WS-65, WS-76, UD-12: through verification, fetch, fan-out and delivery."""
    async with (
        running_hub(ALL_ROLES, websub_foreign_topics="any") as hub,
        serve_topics() as publisher,
        serve_callbacks() as callbacks,
    ):
        publisher.pages["/feed"] = Page(b"v1", "text/html; charset=UTF-8", headers="Link: <http://h/>; rel=hub\r\n")
        pair = {"topic": publisher.url(), "callback": callbacks.url("/cb?k=%2f")}
        form = {"hub.topic": pair["topic"], "hub.callback": pair["callback"], "hub.secret": "s3cr3t"}
        path = str(hub.client.build_request("GET", "/hub/pairs", params=pair).url)
        before = (await hub.client.get(path)).json()["standing"]
        await hub.client.post("/hub", data={**form, "hub.mode": "subscribe"})
        await hub.until(path, lambda answer: answer["standing"] == "active")
        answer = await hub.client.post("/hub", data={"hub.mode": "publish", "hub.url": publisher.url()})
        ((target, headers, body),) = await callbacks.wait_for_posts(1)

        assert (before, answer.status_code, target, body) == ("none", 204, "/cb?k=%2f", b"v1")
        assert {name: headers[name] for name in ("content-type", "link", "x-hub-signature")} == {
            "content-type": "text/html; charset=UTF-8",
            "link": f'<http://h/>; rel="hub", <{publisher.url()}>; rel="self"',
            "x-hub-signature": f"sha256={hmac.digest(b's3cr3t', b'v1', 'sha256').hex()}",
        }


async def test_other_hubs_are_told_that_a_topic_hosted_here_has_changed(running_hub: RunHub) -> None:
    """WS-74: after each change, by deliveries like all others, which are repeated until the other hub has taken it."""
    async with running_hub(roles=ALL_ROLES, retry_schedule_seconds=(0,)) as hub, serve_callbacks() as callbacks:

        async def refuses_once(writer: asyncio.StreamWriter, challenge: bytes) -> None:
            await answers(503 if len(callbacks.posted) == 1 else 204)(writer, challenge)

        callbacks.script["/hub"] = refuses_once
        made = await hub.subscribe("orders", callbacks.url("/hub"), format="websub_ping")
        await hub.publish("orders", b"1")
        posts = await callbacks.wait_for_posts(2)
        ping = parse_qs(posts[0][2].decode())
        content = await hub.client.get(ping["hub.url"][0])

        assert (made["format"], ping) == (
            "websub_ping", {"hub.mode": ["publish"], "hub.url": [f"{hub.url}/topics/orders"]},
        )  # fmt: skip
        assert ([body for _, _, body in posts], content.content) == ([posts[0][2]] * 2, b"1")


async def test_an_upstream_shows_what_was_given_by_hand_and_whether_it_is_quiet(running_hub: RunHub) -> None:
    """GW-06: neither could be given, and a silent publisher looked well for ever."""
    given = {"hub_url": "https://hub.example/hub", "topic_url": "https://blog.example/feed.xml"}
    async with running_hub() as hub:
        answer = await hub.client.put("/upstreams", json={"url": "https://blog.example/feed", **given})
        wrong = await hub.client.put("/upstreams", json={"url": "https://blog.example/feed", "hub_url": "hub"})
        await hub.sql("UPDATE hookwire.upstreams SET state = 'active', created_at = now() - interval '2 days'")
        items = (await hub.client.get("/upstreams")).json()["items"]

    assert (answer.status_code, wrong.status_code, wrong.json().get("parameter")) == (202, 400, "hub_url")
    assert [(one["given_hub_url"], one["given_topic_url"], one["received_at"], one["is_quiet"]) for one in items] == [
        (*given.values(), None, True)
    ]

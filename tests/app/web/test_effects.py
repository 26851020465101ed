"""Calls that are accepted and change nothing say so."""

from __future__ import annotations

from typing import Any

from tests.app.conftest import RunHub, RunningHub
from tests.app.web.test_jobs import claim_one, enqueue

FEED = "https://news.example/feed"
FORM = {"content-type": "application/x-www-form-urlencoded"}


async def ping(hub: RunningHub, url: str) -> tuple[int, str]:
    answer = await hub.client.post("/hub", data={"hub.mode": "publish", "hub.url": url}, headers=FORM)
    return answer.status_code, answer.headers.get("hookwire-notice", "")


async def notice(hub: RunningHub, method: str, path: str, **body: Any) -> tuple[int, str]:
    answer = await hub.client.request(method, path, json=body or {})
    return answer.status_code, answer.headers.get("hookwire-notice", "")


async def counted(hub: RunningHub, call: str) -> str:
    line = f'hookwire_calls_without_effect_total{{call="{call}"}} '
    text = (await hub.client.get("/metrics")).text
    return next((one.removeprefix(line) for one in text.splitlines() if one.startswith(line)), "0.0")


async def test_a_ping_of_a_url_that_nobody_follows_names_the_near_misses(running_hub: RunHub) -> None:
    """GW-09: a slash, https or the host's name was wrong, and no word was said anywhere."""
    async with running_hub(websub_foreign_topics="any") as hub:
        await hub.client.put("/foreign-topics", json={"url": FEED})
        known = await ping(hub, FEED)
        near = [
            await ping(hub, url)
            for url in (f"{FEED}/", FEED.replace("https", "http"), FEED.replace("news", "www.news"), f"{FEED}?a=1")
        ]
        far = await ping(hub, "https://other.example/feed")
        hosted = await ping(hub, f"{hub.client.base_url}/topics/orders")
        count = await counted(hub, "ping")

    assert known == (204, "")
    assert {(status, text.partition("; ")[2]) for status, text in near} == {(204, f"did you mean {FEED}?")}
    assert far == (204, "nobody has subscribed to https://other.example/feed")
    assert (hosted[0], "is a topic of this hub: publish to it" in hosted[1], count) == (204, True, "6.0")


async def test_a_release_by_a_stale_receipt_says_that_nothing_was_changed(running_hub: RunHub) -> None:
    """GW-09."""
    async with running_hub() as hub:
        job = await enqueue(hub)
        receipt = (await claim_one(hub))["receipt"]
        told = [await notice(hub, "POST", f"/jobs/{job}/release", receipt=receipt) for _ in range(2)]
        count = await counted(hub, "release")

    assert (told[0], told[1][0], "is over; nothing was changed" in told[1][1], count) == ((204, ""), 204, True, "1.0")


async def test_what_is_so_already_is_told(running_hub: RunHub) -> None:
    """GW-09: a pause of what is paused, the end of what is not, an unknown request."""
    async with running_hub() as hub:
        await hub.client.put("/queues/mail", json={})
        await hub.client.put("/services/echo", json={})
        paths = ("/queues/mail/pause", "/queues/mail/resume", "/services/echo/disable", "/services/echo/enable",
                 "/job-kinds/k/pause", "/job-kinds/k/resume")  # fmt: skip
        told = {path: [await notice(hub, "POST", path) for _ in range(2)] for path in paths}
        closed = await notice(hub, "DELETE", f"/requests/{'0' * 32}")

    assert {path: first for path, (first, _) in told.items()} == dict.fromkeys(paths, (204, ""))
    assert [second for _, second in told.values()] == [
        (204, "the queue mail was paused already"), (204, "the queue mail was not paused"),
        (204, "the service echo was disabled already"), (204, "the service echo was not disabled"),
        (204, "the kind k was paused already"), (204, "the kind k was not paused"),
    ]  # fmt: skip
    assert closed == (204, "there is no such request; nothing was changed")


async def test_a_reply_that_is_repeated_with_another_body_is_refused(running_hub: RunHub) -> None:
    """GW-09: it was answered 204, and dropped."""
    async with running_hub() as hub:
        await hub.client.post("/services/echo", content=b"ask", headers={"prefer": "respond-async"})
        [held] = (await hub.client.post("/services/echo/claim", json={})).json()["items"]
        request = held["receipt"].split("_")[1]
        headers = {"hookwire-receipt": held["receipt"], "content-type": "text/plain"}
        statuses = [
            (await hub.client.post(f"/requests/{request}/reply", content=body, headers=headers)).status_code
            for body in (b"yes", b"yes", b"no")
        ]
        stored = (await hub.client.get(f"/requests/{request}")).content

    assert (statuses, stored) == ([204, 204, 409], b"yes")


async def test_an_event_that_a_default_topic_of_kafka_cannot_take_is_accepted_with_a_notice(
    running_hub: RunHub,
) -> None:
    """GW-12: with all defaults it was accepted, and held for ever."""
    notices = {}
    async with running_hub(kafka_bootstrap_servers="127.0.0.1:1") as hub:
        for size in (1_048_576, 1_040_000):
            answer = await hub.client.post("/topics/orders/events", content=b"x" * size)
            notices[size] = (answer.status_code, "max.message.bytes" in answer.headers.get("hookwire-notice", ""))

    assert notices == {1_048_576: (202, True), 1_040_000: (202, False)}

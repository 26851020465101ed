"""What a user and an operator are told: FT-07, FT-10, FT-12."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.app.conftest import ALL_ROLES, Receiver, RunHub
from tests.waiting import until

HOOKWIRE = Path(sys.executable).with_name("hookwire")


async def test_a_listen_that_is_terminated_ends_its_subscription(running_hub: RunHub) -> None:
    """FT-07: by SIGTERM as by Ctrl-C, while it holds an event."""
    async with running_hub(ALL_ROLES) as hub:
        process = await asyncio.create_subprocess_exec(
            str(HOOKWIRE), "listen", "a", "--forward", "http://127.0.0.1:65534/", "--url", hub.url,
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        await hub.until("/subscriptions", lambda page: page["items"])
        await hub.publish("a", b"1" * 9)
        await hub.until("/deliveries", lambda page: page["items"] and page["items"][0]["attempts"])
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            code = await process.wait()
        subscriptions = (await hub.client.get("/subscriptions")).json()["items"]
        dead = (await hub.client.get("/deliveries?state=dead")).json()["items"]

        assert (code, subscriptions, dead) == (143, [], [])


@pytest.mark.parametrize(("on_end", "letters"), [("drop", 0), ("dead_letters", 1)])
async def test_what_a_pull_subscription_is_owed_at_its_end_is_dropped_where_it_says_so(
    running_hub: RunHub, on_end: str, letters: int
) -> None:
    """FT-07: somebody who only looked leaves nothing that operators have to care about."""
    async with running_hub(ALL_ROLES) as hub:
        made = (await hub.client.post("/subscriptions/pull", json={"topic": "a", "on_end": on_end})).json()
        await hub.publish("a")
        await hub.until("/deliveries", lambda page: page["items"])
        await hub.client.delete(f"/subscriptions/{made['id']}")

        left = (await hub.client.get("/deliveries")).json()["items"]
        kept = (await hub.client.get("/dead-letters?kind=gone")).json()["items"]
        assert ([item["state"] for item in left], len(kept)) == (["ended"], letters)


@pytest.mark.parametrize(
    ("content_type", "body", "is_told"),
    [
        ("application/json", b'{"order": }', True),
        ("application/json; charset=utf-8", b"order", True),
        ("application/json", b'{"order": 1}', False),
        ("application/json", b"", False),
        ("text/plain", b"{", False),
    ],
)
async def test_a_body_that_is_not_the_json_that_it_says_it_is_is_stored_with_a_notice(
    shared_hub: RunHub, content_type: str, body: bytes, is_told: bool
) -> None:
    """FT-12."""
    async with shared_hub() as hub:
        answer = await hub.publish("a", body, content_type=content_type)

        notice = answer.headers.get("hookwire-notice", "")
        assert (answer.status_code, notice.startswith("the body is not valid JSON")) == (202, is_told)


async def test_log_lines_of_deliveries_carry_public_ids(running_hub: RunHub, receiver: Receiver) -> None:
    """FT-10: as the API knows them."""
    receiver.status = 500
    with capture_logs() as lines:
        async with running_hub(ALL_ROLES, breaker_attempts_min=1) as hub:
            made = await hub.subscribe("a", receiver.callback, retry_schedule_seconds=[])
            event = (await hub.publish("a")).json()["id"]
            await hub.until(f"/subscriptions/{made['id']}", lambda one: one["breaker_open_until"])
            await hub.until("/deliveries?state=dead", lambda page: page["items"])
            await until(lambda: {"breaker_opened", "delivery_dead"} <= {line["event"] for line in lines})

    found = {line["event"]: line for line in lines}
    assert found["breaker_opened"]["subscription"] == made["id"]
    assert (found["breaker_opened"]["health"], found["breaker_opened"]["blocked_by"]) == ("failing", "breaker")
    assert (found["delivery_dead"]["subscription"], found["delivery_dead"].get("event_id")) == (made["id"], event)


async def test_times_are_rounded_and_an_answer_ends_with_a_line_feed(running_hub: RunHub, receiver: Receiver) -> None:
    """FT-15, FT-17: no digits that nobody measured, and a prompt that begins on its own line."""
    async with running_hub(ALL_ROLES) as hub:
        await hub.subscribe("a", receiver.callback)
        answer = await hub.publish("a")
        [item] = (await hub.until("/deliveries?state=delivered", lambda page: page["items"]))["items"]
        [attempt] = (await hub.client.get(f"/deliveries/{item['id']}/attempts")).json()["items"]

        seconds = [item["last_seconds"], *(value for name, value in attempt.items() if name.endswith("_seconds"))]
        assert [value for value in seconds if value is not None and round(value, 6) != value] == []
        assert (answer.content[-2:], item["at"][-1], attempt["started_at"][-1]) == (b"}\n", "Z", "Z")


async def test_whatever_changes_keys_subscriptions_or_settings_is_in_the_audit_trail(running_hub: RunHub) -> None:
    """FT-09: with its actor, newest first."""
    async with running_hub() as hub:
        hub.client.headers["Hookwire-Actor"] = "ada"
        made = await hub.subscribe("a", "http://127.0.0.1:9000/")
        path = f"/subscriptions/{made['id']}"
        await hub.client.post(f"{path}/keys", json={})
        await hub.client.delete(f"{path}/keys/1")
        await hub.client.patch(path, json={"state": "disabled"})
        await hub.client.delete(path)
        pull = (await hub.client.post("/subscriptions/pull", json={"topic": "a"})).json()["id"]
        await hub.client.put("/topics/a/settings", json={"order": "none"})
        key = (await hub.client.post("/keys", json={"name": "k", "scopes": ["read"]})).json()["id"]
        await hub.client.delete(f"/keys/{key}")
        entries = (await hub.client.get("/audit")).json()["items"]

        assert {entry["actor"] for entry in entries} == {"ada@127.0.0.1"}
        assert [(entry["action"], entry["subject"]) for entry in entries[::-1]] == [
            ("subscription.make", made["id"]), ("signing_key.make", f"{made['id']} 2"),
            ("signing_key.end", f"{made['id']} 1"), ("subscription.change", made["id"]),
            ("subscription.end", made["id"]), ("subscription.make", pull), ("topic.settings", "a"),
            ("key.make", key), ("key.revoke", key),
        ]  # fmt: skip


async def test_each_address_that_answers_get_answers_head(running_hub: RunHub) -> None:
    """RFC 9110, 9.3.2: the same status and header fields without a body, also for probes and pages."""
    paths = ("/healthz", "/readyz", "/events", "/openapi.json", "/console", "/problems", "/topics/a")
    async with running_hub() as hub:
        await hub.publish("a", b"{}")
        answers = [(await hub.client.head(path), await hub.client.get(path)) for path in paths]
        other = await hub.client.put("/events")

        assert [(head.status_code, head.content, head.headers.get("content-type")) for head, _ in answers] == [
            (200, b"", get.headers.get("content-type")) for _, get in answers
        ]
        assert (other.status_code, other.headers["allow"]) == (405, "GET, HEAD")

"""What users published or replied comes back as the same bytes, on every route and with every type: GW-04."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub, receiver, running_hub

__all__ = ["receiver", "running_hub"]

TYPES = (
    "application/json", "APPLICATION/JSON", "application/json; charset=utf-8", "application/vnd.a+json",
    "application/problem+json", "application/xml", "application/octet-stream", "application/x-www-form-urlencoded",
    "text/plain", "text/html; charset=utf-8", 'text/plain; title="é"', None,
)  # fmt: skip
BODIES = (
    b"", b"{}", b"{}\n", b'{"a": 1}\r\n', b" {} ", b"\n", b"\xef\xbb\xbf{}", b"{", b"\x00", b"\xff\xfe\x00",
    b"caf\xc3\xa9",
)  # fmt: skip
CASES = [(kind, body) for kind in TYPES for body in BODIES]


def typed(kind: str | None) -> dict[str, bytes]:
    return {} if kind is None else {"Content-Type": kind.encode()}


def body_of(item: dict[str, Any]) -> bytes:
    text, encoded = item["payload"], item["payload_base64"]
    return text.encode() if encoded is None else base64.b64decode(encoded)


@pytest.fixture
def seen() -> list[tuple[str | None, bytes]]:
    """What came back, in the order of the cases."""
    return []


async def publish(hub: RunningHub, topic: str, kind: str | None, body: bytes) -> str:
    answer = await hub.client.post(f"/topics/{topic}/events", content=body, headers=typed(kind))
    assert answer.status_code == 202, answer.text
    return answer.json()["id"]


async def test_the_topic_url_returns_the_published_bytes(
    running_hub: RunHub, seen: list[tuple[str | None, bytes]]
) -> None:
    """GW-04: a body of exactly application/json had a line feed more."""
    lengths = []
    async with running_hub() as hub:
        for kind, body in CASES:
            await publish(hub, "a", kind, body)
            answer = await hub.client.get("/topics/a")
            seen.append((answer.headers.get("content-type"), answer.content))
            lengths.append(int((await hub.client.head("/topics/a")).headers["content-length"]))

    assert seen == CASES
    assert lengths == [len(body) for _, body in CASES]


async def test_the_event_and_a_pull_return_the_published_bytes(running_hub: RunHub) -> None:
    """GW-04."""
    async with running_hub(ALL_ROLES) as hub:
        pull = (await hub.client.post("/subscriptions/pull", json={"topic": "a"})).json()["id"]
        ids = [await publish(hub, "a", kind, body) for kind, body in CASES]
        events = [(await hub.client.get(f"/events/{event_id}")).json() for event_id in ids]
        pulled: list[dict[str, Any]] = []
        while len(pulled) < len(CASES):
            asked = {"max": 100, "wait_seconds": 10}
            pulled += (await hub.client.post(f"/subscriptions/{pull}/dequeue", json=asked)).json()["items"]

    found = {item["event"]["id"]: item["event"] for item in pulled}
    assert [(event["content_type"], body_of(event)) for event in events] == CASES
    assert [(found[one]["content_type"], body_of(found[one])) for one in ids] == CASES


async def test_a_webhook_gets_the_published_bytes(running_hub: RunHub, receiver: Receiver) -> None:
    """GW-04."""
    async with running_hub(ALL_ROLES) as hub:
        await hub.subscribe("a", receiver.callback)
        ids = [await publish(hub, "a", kind, body) for kind, body in CASES]
        await receiver.wait_for(len(CASES))

    found = {one.headers["webhook-id"]: one for one in receiver.delivered}
    sent = [(found[one].headers.get("content-type"), found[one].body) for one in ids]
    assert sent == [(None if kind is None else kind.encode().decode("latin-1"), body) for kind, body in CASES]


async def test_a_message_of_a_queue_has_the_submitted_bytes(
    running_hub: RunHub, seen: list[tuple[str | None, bytes]]
) -> None:
    """GW-04."""
    async with running_hub() as hub:
        for kind, body in CASES:
            await hub.client.post("/queues/q/messages", content=body, headers=typed(kind))
            [item] = (await hub.client.post("/queues/q/receive", json={"lease_seconds": 43_200})).json()["items"]
            seen.append((item["message"]["content_type"], body_of(item["message"])))

    assert seen == CASES


async def test_a_service_gets_the_request_and_its_caller_the_reply_as_bytes(running_hub: RunHub) -> None:
    """GW-04: a reply of exactly application/json had a line feed more."""
    asked, replied, fetched = [], [], []
    async with running_hub() as hub:
        for kind, body in CASES:
            await hub.client.post("/services/s", content=body, headers={**typed(kind), "Prefer": "wait=0"})
            [item] = (await hub.client.post("/services/s/claim", json={})).json()["items"]
            path, receipt = f"/requests/{item['request']['id']}", {"Hookwire-Receipt": item["receipt"]}
            await hub.client.post(f"{path}/reply", content=body, headers={**typed(kind), **receipt})
            answer, again = await hub.client.get(path), await hub.client.get(path)
            asked.append((item["request"]["content_type"], body_of(item["request"])))
            replied.append((answer.headers.get("content-type"), answer.content))
            fetched.append((again.headers.get("content-type"), again.content))

    assert (asked, replied, fetched) == (CASES, CASES, CASES)

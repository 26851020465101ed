"""Content that comes with its ping: published without a fetch, and only where it may be."""

import hmac
import json
from typing import Any

import pytest

from tests.app.web.api.subscribing.test_hub import client_of
from tests.hub.harness import TOPIC, Harness

FOREIGN = "https://t.example/feed"
SECRET = {"publish_secret": b"shared"}


def signed(content: str, method: str = "sha256") -> str:
    return f"{method}={hmac.digest(b'shared', content.encode(), method).hex()}"


async def stored(harness: Harness) -> list[tuple[Any, ...]]:
    rows = await harness.sql.fetch("SELECT topic, key, content_type, payload, headers FROM hookwire.events")
    return [(r["topic"], r["key"], r["content_type"], r["payload"], json.loads(r["headers"])) for r in rows]


@pytest.mark.parametrize(
    "body", [b"", b"<x/>", bytes(range(256)), b"x" * 200_000], ids=["empty", "xml", "binary", "large"]
)
async def test_a_body_is_the_content_of_a_topic_hosted_here(database_url: str, body: bytes) -> None:
    """WS-50, WS-51, WS-84, WS-86: 202 when it is committed, its type kept."""
    async with client_of(database_url) as (client, harness):
        headers = {"Content-Type": "application/x-odd; v=2"}
        response = await client.post("/hub/content", params={"hub.topic": TOPIC}, content=body, headers=headers)

        assert (response.status_code, await stored(harness)) == (202, [("a", None, "application/x-odd; v=2", body, {})])


async def test_a_body_is_the_content_of_a_foreign_topic_which_is_not_fetched(database_url: str) -> None:
    """WS-53, WS-86: in order with what is fetched, and with links of its own."""
    async with client_of(database_url, foreign_topics="any") as (client, harness):
        await client.post("/hub/content", params={"hub.topic": FOREIGN}, content=b"v1")

        ((topic, *rest),) = await stored(harness)
        link = f'<http://hub.example/hub>; rel="hub", <{FOREIGN}>; rel="self"'
        assert (topic.startswith("hookwire.web."), rest) == (True, ["content", None, b"v1", {"hookwire-link": link}])
        assert await harness.sql.fetchval("SELECT due_at FROM hookwire.foreign_topics") is None


@pytest.mark.parametrize("method", ["sha1", "sha256", "sha384", "sha512"])
async def test_a_form_may_bring_the_content_with_a_signature(database_url: str, method: str) -> None:
    """WS-86, SG-2, SG-6."""
    async with client_of(database_url, **SECRET) as (client, harness):
        form = {"hub.mode": "publish", "hub.url": TOPIC, "hub.content": "é", "hub.signature": signed("é", method)}
        response = await client.post("/hub", data=form)

        assert (response.status_code, await stored(harness)) == (202, [("a", None, None, "é".encode(), {})])


@pytest.mark.parametrize(
    ("changes", "options", "status", "parameter"),
    [
        ({"hub.signature": signed("other")}, SECRET, 403, "hub.signature"),
        ({"hub.signature": "md5=00"}, SECRET, 403, "hub.signature"),
        ({"hub.signature": ""}, SECRET, 403, "hub.signature"),
        ({}, {}, 403, "hub.content"),
        ({"hub.url": [TOPIC, f"{TOPIC}b"]}, SECRET, 400, "hub.content"),
        ({"hub.content": ["v", "v"]}, SECRET, 400, "hub.content"),
        ({"hub.url": FOREIGN}, SECRET, 404, "hub.topic"),
    ],
    ids=["wrong", "unknown", "missing", "no-secret", "two-topics", "twice", "foreign"],
)
async def test_content_without_proof_is_refused(
    database_url: str, changes: dict[str, Any], options: dict[str, Any], status: int, parameter: str
) -> None:
    """WS-78, WS-79, WS-86."""
    async with client_of(database_url, **options) as (client, harness):
        form = {"hub.mode": "publish", "hub.url": TOPIC, "hub.content": "v", "hub.signature": signed("v")}
        response = await client.post("/hub", data=form | changes)

        assert (response.status_code, response.text.split(" ")[0], await stored(harness)) == (status, parameter, [])


@pytest.mark.parametrize(
    ("query", "content", "status"),
    [("", b"v", 400), (f"hub.topic={TOPIC}&hub.topic={TOPIC}", b"v", 400), ("hub.topic=%00", b"v", 400),
     (f"hub.topic={FOREIGN}", b"v", 404), (f"hub.topic={TOPIC}", b"x" * 1001, 413)],
    ids=["none", "two", "nul", "foreign", "large"],
)  # fmt: skip
async def test_a_body_without_one_topic_is_refused(database_url: str, query: str, content: bytes, status: int) -> None:
    """WS-10, WS-79, WS-102."""
    async with client_of(database_url, fetch_bytes_max=1000) as (client, harness):
        response = await client.post(f"/hub/content?{query}", content=content)

        assert (response.status_code, await stored(harness)) == (status, [])

"""POST /hub over HTTP: status codes, texts and headers (TG-F, table 2.1)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette

from app.web.api.route.effect import WithoutEffect
from app.web.api.subscribing.hub import HUB_ROUTES
from tests.hub.callback import after, answers
from tests.hub.harness import TOPIC, Harness, hub_harness

CALLBACK = "http://cb.example/x?key=canary"
SUBSCRIBE = {"hub.mode": "subscribe", "hub.topic": TOPIC, "hub.callback": CALLBACK}


@asynccontextmanager
async def client_of(
    database_url: str, base_url: str = "http://hub.example", **options: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, Harness]]:
    async with hub_harness(database_url, **options) as harness:
        application = Starlette(routes=HUB_ROUTES)
        application.state.context = SimpleNamespace(hub=harness.hub)
        application.state.without_effect = WithoutEffect(CollectorRegistry())
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url=base_url) as client:
            yield client, harness


@pytest.mark.parametrize("mode", ["subscribe", "unsubscribe"])
async def test_an_accepted_request_is_answered_202_when_it_is_stored(database_url: str, mode: str) -> None:
    """WS-01, WS-05, WS-28, WS-84: nobody verifies here, so the answer cannot depend on it."""
    async with client_of(database_url) as (client, harness):
        response = await client.post("/hub", data={**SUBSCRIBE, "hub.mode": mode})

        stored = await harness.sql.fetch("SELECT mode, topic, callback, state FROM hookwire.intents")
        assert (response.status_code, response.text) == (202, "")
        assert [tuple(row) for row in stored] == [(mode, "a", CALLBACK, "requested")]


async def test_the_answer_does_not_wait_for_a_callback_that_hangs(database_url: str) -> None:
    """WS-29, WS-33: the GET is under way and unanswered, the answers are there."""
    async with client_of(database_url) as (client, harness), harness.verifying():
        gate = asyncio.Event()
        harness.callbacks.script["/cb"] = after(gate, answers(200))
        responses = [
            await client.post("/hub", data={**SUBSCRIBE, "hub.callback": harness.callbacks.url()}) for _ in "12"
        ]
        await harness.callbacks.wait_for(1)
        active_by_then = await harness.subscriptions()
        gate.set()

        assert ([response.status_code for response in responses], active_by_then) == ([202, 202], [])


@pytest.mark.parametrize("parameter", ["hub.url", "hub.topic"])
async def test_a_ping_of_hosted_topics_is_answered_204(database_url: str, parameter: str) -> None:
    """WS-76, WS-79."""
    async with client_of(database_url) as (client, _):
        response = await client.post(
            "/hub", data={"hub.mode": "publish", parameter: [TOPIC, "http://hub.example/topics/b"]}
        )

        assert (response.status_code, response.content) == (204, b"")


@pytest.mark.parametrize(("url", "status"), [("http://elsewhere.example/feed", 404), ("nonsense", 400)])
async def test_a_ping_with_one_bad_topic_is_refused(database_url: str, url: str, status: int) -> None:
    """WS-78."""
    async with client_of(database_url) as (client, _):
        response = await client.post("/hub", data={"hub.mode": "publish", "hub.url": [TOPIC, url]})

        assert (response.status_code, response.text.startswith("hub.url ")) == (status, True)


@pytest.mark.parametrize(
    ("changes", "status", "parameter"),
    [
        ({"hub.mode": ""}, 400, "hub.mode"),
        ({"hub.topic": ""}, 400, "hub.topic"),
        ({"hub.callback": ["http://a.example/", "http://a.example/"]}, 400, "hub.callback"),
        ({"hub.callback": "http://cb.example/#f"}, 400, "hub.callback"),
        ({"hub.callback": "http://127.0.0.1:22/"}, 400, "hub.callback"),
        ({"hub.callback": "http://192.168.0.1/"}, 403, "hub.callback"),
        ({"hub.topic": "http://elsewhere.example/"}, 403, "hub.topic"),
        ({"hub.lease_seconds": "-5"}, 400, "hub.lease_seconds"),
        ({"hub.secret": "x" * 200}, 400, "hub.secret"),
        ({"hub.hash_algorithms": "md5"}, 400, "hub.hash_algorithms"),
    ],
)
async def test_an_error_is_plain_text_that_names_the_parameter(
    database_url: str, changes: dict[str, Any], status: int, parameter: str
) -> None:
    """TG-F; WS-30, WS-31, WS-106."""
    async with client_of(database_url) as (client, harness):
        response = await client.post("/hub", data={**SUBSCRIBE, **changes})

        stored = await harness.sql.fetchval("SELECT count(*) FROM hookwire.intents")
        assert (response.status_code, response.headers["content-type"]) == (status, "text/plain; charset=utf-8")
        assert (response.text.startswith(f"{parameter} "), "canary" in response.text, stored) == (True, False, 0)


@pytest.mark.parametrize(
    ("content_type", "content", "status"),
    [
        ("application/json", b"{}", 415),
        ("multipart/form-data; boundary=x", b"--x--", 415),
        ("", b"hub.mode=subscribe", 415),
        ("application/x-www-form-urlencoded", b"hub.mode=" + b"x" * 70_000, 413),
        ("application/x-www-form-urlencoded", b"hub.mode=%ff", 400),
    ],
)
async def test_a_body_that_is_no_form_has_its_own_codes(
    database_url: str, content_type: str, content: bytes, status: int
) -> None:
    """WS-09, WS-102."""
    async with client_of(database_url) as (client, _):
        headers = {"Content-Type": content_type} if content_type else {}
        response = await client.post("/hub", content=content, headers=headers)

        assert (response.status_code, response.headers["content-type"]) == (status, "text/plain; charset=utf-8")


@pytest.mark.parametrize(
    ("method", "url", "status", "allow"),
    [
        ("GET", "/hub?hub.mode=subscribe", 405, "POST"),
        ("GET", "/hub?x=1&hub.anything", 405, "POST"),
        ("PUT", "/hub", 405, "GET, HEAD, POST"),
        ("DELETE", "/hub?hub.mode=subscribe", 405, "GET, HEAD, POST"),
        ("GET", "/hub", 200, None),
        ("GET", "/hub?x=1", 200, None),
        ("HEAD", "/hub", 200, None),
    ],
)
async def test_the_hub_answers_405_to_other_methods_than_post(
    database_url: str, method: str, url: str, status: int, allow: str | None
) -> None:
    """WS-09."""
    async with client_of(database_url) as (client, _):
        response = await client.request(method, url)

        assert (response.status_code, response.headers.get("allow")) == (status, allow)


async def test_too_many_requests_are_told_when_to_come_back(database_url: str) -> None:
    """WS-101."""
    async with client_of(database_url, verifications_per_minute_host=1) as (client, _):
        responses = [await client.post("/hub", data=SUBSCRIBE) for _ in range(2)]

        assert [response.status_code for response in responses] == [202, 429]
        assert int(responses[1].headers["retry-after"]) in range(1, 61)


@pytest.mark.parametrize(
    ("policy", "public_url", "status", "warned"),
    [
        ("allow", "http://hub.example", 202, False),
        ("warn", "http://hub.example", 202, True),
        ("reject", "http://hub.example", 400, False),
        ("reject", "https://hub.example", 202, False),
    ],
)
async def test_a_secret_over_plain_http_is_the_operator_s_choice(
    database_url: str, policy: str, public_url: str, status: int, warned: bool
) -> None:
    """WS-15."""
    async with client_of(database_url, secret_over_http=policy, public_url=public_url) as (client, _):
        asked = {**SUBSCRIBE, "hub.topic": f"{public_url}/topics/a", "hub.secret": "canary"}
        response = await client.post("/hub", data=asked)

        assert (response.status_code, "hub.secret was sent" in response.text) == (status, warned)


async def test_a_hub_that_moved_says_where_to(database_url: str) -> None:
    """WS-34: whatever the request names, the target is the operator's."""
    async with client_of(database_url, moved_to="https://new.example/hub") as (client, _):
        response = await client.post("/hub", data=SUBSCRIBE)

        assert (response.status_code, response.headers["location"]) == (307, "https://new.example/hub")


async def test_what_cannot_be_stored_is_not_accepted(database_url: str) -> None:
    """Table 2.1: never 202 without a commit."""
    async with client_of(database_url) as (client, harness):
        await harness.hub.database.aclose()
        response = await client.post("/hub", data=SUBSCRIBE)

        assert (response.status_code, response.headers["retry-after"]) == (503, "5")

"""/topics: the list, the latest content (the WebSub topic URL), routing and order."""

from __future__ import annotations

from typing import Any

import pytest

from tests.app.conftest import RunHub, RunningHub
from tests.app.web.publishing.test_ingest import kind


async def test_the_latest_content_comes_as_it_was_published(shared_hub: RunHub, topic: str) -> None:
    """WS-53, WS-70: hub and self in one Link header, in that order."""
    async with shared_hub() as hub:
        await hub.publish(topic, b"old", content_type="text/plain")
        event_id = (await hub.publish(topic, b"<x/>", content_type="application/atom+xml")).json()["id"]
        answer = await hub.client.get(f"/topics/{topic}")

        assert (answer.status_code, answer.content, answer.headers["content-type"]) == (
            200, b"<x/>", "application/atom+xml",
        )  # fmt: skip
        assert answer.headers["link"] == f'<{hub.url}/hub>; rel="hub", <{hub.url}/topics/{topic}>; rel="self"'
        assert answer.headers["etag"] == f'"{event_id}"'


async def test_content_of_a_type_that_is_not_ascii_is_served(shared_hub: RunHub, topic: str) -> None:
    """FS-15: everybody who asked for the topic got a 500, until another event came."""
    content_type = "text/plain; x=\u6f22\u5b57"
    async with shared_hub() as hub:
        published = await hub.publish(topic, b"x", content_type=content_type.encode())
        by_http = await hub.client.get(f"/topics/{topic}")
        await hub.sql("SELECT hookwire.publish($1, 'x'::bytea, content_type => $2)", f"{topic}.b", content_type)
        by_sql = await hub.client.get(f"/topics/{topic}.b")

        sent = [answer.headers["content-type"] for answer in (by_http, by_sql)]
        assert (published.status_code, by_http.status_code, by_sql.status_code) == (202, 200, 200)
        assert sent == [content_type] * 2


async def test_a_topic_that_has_moved_says_where_to(shared_hub: RunHub, topic: str) -> None:
    """WS-75: who renews finds the new URL with links of its own; set back, it is served here again."""
    async with shared_hub() as hub:
        await hub.publish(topic, b"hello")
        await hub.client.put(f"/topics/{topic}/settings", json={"moved_to": "https://new.example/t?a=%2f"})
        moved = await hub.client.get(f"/topics/{topic}")
        bad = await hub.client.put(f"/topics/{topic}/settings", json={"moved_to": "ftp://new.example/"})
        await hub.client.put(f"/topics/{topic}/settings", json={})

        assert (moved.status_code, moved.headers["location"]) == (301, "https://new.example/t?a=%2f")
        assert (kind(bad)[2], (await hub.client.get(f"/topics/{topic}")).status_code) == ("invalid-parameter", 200)


async def test_a_head_request_gets_the_headers_alone(shared_hub: RunHub, topic: str) -> None:
    async with shared_hub() as hub:
        await hub.publish(topic, b"hello", content_type="text/plain")
        answer = await hub.client.head(f"/topics/{topic}")

        assert (answer.status_code, answer.content, "hub" in answer.headers["link"]) == (200, b"", True)


async def test_content_that_is_known_is_not_sent_again(shared_hub: RunHub, topic: str) -> None:
    async with shared_hub() as hub:
        await hub.publish(topic, b"hello")
        etag = (await hub.client.get(f"/topics/{topic}")).headers["etag"]
        answer = await hub.client.get(f"/topics/{topic}", headers={"If-None-Match": etag})

        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", etag)


async def test_a_browser_runs_nothing_that_was_published(shared_hub: RunHub, topic: str) -> None:
    """SV-08: what strangers publish lies in the origin of our own pages."""
    async with shared_hub() as hub:
        await hub.publish(topic, b"<script>alert(1)</script>", content_type="text/html")
        answer = await hub.client.get(f"/topics/{topic}")

        assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
        assert answer.headers["x-content-type-options"] == "nosniff"


async def test_an_event_without_a_type_is_answered_without_one(shared_hub: RunHub, topic: str) -> None:
    async with shared_hub() as hub:
        await hub.publish(topic, b"")
        answer = await hub.client.get(f"/topics/{topic}")

        assert (answer.status_code, answer.content, "content-type" in answer.headers) == (200, b"", False)


async def test_a_topic_without_events_has_no_content_and_an_unknown_one_is_a_problem(
    shared_hub: RunHub, topic: str
) -> None:
    async with shared_hub() as hub:
        await hub.client.put(f"/topics/{topic}/settings", json={})
        empty, unknown = await hub.client.get(f"/topics/{topic}"), await hub.client.get(f"/topics/{topic}.unknown")

        assert (empty.status_code, kind(unknown)[::2]) == (204, (404, "unknown-topic"))
        assert 'rel="hub"' in empty.headers["link"]
        assert 'rel="hub"' in unknown.headers["link"]


async def test_the_list_names_the_last_event_and_is_paged(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        for topic in ("c", "a", "b"):
            await hub.publish(topic)
        last = (await hub.publish("a")).json()
        first = (await hub.client.get("/topics?limit=2")).json()
        second = (await hub.client.get(f"/topics?limit=2&cursor={first['next_cursor']}")).json()

        assert [item["topic"] for item in first["items"] + second["items"]] == ["a", "b", "c"]
        assert (first["items"][0]["last_event_id"], second["next_cursor"]) == (last["id"], None)


async def test_a_cursor_that_holds_no_text_is_refused(kept_hub: RunningHub) -> None:
    """B-49: a lone surrogate, which PostgreSQL could not be asked about."""
    answers = [await kept_hub.client.get(f"{path}?cursor=WyJcdWQ4MDAiXQ") for path in ("/topics", "/upstreams")]

    assert {kind(answer)[::2] for answer in answers} == {(400, "invalid-cursor")}


async def test_settings_are_put_and_read(shared_hub: RunHub, topic: str) -> None:
    wanted = {
        "sinks": ["amqp", "webhooks"], "order": "none", "kafka_topic": "orders-v2", "amqp_exchange": "shop",
        "amqp_routing_key": "o",
    }  # fmt: skip
    async with shared_hub() as hub:
        put = await hub.client.put(f"/topics/{topic}/settings", json=wanted)
        read = await hub.client.get(f"/topics/{topic}/settings")

        assert (put.status_code, read.json()) == (200, put.json())
        assert {name: read.json()[name] for name in wanted} == wanted


async def test_settings_are_read_whatever_name_an_exchange_has(shared_hub: RunHub, topic: str) -> None:
    """FM-02: the exchange of a mirror has RabbitHub's name, for which other rules hold."""
    name = "ü" * 100
    async with shared_hub() as hub:
        await hub.sql(f"INSERT INTO hookwire.topics (name, amqp_exchange) VALUES ('{topic}', '{name}')")
        read = await hub.client.get(f"/topics/{topic}/settings")

        assert (read.status_code, read.json()["amqp_exchange"]) == (200, name)


async def test_settings_count_for_what_is_accepted_from_then_on(shared_hub: RunHub, topic: str) -> None:
    async with shared_hub() as hub:
        before = (await hub.publish(topic, Hookwire_Key="k")).json()
        await hub.client.put(f"/topics/{topic}/settings", json={"order": "none", "sinks": []})
        after = (await hub.publish(topic, Hookwire_Key="k")).json()

        assert (before["sequence"] is None, after["sequence"]) == (False, None)
        assert await hub.sql("SELECT sinks FROM hookwire.events WHERE topic = $1 ORDER BY id", topic) == [
            (["webhooks"],),
            ([],),
        ]


@pytest.mark.parametrize(
    "body",
    [
        {"sinks": ["carrier-pigeon"]},
        {"sinks": "webhooks"},
        {"order": "random"},
        {"kafka_topic": "a/b"},
        {"kafka_topic": "k" * 250},
        {"amqp_exchange": ""},
        {"amqp_exchange": "tür"},
        {"amqp_exchange": "x" * 128},
        {"amqp_routing_key": "r" * 256},
        {"retention": 1},
        {"retention_days": -1},
        [],
        None,
    ],
    ids=str,
)
async def test_settings_of_a_topic_out_of_range_are_refused(kept_hub: RunningHub, body: Any) -> None:
    """B-50."""
    answer = await kept_hub.client.put("/topics/a/settings", json=body)

    assert (kind(answer)[0], kind(answer)[1], await kept_hub.sql("SELECT 1 FROM hookwire.topics")) == (
        400, "application/problem+json", [],
    )  # fmt: skip


async def test_a_topic_may_be_called_events(running_hub: RunHub) -> None:
    """Its address looks like the end of a publish."""
    async with running_hub() as hub:
        await hub.publish("events", b"x")
        answer = await hub.client.get("/topics/events")

        assert (answer.status_code, answer.content) == (200, b"x")


async def test_settings_are_changed_only_in_the_version_that_was_read(shared_hub: RunHub, topic: str) -> None:
    """WH-A11: of two who have read the same version, one changes it."""
    async with shared_hub() as hub:
        made = await hub.client.put(f"/topics/{topic}/settings", json={})
        read = (await hub.client.get(f"/topics/{topic}/settings")).headers["etag"]
        matches = {"If-Match": read}
        first = await hub.client.put(f"/topics/{topic}/settings", json={"order": "none"}, headers=matches)
        second = await hub.client.put(f"/topics/{topic}/settings", json={"sinks": []}, headers=matches)
        whichever = await hub.client.put(
            f"/topics/{topic}/settings", json={"retention_days": 7}, headers={"If-Match": "*"}
        )

        assert (made.headers["etag"], read, first.headers["etag"]) == ('"1"', '"1"', '"2"')
        assert (kind(second)[::2], whichever.json()["retention_days"]) == ((412, "precondition-failed"), 7)


@pytest.mark.parametrize("if_match", ["*", '"1"', "W/1", '"1", "2"'])
async def test_what_is_not_there_matches_nothing(kept_hub: RunningHub, if_match: str) -> None:
    """RFC 9110, 13.1.1: not even an asterisk."""
    answer = await kept_hub.client.put("/topics/a/settings", json={}, headers={"If-Match": if_match})

    assert (kind(answer)[::2], await kept_hub.sql("SELECT 1 FROM hookwire.topics")) == (
        (412, "precondition-failed"),
        [],
    )

"""What makes two requests the same event: Idempotency-Key, and source and id of a CloudEvent, on one topic."""

from __future__ import annotations

import json
from typing import Any

import asyncpg
import httpx
import pytest

from db.statements import STATEMENTS
from tests.app.conftest import RunHub, RunningHub
from tests.app.web.publishing.test_ingest import BATCH, STRUCTURED, kind

REQUIRED = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "order"}
REUSED = (422, "idempotency-key-reused")
MODES = ("binary", "structured", "batch")


async def send(
    hub: RunningHub, mode: str, topic: str, data: object = 1, key: str | None = None, **attributes: str
) -> httpx.Response:
    """Publish a CloudEvent in a mode of the HTTP binding; its data are JSON."""
    named = {**REQUIRED, **attributes}
    about = {} if key is None else {"Hookwire_Key": key}
    if mode == "binary":
        carried = {f"ce_{name}": value for name, value in named.items()}
        body = json.dumps(data).encode()
        return await hub.publish(topic, body, content_type="application/json", **carried, **about)
    event = {**named, "datacontenttype": "application/json", "data": data}
    content = json.dumps([event] if mode == "batch" else event).encode()
    return await hub.publish(topic, content, content_type=BATCH if mode == "batch" else STRUCTURED, **about)


def event_of(answer: httpx.Response) -> dict[str, Any]:
    """The event that an answer names, whether it is the one of a batch or alone."""
    assert answer.status_code == 202, answer.text
    said = answer.json()
    return said[0] if isinstance(said, list) else said


async def stored(hub: RunningHub, topic: str) -> list[tuple[str, bytes]]:
    """The events of a topic and of those below it."""
    found = "SELECT topic, payload FROM hookwire.events WHERE topic = $1 OR topic LIKE $1 || '.%' ORDER BY id"
    return await hub.sql(found, topic)


@pytest.mark.parametrize("mode", MODES)
async def test_a_cloudevent_of_two_topics_is_two_events(shared_hub: RunHub, topic: str, mode: str) -> None:
    """FC-07: the second one was answered 202 and stored nowhere."""
    async with shared_hub() as hub:
        one, two = f"{topic}.a", f"{topic}.b"
        answers = [event_of(await send(hub, mode, name)) for name in (one, two, one)]

        assert await stored(hub, topic) == [(one, b"1"), (two, b"1")]
        assert [answer["topic"] for answer in answers] == [one, two, one]
        assert (answers[0], answers[0]["id"] == answers[1]["id"]) == (answers[2], False)


async def test_a_cloudevent_is_the_same_in_every_mode(shared_hub: RunHub, topic: str) -> None:
    """FC-07, WH-C01: CloudEvents 1.0.2, HTTP binding 3.1 to 3.3; a repeat gets the first answer."""
    async with shared_hub() as hub:
        sent = enumerate((*MODES, "binary"))
        answers = [await send(hub, mode, topic, time=f"2026-01-01T00:00:0{second}Z") for second, mode in sent]

        assert [event_of(answer) for answer in answers] == [event_of(answers[0])] * 4
        assert [answer.headers.get("idempotency-replayed") for answer in answers] == [None, "true", "true", "true"]
        assert await stored(hub, topic) == [(topic, b"1")]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "change",
    [{"data": 2}, {"key": "k"}, {"type": "other"}, {"subject": "s"}, {"extension": "x"}],
    ids=lambda change: next(iter(change)),
)
async def test_another_event_under_a_known_source_and_id_is_refused(
    shared_hub: RunHub, topic: str, mode: str, change: dict[str, Any]
) -> None:
    """FC-07: it got 202, and vanished."""
    async with shared_hub() as hub:
        await send(hub, "binary", topic)
        answer = await send(hub, mode, topic, **change)

        assert (kind(answer)[::2], await stored(hub, topic)) == (REUSED, [(topic, b"1")])


async def test_a_batch_with_one_event_that_differs_stores_nothing(shared_hub: RunHub, topic: str) -> None:
    """FC-07, RR-12: a request is stored whole or not at all."""
    async with shared_hub() as hub:
        await send(hub, "binary", topic)
        events = [{**REQUIRED, "id": "2", "data": 2}, {**REQUIRED, "data": "other"}, {**REQUIRED, "id": "3"}]
        answer = await hub.publish(topic, json.dumps(events).encode(), content_type=BATCH)

        assert (kind(answer)[::2], await stored(hub, topic)) == (REUSED, [(topic, b"1")])


async def test_an_idempotency_key_is_its_topic_s(shared_hub: RunHub, topic: str) -> None:
    """FS-12: a publisher that is limited to its own topic cannot take another one's keys."""
    async with shared_hub() as hub:
        one, two = f"{topic}.a", f"{topic}.b"
        answers = [await hub.publish(name, b"x", idempotency_key="order-4711") for name in (one, two, one)]

        assert await stored(hub, topic) == [(one, b"x"), (two, b"x")]
        assert [answer.headers.get("idempotency-replayed") for answer in answers] == [None, None, "true"]
        assert (answers[2].json(), answers[1].json()["topic"]) == (answers[0].json(), two)


async def test_a_repeat_while_the_first_request_is_running_is_told_so(running_hub: RunHub) -> None:
    """FT-21: 409 while the first transaction is open; its own topic alone is concerned."""
    arguments = ("default", [1], ["a"], [None], [None], ["{}"], [b"x"], ["k"], [b"digest of another"], False, None)
    async with running_hub() as hub:
        first = await asyncpg.connect(hub.database_url)
        async with first.transaction():
            await first.fetch(STATEMENTS["event.publish_batch"], *arguments)
            running = await hub.publish("a", b"x", idempotency_key="k")
            other_topic = await hub.publish("b", b"x", idempotency_key="k")
        over = await hub.publish("a", b"x", idempotency_key="k")
        await first.close()

        assert (kind(running)[::2], running.headers["retry-after"]) == ((409, "idempotency-key-in-flight"), "1")
        assert (other_topic.status_code, kind(over)[::2]) == (202, REUSED)

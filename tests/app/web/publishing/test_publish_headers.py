"""Headers of a publisher's own over HTTP, and tombstones, on their way to every sink."""

from __future__ import annotations

import secrets

import aio_pika
import asyncpg
import pytest

from scripts.servers.kafka import KafkaServer
from scripts.servers.rabbitmq import RabbitServer
from tests.app.conftest import ALL_ROLES, RunHub, RunningHub
from tests.app.web.publishing.test_ingest import kind
from tests.hub.callback import serve_callbacks
from tests.relay.kafka.kafka_topic import read_committed
from tests.waiting import until


async def test_a_publisher_s_own_headers_reach_the_webhook(running_hub: RunHub) -> None:
    """FM-14, GW-14: by HTTP as by SQL; the body stays the event."""
    async with running_hub(ALL_ROLES) as hub, serve_callbacks() as callbacks:
        await hub.subscribe("orders", callbacks.url())
        sent = {"Hookwire-Header-Colour": "röt", "hookwire-header-x.y_z": "1", "Content-Type": "text/plain"}
        answer = await hub.client.post(
            "/topics/orders/events", content=b"b", headers=[(n.encode(), v.encode()) for n, v in sent.items()]
        )
        ((_, about, body),) = await callbacks.wait_for_posts(1)

    assert (answer.status_code, body, about["colour"], about["x.y_z"]) == (
        202, b"b", "r%C3%B6t", "1",
    )  # fmt: skip


@pytest.mark.parametrize(
    "headers",
    [
        [(b"hookwire-header-", b"x")],
        [(b"hookwire-header-a!", b"x")],
        [(b"hookwire-header-a", b"1"), (b"Hookwire-Header-A", b"2")],
        [(b"hookwire-header-authorization", b"x")],
        [(b"hookwire-header-content-encoding", b"gzip")],
        [(b"hookwire-header-hookwire-hops", b"1")],
        [(b"hookwire-header-ce-id", b"1")],
        [(b"hookwire-header-content-type", b"a/b")],
        [(b"hookwire-header-a", b"\xff")],
        [(b"hookwire-header-a", b"x\ty")],
        [(b"hookwire-header-a", b"x" * 9_000), (b"hookwire-header-b", b"x" * 9_000)],
        [(b"hookwire-tombstone", b"yes")],
        [(b"hookwire-tombstone", b"true")],
    ],
)
async def test_a_header_that_no_event_may_have_is_refused(
    kept_hub: RunningHub, headers: list[tuple[bytes, bytes]]
) -> None:
    """FM-05, FM-14, GS-08: nothing is stored; a tombstone without a key deletes nothing."""
    answer = await kept_hub.client.post("/topics/orders/events", content=b"", headers=headers)
    stored = await kept_hub.sql("SELECT FROM hookwire.events")

    assert (kind(answer), stored) == ((400, "application/problem+json", "invalid-header"), [])


@pytest.mark.parametrize(
    ("body", "content_type"), [(b"x", "text/plain"), (b"{}\n", "application/x-ndjson")], ids=["a body", "a batch"]
)
async def test_a_tombstone_has_no_value(kept_hub: RunningHub, body: bytes, content_type: str) -> None:
    """FM-05."""
    answer = await kept_hub.publish("t", body, Hookwire_Key="k", Hookwire_Tombstone="true", content_type=content_type)

    assert kind(answer) == (400, "application/problem+json", "invalid-header")


async def test_a_tombstone_is_null_on_kafka_and_marked_elsewhere(
    running_hub: RunHub, kafka: KafkaServer, rabbitmq: RabbitServer
) -> None:
    """FM-05: by HTTP and by SQL, in each of its forms; an empty body stays an empty value."""
    topic = f"compacted-{secrets.token_hex(4)}"
    settings = {"kafka_bootstrap_servers": kafka.bootstrap, "amqp_url": rabbitmq.url, "amqp_exchange": topic}
    async with running_hub(ALL_ROLES, **settings) as hub, serve_callbacks() as callbacks:
        async with await aio_pika.connect(rabbitmq.url) as connection, connection.channel() as channel:
            exchange = await channel.declare_exchange(topic, "topic", durable=True)
            queue = await channel.declare_queue(topic, durable=True)
            await queue.bind(exchange, "#")
        await hub.subscribe(topic, callbacks.url())
        await hub.publish(topic, b"", Hookwire_Key="k")
        await hub.publish(topic, b"", Hookwire_Key="k", Hookwire_Tombstone="true")
        for null in ("NULL", "NULL::jsonb", "NULL::bytea"):
            await hub.sql(f"SELECT hookwire.publish('{topic}', payload => {null}, key => 'k')")
        posts = await callbacks.wait_for_posts(5)

        async def is_complete() -> bool:
            return len(await read_committed(kafka.bootstrap, topic)) >= 5

        await until(is_complete)
        records = await read_committed(kafka.bootstrap, topic)
        async with (
            await aio_pika.connect(rabbitmq.url) as connection,
            connection.channel() as channel,
            (await channel.get_queue(topic)).iterator(no_ack=True, timeout=60) as arriving,
        ):
            messages = [await anext(arriving) for _ in range(5)]

    assert [record.value for record in records] == [b"", None, None, None, None]
    assert [(m.body, m.headers.get("hookwire-tombstone")) for m in messages] == [(b"", None)] + [(b"", "true")] * 4
    assert sorted(about.get("hookwire-tombstone", "") for _, about, _ in posts) == [""] + ["true"] * 4


async def test_a_missing_payload_without_a_key_is_no_tombstone(database_url: str) -> None:
    """FM-05."""
    connection = await asyncpg.connect(database_url)
    try:
        with pytest.raises(asyncpg.InvalidParameterValueError, match="the payload is missing"):
            await connection.execute("SELECT hookwire.publish('t', NULL::bytea)")
    finally:
        await connection.close()

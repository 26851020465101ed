"""From an AMQP queue to a callback: a whole hub on a real RabbitMQ."""

from __future__ import annotations

import re
import secrets

import aio_pika
import asyncpg
import pytest

from app.checks.amqp_sources import amqp_source_checks
from app.settings.amqp_source import route_of
from app.settings.settings import Settings
from db.pool import PoolOptions
from scripts.servers.rabbitmq import RabbitServer
from tests.app.conftest import ALL_ROLES, RunHub, RunningHub
from tests.app.web.test_rabbithub import X, form
from tests.databases import Databases
from tests.hub.callback import serve_callbacks
from tests.waiting import until

COUNT = "SELECT count(*) FROM hookwire.events WHERE topic = 'orders'"
NO_AMQP = "INSERT INTO hookwire.topics (name, sinks) VALUES ('t', '{webhooks}')"
TO_SHOP = "INSERT INTO hookwire.topics (name, amqp_exchange) VALUES ('t', 'shop')"
ROLES = (*ALL_ROLES, "source")


async def publish(server: RabbitServer, exchange: str, key: str, *messages: aio_pika.Message) -> None:
    async with await aio_pika.connect(server.url) as connection, connection.channel() as channel:
        there = await channel.get_exchange(exchange) if exchange else channel.default_exchange
        for message in messages:
            await there.publish(message, key)


async def events(hub: RunningHub) -> list[tuple[str, bytes]]:
    return await hub.sql("SELECT topic, payload FROM hookwire.events WHERE topic NOT LIKE 'hookwire.%' ORDER BY id")


async def counted(hub: RunningHub, name: str, **labels: str) -> None:
    """Until a metric of the source is above 0."""
    text = ",".join(f'{label}="{value}"' for label, value in sorted(labels.items()))
    wanted = re.compile(rf"^hookwire_amqp_source_{name}\{{{re.escape(text)}\}} [1-9]", re.MULTILINE)

    async def holds() -> object:
        return wanted.search((await hub.client.get("/metrics")).text)

    await until(holds)


async def test_what_an_amqp_program_publishes_reaches_a_webhook_and_a_repeat_is_no_second_event(
    running_hub: RunHub, rabbitmq: RabbitServer
) -> None:
    """FM-03: routing key is the topic; the message id is its identity, for another content a conflict."""
    name = f"shop-{secrets.token_hex(4)}"
    source = f"{name}.in?exchange={name}&key=stock.%23"
    async with running_hub(ROLES, amqp_source_url=rabbitmq.url, amqp_sources=source) as hub:
        async with serve_callbacks() as callbacks:
            await hub.subscribe("stock.#", callbacks.url())
            queue = f"{name}.in"
            await counted(hub, "connected", queue=queue)
            about = {"message_id": "m1", "content_type": "text/plain", "headers": {"colour": "red"}}
            await publish(rabbitmq, name, "stock.new", *(aio_pika.Message(b"one", **about) for _ in range(2)))
            await publish(rabbitmq, name, "stock.new", aio_pika.Message(b"other", **about))
            await publish(rabbitmq, name, "stock. bad", aio_pika.Message(b"x"))
            await publish(rabbitmq, name, "stock.hookwire", aio_pika.Message(b"x", headers={"hookwire-hops": "7"}))
            await counted(hub, "messages_total", queue=queue, outcome="repeated")
            for reason in ("message_id_reused", "topic", "too_many_hops"):
                await counted(hub, "refused_total", queue=queue, reason=reason)
            ((_, sent, body),) = await callbacks.wait_for_posts(1)
        stored = await events(hub)

    assert (stored, body) == ([("stock.new", b"one")], b"one")
    assert {n: sent[n] for n in ("colour", "content-type", "x-amqp-routing-key", "hookwire-hops")} == {
        "colour": "red", "content-type": "text/plain", "x-amqp-routing-key": "stock.new", "hookwire-hops": "2",
    }  # fmt: skip


async def test_headers_that_come_along_cost_no_event(running_hub: RunHub, rabbitmq: RabbitServer) -> None:
    """GW-02: a secret, attributes of no CloudEvent, quotes up to the limit, and a routing key that is no topic."""
    queue = f"along-{secrets.token_hex(4)}"
    messages = {
        b"secret": {"Authorization": "Basic eDp5", "a": "1"},
        b"attributes": {"cloudEvents_type": "t", "cloudEvents_specversion": "1.0", "a": "1"},
        b"quotes": {f"h{n:02}": '"' * 100 for n in range(70)},
        b"lines": {"a": "1\n2"},
    }
    settings = {"amqp_source_url": rabbitmq.url, "amqp_sources": f"{queue}?topic=t&exchange=amq.topic&key=odd.%23"}
    async with running_hub(ROLES, **settings) as hub, serve_callbacks() as callbacks:
        await hub.subscribe("t", callbacks.url())
        await counted(hub, "connected", queue=queue)
        for body, headers in messages.items():
            await publish(rabbitmq, "amq.topic", "odd.\tkey", aio_pika.Message(body, headers=headers))
        posts = await callbacks.wait_for_posts(len(messages))
        for reason in ("private", "cloudevent", "limit"):
            await counted(hub, "headers_left_out_total", queue=queue, reason=reason)

    sent = {body: headers for _, headers, body in posts}
    assert {body: headers.get("a") for body, headers in sent.items()} == {
        b"secret": "1", b"attributes": "1", b"quotes": None, b"lines": "1%0A2",
    }  # fmt: skip
    assert ("h00" in sent[b"quotes"], "authorization" in sent[b"secret"]) == (True, False)
    assert {headers["x-amqp-routing-key"] for headers in sent.values()} == {"odd.%09key"}


async def test_a_queue_may_feed_an_exchange_of_rabbithub(running_hub: RunHub, rabbitmq: RabbitServer) -> None:
    """FM-03: messages wait until the exchange is made; its subscribers get them as if they had been POSTed."""
    name = f"feed-{secrets.token_hex(4)}"
    settings = {"amqp_url": rabbitmq.url, "amqp_sources": f"{name}?rabbithub=shop"}
    async with running_hub(ROLES, **settings) as hub, serve_callbacks() as callbacks:
        await counted(hub, "connected", queue=name)
        await publish(rabbitmq, "", name, aio_pika.Message(b"m"))
        await hub.client.put(f"{X}/shop")
        await hub.client.post("/rabbithub/subscribe/x/shop", data=form(callbacks, ""))
        await publish(rabbitmq, "", name, aio_pika.Message(b"n"))
        *_, (_, sent, body) = await callbacks.wait_for_posts(1)

    assert body in (b"m", b"n")
    assert (sent["x-amqp-exchange"], sent["x-amqp-routing-key"], sent["content-type"]) == (
        "shop", name, "application/octet-stream",
    )  # fmt: skip


async def test_an_event_of_the_hub_that_comes_back_is_no_second_event(
    running_hub: RunHub, rabbitmq: RabbitServer
) -> None:
    """FM-03: a loop that somebody made by binding the queue to the hub's exchange ends where it begins."""
    name = f"loop-{secrets.token_hex(4)}"
    settings = {"amqp_url": rabbitmq.url, "amqp_exchange": name, "amqp_sources": f"{name}.in"}
    async with running_hub(ROLES, **settings) as hub:
        await counted(hub, "connected", queue=f"{name}.in")
        async with await aio_pika.connect(rabbitmq.url) as connection, connection.channel() as channel:
            there = await channel.declare_exchange(name, "topic", durable=True)
            await (await channel.get_queue(f"{name}.in")).bind(there, "#")
        await hub.publish("orders", b"1")
        await counted(hub, "messages_total", queue=f"{name}.in", outcome="returned")
        stored = await events(hub)

    assert stored == [("orders", b"1")]


async def test_a_loop_of_two_hubs_is_found(
    running_hub: RunHub, rabbitmq: RabbitServer, database_url: str, databases18: Databases
) -> None:
    """FM-03: each publishes what the other reads; the event goes round until it has passed as many hubs as may be."""
    one, two = (f"circle-{secrets.token_hex(4)}" for _ in range(2))

    def settings(writes: str, reads: str) -> dict[str, str]:
        sources = f"{reads}.in?exchange={reads}&key=%23"
        return {"amqp_url": rabbitmq.url, "amqp_exchange": writes, "amqp_sources": sources}

    with databases18.fresh() as other_url:
        connection = await asyncpg.connect(other_url)
        await connection.execute("UPDATE hookwire.installation SET incarnation = 'bbbbbbbb'")
        async with (
            running_hub(ROLES, **settings(one, two)) as first,
            running_hub(ROLES, database_url=other_url, **settings(two, one)) as second,
        ):
            await counted(first, "connected", queue=f"{two}.in")
            await counted(second, "connected", queue=f"{one}.in")
            await first.publish("orders", b"1")
            await counted(first, "refused_total", queue=f"{two}.in", reason="too_many_hops")
            stored = len(await events(first)), await connection.fetchval(COUNT)
        await connection.close()

    assert stored == (4, 4)


@pytest.mark.parametrize(
    ("source", "settings", "statement", "refused"),
    [
        ("q?exchange=hookwire", {}, "", True),
        ("q?exchange=hookwire&topic=t", {}, "", True),
        ("q?exchange=hookwire&topic=t", {}, NO_AMQP, False),
        ("q?exchange=shop", {}, "", False),
        ("q?exchange=shop", {}, TO_SHOP, True),
        ("q?exchange=shop&topic=u", {}, TO_SHOP, False),
        ("q?exchange=amq.topic&rabbithub=amq.topic", {}, "", False),
        ("q?exchange=amq.topic&rabbithub=amq.topic", {"rabbithub_mirror": True}, "", False),
        ("q?exchange=hookwire&vhost=v", {}, "", False),
        ("q?exchange=hookwire", {"amqp_source_url": "amqp://guest:guest@other/"}, "", False),
        ("q", {}, "", False),
    ],
)  # fmt: skip
async def test_a_loop_of_source_and_sink_is_refused_at_the_start(
    database_url: str, running_hub: RunHub, source: str, settings: dict[str, object], statement: str, refused: bool
) -> None:
    """FM-03."""
    async with running_hub() as hub:
        if statement:
            await hub.sql(statement)
    read = Settings(**{"amqp_url": "amqp://guest:guest@here/", "amqp_sources": source, **settings})  # type: ignore[arg-type]
    found = await amqp_source_checks(read, PoolOptions(database_url))

    assert [check.level == "refuse" for check in found] == [refused]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"amqp_exchange": "shop"}, 400),
        ({"amqp_exchange": "shop", "sinks": ["webhooks"]}, 200),
        ({"amqp_exchange": "other"}, 200),
        ({}, 200),
    ],
)
async def test_settings_of_a_topic_that_would_bring_back_its_events_are_refused(
    shared_hub: RunHub, body: dict[str, object], status: int
) -> None:
    """FM-03: the next start would refuse them."""
    amqp = "amqp://guest:guest@127.0.0.1:1/"
    async with shared_hub(amqp_url=amqp, amqp_sources="q?exchange=shop&topic=t,r?exchange=shop&rabbithub=e") as hub:
        answers = [await hub.client.put(f"/topics/{topic}/settings", json=body) for topic in ("t", "other")]

    assert [answer.status_code for answer in answers] == [status, 200]


@pytest.mark.parametrize("text", ["", "?topic=t", "q?odd=1", "q?topic=t&topic=u", "q?key=k", "q?exchange=e&type=odd",
                                  "q?topic=t&rabbithub=x", f"{'q' * 241}", "q?topic=a..b", "q?topic=t,x",
                                  "q?topic=hookwire.x", "tür", "q?exchange=a(b)", "q?vhost=.", "q?vhost=..",
                                  "q?vhost=a%252Fb", "q?vhost=/", "q?nonsense"])  # fmt: skip
def test_a_source_that_is_none_is_refused(text: str) -> None:
    """FM-03."""
    with pytest.raises(ValueError, match=re.escape(repr(text)) if "?nonsense" not in text else "bad query field"):
        route_of(text)


@pytest.mark.parametrize(
    ("url", "is_same"),
    [
        ("amqp://reader:secret@HERE:5672/%2F", True),
        ("amqp://here", True),
        ("amqp://here/other", False),
        ("amqp://here:5673/", False),
        ("amqp://there/", False),
    ],
)
def test_a_source_of_the_sinks_broker_is_known_by_its_place(url: str, is_same: bool) -> None:
    """GM-10: another user or spelling turned one exchange both ways into a loop."""
    read = Settings(amqp_url="amqp://guest:guest@here/", amqp_source_url=url, amqp_sources="q")  # type: ignore[arg-type]
    assert bool(read.sources_of_sink()) == is_same


@pytest.mark.parametrize(
    ("source", "url", "reason"),
    [
        ("q?shared=true", "amqp://there/", "shared=true needs HOOKWIRE_AMQP_URL"),
        ("q?vhost=eu", "amqp://here/eu", "leave vhost out"),
    ],
)
def test_a_source_that_its_broker_makes_impossible_is_refused(source: str, url: str, reason: str) -> None:
    """GM-10."""
    with pytest.raises(ValueError, match=reason):
        Settings(amqp_url="amqp://here/", amqp_source_url=url, amqp_sources=source)  # type: ignore[arg-type]

"""RabbitHub's exchanges in AMQP: mirrors on a real RabbitMQ, and the exchanges that each virtual host has."""

from __future__ import annotations

import json
import secrets

import aio_pika
import pytest

from scripts.servers.rabbitmq import RabbitServer
from tests.app.conftest import ALL_ROLES, RunHub
from tests.app.web.test_rabbithub import Q, X, form, statuses
from tests.hub.callback import serve_callbacks

MIRRORED = {"amqp.mirror": "true"}
BUILT_IN = {"amq.direct": "direct", "amq.fanout": "fanout", "amq.topic": "topic", "amq.match": "headers"}


async def bound(server: RabbitServer, exchange: str, exchange_type: str, key: str = "", **arguments: str) -> str:
    """Declare the exchange as a consumer would, and a queue that is bound to it; returns the queue's name."""
    name = f"mirror-{secrets.token_hex(4)}"
    async with await aio_pika.connect(server.url) as connection, connection.channel() as channel:
        queue = await channel.declare_queue(name, durable=True)
        if exchange:
            there = await channel.declare_exchange(exchange, exchange_type, durable=True)
            await queue.bind(there, key, arguments=arguments or None)
    return name


async def taken(server: RabbitServer, queue: str) -> aio_pika.abc.AbstractIncomingMessage:
    """The next message of a queue."""
    async with (
        await aio_pika.connect(server.url) as connection,
        connection.channel() as channel,
        (await channel.get_queue(queue)).iterator(no_ack=True, timeout=60) as messages,
    ):
        return await anext(messages)


@pytest.mark.parametrize(
    ("exchange_type", "binding", "arguments", "key"),
    [
        ("fanout", "", {}, "any.key"),
        ("direct", "push", {}, "push"),
        ("topic", "eu.*.#", {}, "eu.orders.new"),
        ("headers", "", {"x-match": "all", "colour": "red"}, ""),
    ],
)
async def test_what_is_posted_to_a_mirrored_exchange_reaches_amqp_and_callbacks(
    running_hub: RunHub, rabbitmq: RabbitServer, exchange_type: str, binding: str, arguments: dict[str, str], key: str
) -> None:
    """FM-02: the exchange has its name and type there, the routing key is the topic, headers are the message's."""
    name = f"mirrored-{secrets.token_hex(4)}"
    async with running_hub(ALL_ROLES, amqp_url=rabbitmq.url) as hub, serve_callbacks() as callbacks:
        await hub.client.put(f"{X}/{name}", params={"amqp.exchange_type": exchange_type, **MIRRORED})
        queue = await bound(rabbitmq, name, exchange_type, binding, **arguments)
        topic = "x-match=all, colour=red" if exchange_type == "headers" else binding
        subscribed = await hub.client.post(f"/rabbithub/subscribe/x/{name}", data=form(callbacks, topic))
        posted = await hub.client.post(
            f"{X}/{name}", params={"hub.topic": key}, headers={"X-Rabbithub-Msg_header": "colour=red"}, content=b"\x00m"
        )
        message = await taken(rabbitmq, queue)
        (delivered,) = await callbacks.wait_for_posts(1)

    assert (subscribed.status_code, posted.status_code, delivered[2], message.body) == (204, 202, b"\x00m", b"\x00m")
    assert (message.exchange, message.routing_key, message.headers["colour"]) == (name, key, "red")


async def test_the_setting_mirrors_each_exchange_that_does_not_say_otherwise(
    running_hub: RunHub, rabbitmq: RabbitServer
) -> None:
    """FM-02: turned off and on again, an exchange's topic is routed anew; it is for / only."""
    name = f"mirrored-{secrets.token_hex(4)}"
    async with running_hub(amqp_url=rabbitmq.url, rabbithub_mirror=True) as hub:
        routes = []
        for mirror in ("", "?amqp.mirror=false", "?amqp.mirror=default"):
            await hub.client.put(f"{X}/{name}{mirror}")
            await hub.client.post(f"{X}/{name}", params={"hub.topic": "k"})
            routes += await hub.sql(
                "SELECT sinks, amqp_exchange, amqp_exchange_type, amqp_routing_key FROM hookwire.topics"
                " WHERE name LIKE 'hookwire.rabbithub.%'"
            )
        await hub.client.put("/rabbithub/v/endpoint/x/there")
        await hub.client.post("/rabbithub/v/endpoint/x/there")
        elsewhere = await hub.sql("SELECT sinks FROM hookwire.topics WHERE amqp_exchange_type IS NULL")
        refused = await statuses(
            hub.client.put(f"{X}/x?amqp.mirror=yes"), hub.client.put(f"{Q}/q?amqp.mirror=true"),
            hub.client.put("/rabbithub/a%252Fb/endpoint/x/x?amqp.mirror=true"),
        )  # fmt: skip

    place = (name, "fanout", "k")
    assert [(sorted(sinks), *there) for sinks, *there in routes] == [
        (["amqp", "webhooks"], *place), (["webhooks"], *place), (["amqp", "webhooks"], *place),
    ]  # fmt: skip
    assert ((["webhooks"],) in elsewhere, refused) == (True, [400, 400, 400])


@pytest.mark.parametrize("by_setting", [False, True])
@pytest.mark.parametrize("name", ["t%C3%BCr", "a(b)", "x" * 128])
async def test_an_exchange_whose_name_amqp_cannot_have_is_not_mirrored(
    shared_hub: RunHub, name: str, by_setting: bool
) -> None:
    """FM-02: it is not made either; without a mirror it may have any name."""
    wanted = "" if by_setting else "?amqp.mirror=true"
    async with shared_hub(rabbithub_mirror=by_setting) as hub:
        refused = await hub.client.put(f"{X}/{name}{wanted}")
        found = await statuses(
            hub.client.get(f"{X}/{name}"), hub.client.put(f"{X}/{name}?amqp.mirror=false"),
            hub.client.put(f"{X}/{name}"),
        )  # fmt: skip

    assert (refused.status_code, "AMQP names have" in refused.text, found) == (400, True, [404, 201, 204])


async def test_a_message_to_the_default_exchange_reaches_the_queues_of_its_key(
    running_hub: RunHub, rabbitmq: RabbitServer
) -> None:
    """FM-02: a queue of the hub and one of AMQP; each is bound by its own name, and nobody binds another."""
    async with running_hub(ALL_ROLES, amqp_url=rabbitmq.url) as hub, serve_callbacks() as callbacks:
        name = await bound(rabbitmq, "", "direct")
        made = await statuses(hub.client.put(f"{X}/", params=MIRRORED), hub.client.put(f"{Q}/{name}"))
        await hub.client.post(f"/rabbithub/subscribe/q/{name}", data=form(callbacks, ""))
        posted = await hub.client.post(f"{X}/", params={"hub.topic": name}, content=b"m")
        message = await taken(rabbitmq, name)
        ((_, about, body),) = await callbacks.wait_for_posts(1)
        bindings = await hub.client.post("/rabbithub/subscribe/x/", data=form(callbacks, name))

    assert (made, posted.status_code, message.body, body, bindings.status_code) == ([204, 201], 202, b"m", b"m", 403)
    assert (about["x-amqp-routing-key"], message.routing_key) == (name, name)


@pytest.mark.parametrize(("name", "exchange_type"), BUILT_IN.items())
async def test_the_exchanges_of_every_virtual_host_are_there(
    running_hub: RunHub, name: str, exchange_type: str
) -> None:
    """FX-04: in a virtual host from the first resource that it has; they are neither changed nor deleted."""
    async with running_hub(ALL_ROLES) as hub, serve_callbacks() as callbacks:
        place = f"{X}/{name}"
        before = await hub.client.get(f"/rabbithub/v/endpoint/x/{name}")
        await hub.client.put("/rabbithub/v/endpoint/q/first")
        found = await statuses(
            hub.client.get(place), hub.client.put(place), hub.client.put(place, params={"amqp.exchange_type": "odd"}),
            hub.client.delete(place), hub.client.post(place, content=b"m"),
            hub.client.get(f"/rabbithub/v/endpoint/x/{name}"), hub.client.put(f"{X}/amq.mine"),
        )  # fmt: skip
        shown = (await hub.client.get(place, headers={"Accept": "application/json"})).json()
        answer = await hub.client.post(f"/rabbithub/subscribe/x/{name}", data=form(callbacks, ""))

    assert (before.status_code, found) == (404, [200, 204, 409, 403, 202, 200, 400])
    assert (shown["type"], answer.status_code) == (exchange_type, 204)


@pytest.mark.parametrize("exchange_type", ["direct", "topic", "fanout"])
async def test_an_empty_topic_is_a_binding_key(running_hub: RunHub, exchange_type: str) -> None:
    """FX-04: it chooses the messages without a routing key; a missing one is missing."""
    async with running_hub(ALL_ROLES) as hub, serve_callbacks() as callbacks:
        await hub.client.put(f"{X}/e", params={"amqp.exchange_type": exchange_type})
        wish = form(callbacks, "")
        subscribed = await hub.client.post("/rabbithub/subscribe/x/e", data=wish)
        missing = await hub.client.post(
            "/rabbithub/subscribe/x/e", data={n: v for n, v in wish.items() if n != "hub.topic"}
        )
        await hub.client.post(f"{X}/e", content=b"m")
        ((target, _, body),) = await callbacks.wait_for_posts(1)
        shown = await hub.client.get(
            "/rabbithub/subscriptions/x/e", params={"hub.callback": wish["hub.callback"], "hub.topic": ""}
        )

    assert (subscribed.status_code, missing.status_code, missing.text) == (204, 400, "hub.topic is missing\n")
    assert (target, body, shown.json()["topic"]) == ("/cb?hub.topic=", b"m", "")


async def test_a_comma_before_a_closing_bracket_is_taken(running_hub: RunHub) -> None:
    """FX-04: as the example in RabbitHub's README has it; within a string a comma is the string's."""
    async with running_hub() as hub, serve_callbacks() as callbacks:
        await hub.client.put(f"{X}/e")
        wish = {"callback": callbacks.url(), "topic": 'a,}\\"', "mode": "subscribe", "verify": "sync"}
        text = json.dumps({"hub": wish}).replace("}}", " , \n}}")
        answer = await hub.client.post(
            "/rabbithub/subscribe/x/e", content=text, headers={"Content-Type": "application/json"}
        )
        broken = await hub.client.post(
            "/rabbithub/subscribe/x/e", content='{"hub": {,}}', headers={"Content-Type": "application/json"}
        )
        ((topic,),) = await hub.sql("SELECT hub_topic FROM hookwire.rabbithub_subscriptions")

    assert (answer.status_code, topic, broken.status_code) == (204, 'a,}\\"', 400)

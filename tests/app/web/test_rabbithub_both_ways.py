"""One exchange of RabbitHub both ways: POSTed to, published to over AMQP, subscribed and consumed (GM-08, GM-10)."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from urllib.parse import quote

import aio_pika
import asyncpg
import pytest

from scripts.servers.rabbitmq import RabbitServer
from tests.app.assembly.test_sources import ROLES, counted
from tests.app.conftest import ALL_ROLES, RunHub, RunningHub
from tests.app.web.test_rabbithub import Q, X, form
from tests.databases import Databases
from tests.hub.callback import Callbacks, answers, serve_callbacks
from tests.waiting import until


class Site:
    """An exchange of a name of its own, in a virtual host, and a queue that an AMQP program has bound to it."""

    def __init__(self, server: RabbitServer, vhost: str = "/") -> None:
        self.name = f"both-{secrets.token_hex(4)}"
        self.vhost = vhost
        place = "" if vhost == "/" else f"/{quote(vhost, safe='')}"
        self.endpoint = f"/rabbithub{place}/endpoint/x/{self.name}"
        self.subscribe = f"/rabbithub{place}/subscribe/x/{self.name}"
        self.url = server.url.rstrip("/") + (place or "/")
        vhost_part = "" if vhost == "/" else f"&vhost={quote(vhost, safe='')}"
        self.source = f"{self.name}.in?exchange={self.name}&rabbithub={self.name}{vhost_part}"

    def settings(self, server: RabbitServer, number: int = 0) -> dict[str, str]:
        source = self.source.replace(".in?", f".in{number}?") if number else self.source
        return {"amqp_url": server.url, "amqp_exchange": f"{self.name}-hub", "amqp_sources": source}

    @asynccontextmanager
    async def channel(self) -> AsyncIterator[aio_pika.abc.AbstractChannel]:
        async with await aio_pika.connect(self.url) as connection, connection.channel() as channel:
            yield channel

    async def bind(self) -> None:
        async with self.channel() as channel:
            queue = await channel.declare_queue(f"{self.name}.amqp", durable=True)
            await queue.bind(await channel.get_exchange(self.name), "#")

    async def publish(self, *bodies: bytes) -> None:
        async with self.channel() as channel:
            for body in bodies:
                message = aio_pika.Message(body, message_id=secrets.token_hex(8))
                await (await channel.get_exchange(self.name)).publish(message, "push.site")

    async def consumed(self, *wanted: bytes) -> list[bytes]:
        """Take messages out of the AMQP program's queue until these have come, and then the rest."""
        found: list[bytes] = []
        async with self.channel() as channel:
            queue = await channel.get_queue(f"{self.name}.amqp")

            async def take() -> bool:
                while (message := await queue.get(no_ack=True, fail=False)) is not None:
                    found.append(message.body)
                return set(found) >= set(wanted)

            await until(take)
        return sorted(found)


async def opened(hub: RunningHub, site: Site, callbacks: Callbacks, path: str = "/cb", number: int = 0) -> None:
    """The exchange is mirrored and subscribed, and its source reads."""
    made = await hub.client.put(site.endpoint, params={"amqp.exchange_type": "topic", "amqp.mirror": "true"})
    assert made.status_code in (201, 204), made.text
    subscribed = await hub.client.post(site.subscribe, data=form(callbacks, "push.#", path))
    assert subscribed.status_code == 204, subscribed.text
    await counted(hub, "connected", queue=f"{site.name}.in{number or ''}")


@pytest.mark.parametrize("vhost", ["/", "shop/eu"])
async def test_one_exchange_is_posted_to_published_to_subscribed_and_consumed(
    running_hub: RunHub, rabbitmq: RabbitServer, vhost: str
) -> None:
    """GM-10: each message once at the callback and once in the AMQP queue, in any virtual host."""
    if vhost != "/":
        await asyncio.to_thread(rabbitmq.ctl, "add_vhost", vhost)
        await asyncio.to_thread(rabbitmq.ctl, "set_permissions", "-p", vhost, "guest", ".*", ".*", ".*")
    site = Site(rabbitmq, vhost)
    async with running_hub(ROLES, **site.settings(rabbitmq)) as hub, serve_callbacks() as callbacks:
        await opened(hub, site, callbacks)
        await site.bind()
        await hub.client.post(site.endpoint, params={"hub.topic": "push.site"}, content=b"posted")
        await site.publish(b"published")
        await callbacks.wait_for_posts(2)
        await counted(hub, "messages_total", queue=f"{site.name}.in", outcome="returned")
        await hub.client.post(site.endpoint, params={"hub.topic": "push.site"}, content=b"last")
        posts = await callbacks.wait_for_posts(3)
        consumed = await site.consumed(b"posted", b"published", b"last")
        owed = await hub.sql("SELECT count(*) FROM hookwire.held")

    wanted = [b"last", b"posted", b"published"]
    assert (sorted(body for _, _, body in posts), consumed, owed) == (wanted, wanted, [(0,)])


async def test_the_answer_comes_after_amqp_has_the_exchange(running_hub: RunHub, rabbitmq: RabbitServer) -> None:
    """GM-08: a consumer can bind at once; the exchange was declared with its first message only."""
    site = Site(rabbitmq)
    async with running_hub(ALL_ROLES, amqp_url=rabbitmq.url) as hub:
        made = await hub.client.put(f"{site.endpoint}?amqp.mirror=true")
        await site.bind()

    assert (made.status_code, made.headers["location"]) == (201, f"{hub.url}{site.endpoint}")


@pytest.mark.parametrize(
    ("roles", "vhost", "reason"),
    [
        (("api",), "", "no relay has HOOKWIRE_AMQP_URL"),
        (ALL_ROLES, "/nowhere", "cannot connect to the AMQP broker: "),
    ],
)
async def test_an_exchange_that_amqp_has_not_yet_is_declaring(
    running_hub: RunHub, rabbitmq: RabbitServer, roles: tuple[str, ...], vhost: str, reason: str
) -> None:
    """GM-08: nobody relays to AMQP, and a virtual host that the broker has not; each with its reason."""
    async with running_hub(roles, amqp_url=rabbitmq.url) as hub:
        answer = await hub.client.put(f"/rabbithub{vhost}/endpoint/x/e?amqp.mirror=true")

    told = answer.json()
    assert (answer.status_code, told["state"], told["reason"][: len(reason)]) == (202, "declaring", reason)


async def test_a_mirrored_exchange_that_is_deleted_by_hand_comes_back_with_the_binding_of_its_source(
    running_hub: RunHub, rabbitmq: RabbitServer
) -> None:
    """GM-10: nothing told the source, so it waited for ever for messages of an exchange that had lost its queue."""
    site = Site(rabbitmq)
    async with running_hub(ROLES, **site.settings(rabbitmq)) as hub, serve_callbacks() as callbacks:
        await opened(hub, site, callbacks)
        async with site.channel() as channel:
            await channel.exchange_delete(site.name)
        await hub.client.post(site.endpoint, params={"hub.topic": "push.site"}, content=b"posted")

        async def arrives() -> bool:
            try:
                await site.publish(b"published")
            except (aio_pika.exceptions.AMQPError, aio_pika.exceptions.ChannelInvalidStateError):
                return False
            return b"published" in {body for _, _, body in callbacks.posted}

        await until(arrives)
        bodies = {body for _, _, body in callbacks.posted}

    assert bodies == {b"posted", b"published"}


async def test_three_hubs_that_share_an_exchange_make_no_loop(
    running_hub: RunHub, rabbitmq: RabbitServer, database_url: str, databases18: Databases
) -> None:
    """GM-10: each mirrors and reads it; a message that one of them sends reaches each subscriber and AMQP once."""
    site = Site(rabbitmq)
    async with AsyncExitStack() as stack:
        callbacks = await stack.enter_async_context(serve_callbacks())
        hubs = []
        for number in range(1, 4):
            url = database_url if number == 1 else stack.enter_context(databases18.fresh())
            connection = await asyncpg.connect(url)
            await connection.execute("UPDATE hookwire.installation SET incarnation = $1", chr(ord("a") + number) * 8)
            await connection.close()
            running = running_hub(ROLES, database_url=url, **site.settings(rabbitmq, number))
            hubs.append(await stack.enter_async_context(running))
            await opened(hubs[-1], site, callbacks, f"/{number}", number)
        await site.bind()
        await site.publish(b"amqp")
        await callbacks.wait_for_posts(3)
        for text in (b"first", b"last"):  # whatever a hub sends back comes before its last message
            for number, hub in enumerate(hubs):
                body = b"%b %d" % (text, number)
                await hub.client.post(site.endpoint, params={"hub.topic": "push.site"}, content=body)
            await callbacks.wait_for_posts(12 if text == b"first" else 21)
        wanted = [b"amqp", *(b"%b %d" % (text, number) for text in (b"first", b"last") for number in range(3))]
        consumed = await site.consumed(*wanted)

    delivered = Counter((target.partition("?")[0], body) for target, _, body in callbacks.posted)
    assert (set(delivered.values()), len(delivered), consumed) == ({1}, 21, wanted)


async def has_queue(connection: aio_pika.abc.AbstractConnection, name: str) -> bool:
    try:
        async with connection.channel() as channel:
            await channel.get_queue(name)
    except aio_pika.exceptions.ChannelNotFoundEntity:
        return False
    return True


async def test_subscribers_of_a_shared_queue_compete_with_its_amqp_consumers(
    running_hub: RunHub, rabbitmq: RabbitServer
) -> None:
    """GM-10, RH-27: what is POSTed waits in AMQP while nobody subscribes; each message goes to one of both sides."""
    name = f"shared-{secrets.token_hex(4)}"
    settings = {"amqp_url": rabbitmq.url, "amqp_exchange": f"{name}-hub", "amqp_sources": f"{name}?shared=true"}
    async with running_hub(ROLES, **settings) as hub, serve_callbacks() as callbacks, AsyncExitStack() as stack:
        connection = await stack.enter_async_context(await aio_pika.connect(rabbitmq.url))
        channel = await stack.enter_async_context(connection.channel())
        await until(partial(has_queue, connection, name))
        queue = await channel.get_queue(name)
        await hub.client.put(f"{Q}/{name}")
        for number in range(2):
            await hub.client.post(f"{Q}/{name}", content=b"early %d" % number)
        early: list[bytes] = []

        async def take() -> bool:
            while (message := await queue.get(no_ack=True, fail=False)) is not None:
                early.append(message.body)
            return len(early) == 2

        await until(take)
        subscribed = await hub.client.post(f"/rabbithub/subscribe/q/{name}", data=form(callbacks, ""))
        await counted(hub, "connected", queue=name)
        mine: list[bytes] = []
        await channel.set_qos(prefetch_count=1)

        async def work(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            mine.append(message.body)
            await message.ack()

        await queue.consume(work)
        wanted = [b"%d" % number for number in range(40)]
        for body in wanted:
            await hub.client.post(f"{X}/", params={"hub.topic": name}, content=body)
        await until(lambda: len(mine) + len(callbacks.posted) >= len(wanted))
        theirs = [body for _, _, body in callbacks.posted]

    assert (subscribed.status_code, sorted(early)) == (204, [b"early 0", b"early 1"])
    assert (sorted(mine + theirs), bool(mine), bool(theirs)) == (sorted(wanted), True, True)


async def test_a_refused_message_of_a_shared_queue_delays_no_other(running_hub: RunHub, rabbitmq: RabbitServer) -> None:
    """GM-10, RH-29: it waits an hour for its next attempt, and its only subscriber is free meanwhile."""
    name = f"shared-{secrets.token_hex(4)}"
    settings = {
        "amqp_url": rabbitmq.url, "amqp_exchange": f"{name}-hub", "amqp_sources": f"{name}?shared=true",
        "retry_schedule_seconds": "3600",
    }  # fmt: skip
    async with running_hub(ROLES, **settings) as hub, serve_callbacks() as callbacks:
        callbacks.script[f"/cb?hub.topic={name}"] = answers(500)
        await hub.client.put(f"{Q}/{name}")
        await hub.client.post(f"/rabbithub/subscribe/q/{name}", data=form(callbacks, ""))
        await counted(hub, "connected", queue=name)
        for body in (b"refused", b"next"):
            await hub.client.post(f"{Q}/{name}", content=body)
        await callbacks.wait_for_posts(2)
        bodies = [body for _, _, body in callbacks.posted]

    assert bodies == [b"refused", b"next"]


async def test_a_mirror_that_amqp_cannot_name_delays_no_other(running_hub: RunHub, rabbitmq: RabbitServer) -> None:
    """GM-08: the exchange is older than the setting that mirrors it, so nobody has refused its name."""
    name = f"both-{secrets.token_hex(4)}"
    async with running_hub() as hub:
        await hub.client.put(f"{X}/a(b)")
    async with running_hub(ALL_ROLES, amqp_url=rabbitmq.url, rabbithub_mirror=True) as hub:
        found = [(await hub.client.put(f"{X}/{one}")).status_code for one in (name, "a(b)")]
        told = (await hub.client.put(f"{X}/a(b)")).json()["reason"]

    assert (found, told[:15]) == ([201, 202], "AMQP names have")


async def test_a_source_declares_an_exchange_with_the_type_that_it_has_in_rabbithub(
    running_hub: RunHub, rabbitmq: RabbitServer
) -> None:
    """GM-10: it was a topic exchange in AMQP, whatever it was here; the broker refuses another type than it has."""
    site = Site(rabbitmq)
    async with running_hub(ROLES, **site.settings(rabbitmq)) as hub, site.channel() as channel:
        await hub.client.put(site.endpoint, params={"amqp.exchange_type": "fanout"})
        await counted(hub, "connected", queue=f"{site.name}.in")
        found = await channel.declare_exchange(site.name, "fanout", durable=True)

    assert found.name == site.name

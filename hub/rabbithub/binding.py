"""RabbitHub's shortcut: bind our own queue to our own exchange, without HTTP (RH-18).

    queue --generate_token--> token --hub.verify_token of a subscribe request to the exchange--> binding

Messages that the exchange routes to a binding move into the queue (`hub.rabbithub.queues`). A binding has no lease. It
is listed as a subscription whose callback is the queue's endpoint. It ends by unsubscribing with a token for that, by a
DELETE, or with its exchange or queue.
"""

from __future__ import annotations

import json
import secrets

from hub.acceptance import Hub
from hub.form import FormRefused, Mode
from hub.rabbithub.resource import Place, Resource, Wish, address, find, find_by_id, identity, made_of
from hub.rabbithub.token import read

__all__ = ["bind", "bind_queue_of_key", "bound_queue", "unbind"]


async def bound_queue(hub: Hub, exchange: Resource, wish: Wish) -> Resource | None:
    """Return the queue whose own token this request brings; None: verify it by HTTP.

    Raises ``FormRefused`` 400: the token is for another use.
    """
    found = read(hub.secret_box, wish.verify_token or "")
    if found is None or exchange.place.kind != "x":
        return None
    number, use = found
    queue = await find_by_id(hub, number)
    if queue is None or queue.place.kind != "q":
        return None
    if use != wish.mode:
        raise FormRefused(400, "hub.verify_token", f"is to {use}")
    return queue


async def bind(hub: Hub, exchange: Resource, queue: Resource, hub_topic: str) -> None:
    """Bind the queue: messages that the exchange routes by ``hub_topic`` go into it from now on. Idempotent."""
    callback = address(hub, "endpoint", queue.place)
    made = made_of(hub, exchange, Wish(Mode.SUBSCRIBE, hub_topic, callback))
    pair = identity(exchange, hub_topic, callback)
    async with hub.database.transaction() as session:
        binding = await session.fetchval(
            "rabbithub.bind", f"sub_{secrets.token_hex(12)}", hub.tenant, json.dumps(made), callback, pair
        )
        await session.execute("rabbithub.describe_binding", binding, exchange.id, hub_topic, queue.id)


async def bind_queue_of_key(hub: Hub, exchange: Resource, key: str) -> None:
    """Bind the queue that a routing key names to the default exchange, as AMQP does for each queue by its own name.

    This happens when a message is published there, so a queue without messages costs nothing.
    """
    try:
        queue = await find(hub, Place(exchange.place.vhost, "q", key))
    except FormRefused:
        return
    if not await hub.database.fetchval("rabbithub.is_bound", exchange.id, queue.id, key):
        await bind(hub, exchange, queue, key)


async def unbind(hub: Hub, exchange: Resource, queue: Resource, hub_topic: str) -> None:
    """Unbind the queue; messages that were routed already stay in it. Raise ``FormRefused`` 404."""
    pair = identity(exchange, hub_topic, address(hub, "endpoint", queue.place))
    async with hub.database.transaction() as session:
        await session.execute("rabbithub.move_bound")
        if await session.fetchrow("rabbithub.delete_subscription", hub.tenant, pair) is None:
            raise FormRefused(404, "", "the queue is not bound so")

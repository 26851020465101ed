"""Mirrors: exchanges of RabbitHub whose messages AMQP gets too, each in an exchange of its name, type and virtual host.

A queue that is AMQP's, too, gets what is POSTed to it by AMQP; a source hands it to subscribers from there.

    PUT --> asked --> NOTIFY --> relay: declares it in AMQP --> declared --> the answer to the PUT

A relay declares the exchange, because this room never speaks AMQP while it publishes. A PUT waits for it some seconds.
"""

from __future__ import annotations

import asyncio
from typing import Final

from db.pool import Session
from hub.acceptance import Hub
from hub.form import FormRefused
from hub.rabbithub.exchange import queue_topic
from hub.rabbithub.place import Place, Resource
from relay.amqp.name import NAME_RULE, VHOST_RULE, is_exchange_name, is_vhost_name

__all__ = ["await_declaration", "check_mirror", "ensure_topic", "is_shared", "set_mirror", "shared_topic"]

_DEFAULT_EXCHANGE: Final = "amq.default"
"""The AMQP sink's name for the exchange without a name."""
_DECLARE_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = (0.01, 0.25)


def check_mirror(hub: Hub, place: Place, mirror: bool | None) -> None:
    """Check whether AMQP may get the messages of an exchange.

    ``mirror`` None: the hub's setting decides; it is for the virtual host "/". Raise ``FormRefused``: 400 it is no
    exchange, or AMQP cannot have its name.
    """
    if mirror is None:
        mirror = hub.options.rabbithub_mirror and place.kind == "x" and place.vhost == "/"
    if mirror and place.kind != "x":
        raise FormRefused(400, "amqp.mirror", "is for exchanges")
    if mirror and place.name and not is_exchange_name(place.name):
        raise FormRefused(400, "amqp.mirror", f"is impossible with this name: {NAME_RULE}")
    if mirror and not place.vhost.isprintable():
        raise FormRefused(400, "amqp.mirror", "is impossible in this virtual host: its name is printable text")
    if mirror and not is_vhost_name(place.vhost):
        raise FormRefused(400, "amqp.mirror", f"is impossible in this virtual host: {VHOST_RULE}")


async def set_mirror(hub: Hub, resource: Resource, mirror: bool | None) -> None:
    """Turn the AMQP mirror of an exchange on or off from now on, or leave it to the hub's setting.

    Raise ``FormRefused`` as :func:`check_mirror`.
    """
    check_mirror(hub, resource.place, mirror)
    await hub.database.execute("rabbithub.set_mirror", resource.id, mirror)


async def await_declaration(hub: Hub, resource: Resource) -> str | None:
    """Ask a relay to declare a mirrored exchange in AMQP, and wait for it.

    Return None once the broker has it, also if it is not mirrored; otherwise why the broker has it not yet.
    """
    asked = await hub.database.fetchrow("rabbithub.ask_declare", resource.id, hub.options.rabbithub_mirror)
    if asked is None:
        return None
    if not asked["configured"]:
        return "no relay has HOOKWIRE_AMQP_URL"
    pause, pause_max = _PAUSE_SECONDS
    ends_at = asyncio.get_running_loop().time() + _DECLARE_SECONDS
    while asyncio.get_running_loop().time() < ends_at:
        row = await hub.database.fetchrow("rabbithub.declaration", resource.id)
        if row is None or row["is_declared"]:
            return None
        if row["declare_problem"] is not None:
            return str(row["declare_problem"])
        await asyncio.sleep(pause)
        pause = min(pause * 2, pause_max)
    return "no relay has declared it yet"


def is_shared(hub: Hub, place: Place) -> bool:
    """Return whether a queue is AMQP's, too."""
    return place.kind == "q" and (place.vhost, place.name) in hub.options.shared_queues


def shared_topic(resource: Resource) -> str:
    """Return the topic of messages that are on their way to a queue of AMQP's."""
    return f"{queue_topic(resource.id)}.amqp"


async def ensure_topic(
    hub: Hub, session: Session, resource: Resource, topic: str, routing_key: str, key_id: str | None = None
) -> None:
    """Create the topic of a message, or route it anew where the mirror of its exchange was turned on or off."""
    place = resource.place
    by_default = hub.options.rabbithub_mirror and place.vhost == "/"
    there: tuple[str | None, str | None, str | None, str | None] = None, None, None, None
    if place.kind == "x" and (by_default if resource.mirror is None else resource.mirror):
        vhost = None if place.vhost == "/" else place.vhost
        there = place.name or _DEFAULT_EXCHANGE, resource.exchange_type, routing_key, vhost
    elif topic == shared_topic(resource):
        there = _DEFAULT_EXCHANGE, "direct", place.name, None if place.vhost == "/" else place.vhost
    await session.execute("rabbithub.ensure_topic", hub.tenant, topic, *there, key_id or "")
    await session.execute("rabbithub.mirror_topic", hub.tenant, topic, *there)

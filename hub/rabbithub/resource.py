"""RabbitHub's verbs: resources, publishing, subscribing. No HTTP here.

    exchange   a space of topics (`hub.rabbithub.exchange`); a subscription is a binding with durable deliveries
    queue      messages wait as deliveries without a receiver, until one is free (`hub.rabbithub.queues`)
    subscribe  a request of PubSubHubbub 0.3, verified like a request of WebSub

Storage, fan-out, delivery, retries, dead letters and the guard are those of other subscriptions. Unsubscribing, and the
end of a lease, make a subscription inactive; it is kept, and subscribing again activates it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote

import structlog

from db.errors import DatabaseError
from db.names import TooManyNames
from db.pool import Row, Session
from db.secret_box import SecretBox
from event.event import Draft
from hub.acceptance import Hub, callback_target, request_context, take_tokens
from hub.form import FormRefused, Mode, Verify
from hub.publish import store_event
from hub.rabbithub.exchange import BUILT_IN, TYPES, Binding, RoutingError, bind, queue_topic, topic_of_key
from hub.rabbithub.mirror import ensure_topic, is_shared, shared_topic
from hub.rabbithub.place import Place, Resource
from hub.topic_url import matching_text
from webhooks.custom_header import is_private
from webhooks.message import MESSAGE_ID_HEADER
from webhooks.subscriber import headers_context

__all__ = [
    "Place",
    "RabbitHubMessage",
    "Resource",
    "Wish",
    "activate",
    "address",
    "authorization_of",
    "binding_of",
    "create",
    "delete",
    "delete_subscription",
    "exists",
    "find",
    "find_by_id",
    "identity",
    "keep_authorization",
    "lease_seconds_of",
    "made_of",
    "publish",
    "subscribe",
    "withdraw",
]  # fmt: skip

_log = structlog.get_logger(__name__)
_BATCH_ROWS = 5_000
_NAME_BYTES_MAX = 255
_KEY_HEADER = "x-amqp-routing-key"
_AUTHORIZATION = "authorization"
_OUR_PREFIX = "hookwire-"


@dataclass(frozen=True, slots=True)
class RabbitHubMessage:
    """A message to publish.

    ``headers`` are the message's own; ``id_header`` is where subscribers find its id.
    """

    body: bytes
    routing_key: str
    content_type: str | None
    headers: Mapping[str, str]
    id_header: str | None = None


@dataclass(frozen=True, slots=True)
class Wish:
    """A subscribe or unsubscribe request; ``details`` are shown in listings as they were given.

    ``authorization`` is the value of the header that its callback gets, with verifications and deliveries.
    """

    mode: Mode
    hub_topic: str
    callback: str = field(repr=False)
    verify: Verify = Verify.SYNC
    lease_seconds: int | None = None
    verify_token: str | None = field(default=None, repr=False)
    secret: bytes | None = field(default=None, repr=False)
    details: Mapping[str, Any] = field(default_factory=dict)
    authorization: str | None = field(default=None, repr=False)


async def find(hub: Hub, place: Place) -> Resource:
    """Return the resource; raises ``FormRefused`` 404."""
    row = await hub.database.fetchrow("rabbithub.resource", hub.tenant, place.vhost, place.kind, place.name)
    if row is None:
        raise FormRefused(404, "", f"there is no {_word(place)} of this name")
    return _resource(row)


async def exists(hub: Hub, place: Place) -> bool:
    """Return whether there is such a resource."""
    return (
        await hub.database.fetchrow("rabbithub.resource", hub.tenant, place.vhost, place.kind, place.name) is not None
    )


async def find_by_id(hub: Hub, number: int) -> Resource | None:
    """Return the resource of this number."""
    row = await hub.database.fetchrow("rabbithub.resource_by_id", hub.tenant, number)
    return None if row is None else _resource(row)


async def create(hub: Hub, place: Place, exchange_type: str | None) -> tuple[Place, bool]:
    """Create an exchange or a queue; return its place and whether it is new.

    An exchange is a fanout exchange unless a type is given. Built-in exchanges always exist. Raises
    ``FormRefused``: 400 a bad name or type, 409 an exchange of another type.
    """
    if place.kind == "x" and place.name in BUILT_IN:
        if exchange_type not in (None, (await find(hub, place)).exchange_type):
            raise FormRefused(409, "amqp.exchange_type", "is another one already")
        return place, False
    exchange_type = exchange_type or "fanout"
    if place.kind == "q" and not place.name:
        place = Place(place.vhost, "q", f"amq.gen.http-{secrets.token_hex(12)}")
    elif (
        not (place.name and place.name.isprintable())  # it stands in headers of messages
        or place.name.startswith("amq.")
        or len(place.name.encode()) > _NAME_BYTES_MAX
    ):
        raise FormRefused(400, "", "a name has 1 to 255 bytes of printable text and does not begin with amq.")
    if len(place.vhost.encode()) > _NAME_BYTES_MAX:
        raise FormRefused(400, "", f"a virtual host has {_NAME_BYTES_MAX} bytes at most")
    if place.kind == "x" and exchange_type not in TYPES:
        raise FormRefused(400, "amqp.exchange_type", f"is one of {', '.join(TYPES)}")
    async with hub.database.transaction() as session:
        await session.execute("rabbithub.ensure_built_in_exchanges", hub.tenant, place.vhost)
        is_new = await (
            _make_queue(hub, session, place)
            if place.kind == "q"
            else _make_exchange(hub, session, place, exchange_type)
        )
    if not is_new and (await find(hub, place)).exchange_type != (exchange_type if place.kind == "x" else None):
        raise FormRefused(409, "amqp.exchange_type", "is another one already")
    return place, is_new


async def delete(hub: Hub, place: Place, *, if_empty: bool) -> None:
    """Delete it with its subscriptions; raise ``FormRefused``: 404, 403 a built-in exchange, 409 not empty."""
    if place.kind == "x" and place.name in BUILT_IN:
        raise FormRefused(403, "", "an exchange that is built in cannot be deleted")
    resource = await find(hub, place)
    async with hub.database.transaction() as session:
        if place.kind == "x":  # messages that it has routed to a binding belong to the queue
            await session.execute("rabbithub.move_bound")
        if if_empty and resource.source and await session.fetchval("rabbithub.waiting", resource.source):
            raise FormRefused(409, "", "the queue is not empty")
        await session.execute("rabbithub.delete_resource", resource.id)
    if resource.source is not None:
        await _drop_waiting(hub, resource.source)


async def _drop_waiting(hub: Hub, source: int) -> None:
    """Drop the messages of a deleted queue. After a failure, clean-up turns the rest into dead letters."""
    try:
        # Repeat until nothing is left: only the next round finds rows that changed during the deletion.
        while await hub.database.execute("intent.drop_deliveries_of", source, _BATCH_ROWS):
            continue
    except DatabaseError as error:
        _log.warning("rabbithub_queue_not_emptied", error=str(error))


async def publish(hub: Hub, resource: Resource, message: RabbitHubMessage, key_id: str | None = None) -> int:
    """Store a message; return its number once it is committed. Raises ``FormRefused``."""
    place = resource.place
    about = {_KEY_HEADER: message.routing_key, f"x-amqp-{'queue' if place.kind == 'q' else 'exchange'}": place.name}
    if not all(value.isprintable() for value in (*about.values(), *message.headers.values())):
        raise FormRefused(400, "", "the routing key, and the message's headers, are printable text")
    if any(name.startswith(_OUR_PREFIX) for name in message.headers):
        raise FormRefused(400, "x-rabbithub-msg_header", f"names beginning with {_OUR_PREFIX} are the hub's")
    for name in filter(is_private, message.headers):
        raise FormRefused(400, "x-rabbithub-msg_header", f"{name} is private: subscribers would read it in a message")
    if message.id_header is not None:
        about[MESSAGE_ID_HEADER] = message.id_header
    try:
        in_queue = shared_topic(resource) if is_shared(hub, place) else queue_topic(resource.id)
        topic = in_queue if place.kind == "q" else topic_of_key(resource.id, message.routing_key)
    except RoutingError as error:
        raise FormRefused(400, "hub.topic", str(error)) from None
    content_type = message.content_type or "application/octet-stream"
    draft = Draft(topic, message.body, None, content_type, {**message.headers, **about})
    try:
        await hub.names.require_room(topic, key_id)
    except TooManyNames as error:
        raise FormRefused(409, "", str(error)) from None
    async with hub.database.transaction() as session:
        await ensure_topic(hub, session, resource, topic, message.routing_key, key_id)
        number = await store_event(session, hub.tenant, draft)
    hub.on_publish()
    return number


async def subscribe(hub: Hub, resource: Resource, wish: Wish) -> int:
    """Store a request; return its id when it is committed. Raise ``FormRefused``: 400, 403, 429, 503."""
    target = callback_target(hub, wish.callback)
    pair = identity(resource, wish.hub_topic, wish.callback)
    binding = binding_of(resource, wish.hub_topic)
    made = made_of(hub, resource, wish)
    authorization = wish.authorization
    if authorization is None and wish.mode is Mode.UNSUBSCRIBE:
        authorization = await _kept_authorization(hub, pair)
    if authorization is not None:
        key_id, ciphertext = hub.secret_box.seal(authorization.encode(), _authorization_context(hub.tenant, pair))
        made["authorization"] = [key_id, base64.b64encode(ciphertext).decode()]
    lease_seconds = lease_seconds_of(hub, wish)
    sealed = hub.secret_box.seal(wish.secret, request_context(hub.tenant, pair)) if wish.secret else None
    async with hub.turns.turn():
        async with hub.database.transaction() as session:
            await take_tokens(hub, session, target.host)
        async with hub.database.transaction() as session:
            await session.execute("intent.line_up", target.host)
            intent_id: int = await session.fetchval(
                "rabbithub.accept", hub.tenant, str(wish.mode), binding.topic, wish.hub_topic, wish.callback,
                target.host, pair, lease_seconds if wish.mode is Mode.SUBSCRIBE else None, wish.verify_token,
                sealed.key_id if sealed else None, sealed.ciphertext if sealed else None, str(wish.verify),
                json.dumps(made),
            )  # fmt: skip
    hub.wake()
    return intent_id


def address(hub: Hub, what: str, place: Place) -> str:
    """Return the URL of a resource, as ``endpoint`` or to ``subscribe``."""
    parts = [] if place.vhost == "/" else [place.vhost]
    path = "/".join(quote(part, safe="") for part in (*parts, what, place.kind, place.name))
    return f"{hub.options.public_url}/rabbithub/{path}"


def made_of(hub: Hub, resource: Resource, wish: Wish) -> dict[str, Any]:
    """Return the columns of a verified request's subscription; raise ``FormRefused`` 400."""
    binding = binding_of(resource, wish.hub_topic)
    return {
        "resource": resource.id, "hub_topic": wish.hub_topic, "topic": binding.topic, "regex": binding.regex,
        "filter": binding.filter_path, "details": dict(wish.details),
        "address": address(hub, "subscribe", resource.place),
    }  # fmt: skip


def lease_seconds_of(hub: Hub, wish: Wish) -> int:
    """Return the lease that is granted; by default 30 days, as in RabbitHub."""
    options = hub.options
    asked = options.lease_seconds_max if wish.lease_seconds is None else wish.lease_seconds
    return min(max(asked, options.lease_seconds_min), options.lease_seconds_max)


async def activate(session: Session, secret_box: SecretBox, row: Row, lease_until: datetime) -> Row:
    """Create or reactivate the subscription of a verified request; return it with the number for its next secret."""
    subscription = await session.fetchrow(
        "rabbithub.activate", f"sub_{secrets.token_hex(12)}", row["tenant"], row["rabbithub"],
        row["callback"], lease_until, row["identity"],
    )  # fmt: skip
    assert subscription is not None
    await session.execute("rabbithub.describe", subscription["id"], row["rabbithub"], row["lease_seconds"])
    await session.execute("throttle.ensure", subscription["id"])
    await keep_authorization(session, secret_box, subscription["id"], authorization_of(secret_box, row))
    return subscription


async def keep_authorization(session: Session, secret_box: SecretBox, subscription: int, value: str | None) -> None:
    """Store the header that deliveries send, or none."""
    if value is None:
        await session.execute("subscription.keep_headers", subscription, None, None, None)
        return
    sealed = secret_box.seal(json.dumps({_AUTHORIZATION: value}).encode(), headers_context(subscription))
    await session.execute("subscription.keep_headers", subscription, [_AUTHORIZATION], *sealed)


def authorization_of(secret_box: SecretBox, row: Row) -> str | None:
    """Return the header that the callback of a request's row gets; raises ``db.secret_box.SecretBoxError``."""
    made = json.loads(row["rabbithub"]) if row["rabbithub"] is not None else {}
    if "authorization" not in made:
        return None
    key_id, ciphertext = made["authorization"]
    context = _authorization_context(row["tenant"], row["identity"])
    return secret_box.open(key_id, base64.b64decode(ciphertext), context).decode()


async def _kept_authorization(hub: Hub, pair: bytes) -> str | None:
    row = await hub.database.fetchrow("rabbithub.authorization", hub.tenant, pair)
    if row is None:
        return None
    opened = hub.secret_box.open(row["headers_key_id"], row["headers_sealed"], headers_context(row["id"]))
    value: str | None = json.loads(opened).get(_AUTHORIZATION)
    return value


def _authorization_context(tenant: str, pair: bytes) -> bytes:
    return b"authorization of " + request_context(tenant, pair)


async def withdraw(session: Session, row: Row) -> None:
    """Make the subscription of a verified request inactive; messages that it held go back to the queue by
    themselves.
    """
    await session.execute("rabbithub.deactivate", row["tenant"], row["identity"])


async def delete_subscription(hub: Hub, resource: Resource, hub_topic: str, callback: str) -> None:
    """Delete it without asking the callback; raise ``FormRefused`` 404."""
    pair = identity(resource, hub_topic, callback)
    async with hub.database.transaction() as session:
        row = await session.fetchrow("rabbithub.delete_subscription", hub.tenant, pair)
        if row is None:
            raise FormRefused(404, "", "there is no such subscription")
        await session.execute("intent.forget_secrets", [row["id"]])


def identity(resource: Resource, hub_topic: str, callback: str) -> bytes:
    """Return the digest of resource, topic and callback, by which requests and subscriptions belong together."""
    return hashlib.sha256(f"rabbithub\0{resource.id}\0{hub_topic}\0{matching_text(callback)}".encode()).digest()


def binding_of(resource: Resource, hub_topic: str) -> Binding:
    """Return the choice of ``hub.topic`` here; raise ``FormRefused`` 400."""
    if resource.exchange_type is None:  # a queue's subscription gets events from the queue, so it chooses no topic
        return Binding("hookwire.rabbithub.consumer")
    try:
        return bind(resource.id, resource.exchange_type, hub_topic)
    except RoutingError as error:
        raise FormRefused(400, "hub.topic", str(error)) from None


async def _make_exchange(hub: Hub, session: Session, place: Place, exchange_type: str) -> bool:
    made = await session.fetchval("rabbithub.make_exchange", hub.tenant, place.vhost, place.name, exchange_type)
    return made is not None


async def _make_queue(hub: Hub, session: Session, place: Place) -> bool:
    source = await session.fetchval("rabbithub.make_source", f"sub_{secrets.token_hex(12)}", hub.tenant)
    queue = await session.fetchval("rabbithub.make_queue", hub.tenant, place.vhost, place.name, source)
    if queue is None:
        await session.execute("rabbithub.drop_source", source)
        return False
    await session.execute("rabbithub.point_source", source, queue_topic(queue))
    return True


def _resource(row: Row) -> Resource:
    place = Place(row["vhost"], row["kind"], row["name"])
    return Resource(row["id"], place, row["exchange_type"], row["source"], row["mirror"])


def _word(place: Place) -> str:
    return "exchange" if place.kind == "x" else "queue"

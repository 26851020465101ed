"""Intake of messages: publish what an AMQP source reads, one message at a time.

    message --own event?--> returned          it came back: a sink and a source make a loop
            --hops------->  refused           it has passed too many hubs: a loop of several
            --topic------>  the route's, the routing key, or an exchange or queue of RabbitHub
            --identity--->  its message id, else a CloudEvent's source and id
            --publish---->  one transaction, shared with other messages and requests

An exchange of RabbitHub may be mirrored to the exchange that the queue is bound to. Then an event of this hub comes
back, and its id tells it. An event that was read there has a header, by which the mirror leaves it out.

An identity counts for the queue and the topic. A message that is delivered again, because its acknowledgement was lost
or this process was killed after COMMIT, finds it and becomes no second event.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence

from db.errors import DatabaseError
from db.names import TooManyNames
from event.attribute import HEADER_PREFIX
from event.event import Draft
from event.hops import HOPS_HEADER, HOPS_MAX, hops_of
from event.identity import is_own, own_prefixes
from event.topic import TopicError, is_reserved, validate_topic
from hub.acceptance import Hub
from hub.form import FormRefused
from hub.intake.drafts import drafts_of, without_private
from hub.publish import IdempotencyConflict, IdempotencyInFlight, KeyBusy, Overloaded, Publisher, PublishRefused
from hub.rabbithub.exchange import RoutingError, queue_topic, topic_of_key
from hub.rabbithub.mirror import ensure_topic
from hub.rabbithub.resource import Place, Resource, find
from hub.topics import Topics, UnknownTopic
from relay.amqp.incoming_header import encode_controls
from relay.source import (
    FROM_MIRROR_HEADER,
    IntakeBusy,
    IntakeRefused,
    IntakeResult,
    IntakeUnavailable,
    SourceMessage,
    SourceRoute,
)

__all__ = ["EventIntake", "events_of_message"]

_TOPICS_KNOWN_MAX = 10_000


class EventIntake:
    """Implements :class:`relay.source.Intake`. ``reads_sink``: the messages come from the broker of the AMQP sink."""

    def __init__(self, hub: Hub, publisher: Publisher, topics: Topics, *, reads_sink: bool = False) -> None:
        self._hub = hub
        self._publisher = publisher
        self._topics = topics
        self._reads_sink = reads_sink
        self._own_ids = own_prefixes(hub.incarnation)
        self._ensured: set[str] = set()
        self._latest: dict[str, int] = {}
        """The last event of each shared queue."""

    async def take(self, route: SourceRoute, message: SourceMessage) -> IntakeResult:
        """Publish one message; raises ``IntakeRefused``, ``IntakeUnavailable``."""
        if not route.shared and self._is_own(message.message_id):
            return IntakeResult("returned")
        hops = _next_hops(message)
        message = without_private(message)
        try:
            topic, about = await self._topic(route, message)
            if (route.rabbithub_exchange or route.shared) and message.content_type is None:
                message = dataclasses.replace(message, content_type="application/octet-stream")
            drafts, message = await drafts_of(topic, message, {**about, HOPS_HEADER: hops})
            fingerprint = _identify(drafts, route, message)
            accepted = await self._publisher.publish(drafts, fingerprint) if drafts else []
        except IdempotencyConflict:
            detail = "its id was used by another message of this queue, with another content"
            raise IntakeRefused("message_id_reused", detail) from None
        except PublishRefused as error:
            raise IntakeRefused("refused", str(error)) from None
        except (DatabaseError, IdempotencyInFlight, KeyBusy, Overloaded) as error:
            raise IntakeUnavailable(str(error) or type(error).__name__) from error
        if route.shared and accepted:
            self._latest[route.queue] = accepted[-1].id
        is_repeat = accepted and all(one.replayed for one in accepted)
        return IntakeResult("repeated" if is_repeat else "stored", message.left_out)

    def _is_own(self, text: str) -> bool:
        return text.startswith(self._own_ids) and is_own(self._hub.incarnation, text)

    async def exchange_type(self, route: SourceRoute) -> str:
        """Return the type of RabbitHub's exchange; '' while there is none. Raises ``IntakeUnavailable``."""
        try:
            resource = await find(self._hub, Place(route.vhost or "/", "x", route.rabbithub_exchange))
        except FormRefused:
            return ""
        except DatabaseError as error:
            raise IntakeUnavailable(str(error)) from error
        return resource.exchange_type or ""

    async def is_wanted(self, route: SourceRoute) -> bool:
        """Return whether anybody subscribes to a shared queue; raises ``IntakeUnavailable``."""
        try:
            consumers, _ = await self._room(route, await find(self._hub, Place(route.vhost or "/", "q", route.queue)))
        except FormRefused:
            return False
        except DatabaseError as error:
            raise IntakeUnavailable(str(error)) from error
        return consumers > 0

    async def _room(self, route: SourceRoute, queue: Resource) -> tuple[int, int]:
        """Return how many consumers a shared queue has, and how many messages they have."""
        latest = self._latest.get(route.queue, 0)
        row = await self._hub.database.fetchrow("rabbithub.room", queue.id, queue.source, latest)
        assert row is not None
        return row["consumers"], int(row["messages"])

    async def _queue_topic(self, route: SourceRoute) -> str:
        """Return the topic of a shared queue's messages; raises ``IntakeBusy`` while no consumer is free."""
        try:
            queue = await find(self._hub, Place(route.vhost or "/", "q", route.queue))
        except FormRefused:
            raise IntakeBusy(nobody=True) from None
        consumers, messages = await self._room(route, queue)
        if messages >= consumers:
            raise IntakeBusy(nobody=consumers == 0)
        topic = queue_topic(queue.id)
        await self._ensure(queue, topic, "")
        return topic

    async def _topic(self, route: SourceRoute, message: SourceMessage) -> tuple[str, dict[str, str]]:
        """Return the event's topic, made if it is new, and the headers that name the message's origin."""
        about = _origin(message)
        if route.rabbithub_exchange:
            resource = await self._exchange(Place(route.vhost or "/", "x", route.rabbithub_exchange))
            topic = await self._rabbithub_topic(resource, message.routing_key)
            if self._reads_sink and message.exchange == resource.place.name:
                about[FROM_MIRROR_HEADER] = "true"
            return topic, {**about, "x-amqp-exchange": resource.place.name}
        if route.shared:
            return await self._queue_topic(route), {**about, "x-amqp-queue": route.queue}
        topic = _checked_topic(route.topic or message.routing_key)
        try:
            await self._topics.admit(topic)
        except TooManyNames as error:
            raise IntakeRefused("topic", str(error)) from None
        except UnknownTopic:
            raise IntakeRefused("topic", f"there is no topic {topic}, and creating topics is turned off") from None
        return topic, about

    async def _exchange(self, place: Place) -> Resource:
        try:
            return await find(self._hub, place)
        except FormRefused:
            raise IntakeUnavailable(f"there is no RabbitHub exchange {place.name}: PUT it, its messages wait") from None

    async def _rabbithub_topic(self, resource: Resource, routing_key: str) -> str:
        try:
            topic = topic_of_key(resource.id, routing_key)
        except RoutingError as error:
            raise IntakeRefused("routing_key", str(error)) from None
        await self._ensure(resource, topic, routing_key)
        return topic

    async def _ensure(self, resource: Resource, topic: str, routing_key: str) -> None:
        if topic not in self._ensured or not await self._hub.names.is_known(topic):
            try:
                await self._hub.names.require_room(topic)
            except TooManyNames as error:
                raise IntakeRefused("topic", str(error)) from None
            async with self._hub.database.transaction() as session:
                await ensure_topic(self._hub, session, resource, topic, routing_key)
            if len(self._ensured) >= _TOPICS_KNOWN_MAX:
                self._ensured.clear()
            self._ensured.add(topic)


async def events_of_message(topic: str, message: SourceMessage) -> list[Draft]:
    """Return the events of a message without its identity; raises ``IntakeRefused``."""
    about = {**_origin(message), HOPS_HEADER: _next_hops(message)}
    drafts, _ = await drafts_of(_checked_topic(topic), without_private(message), about)
    return drafts


def _origin(message: SourceMessage) -> dict[str, str]:
    return {
        "x-amqp-exchange": encode_controls(message.exchange),
        "x-amqp-routing-key": encode_controls(message.routing_key),
    }


def _next_hops(message: SourceMessage) -> str:
    hops = hops_of(message.hops)
    if hops is None or hops + 1 >= HOPS_MAX:
        raise IntakeRefused("too_many_hops", f"it has passed {HOPS_MAX} hubs or more: they make a loop")
    return str(hops + 1)


def _checked_topic(topic: str) -> str:
    try:
        if is_reserved(validate_topic(topic)):
            raise IntakeRefused("topic", f"the topic {topic} is the hub's own")
    except TopicError as error:
        raise IntakeRefused("topic", f"{error}, not {topic[:80]!a}") from None
    return topic


def _identify(drafts: list[Draft], route: SourceRoute, message: SourceMessage) -> bytes | None:
    """Give the drafts the message's identity, if it has one; return the digest of the message."""
    if not message.message_id:
        return None
    named = hashlib.sha256(f"{route.queue}\0{message.message_id}".encode()).hexdigest()
    for position, draft in enumerate(drafts):
        suffix = f"\x1f{position}" if position else ""
        drafts[position] = draft._replace(idempotency_key=f"amqp-{named}{suffix}")
    return _digest(drafts, message)


def _digest(drafts: Sequence[Draft], message: SourceMessage) -> bytes:
    digest = hashlib.sha256()
    for part in (message.routing_key, message.key or "", message.content_type or ""):
        digest.update(part.encode() + b"\0")
    for draft in drafts:
        for name, value in sorted(draft.headers.items()):
            if name.startswith(HEADER_PREFIX):
                digest.update(f"{name}\0{value}\0".encode())
    digest.update(message.body)
    return digest.digest()

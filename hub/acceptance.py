"""Acceptance: from a form that was read to a committed request, without asking anybody (W3C WebSub 5.1.2).

    Subscribing --topic--> hosted here? --callback--> may it be named? --tokens--> not too often? --COMMIT--> 202

Only static checks happen here, and what this database knows: the answer depends on no other server and on no name
lookup (WS-33, WS-69). What is accepted is durable before it is answered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from db.pool import Database, Session
from db.secret_box import SecretBox
from hub.form import Mode, Pinging, Refused, Subscribing
from hub.intent import patience_seconds
from hub.options import HubOptions
from hub.topic_url import ForeignTopic, TopicUrlRefused, identity, topic_of
from webhooks.failure import NOT_ALLOWED
from webhooks.url import Target, UrlRefused, parse_target

__all__ = ["Hub", "accept", "ping", "request_context"]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Hub:
    """What the hub's endpoint works with; ``wake`` is called after each commit and must not block."""

    database: Database
    options: HubOptions
    secret_box: SecretBox
    wake: Callable[[], None]
    tenant: str = "default"


async def accept(hub: Hub, request: Subscribing) -> int:
    """Take a request in; gives its id when it is committed.

    Raises:
        Refused: 400, 403, 404 or 429; nothing was stored.
        db.errors.DatabaseError: the request may or may not have been stored; repeating it is harmless.
    """
    topic = _hosted_topic(hub, request.topic_url, foreign_status=403, parameter="hub.topic")
    target = _callback(hub, request.callback)
    pair = identity(topic, request.callback)
    async with hub.database.transaction() as session:
        await _check_allowed(hub, session, topic, "hub.topic")
        await _take_tokens(hub, session, target.host)
        intent_id = await _insert(hub, session, request, topic, target.host, pair)
    hub.wake()
    _log.info("intent_accepted", intent=intent_id, mode=str(request.mode), topic=topic, callback_host=target.host)
    return intent_id


async def ping(hub: Hub, request: Pinging) -> None:
    """Check a publish ping, all of it or nothing (WS-78). A topic hosted here needs no more than that: its content
    was distributed when it was published.

    Raises:
        Refused: 400 or 404.
        db.errors.DatabaseError: the database could not be asked.
    """
    # Dictionary: two spellings of one topic are one topic.
    topics = dict.fromkeys(
        _hosted_topic(hub, url, foreign_status=404, parameter="hub.url") for url in request.topic_urls
    )
    for topic in topics:
        await _check_allowed(hub, hub.database, topic, "hub.url")


def request_context(tenant: str, pair: bytes) -> bytes:
    """What the secret of an open request is sealed for; its subscription has another context."""
    return f"intent:{tenant}:{pair.hex()}".encode()


def _hosted_topic(hub: Hub, url: str, *, foreign_status: int, parameter: str) -> str:
    try:
        return topic_of(hub.options.public_url, url)
    except TopicUrlRefused as error:
        raise Refused(400, parameter, str(error)) from None
    except ForeignTopic as error:
        raise Refused(foreign_status, parameter, str(error)) from None


def _callback(hub: Hub, raw: str) -> Target:
    try:
        return parse_target(raw, hub.options.url_policy)
    except UrlRefused as error:
        # The neutral text is what the guard says of every denied name or address (EG-03): a policy, not a mistake.
        status = 403 if error.reason == NOT_ALLOWED else 400
        _log.info("callback_refused", reason=error.operator_reason)
        raise Refused(status, "hub.callback", f"is refused: {error.reason}") from None


async def _check_allowed(hub: Hub, session: Session, topic: str, parameter: str) -> None:
    if not await session.fetchval("intent.topic_allowed", hub.tenant, topic):
        raise Refused(404, parameter, "does not exist, and topics are not created by naming them")


async def _take_tokens(hub: Hub, session: Session, host: str) -> None:
    """The host's bucket first, then the tenant's, in this order everywhere: opposite orders would deadlock."""
    options = hub.options
    buckets = (
        ("", host, options.verifications_per_minute_host, "this callback host"),
        (hub.tenant, "", options.verifications_per_minute_tenant, "this tenant"),
    )
    for tenant, bucket_host, per_minute, whose in buckets:
        if await session.fetchval("intent.take_token", tenant, bucket_host, per_minute) is None:
            wait_seconds = await session.fetchval("intent.token_wait_seconds", tenant, bucket_host, per_minute)
            raise Refused(429, "hub.callback", f"is asked too often: {whose}", retry_after_seconds=wait_seconds)


async def _insert(hub: Hub, session: Session, request: Subscribing, topic: str, host: str, pair: bytes) -> int:
    sealed = None
    if request.secret is not None:
        sealed = hub.secret_box.seal(request.secret, request_context(hub.tenant, pair))
    subscribes = request.mode is Mode.SUBSCRIBE
    failures = await session.fetchval("intent.failures", hub.tenant, pair)
    intent_id: int = await session.fetchval(
        "intent.accept",
        hub.tenant,
        str(request.mode),
        topic,
        request.topic_url,
        request.callback,
        host,
        pair,
        hub.options.lease_seconds(request.lease_seconds) if subscribes else None,
        request.signature_method,
        request.verify_token,
        sealed.key_id if sealed else None,
        sealed.ciphertext if sealed else None,
        patience_seconds(failures),
    )
    return intent_id

"""Acceptance: turn a form into a committed request, without asking another server (W3C WebSub 5.1.2).

    Subscribing --topic--> hosted here? --callback--> may it be named? --turn--tokens--> not too often? --COMMIT--> 202

Only static checks and checks against this database happen here. The answer depends on no other server and on no name
lookup. An accepted request is durable before the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import structlog

from db.names import NamesInUse
from db.pool import Database, Row, Session
from db.secret_box import SecretBox
from egress.failure import NOT_ALLOWED
from egress.url import Target, UrlRefused, parse_target
from hub.form import FormRefused, Mode, Pinging, Subscribing
from hub.intent import patience_seconds
from hub.options import HubOptions
from hub.requester import bucket_of, check_pending, check_room, network_of
from hub.topic_url import ForeignTopic, TopicUrlRefused, foreign_name, identity, topic_of
from hub.turns import Turns

__all__ = [
    "Hub", "Named", "accept", "callback_target", "named_topic", "outcome", "ping", "request_context", "take_tokens",
]  # fmt: skip

_log = structlog.get_logger(__name__)
_LOOK_SECONDS = 0.05


_NOTICES_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Hub:
    """The dependencies of the hub's endpoint. ``wake`` and the like are called after a commit and must not block.

    ``names`` are those of topics. ``incarnation`` is this database's part of public event ids. ``turns`` bounds the
    requests that are stored at once.
    """

    database: Database
    options: HubOptions
    secret_box: SecretBox
    names: NamesInUse
    wake: Callable[[], None]
    wake_fetching: Callable[[], None] = lambda: None
    on_publish: Callable[[], None] = lambda: None
    tenant: str = "default"
    incarnation: str = ""
    turns: Turns = field(default_factory=Turns)


async def accept(hub: Hub, request: Subscribing, requester: str | None = None) -> int:
    """Store a request; return its id when it is committed. ``requester`` is the address it came from.

    Raises:
        FormRefused: 400, 403, 404, 429 or 503; nothing was stored.
        db.errors.DatabaseError: the request may or may not have been stored; repeating it is harmless.
    """
    named = _topic(hub, request.topic_url, foreign_status=403, parameter="hub.topic")
    target = callback_target(hub, request.callback)
    async with hub.turns.turn():
        intent_id = await _store(hub, request, named, target.host, requester)
    hub.wake()
    _log.info("intent_accepted", intent=intent_id, mode=str(request.mode), topic=named.name, callback_host=target.host)
    return intent_id


async def _store(hub: Hub, request: Subscribing, named: Named, host: str, requester: str | None) -> int:
    """Take tokens and insert the request, in two transactions; return its id."""
    pair, network = identity(named.name, request.callback), network_of(requester)
    async with hub.database.transaction() as session:
        await _check_allowed(hub, session, named, "hub.topic")
        await check_pending(session, hub.options, network)
        await take_tokens(hub, session, host, network)
    async with hub.database.transaction() as session:
        await session.execute("intent.line_up", host)
        await check_room(session, hub.options, hub.tenant, pair, request.mode, host, network)
        if named.is_foreign and request.mode is Mode.SUBSCRIBE:
            await session.execute("foreign.ensure", hub.tenant, named.name, request.topic_url)
        return await _insert(hub, session, request, named, host, pair, requester)


async def outcome(hub: Hub, intent_id: int) -> str | None:
    """Wait until a request of PubSubHubbub 0.3 is decided; return None when it is verified, else the reason. A
    request that is not decided in time fails. Raise ``db.errors.DatabaseError``.
    """
    deadline = asyncio.get_running_loop().time() + hub.options.sync_seconds
    while asyncio.get_running_loop().time() < deadline:
        row = await hub.database.fetchrow("intent.outcome", intent_id)
        if row is not None:
            return _told(row)
        await asyncio.sleep(_LOOK_SECONDS)  # any process may verify it
    row = await hub.database.fetchrow("intent.abandon", intent_id, "the callback was not asked in time")
    return _told(row or await hub.database.fetchrow("intent.outcome", intent_id))


def _told(row: Row | None) -> str | None:
    assert row is not None, "a request is decided only once"
    return None if row["state"] == "verified" else row["reason"] or row["state"]


async def ping(hub: Hub, request: Pinging) -> list[str]:
    """Take a publish ping, all of it or nothing. A topic hosted here only needs a check: its content was
    distributed when it was published. A foreign topic is due for a fetch when this returns.

    Return a sentence for each of the first URLs that had no effect.

    Raises:
        FormRefused: 400 or 404.
        db.errors.DatabaseError: the pings may or may not have been stored; repeating them is harmless.
    """
    # A dictionary, because two spellings of one topic are one topic.
    topics = {_topic(hub, url, foreign_status=404, parameter="hub.url"): url for url in reversed(request.topic_urls)}
    notices = [f"{url} is a topic of this hub: publish to it" for topic, url in topics.items() if not topic.is_foreign]
    async with hub.database.transaction() as session:
        for topic in topics:
            await _check_allowed(hub, session, topic, "hub.url")
        foreign = sorted((topic.name, url) for topic, url in topics.items() if topic.is_foreign)
        # A topic that never had a subscription has no row, and nothing is fetched for it. The same order in all
        # pings prevents deadlocks.
        for name, url in foreign:
            known = await session.execute("foreign.ping", hub.tenant, name, hub.options.fetch_pause_seconds)
            if not known and len(notices) < _NOTICES_MAX:
                near = [row["url"] for row in await session.fetch("foreign.near", hub.tenant, url)]
                others = f"; did you mean {' or '.join(near)}?" if near else ""
                notices.append(f"nobody has subscribed to {url}{others}")
    if foreign:
        hub.wake_fetching()
    return notices[:_NOTICES_MAX]


async def named_topic(hub: Hub, session: Session, url: str, parameter: str) -> Named:
    """Return the topic that a publisher names; raises ``FormRefused``."""
    topic = _topic(hub, url, foreign_status=404, parameter=parameter)
    await _check_allowed(hub, session, topic, parameter)
    return topic


def request_context(tenant: str, pair: bytes) -> bytes:
    """Return the context that seals the secret of an open request; its subscription has another context."""
    return f"intent:{tenant}:{pair.hex()}".encode()


@dataclass(frozen=True, slots=True)
class Named:
    """A topic under its local name: the hosted topic's own, or a digest for a foreign topic."""

    name: str
    is_foreign: bool


def _topic(hub: Hub, url: str, *, foreign_status: int, parameter: str) -> Named:
    try:
        return Named(topic_of(hub.options.public_url, url), is_foreign=False)
    except TopicUrlRefused as error:
        raise FormRefused(400, parameter, str(error)) from None
    except ForeignTopic as error:
        if hub.options.foreign_topics == "off":
            raise FormRefused(foreign_status, parameter, str(error)) from None
    _target(hub, url, parameter)
    return Named(foreign_name(url), is_foreign=True)


def callback_target(hub: Hub, raw: str) -> Target:
    """Return the callback, checked by its text; raises ``FormRefused``."""
    return _target(hub, raw, "hub.callback")


def _target(hub: Hub, raw: str, parameter: str) -> Target:
    try:
        return parse_target(raw, hub.options.url_policy)
    except UrlRefused as error:
        # The guard gives this neutral text for every denied name or address.
        status = 403 if error.reason == NOT_ALLOWED else 400
        _log.info("url_refused", parameter=parameter, reason=error.operator_reason)
        raise FormRefused(status, parameter, f"is refused: {error.reason}") from None


async def _check_allowed(hub: Hub, session: Session, topic: Named, parameter: str) -> None:
    if topic.is_foreign:
        if hub.options.foreign_topics == "registered" and not await session.fetchval(
            "foreign.known", hub.tenant, topic.name
        ):
            raise FormRefused(404, parameter, "is not registered with this hub")
    elif not await session.fetchval("intent.topic_allowed", hub.tenant, topic.name):
        raise FormRefused(404, parameter, "does not exist, and topics are not created by naming them")


async def take_tokens(hub: Hub, session: Session, host: str, network: str | None = None) -> None:
    """Take tokens from the buckets of the requester, the host and the tenant. Another order could deadlock.

    Call it at the end of a separate transaction, because all requests of a tenant take turns at its row. The
    transaction does not wait for the disk: a crash may return a token, which does no harm. Raise ``FormRefused`` 429.
    """
    await session.execute("intent.set_async_commit")
    options = hub.options
    asked, at_once = options.verifications_per_minute_requester, options.verifications_burst_requester
    buckets = (
        *([("", bucket_of(network), asked, at_once, "by this requester")] if network is not None else ()),
        ("", host, options.verifications_per_minute_host, options.verifications_burst_host, "this callback host"),
        (hub.tenant, "", options.verifications_per_minute_tenant, 0, "this tenant"),
    )
    for tenant, bucket_host, per_minute, burst, whose in buckets:
        if await session.fetchval("intent.take_token", tenant, bucket_host, per_minute, burst or per_minute) is None:
            wait_seconds = await session.fetchval("intent.token_wait_seconds", tenant, bucket_host, per_minute)
            raise FormRefused(429, "hub.callback", f"is asked too often: {whose}", retry_after_seconds=wait_seconds)


async def _insert(
    hub: Hub, session: Session, request: Subscribing, topic: Named, host: str, pair: bytes, requester: str | None
) -> int:
    sealed = None
    if request.secret is not None:
        sealed = hub.secret_box.seal(request.secret, request_context(hub.tenant, pair))
    subscribes = request.mode is Mode.SUBSCRIBE
    permanent = request.verify is not None and subscribes and request.lease_seconds is None
    lease_seconds = hub.options.lease_seconds_max if permanent else hub.options.lease_seconds(request.lease_seconds)
    failures = await session.fetchval("intent.failures", hub.tenant, pair)
    intent_id: int = await session.fetchval(
        "intent.accept",
        hub.tenant,
        str(request.mode),
        topic.name,
        request.topic_url,
        request.callback,
        host,
        pair,
        lease_seconds if subscribes else None,
        "sha1" if host in hub.options.sha1_hosts else request.signature_method,
        request.verify_token,
        sealed.key_id if sealed else None,
        sealed.ciphertext if sealed else None,
        patience_seconds(failures),
        requester,
        request.verify,
        permanent,
        topic.is_foreign and hub.options.strict_topic,
        network_of(requester),
    )
    return intent_id

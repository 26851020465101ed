"""Subscriptions made through the API: create, change, end. (WebSub's come from a verified intent.)"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from db.pool import Database, Row, Session
from db.secret_box import SecretBox
from event.event import Draft
from event.topic import compile_pattern
from hub.filter import compile_filter
from hub.invitation import invite, invited
from hub.publish import store_event
from webhooks.signature import new_key, parse_key
from webhooks.subscriber import headers_context, secret_context

__all__ = [
    "InUse",
    "NewSubscription",
    "NoSuchStart",
    "Options",
    "ReplayStart",
    "Stale",
    "SubscriptionUpdate",
    "Subscriptions",
]

_TENANT = "default"
_TEST_TOPIC = "hookwire.test"
_CANCEL_MAX = 5_000
_NO_COLUMNS = ("secret", "unset", "filter", "headers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The delivery options of a subscription; each is a column. None: the default, or in a change: unchanged. An empty
    filter ends filtering, and empty headers remove them. ``headers`` are sealed: their values are never shown again.
    """

    ordered: bool | None = None
    filter: Mapping[str, Any] | None = None
    retry_schedule_seconds: list[int] | None = None
    retry_age_seconds_max: int | None = None
    on_4xx: str | None = None
    on_410: str | None = None
    at_most_once: bool | None = None
    on_exhausted: str | None = None
    timeout_seconds: float | None = None
    rate_per_second: float | None = None
    rate_burst: int | None = None
    format: str | None = None
    batch_max: int | None = None
    template: str | None = None
    headers: Mapping[str, str] | None = None
    name: str | None = None
    description: str | None = None
    metadata: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class NewSubscription(Options):
    """A new subscription, with validated fields. ``secret`` None: one is generated.

    With a ``service`` or a ``kind``, the callback gets requests or jobs instead of events. Then no event has its
    ``topic``. ``queue`` limits a kind to the jobs of one queue.
    """

    topic: str
    callback: str
    secret: str | None = None
    state: str = "active"
    service: str | None = None
    kind: str | None = None
    queue: str | None = None


@dataclass(frozen=True, slots=True)
class SubscriptionUpdate(Options):
    """New values; ``unset`` names options that get their default again. ``drains`` counts with the state disabled."""

    topic: str | None = None
    callback: str | None = None
    state: str | None = None
    drains: bool | None = None
    unset: frozenset[str] = frozenset()


class Stale(Exception):
    """The subscription has another version than the expected one."""


class NoSuchStart(Exception):
    """A replay cannot begin at an event that is not yet there."""


class InUse(Exception):
    """A RabbitHub queue keeps its messages in this subscription."""


@dataclass(frozen=True, slots=True)
class ReplayStart:
    """The start of a replay for a subscriber: an event's number, a moment, or, with neither, all stored events."""

    event: int | None = None
    since: datetime | None = None


class Subscriptions:
    """The API's verbs. Rows have the columns of ``subscription.get``."""

    def __init__(self, database: Database, box: SecretBox) -> None:
        self._database = database
        self._box = box

    async def create(self, new: NewSubscription) -> tuple[Row, str]:
        """Store the subscription; return its row and its signing secret, which is shown only now.

        Every event that is accepted after the return reaches the callback. Raise ValueError for an invalid
        secret, and ``hub.filter.FilterError`` for an invalid filter.
        """
        secret = new.secret if new.secret is not None else new_key().text()
        parse_key(secret)
        public_id = "sub_" + secrets.token_hex(10)
        columns = json.dumps(_columns(new))
        async with self._database.transaction() as transaction:
            number = await transaction.fetchval("subscription.create", public_id, _TENANT, columns)
            key_id, sealed = self._box.seal(secret.encode(), secret_context(number, 1))
            await transaction.execute("subscription.add_secret", number, 1, _TENANT, key_id, sealed)
            await self._keep_headers(transaction, number, new.headers)
            await transaction.execute("throttle.ensure", number)
            row = await transaction.fetchrow("subscription.get", _TENANT, public_id)
        assert row is not None, "created in this transaction"
        return row, secret

    async def create_pull(
        self,
        topic: str,
        *,
        ordered: bool,
        wanted: Mapping[str, Any] | None,
        lifetime_seconds: int | None,
        start: ReplayStart | None = None,
        actor: str = "",
        drops_at_end: bool = False,
        name: str | None = None,
    ) -> str:
        """Store a subscription whose deliveries are fetched; return its id. Raise ``hub.filter.FilterError``. It ends
         when no client has fetched for ``lifetime_seconds``; None: never. ``start``: it also gets the events since then
        . ``drops_at_end``: its open deliveries become no dead letters at its end. Raise :class:`NoSuchStart`.
        """
        public_id = "sub_" + secrets.token_hex(10)
        async with self._database.transaction() as transaction:
            number = await transaction.fetchval(
                "pull.create", public_id, _TENANT, topic, compile_pattern(topic), ordered,
                json.dumps(wanted) if wanted else None, compile_filter(wanted or {}), lifetime_seconds,
                drops_at_end, name,
            )  # fmt: skip
            if start is not None:
                await _begin_replay(transaction, number, start, actor)
        return public_id

    async def replay(self, number: int, start: ReplayStart, actor: str) -> int:
        """Begin a replay of a subscription's events; return the replay's number. Raise :class:`NoSuchStart`."""
        async with self._database.transaction() as transaction:
            return await _begin_replay(transaction, number, start, actor)

    async def send_test(self, number: int, payload: bytes, actor: str) -> int:
        """Store a JSON event for this subscription alone and make its delivery due; return the event's number.

        An open breaker lets the delivery pass as its probe.
        """
        async with self._database.transaction() as transaction:
            await transaction.execute("topic.ensure_inner", _TENANT, _TEST_TOPIC)
            draft = Draft(_TEST_TOPIC, payload, content_type="application/json")
            event = await store_event(transaction, _TENANT, draft)
            await transaction.execute("delivery.insert_test", _TENANT, event, number)
            await transaction.fetchval("delivery.retry_now", _TENANT, event, number, actor, "a test event")
        return event

    async def get(self, public_id: str) -> Row | None:
        """Return the row, or None."""
        return await self._database.fetchrow("subscription.get", _TENANT, public_id)

    async def change(self, public_id: str, change: SubscriptionUpdate, version: int | None = None) -> Row | None:
        """Change an API subscription; return None when it does not exist. WebSub subscriptions change by subscribing
        again. Raise :class:`Stale` when ``version`` is not the present version.
        """
        columns = json.dumps(_columns(change))
        async with self._database.transaction() as transaction:
            number = await transaction.fetchval("subscription.change", _TENANT, public_id, columns, version)
            if number is not None:
                await self._keep_headers(transaction, number, change.headers)
                if change.state == "active":
                    await transaction.execute("throttle.close", [number])
                await transaction.execute("throttle.ensure", number)
            row = await transaction.fetchrow("subscription.get", _TENANT, public_id)
        if row is None or row["protocol"] not in ("webhook", "service", "job"):
            return None
        if number is None:
            raise Stale
        return row

    def invite(self, row: Row) -> str:
        """Return the token by which this version's callback may agree later."""
        return invite(self._box, row["public_id"], row["version"])

    async def accepted(self, token: str, origin: str, rate_per_second: float | None) -> Row | None:
        """Consent as :meth:`consented`, by an invitation. Return None for an invitation that is invalid, expired, used,
        or of an earlier version.
        """
        meant = invited(self._box, token)
        return None if meant is None else await self.consented(meant[0], origin, rate_per_second, meant[1])

    async def consented(self, public_id: str, origin: str, rate_per_second: float | None, version: int) -> Row | None:
        """Record that its callback, as of this version, has agreed to deliveries from this origin. Return None
        when the subscription does not exist or has changed since.
        """
        async with self._database.transaction() as transaction:
            number = await transaction.fetchval(
                "subscription.consent", _TENANT, public_id, origin, rate_per_second, version
            )
            if number is None:
                return None
            await transaction.execute("throttle.close", [number])
            await transaction.execute("throttle.ensure", number)
            return await transaction.fetchrow("subscription.get", _TENANT, public_id)

    async def _keep_headers(self, session: Session, number: int, headers: Mapping[str, str] | None) -> None:
        if headers is None:
            return
        sealed = self._box.seal(json.dumps(headers).encode(), headers_context(number)) if headers else (None, None)
        names = sorted(headers) or None
        await session.execute("subscription.keep_headers", number, names, *sealed)

    async def delete(self, public_id: str, version: int | None = None) -> bool:
        """End the subscription; return False when it does not exist. Raise :class:`InUse`, or :class:`Stale` when
         ``version`` is not the present version. Its open deliveries become dead letters, with the end as the reason
        . Those of WebSub are dropped, and messages of a RabbitHub consumer return to their queue. If
         there are many, clean-up handles the rest.
        """
        async with self._database.transaction() as transaction:
            row = await transaction.fetchrow("subscription.delete", _TENANT, public_id, version)
            if row is None:
                present = await transaction.fetchrow("subscription.get", _TENANT, public_id)
                if present is None:
                    return False
                raise Stale if version not in (None, present["version"]) else InUse
            await transaction.execute("subscription.forget_secrets", row["id"])
            await transaction.fetchval("delivery.cancel_ended", [row["id"]], _CANCEL_MAX)
        return True


def _columns(given: NewSubscription | SubscriptionUpdate) -> dict[str, Any]:
    """Return the columns of these options, and the columns that follow from them."""
    columns = {field.name: getattr(given, field.name) for field in fields(given) if field.name not in _NO_COLUMNS}
    columns = {name: value for name, value in columns.items() if value is not None}
    if given.topic is not None:
        columns["topic_regex"] = compile_pattern(given.topic)
    if given.filter is not None:
        columns |= _filter(given.filter)
    if isinstance(given, SubscriptionUpdate):
        columns |= dict.fromkeys(given.unset)
        if given.state is not None:
            columns["drains"] = given.drains is True and given.state == "disabled"
            columns["state_reason"] = "by request" if given.state == "disabled" else None
        if given.state == "active":
            columns["paused_until"] = None
    return columns


def _filter(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the filter as it was given, and translated."""
    return {"filter": given or None, "filter_path": compile_filter(given)}


async def _begin_replay(session: Session, subscription: int, start: ReplayStart, actor: str) -> int:
    number: int | None = await session.fetchval(
        "replay.begin", _TENANT, subscription, start.since, start.event or 1, actor, "asked for by its subscriber"
    )
    if number is None:
        raise NoSuchStart
    return number

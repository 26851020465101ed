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
from event.topic import compile_pattern
from hub.filter import compile_filter
from hub.invitation import invite, invited
from webhooks.signature import new_key, parse_key
from webhooks.subscriber import headers_context, secret_context

__all__ = ["InUse", "NewSubscription", "Options", "ReplayStart", "Stale", "SubscriptionUpdate", "Subscriptions"]

_TENANT = "default"
_CANCEL_MAX = 5_000
_NO_COLUMNS = ("secret", "unset", "filter", "headers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a subscription is delivered to; each is a column. None: as usual, or in a change: as it is.

    An empty filter ends filtering, empty headers are none. ``headers`` are sealed: nobody is shown their values again.
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
    """What a subscriber asks for; every field was validated. ``secret`` None: one is made.

    With a ``service``, or the ``kind`` of jobs in a ``queue``, the callback works for it, and ``topic`` is one that no
    event has.
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
    """New values; ``unset`` names options that are as usual again."""

    topic: str | None = None
    callback: str | None = None
    state: str | None = None
    unset: frozenset[str] = frozenset()


class Stale(Exception):
    """It has another version than the one that was to be changed."""


class InUse(Exception):
    """A RabbitHub queue keeps its messages in it."""


@dataclass(frozen=True, slots=True)
class ReplayStart:
    """From where a subscriber wants what it missed: an event's number, a moment, or, with neither, all that is kept."""

    event: int | None = None
    since: datetime | None = None


class Subscriptions:
    """The API's verbs. Rows have the columns of ``subscription.get``."""

    def __init__(self, database: Database, box: SecretBox) -> None:
        self._database = database
        self._box = box

    async def create(self, new: NewSubscription) -> tuple[Row, str]:
        """Store it; returns the row and the signing secret, which is shown this once (WH-S08).

        Whatever is accepted after this has returned reaches the callback (RR-10). Raises ValueError for a secret
        that is none, and ``hub.filter.FilterError`` for a filter that is none.
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
        assert row is not None, "it was made in this transaction"
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
    ) -> str:
        """Store a subscription whose deliveries are fetched; returns its id. Raises ``hub.filter.FilterError``.

        It ends when nobody has asked for anything for its whole lifetime; None: never. ``start``: it also gets what was
        published since then (FM-12). ``drops_at_end``: what it is still owed at its end becomes no dead letter.
        """
        public_id = "sub_" + secrets.token_hex(10)
        async with self._database.transaction() as transaction:
            number = await transaction.fetchval(
                "pull.create", public_id, _TENANT, topic, compile_pattern(topic), ordered,
                json.dumps(wanted) if wanted else None, compile_filter(wanted or {}), lifetime_seconds,
                drops_at_end,
            )  # fmt: skip
            if start is not None:
                await _begin_replay(transaction, number, start, actor)
        return public_id

    async def replay(self, number: int, start: ReplayStart, actor: str) -> int:
        """Begin a replay of what a subscription chooses; returns the replay's number (FM-12)."""
        async with self._database.transaction() as transaction:
            return await _begin_replay(transaction, number, start, actor)

    async def get(self, public_id: str) -> Row | None:
        """The row, or None."""
        return await self._database.fetchrow("subscription.get", _TENANT, public_id)

    async def change(self, public_id: str, change: SubscriptionUpdate, version: int | None = None) -> Row | None:
        """Change an API subscription; None when there is none (WebSub's change by subscribing again).

        Raises :class:`Stale` when ``version`` is not that of now.
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
        """The token by which this version's callback may agree later (WH-C12)."""
        return invite(self._box, row["public_id"], row["version"])

    async def accepted(self, token: str, origin: str, rate_per_second: float | None) -> Row | None:
        """As :meth:`consented`, by an invitation; None when it is none, too old, used, or of an earlier version."""
        meant = invited(self._box, token)
        return None if meant is None else await self.consented(meant[0], origin, rate_per_second, meant[1])

    async def consented(self, public_id: str, origin: str, rate_per_second: float | None, version: int) -> Row | None:
        """Its callback, as of this version, has agreed to deliveries from this origin (WH-C13); None when there is no
        such subscription, or it has changed since."""
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
        """End it; False when there is none. Raises :class:`Stale` when ``version`` is not that of now, :class:`InUse`.

        What it was still owed becomes dead letters with that reason (WH-06), WebSub's queue is dropped (DL-10), what a
        consumer of RabbitHub's held goes back; however much there is, of which clean-up does the rest.
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
    """The columns that these name, and those that follow from them."""
    columns = {field.name: getattr(given, field.name) for field in fields(given) if field.name not in _NO_COLUMNS}
    columns = {name: value for name, value in columns.items() if value is not None}
    if given.topic is not None:
        columns["topic_regex"] = compile_pattern(given.topic)
    if given.filter is not None:
        columns |= _filter(given.filter)
    if isinstance(given, SubscriptionUpdate):
        columns |= dict.fromkeys(given.unset)
        if given.state is not None:
            columns["state_reason"] = "by request" if given.state == "disabled" else None
        if given.state == "active":
            columns["paused_until"] = None
    return columns


def _filter(given: Mapping[str, Any]) -> dict[str, Any]:
    """The filter as it was given, and translated."""
    return {"filter": given or None, "filter_path": compile_filter(given)}


async def _begin_replay(session: Session, subscription: int, start: ReplayStart, actor: str) -> int:
    number: int = await session.fetchval(
        "replay.begin", _TENANT, subscription, start.since, start.event or 1, actor, "asked for by its subscriber"
    )
    return number

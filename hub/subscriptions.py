"""Subscriptions made through the API: create, change, end. (WebSub's come from a verified intent.)"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from db.pool import Database, Row
from db.secret_box import SecretBox
from event.topic import compile_pattern
from hub.filter import compile_filter
from webhooks.signature import new_key, parse_key
from webhooks.subscriber import secret_context

__all__ = ["Change", "NewSubscription", "Subscriptions"]

_TENANT = "default"


@dataclass(frozen=True, slots=True)
class NewSubscription:
    """What a subscriber asks for; every field was validated. ``secret`` None: one is made."""

    topic: str
    callback: str
    secret: str | None = None
    state: str = "active"
    ordered: bool = False
    retry_schedule_seconds: list[int] | None = None
    timeout_seconds: float | None = None
    filter: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """New values; None leaves a field as it is. An empty filter ends filtering."""

    topic: str | None = None
    callback: str | None = None
    state: str | None = None
    ordered: bool | None = None
    retry_schedule_seconds: list[int] | None = None
    timeout_seconds: float | None = None
    filter: Mapping[str, Any] | None = None


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
        async with self._database.transaction() as transaction:
            row = await transaction.fetchrow(
                "subscription.create", public_id, _TENANT, new.topic, compile_pattern(new.topic), new.callback,
                new.state, new.ordered, new.retry_schedule_seconds, new.timeout_seconds, *_filter(new.filter or None),
            )  # fmt: skip
            assert row is not None, "INSERT ... RETURNING gives its row"
            key_id, sealed = self._box.seal(secret.encode(), secret_context(row["id"], 1))
            await transaction.execute("subscription.add_secret", row["id"], _TENANT, key_id, sealed)
        return row, secret

    async def create_pull(
        self, topic: str, *, ordered: bool, wanted: Mapping[str, Any] | None, lifetime_seconds: int | None
    ) -> str:
        """Store a subscription whose deliveries are fetched; returns its id. Raises ``hub.filter.FilterError``.

        It ends when nobody has asked for anything for its whole lifetime; None: never.
        """
        public_id = "sub_" + secrets.token_hex(10)
        await self._database.fetchrow(
            "pull.create", public_id, _TENANT, topic, compile_pattern(topic), ordered, *_filter(wanted or None),
            lifetime_seconds,
        )  # fmt: skip
        return public_id

    async def get(self, public_id: str) -> Row | None:
        """The row, or None."""
        return await self._database.fetchrow("subscription.get", _TENANT, public_id)

    async def change(self, public_id: str, change: Change) -> Row | None:
        """Change an API subscription; None when there is none (WebSub's change by subscribing again)."""
        regex = compile_pattern(change.topic) if change.topic is not None else None
        reason = "by request" if change.state == "disabled" else None
        return await self._database.fetchrow(
            "subscription.change", _TENANT, public_id, change.topic, regex, change.callback, change.state, reason,
            change.ordered, change.retry_schedule_seconds, change.timeout_seconds, *_filter(change.filter),
        )  # fmt: skip

    async def delete(self, public_id: str) -> bool:
        """End it; False when there is none.

        What it was still owed becomes dead letters with that reason (WH-06); WebSub's queue is dropped (DL-10).
        """
        async with self._database.transaction() as transaction:
            row = await transaction.fetchrow("subscription.delete", _TENANT, public_id)
            if row is None:
                return False
            await transaction.execute("subscription.forget_secrets", row["id"])
            if row["protocol"] == "websub":
                await transaction.execute("delivery.drop", row["id"])
            else:
                await transaction.execute("delivery.cancel", row["id"], "gone", "subscription deleted")
        return True


def _filter(given: Mapping[str, Any] | None) -> tuple[str | None, str | None]:
    """The filter as it was given, and translated."""
    return (None, None) if given is None else (json.dumps(given), compile_filter(given))

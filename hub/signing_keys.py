"""Signing keys of an API subscription: listed, rotated with an overlap, ended (WH-S08, WH-S17, WH-S18).

::

    rotate ---> live, newest first ---expires_at (overlap over), or end---> signs no more

While the old and the new key both sign, a receiver may change over at any moment. (WebSub rotates by subscribing
again.)
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from db.pool import Database, Session
from db.secret_box import SecretBox
from webhooks.signature import LIVE_KEYS_MAX, Ed25519Key, hub_key, new_ed25519_key, new_key, parse_key
from webhooks.subscriber import secret_context

__all__ = ["KeyInfo", "KeysRefused", "SigningKeys"]

_TENANT = "default"


class KeysRefused(Exception):
    """The subscription's keys cannot be changed in this way; the text says why."""


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """The public data of a live key. ``public_key`` checks an ed25519 signature."""

    number: int
    type: Literal["hmac", "ed25519"]
    public_key: str | None
    created_at: datetime
    expires_at: datetime | None


class SigningKeys:
    """The verbs; subscriptions are named by their public id.

    Each returns None where the subscription does not exist.
    """

    def __init__(self, database: Database, box: SecretBox) -> None:
        self._database = database
        self._box = box

    async def live(self, subscription: int, protocol: str) -> list[KeyInfo]:
        """Return the keys that sign now, newest first. Raise ``SecretBoxError``."""
        return await self._live(self._database, subscription, protocol)

    async def rotate(
        self, public_id: str, kind: Literal["hmac", "ed25519"], given: str | None, overlap_seconds: float | None
    ) -> tuple[KeyInfo, str] | None:
        """Add a key, generated or given, and return it with its secret, which is shown only now. The other keys sign
        for the overlap; None: unchanged.

        Raises :class:`KeysRefused`, ``ValueError`` for an invalid secret.
        """
        made = new_ed25519_key() if kind == "ed25519" else new_key()
        secret = given if given is not None else made.text()
        parse_key(secret)
        async with self._database.transaction() as transaction:
            number = await self._lock(transaction, public_id)
            if number is None:
                return None
            new = await transaction.fetchval("signing_key.next_number", number)
            if overlap_seconds is not None:
                await transaction.execute("signing_key.end_others", number, new, overlap_seconds)
            key_id, sealed = self._box.seal(secret.encode(), secret_context(number, new))
            await transaction.execute("subscription.add_secret", number, new, _TENANT, key_id, sealed)
            live = await self._live(transaction, number, "webhook")
            if len(live) > LIVE_KEYS_MAX:
                raise KeysRefused(f"at most {LIVE_KEYS_MAX} keys sign at a time; end one first")
        return live[0], secret

    async def end(self, public_id: str, key: int) -> bool | None:
        """End this key; return False when it does not exist.

        Raises :class:`KeysRefused` for the last key: no delivery leaves unsigned.
        """
        async with self._database.transaction() as transaction:
            number = await self._lock(transaction, public_id)
            if number is None:
                return None
            if await transaction.fetchval("signing_key.end", number, key) is None:
                return False
            if not await transaction.fetch("signing_key.live", number):
                raise KeysRefused("it is the only key; rotate instead")
        return True

    async def _lock(self, session: Session, public_id: str) -> int | None:
        row = await session.fetchrow("signing_key.lock", _TENANT, public_id)
        if row is None:
            return None
        if row["protocol"] != "webhook":
            raise KeysRefused(f"a {row['protocol']} subscription has no keys of its own to rotate")
        return int(row["id"])

    async def _live(self, session: Session, subscription: int, protocol: str) -> list[KeyInfo]:
        found = []
        for row in await session.fetch("signing_key.live", subscription):
            context = secret_context(subscription, row["number"])
            text = self._box.open(row["key_id"], row["sealed"], context).decode()
            key = hub_key(text) if protocol in ("websub", "rabbithub") else parse_key(text)
            public = key.verifier.text() if isinstance(key, Ed25519Key) else None
            kind: Literal["hmac", "ed25519"] = "hmac" if public is None else "ed25519"
            found.append(KeyInfo(row["number"], kind, public, row["created_at"], row["expires_at"]))
        return found

"""Doors: the store of inbound sources and of their secrets.

::

    put with another secret --> the new one, and the former for the overlap --> the new one alone

The sender may change over at any moment of the overlap.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from db.pool import Database, Row, Session
from db.secret_box import SecretBox, SecretBoxError
from hub.inbound.door import REMEMBER_SECONDS_MAX, DoorRefused, InboundSource
from hub.inbound.preset import PRESETS
from hub.inbound.scheme import SchemeRefused

__all__ = ["DoorSecret", "DoorState", "Doors"]


@dataclass(frozen=True, slots=True)
class DoorSecret:
    """A secret that is valid now, without its text."""

    number: int
    created_at: datetime
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class DoorState:
    """A door, with what only people see of it."""

    door: InboundSource
    settings: Mapping[str, Any]
    remember_seconds: int
    changed_at: datetime
    secrets: Sequence[DoorSecret] = ()


class Doors:
    """The verbs; doors are named by their names."""

    def __init__(self, database: Database, box: SecretBox) -> None:
        self._database = database
        self._box = box

    async def put(
        self, name: str, preset: str, settings: Mapping[str, Any], secret: str | None, *,
        overlap_seconds: float = 86_400, remember_seconds: int | None = None, rate_per_minute: int | None = None,
    ) -> tuple[bool, str | None]:  # fmt: skip
        """Make a door, or change it. Return whether it is new, and the secret that was made for it, if one was.

        Without ``secret`` a door keeps the one that it has; a new one gets a secret of the hub's. A former secret that
        cannot be read is over at once. Raise :class:`DoorRefused`, and ``SecretBoxError`` if it has to be kept.
        """
        door = InboundSource.made(name, preset, settings, rate_per_minute)
        known = PRESETS[preset]
        seconds = known.remember_seconds if remember_seconds is None else remember_seconds
        if not 60 <= seconds <= REMEMBER_SECONDS_MAX:
            raise DoorRefused(f"delivery ids are remembered for 60 to {REMEMBER_SECONDS_MAX} seconds")
        made: str | None = None
        async with self._database.transaction() as session:
            given = json.dumps(dict(settings))
            is_new = await session.fetchval("inbound.put", name, preset, given, seconds, rate_per_minute)
            number = await session.fetchval("inbound.lock", name)
            if secret is None and number == 1:
                if known.sender_makes_secret:
                    raise DoorRefused(f"{known.title} makes the secret: copy it from there")
                secret = made = door.scheme.new_secret()
            former, is_readable = await self._former(session, name, must_be_read=secret is None)
            if secret is None or [secret] == former:
                _check(door, former[0], "the secret that this source has: give a new one")
            else:
                _check(door, secret)
                # A former secret that this scheme cannot use is over at once.
                overlap = overlap_seconds if is_readable and all(_fits(door, text) for text in former) else 0.0
                key_id, sealed = self._box.seal(secret.encode(), _context(name, number))
                await session.execute("inbound.add_secret", name, number, key_id, sealed, overlap)
        return bool(is_new), made

    async def remove(self, name: str) -> bool:
        """Remove a door; return whether there was one. Its delivery ids stay until their time is over."""
        return bool(await self._database.fetchval("inbound.remove", name))

    async def find(self, name: str) -> DoorState | None:
        """Return a door with its keys. Raise ``SecretBoxError``."""
        row = await self._database.fetchrow("inbound.find", name)
        if row is None:
            return None
        state = _state(row)
        rows = await self._database.fetch("inbound.secrets", name)
        texts = [text for text in (self._open(name, one) for one in rows) if _fits(state.door, text)]
        door = replace(state.door, keys=tuple(state.door.scheme.key(text) for text in texts))
        secrets = [DoorSecret(one["number"], one["created_at"], one["expires_at"]) for one in rows]
        return replace(state, door=door, secrets=secrets)

    async def newest_secret(self, name: str) -> str | None:
        """Return the text of the secret with which the hub signs an example; None: there is no door or no secret."""
        texts = await self._texts(self._database, name)
        return texts[0] if texts else None

    async def _former(self, session: Session, name: str, *, must_be_read: bool) -> tuple[list[str], bool]:
        """Return the newest secret, if there is one, and whether it can be read."""
        try:
            return (await self._texts(session, name))[:1], True
        except SecretBoxError:
            if must_be_read:
                raise
            return [], False

    async def _texts(self, session: Session, name: str) -> list[str]:
        return [self._open(name, row) for row in await session.fetch("inbound.secrets", name)]

    def _open(self, name: str, row: Row) -> str:
        return self._box.open(row["key_id"], row["sealed"], _context(name, row["number"])).decode()


def _check(door: InboundSource, secret: str, which: str = "") -> None:
    """Raise ``DoorRefused`` for a secret that the scheme cannot use."""
    try:
        door.scheme.key(secret)
    except SchemeRefused as error:
        raise DoorRefused(f"{error}{which and f'; this is not so for {which}'}") from None


def _fits(door: InboundSource, secret: str) -> bool:
    try:
        door.scheme.key(secret)
    except SchemeRefused:
        return False
    return True


def _context(name: str, number: int) -> bytes:
    return f"inbound:{name}:{number}".encode()


def _state(row: Row) -> DoorState:
    settings = json.loads(row["settings"])
    door = InboundSource.made(row["name"], row["preset"], settings, row["rate_per_minute"])
    return DoorState(door, settings, row["remember_seconds"], row["changed_at"])

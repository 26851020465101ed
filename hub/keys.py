"""API keys: the rights of callers.

A key's text is ``hwk_<12 hexadecimal digits>_<40 hexadecimal digits>``: the first group is its visible name, the second
160 random bits. The database keeps the SHA-256 of the text. So many random bits need no salt. A key is found by its
digest, and an unknown key takes as long as a wrong one.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, get_args

from db.pool import Row, Session
from event.topic import compile_pattern, covers, validate_pattern

__all__ = ["SCOPES", "Grant", "Keys", "NewKey", "Scope", "new_text", "public_id_of", "visible_part", "weakness"]

Scope = Literal["publish", "subscribe", "read", "payloads", "operate", "enqueue", "work", "call", "admin"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
_TENANT = "default"
_TEXT: Final = re.compile(r"(hwk_([0-9a-f]{12}))_([0-9a-f]{40})")
_DIGITS_MIN: Final = 8
_ONCE_MIN = 15  # of 40 digits, so many may look like others by chance
"""Fewer different digits are among 40 random ones once in 60 million million keys."""
_FIRST: Final = "bootstrap"
"""The name of a first key that a setting made. Retention leaves it, so it never comes back after it was revoked."""


@dataclass(frozen=True, slots=True)
class NewKey:
    """The request for a key. ``lifetime_seconds`` None: until revoked.

    ``topics``, ``queues``, ``kinds`` and ``services`` are patterns; None means all. But a key that names only topics
    reaches no queue, kind or service. Raises ``event.topic.TopicError`` (a ValueError) for an invalid pattern.
    """

    name: str
    scopes: Sequence[Scope]
    topics: Sequence[str] | None = None
    lifetime_seconds: float | None = None
    queues: Sequence[str] | None = None
    kinds: Sequence[str] | None = None
    services: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for name in ("topics", "queues", "kinds", "services"):
            if (patterns := getattr(self, name)) is not None:
                object.__setattr__(self, name, sorted({validate_pattern(pattern) for pattern in patterns}))


@dataclass(frozen=True, slots=True)
class Grant:
    """The rights of a key: its scopes, for topics that one of its patterns covers. ``admin`` holds every scope."""

    key_id: str
    scopes: frozenset[str]
    topics: tuple[str, ...] | None
    remaining_seconds: float | None
    queues: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None
    services: tuple[str, ...] | None = None
    name: str | None = None

    @classmethod
    def of_row(cls, row: Row) -> Grant:
        """Return the rights in a row with the columns of ``key.find``."""
        topics, queues, kinds, services = (
            tuple(row[name]) if row[name] is not None else None for name in ("topics", "queues", "kinds", "services")
        )
        scopes, remaining = frozenset(row["scopes"]), row["remaining_seconds"]
        return cls(row["public_id"], scopes, topics, remaining, queues, kinds, services, row["name"])

    def has(self, *scopes: Scope) -> bool:
        """Return whether it has one of the scopes."""
        return "admin" in self.scopes or not self.scopes.isdisjoint(scopes)

    def reaches(self, pattern: str) -> bool:
        """Return whether everything that a pattern (or a topic's name) chooses is within the key's own patterns."""
        return self.topics is None or any(covers(own, pattern) for own in self.topics)

    def topics_expression(self) -> str | None:
        """Return the key's topics as a regular expression for PostgreSQL; None for a key for all topics."""
        if self.topics is None:
            return None
        names = (compile_pattern(one) or rf"\A{one.replace('.', chr(92) + '.')}\Z" for one in self.topics)
        return "|".join(names) or r"\A\Z"

    def reaches_queue(self, queue: str) -> bool:
        """Return whether the key includes this queue."""
        return self._reaches_named(self.queues, queue)

    def reaches_kind(self, kind: str) -> bool:
        """Return whether the key includes tasks and jobs of this kind."""
        return self._reaches_named(self.kinds, kind)

    def reaches_every_kind(self) -> bool:
        """Return whether the key includes tasks and jobs of every kind."""
        return self.kinds is None and self._reaches_named(None, "")

    def reaches_service(self, service: str) -> bool:
        """Return whether the key includes this service."""
        return self._reaches_named(self.services, service)

    def _reaches_named(self, own: tuple[str, ...] | None, name: str) -> bool:
        if own is not None:
            return any(covers(pattern, name) for pattern in own)
        return self.topics is None or (self.queues, self.kinds, self.services) != (None, None, None)


class Keys:
    """The verbs. Rows have the columns of ``key.list``."""

    def __init__(self, database: Session) -> None:
        self._database = database

    async def create(self, new: NewKey) -> tuple[Row, str]:
        """Create a key; return its row and its text, which is shown only now."""
        text = new_text()
        row = await self._database.fetchrow(
            "key.create", public_id_of(text), _TENANT, new.name, _digest(text), sorted(set(new.scopes)), new.topics,
            new.lifetime_seconds, new.queues, new.kinds, new.services,
        )  # fmt: skip
        assert row is not None, "INSERT ... RETURNING gives its row"
        return row, text

    async def create_first(self, text: str) -> bool:
        """Make a key for everything with a text that the operator chose, unless a key was ever made."""
        return bool(
            await self._database.execute("key.create_first", public_id_of(text), _TENANT, _FIRST, _digest(text))
        )

    async def find(self, text: str) -> Grant | None:
        """Return the rights of the key with this text; None for an unknown, expired or revoked key."""
        if not _TEXT.fullmatch(text):
            return None
        row = await self._database.fetchrow("key.find", _digest(text))
        return Grant.of_row(row) if row is not None else None

    async def list(self, after: int, limit: int) -> Sequence[Row]:
        """Return all keys, oldest first, revoked keys too."""
        return await self._database.fetch("key.list", _TENANT, after, limit)

    async def revoke(self, public_id: str) -> Row | None:
        """Revoke the key; return None when it does not exist. All processes refuse it within five seconds."""
        return await self._database.fetchrow("key.revoke", _TENANT, public_id)


def new_text() -> str:
    """Return the text of a new key."""
    return f"hwk_{secrets.token_hex(6)}_{secrets.token_hex(20)}"


def visible_part(text: str) -> str:
    """Return the beginning of a key's text, which is no secret; empty for a text that is no key."""
    match = _TEXT.fullmatch(text)
    return match[1] if match is not None else ""


def public_id_of(text: str) -> str:
    """Return the id of the key with this text: ``key_`` and its visible name."""
    return f"key_{visible_part(text).removeprefix('hwk_')}"


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def weakness(text: str) -> str:
    """Return what keeps a text that somebody chose from being a key, as a sentence's rest; empty for a good one."""
    match = _TEXT.fullmatch(text)
    cure = "make one with `hookwire keys generate`"
    if match is None:
        return f"must be hwk_, 12 and 40 hexadecimal digits; {cure}"
    digits = match[3]
    if len(set(digits)) < _DIGITS_MIN or _repeats(digits) or _counts(digits):
        return f"is too easy to guess; {cure}"
    return ""


def _repeats(digits: str) -> bool:
    """Return whether the digits are a shorter text, again and again, the last time perhaps in part."""
    return any(digits[period:] == digits[:-period] for period in range(1, len(digits) - _ONCE_MIN))


def _counts(digits: str) -> bool:
    """Return whether most digits follow their neighbour, as in 0123456789abcdef0123."""
    steps = [(int(right, 16) - int(left, 16)) % 16 for left, right in pairwise(digits)]
    return max(steps.count(step) for step in range(16)) > len(steps) // 2

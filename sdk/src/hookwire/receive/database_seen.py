"""DatabaseSeen: an event and its effect are committed together, so the effect happens once.

::

    seen = DatabaseSeen("billing")

    @receive.on("orders.*")
    async def order(event):
        async with pool.acquire() as connection, connection.transaction():
            if await seen.first(connection, event):
                await connection.execute("INSERT INTO invoices ...")

``first`` inserts the event's id in the handler's own transaction. Two deliveries of one event at once wait for each
other at the primary key. If the handler fails or the process dies, the id is rolled back with the effect.

The connection is one of asyncpg, psycopg 3, SQLAlchemy or Django, in a transaction. Create the tables once with
``DatabaseSeen.TABLES``.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final, overload

from hookwire.call import AsyncConnection, Statement, SyncConnection, call
from hookwire.received import ReceivedEvent

__all__ = ["DatabaseSeen"]

_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS hookwire_seen (receiver text NOT NULL, event_id text NOT NULL,"
    " at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (receiver, event_id))",
    "CREATE TABLE IF NOT EXISTS hookwire_applied (receiver text NOT NULL, topic text NOT NULL, key text NOT NULL,"
    " sequence bigint NOT NULL, PRIMARY KEY (receiver, topic, key))",
)
_FIRST: Final = Statement(
    "INSERT INTO hookwire_seen (receiver, event_id) VALUES (CAST({receiver} AS text), CAST({event} AS text))"
    " ON CONFLICT DO NOTHING RETURNING event_id",
    "receiver", "event",
)  # fmt: skip
_NEWER: Final = Statement(
    "INSERT INTO hookwire_applied AS a (receiver, topic, key, sequence) VALUES (CAST({receiver} AS text),"
    " CAST({topic} AS text), CAST({key} AS text), CAST({sequence} AS bigint)) ON CONFLICT (receiver, topic, key)"
    " DO UPDATE SET sequence = EXCLUDED.sequence WHERE a.sequence < EXCLUDED.sequence RETURNING a.sequence",
    "receiver", "topic", "key", "sequence",
)  # fmt: skip
_FORGET: Final = Statement(
    "DELETE FROM hookwire_seen WHERE receiver = CAST({receiver} AS text)"
    " AND at < now() - make_interval(secs => CAST({seconds} AS double precision)) RETURNING event_id",
    "receiver", "seconds",
)  # fmt: skip


class DatabaseSeen:
    """The events that a receiver has taken, in its own database. ``receiver`` separates receivers in one database."""

    TABLES = _TABLES
    """The statements that create the tables."""

    def __init__(self, receiver: str) -> None:
        self._receiver = receiver

    @overload
    def first(self, connection: AsyncConnection, event: ReceivedEvent) -> Awaitable[bool]: ...
    @overload
    def first(self, connection: SyncConnection, event: ReceivedEvent) -> bool: ...
    def first(self, connection: Any, event: ReceivedEvent) -> Any:
        """Return, or return an awaitable of, whether the event is new here. A replay that was asked for always is."""
        return call(
            connection, _FIRST, (self._receiver, event.id), lambda rows: bool(rows) or event.is_replay, name="first"
        )

    @overload
    def newer(self, connection: AsyncConnection, event: ReceivedEvent) -> Awaitable[bool]: ...
    @overload
    def newer(self, connection: SyncConnection, event: ReceivedEvent) -> bool: ...
    def newer(self, connection: Any, event: ReceivedEvent) -> Any:
        """Return, or return an awaitable of, whether the event is newer than the last that was applied of its key.

        An event that overtook this one makes it old: a handler that stores the latest state skips it. Raise ValueError
        for an event without key or sequence.
        """
        if event.key is None or event.sequence is None:
            raise ValueError(f"{event.id} has no key or no sequence, so it is neither newer nor older than another")
        arguments = (self._receiver, event.topic, event.key, event.sequence)
        return call(connection, _NEWER, arguments, bool, name="newer")

    @overload
    def forget(self, connection: AsyncConnection, older_than_seconds: float) -> Awaitable[int]: ...
    @overload
    def forget(self, connection: SyncConnection, older_than_seconds: float) -> int: ...
    def forget(self, connection: Any, older_than_seconds: float) -> Any:
        """Forget events that are older; return, or return an awaitable of, their number. The hub repeats for days."""
        return call(connection, _FORGET, (self._receiver, older_than_seconds), len, name="forget")

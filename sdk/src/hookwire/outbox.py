"""Stash: publish in the caller's own transaction, through the caller's own connection.

::

    BEGIN;  your rows;  stash(connection, record);  COMMIT;      the event exists if and only if that COMMIT succeeds

Nothing is opened, committed or rolled back here. Outside of a transaction :class:`NotInTransaction` is raised, because
the event would be published alone, whatever becomes of the rows that it tells about (RU-15).

The rule which stripe, shard and sinks an event gets lives in the database, in ``hookwire.publish``; a failure is the
driver's own exception, and the transaction that it happened in is over.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final, overload

from hookwire.call import AsyncConnection, NotInTransaction, Statement, SyncConnection, call
from hookwire.record import Record

__all__ = ["AsyncConnection", "NotInTransaction", "SyncConnection", "stash"]

# Through text, because a program may have told its driver to encode jsonb in a way of its own.
_PUBLISH: Final = Statement(
    "SELECT hookwire.publish(topic => CAST({topic} AS text), payload => CAST({payload} AS bytea),"
    " key => CAST({key} AS text), content_type => CAST({content_type} AS text),"
    " headers => CAST(CAST({headers} AS text) AS jsonb))",
    "topic", "payload", "key", "content_type", "headers",
)  # fmt: skip


@overload
def stash(connection: AsyncConnection, record: Record) -> Awaitable[str]: ...
@overload
def stash(connection: SyncConnection, record: Record) -> str: ...
def stash(connection: Any, record: Record) -> Any:
    """Publish a record in the connection's open transaction; returns the event's id (to be awaited where async).

    Waits for the lock of the record's key as long as the connection's ``lock_timeout`` allows. Raises
    :class:`NotInTransaction`, TypeError for a connection of something else, and whatever the driver raises.
    """
    return call(connection, _PUBLISH, record.arguments(), lambda rows: str(rows[0][0]), name="stash")

"""Stash: publish in the caller's transaction, on the caller's connection.

::

    BEGIN;  your rows;  stash(connection, record);  COMMIT;      the event exists if and only if that COMMIT succeeds

Nothing is opened, committed or rolled back here. Outside a transaction :class:`NotInTransaction` is raised, because the
event would be published even if the rows that it describes were not stored (RU-15).

The SQL function ``hookwire.publish`` stores the event and chooses its shard and sinks. A failure is an exception of the
driver, and aborts the transaction.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final, overload

from hookwire.call import AsyncConnection, NotInTransaction, Statement, SyncConnection, call
from hookwire.record import Record

__all__ = ["AsyncConnection", "NotInTransaction", "SyncConnection", "stash"]

# The headers are cast from text, because a program may have registered its own jsonb codec with its driver.
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
    """Publish a record in the connection's open transaction. Return the event's id, or an awaitable of it.

    Wait for the lock of the record's key for at most the connection's ``lock_timeout``. Raise
    :class:`NotInTransaction`, and TypeError for an unknown class of connection. Exceptions of the driver pass.
    """
    return call(connection, _PUBLISH, record.arguments(), lambda rows: str(rows[0][0]), name="stash")

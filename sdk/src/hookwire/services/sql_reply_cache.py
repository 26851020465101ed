"""Replies of an idempotent service in its own database: the handler's changes and its reply commit together (ID-06).

A handler that changes only that database takes effect exactly once, even if processes are killed::

    cache = SqlReplyCache(lambda: psycopg.connect(url))

    @worker.frames_service("pay")
    @cache.once
    def pay(connection, frames):
        connection.execute("INSERT INTO payments ...")
        return [b"paid"]

The cache uses DB-API 2.0 and ``ON CONFLICT``, which PostgreSQL and SQLite have. Create the table once with
``REPLY_TABLE``.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, Final, Protocol

from hookwire.services.machine import Frames
from hookwire.services.once import RequestStamp, split_stamp

__all__ = ["REPLY_TABLE", "SqlReplyCache"]

REPLY_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS hookwire_replies (client_id varchar(32) NOT NULL, number bigint NOT NULL,"
    " reply {bytes}, stored_at bigint NOT NULL, PRIMARY KEY (client_id, number))"
)
"""The table of replies. ``{bytes}`` is the type of binary values: ``bytea`` in PostgreSQL, ``blob`` in SQLite."""

_BEGIN: Final = (
    "INSERT INTO hookwire_replies (client_id, number, stored_at) VALUES ({0}, {0}, {0}) ON CONFLICT DO NOTHING"
)
_STORE: Final = "UPDATE hookwire_replies SET reply = {0} WHERE client_id = {0} AND number = {0}"
_FIND: Final = "SELECT reply FROM hookwire_replies WHERE client_id = {0} AND number = {0}"
_FORGET: Final = "DELETE FROM hookwire_replies WHERE stored_at < {0}"
_LENGTH: Final = struct.Struct(">I")


class Connection(Protocol):
    """A DB-API 2.0 connection that is not in autocommit mode."""

    def cursor(self) -> Any:
        """Return a cursor."""

    def commit(self) -> None:
        """Commit the transaction."""

    def close(self) -> None:
        """Close the connection. An open transaction is rolled back."""


class SqlReplyCache:
    """Stores replies by stamp in a database.

    ``connect`` opens a connection; each request uses one. ``placeholder`` is ``%s``, or ``?`` for SQLite.

    A second request with the same stamp waits for the lock of the first request's row (ID-04). While it waits, it
    counts against the service's ``concurrency``.
    """

    def __init__(
        self, connect: Callable[[], Connection], placeholder: str = "%s", clock: Callable[[], float] = time.time
    ) -> None:
        self._connect = connect
        self._clock = clock
        self._begin, self._store, self._find, self._forget = (
            statement.format(placeholder) for statement in (_BEGIN, _STORE, _FIND, _FORGET)
        )

    def once(self, handler: Callable[[Any, Frames], Frames]) -> Callable[[Frames], Frames]:
        """Decorate a handler of a connection and frames, so that it takes effect once for each stamp.

        The handler must neither commit nor roll back. If it raises, nothing is stored.
        """

        def handle(frames: Frames) -> Frames:
            stamp, body = split_stamp(frames)
            with closing(self._connect()) as connection:
                reply = handler(connection, body) if stamp is None else self._reply(connection, stamp, handler, body)
                connection.commit()
            return reply

        return handle

    def forget(self, older_than_seconds: float) -> int:
        """Delete old replies and return how many (ID-05). A request that is repeated later runs again."""
        with closing(self._connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(self._forget, (int(self._clock() - older_than_seconds),))
            gone = int(cursor.rowcount)
            connection.commit()
        return gone

    def _reply(
        self, connection: Connection, stamp: RequestStamp, handler: Callable[[Any, Frames], Frames], body: Frames
    ) -> Frames:
        cursor, key = connection.cursor(), (stamp.client_id.hex(), stamp.number)
        cursor.execute(self._begin, (*key, int(self._clock())))
        if cursor.rowcount == 1:
            reply = handler(connection, body)
            cursor.execute(self._store, (_packed(reply), *key))
            return reply
        cursor.execute(self._find, key)
        return _unpacked(bytes(cursor.fetchone()[0]))


def _packed(frames: Frames) -> bytes:
    return b"".join(part for frame in frames for part in (_LENGTH.pack(len(frame)), frame))


def _unpacked(content: bytes) -> Frames:
    frames, at = [], 0
    while at < len(content):
        (length,) = _LENGTH.unpack_from(content, at)
        at += _LENGTH.size
        frames.append(content[at : at + length])
        at += length
    return frames

"""Replies of an idempotent service in the service's own database: effect and reply are one transaction (ID-06).

A handler that touches nothing but that database has its effect exactly once, whatever is killed::

    cache = SqlReplyCache(lambda: psycopg.connect(url))

    @worker.frames_service("pay")
    @cache.once
    def pay(connection, frames):
        connection.execute("INSERT INTO payments ...")
        return [b"paid"]

It speaks DB-API 2.0 and ``ON CONFLICT``, as PostgreSQL and SQLite have it. Make the table once with ``REPLY_TABLE``.
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
"""The table of replies; ``{bytes}`` is the type of binary values: ``bytea`` in PostgreSQL, ``blob`` in SQLite."""

_BEGIN: Final = (
    "INSERT INTO hookwire_replies (client_id, number, stored_at) VALUES ({0}, {0}, {0}) ON CONFLICT DO NOTHING"
)
_STORE: Final = "UPDATE hookwire_replies SET reply = {0} WHERE client_id = {0} AND number = {0}"
_FIND: Final = "SELECT reply FROM hookwire_replies WHERE client_id = {0} AND number = {0}"
_FORGET: Final = "DELETE FROM hookwire_replies WHERE stored_at < {0}"
_LENGTH: Final = struct.Struct(">I")


class Connection(Protocol):
    """A DB-API 2.0 connection outside of autocommit."""

    def cursor(self) -> Any:
        """Return a cursor."""

    def commit(self) -> None:
        """Commit."""

    def close(self) -> None:
        """Close; what was not committed is rolled back."""


class SqlReplyCache:
    """``connect`` opens a connection for one request. ``placeholder``: ``%s``, or ``?`` for SQLite.

    A second request with a stamp waits at the first one's row until that transaction ends (ID-04). A request runs in
    the thread of the service, so waiting takes one of its ``concurrency``.
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
        """Turn a handler of a connection and frames into one of frames that has its effect once for each stamp.

        The handler neither commits nor rolls back. When it raises, nothing is stored and the error goes on.
        """

        def handle(frames: Frames) -> Frames:
            stamp, body = split_stamp(frames)
            with closing(self._connect()) as connection:
                reply = handler(connection, body) if stamp is None else self._reply(connection, stamp, handler, body)
                connection.commit()
            return reply

        return handle

    def forget(self, older_than_seconds: float) -> int:
        """Delete old replies and return how many (ID-05); a request that is repeated later than that runs again."""
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

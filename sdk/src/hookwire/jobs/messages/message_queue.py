"""Queues: submit, receive, accept, reject, extend, count, browse, reap; in PostgreSQL, MariaDB and MySQL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hookwire.call import Rows, Statement, call
from hookwire.jobs.failure import stored_reason
from hookwire.jobs.messages.message import Message, encoded
from hookwire.jobs.messages.mysql.session import speaks_mysql
from hookwire.jobs.messages.mysql.verbs import MysqlQueue

__all__ = ["Message", "Queue"]

_SUBMIT: Final = Statement(
    "SELECT hookwire.submit(queue => CAST({queue} AS text), payload => CAST({payload} AS bytea),"
    " content_type => CAST({content_type} AS text), headers => CAST(CAST({headers} AS text) AS jsonb),"
    " type => CAST({type} AS text), key => CAST({key} AS text), priority => CAST({priority} AS integer),"
    " delay_seconds => CAST({delay_seconds} AS double precision))",
    "queue", "payload", "content_type", "headers", "type", "key", "priority", "delay_seconds",
)  # fmt: skip
_SUBMIT_MANY: Final = Statement(
    "SELECT s FROM hookwire.submit_batch(queue => CAST({queue} AS text), payloads => CAST({payloads} AS bytea[]),"
    " content_types => CAST({content_types} AS text[])) AS s",
    "queue", "payloads", "content_types",
)  # fmt: skip
_RECEIVE: Final = Statement(
    "SELECT id, claim, deliveries, lease_until, created_at, content_type, CAST(headers AS text), payload, type, key,"
    " priority FROM hookwire.receive(queue => CAST({queue} AS text), count => CAST({count} AS integer),"
    " lease_seconds => CAST({lease_seconds} AS double precision),"
    " filter => CAST(CAST({filter} AS text) AS jsonb), after_id => CAST({after_id} AS bigint),"
    " receiver => CAST({receiver} AS text))",
    "queue", "count", "lease_seconds", "filter", "after_id", "receiver",
)  # fmt: skip
_ACCEPT: Final = Statement(
    "SELECT s FROM hookwire.accept_held(CAST({ids} AS bigint[]), CAST({claims} AS bigint[]),"
    " CAST({queue} AS text)) AS s",
    "ids", "claims", "queue",
)  # fmt: skip
_REJECT: Final = Statement(
    "SELECT s FROM hookwire.reject_held(CAST({ids} AS bigint[]), CAST({claims} AS bigint[]), CAST({queue} AS text),"
    " CAST({delay_seconds} AS double precision), CAST({reason} AS text), CAST({dead} AS boolean),"
    " CAST({counts} AS boolean)) AS s",
    "ids", "claims", "queue", "delay_seconds", "reason", "dead", "counts",
)  # fmt: skip
_EXTEND: Final = Statement(
    "SELECT s FROM hookwire.extend_held(CAST({ids} AS bigint[]), CAST({claims} AS bigint[]), CAST({queue} AS text),"
    " CAST({lease_seconds} AS double precision)) AS s",
    "ids", "claims", "queue", "lease_seconds",
)  # fmt: skip
_COUNT: Final = Statement("SELECT hookwire.message_count(CAST({queue} AS text))", "queue")


_CREATE: Final = Statement(
    "INSERT INTO hookwire.queues (name, deliveries_max, history)"
    " VALUES ({queue}, CAST({deliveries_max} AS integer), CAST({archive} AS boolean))"
    " ON CONFLICT (name) DO NOTHING RETURNING id",
    "queue", "deliveries_max", "archive",
)  # fmt: skip
_BROWSE: Final = Statement(
    "SELECT id, 0, deliveries, created_at, created_at, content_type, CAST(headers AS text), payload, type, key,"
    " priority FROM hookwire.browse(CAST({queue} AS text), CAST({count} AS integer), CAST({after_id} AS bigint))",
    "queue", "count", "after_id",
)  # fmt: skip
_REAP: Final = Statement(
    "SELECT returned + dead + promoted FROM hookwire.reap_messages(CAST({most} AS integer))", "most"
)


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue. Each method takes a connection first; await the result if the connection is asynchronous.

    With a connection to PostgreSQL it is a queue of the hub; with one to MariaDB or MySQL, a table of its name.
    """

    name: str

    def create(self, connection: Any, *, deliveries_max: int = 5, archive: bool = False) -> Any:
        """Make the queue if it does not exist: in MariaDB and MySQL its table, in PostgreSQL its settings.

        A message is dead after ``deliveries_max`` deliveries. ``archive``: accepted messages are kept, in MariaDB and
        MySQL in the table ``<name>_archive``. There no transaction may be open, because making a table commits.
        """
        if speaks_mysql(connection):
            return MysqlQueue(self.name).create(connection, deliveries_max=deliveries_max, archive=archive)
        arguments = (self.name, deliveries_max, archive)
        return call(connection, _CREATE, arguments, lambda _: None, name="create", in_transaction=False)

    def submit(
        self, connection: Any, payload: Any, *, content_type: str | None = None,
        headers: Mapping[str, str] | None = None, type: str | None = None, key: str | None = None,  # noqa: A002
        priority: int = 0, delay_seconds: float = 0.0,
    ) -> Any:  # fmt: skip
        """Submit a message in the open transaction and return its id.

        The payload is ``bytes``, ``str`` (sent as UTF-8), or any value that JSON can encode. A queue in MariaDB or
        MySQL knows no ``priority``: ValueError.
        """
        if speaks_mysql(connection):
            if priority:
                raise ValueError("a queue in MariaDB or MySQL has no priority")
            queue = MysqlQueue(self.name)
            return queue.submit(connection, payload, content_type, headers, type, key, delay_seconds)
        body, kind = encoded(payload, content_type)
        arguments = (self.name, body, kind, json.dumps(dict(headers or {})), type, key, priority, float(delay_seconds))
        return call(connection, _SUBMIT, arguments, lambda rows: int(rows[0][0]), name="submit")

    def submit_many(self, connection: Any, payloads: Sequence[Any], *, content_type: str | None = None) -> Any:
        """Submit messages by one statement in the open transaction. Return their ids in the same order."""
        if speaks_mysql(connection):
            return MysqlQueue(self.name).submit_many(connection, payloads, content_type)
        found = [encoded(payload, content_type) for payload in payloads]
        arguments = (self.name, [body for body, _ in found], [kind for _, kind in found])
        return call(connection, _SUBMIT_MANY, arguments, _ids, name="submit_many")

    def receive(
        self, connection: Any, count: int = 1, *, lease_seconds: float | None = None,
        filter: Mapping[str, Any] | None = None, after_id: int = 0, receiver: str | None = None,  # noqa: A002
        in_order: bool = True,
    ) -> Any:  # fmt: skip
        """Claim at most ``count`` messages, the oldest first. Return a list of :class:`Message`.

        ``receiver`` is a name that the archive keeps. In PostgreSQL the claim takes effect at COMMIT if a transaction
        is open, and a rollback undoes it.

        In MariaDB and MySQL a claim commits by itself, and RuntimeError is raised if a transaction is open. ``filter``
        maps columns of the queue's table to their values. With ``in_order`` the lowest ids come first among all
        receivers; without it, receivers do not wait for each other. PostgreSQL needs no such choice.
        """
        if speaks_mysql(connection):
            queue = MysqlQueue(self.name)
            return queue.receive(connection, count, lease_seconds, filter, after_id, receiver, in_order=in_order)
        wanted = json.dumps(filter) if filter is not None else None
        arguments = (self.name, count, lease_seconds, wanted, after_id, receiver)
        return call(connection, _RECEIVE, arguments, _messages, name="receive", in_transaction=False)

    def accept(self, connection: Any, messages: Sequence[Message]) -> Any:
        """Accept messages, in the open transaction if there is one. Return the ids that were still held."""
        if speaks_mysql(connection):
            return MysqlQueue(self.name).accept(connection, messages)
        return self._settle(connection, _ACCEPT, messages)

    def reject(
        self, connection: Any, messages: Sequence[Message], *, delay_seconds: float = 0.0, reason: str | None = None,
        dead: bool = False, counts: bool = True,
    ) -> Any:  # fmt: skip
        """Return messages to the queue, or make them dead letters. Return the ids that were still held."""
        reason = None if reason is None else stored_reason(reason)
        if speaks_mysql(connection):
            queue = MysqlQueue(self.name)
            return queue.reject(connection, messages, delay_seconds, reason, dead=dead, counts=counts)
        return self._settle(connection, _REJECT, messages, float(delay_seconds), reason, dead, counts)

    def extend(self, connection: Any, messages: Sequence[Message], lease_seconds: float) -> Any:
        """Extend leases to ``lease_seconds`` from now. Return the ids that were still held."""
        if speaks_mysql(connection):
            return MysqlQueue(self.name).extend(connection, messages, lease_seconds)
        return self._settle(connection, _EXTEND, messages, float(lease_seconds))

    def count(self, connection: Any) -> Any:
        """Return the number of available messages."""
        if speaks_mysql(connection):
            return MysqlQueue(self.name).count(connection)
        return call(connection, _COUNT, (self.name,), lambda rows: int(rows[0][0]), name="count", in_transaction=False)

    def browse(self, connection: Any, count: int = 1, *, after_id: int = 0) -> Any:
        """Return at most ``count`` available messages, the oldest first, without claiming them. Their claim is 0."""
        if speaks_mysql(connection):
            return MysqlQueue(self.name).browse(connection, count, after_id)
        return call(connection, _BROWSE, (self.name, count, after_id), _messages, name="browse", in_transaction=False)

    def reap(self, connection: Any, most: int = 1000) -> Any:
        """Return messages whose lease or delay has ended, or bury them. Return how many.

        No program needs it: in PostgreSQL the hub does this, for all queues together; in MariaDB and MySQL each
        receiver of the queue does.
        """
        if speaks_mysql(connection):
            return MysqlQueue(self.name).reap(connection, most)
        return call(connection, _REAP, (most,), lambda rows: int(rows[0][0]), name="reap", in_transaction=False)

    def _settle(self, connection: Any, statement: Statement, messages: Sequence[Message], *more: Any) -> Any:
        ids, claims = [message.id for message in messages], [message.claim for message in messages]
        arguments = (ids, claims, self.name, *more)
        return call(connection, statement, arguments, _ids, name="accept, reject and extend", in_transaction=False)


def _ids(rows: Rows) -> list[int]:
    return [row[0] for row in rows]


def _messages(rows: Rows) -> list[Message]:
    return [_message(*row) for row in rows]


def _message(*row: Any) -> Message:
    number, claim, attempts, leased_until, created_at, content_type, headers, payload, *more = row
    found = json.loads(headers), bytes(payload)
    return Message(number, claim, attempts, leased_until, created_at, content_type, *found, *more)

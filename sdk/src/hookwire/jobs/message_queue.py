"""Queues: submit, receive, accept, reject, count."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from hookwire.call import Rows, Statement, call

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


@dataclass(frozen=True, slots=True)
class Message:
    """A message that its receiver holds until ``leased_until``. ``id`` and ``attempts`` form an idempotency key."""

    id: int
    claim: int
    attempts: int
    leased_until: datetime
    created_at: datetime
    content_type: str | None
    headers: Mapping[str, str] = field(repr=False)
    payload: bytes = field(repr=False)
    type: str | None = None
    key: str | None = None
    priority: int = 0

    def json(self) -> Any:
        """Return the payload parsed as JSON. Raise ValueError if it is not JSON."""
        return json.loads(self.payload)


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue. Each method takes a connection first; await the result if the connection is asynchronous."""

    name: str

    def submit(
        self, connection: Any, payload: Any, *, content_type: str | None = None,
        headers: Mapping[str, str] | None = None, type: str | None = None, key: str | None = None,  # noqa: A002
        priority: int = 0, delay_seconds: float = 0.0,
    ) -> Any:  # fmt: skip
        """Submit a message in the open transaction and return its id.

        The payload is ``bytes``, ``str`` (sent as UTF-8), or any value that JSON can encode.
        """
        body, kind = _encoded(payload, content_type)
        arguments = (self.name, body, kind, json.dumps(dict(headers or {})), type, key, priority, float(delay_seconds))
        return call(connection, _SUBMIT, arguments, lambda rows: int(rows[0][0]), name="submit")

    def submit_many(self, connection: Any, payloads: Sequence[Any], *, content_type: str | None = None) -> Any:
        """Submit messages by one statement in the open transaction. Return their ids in the same order."""
        encoded = [_encoded(payload, content_type) for payload in payloads]
        arguments = (self.name, [body for body, _ in encoded], [kind for _, kind in encoded])
        return call(connection, _SUBMIT_MANY, arguments, _ids, name="submit_many")

    def receive(
        self, connection: Any, count: int = 1, *, lease_seconds: float | None = None,
        filter: Mapping[str, Any] | None = None, after_id: int = 0, receiver: str | None = None,  # noqa: A002
    ) -> Any:  # fmt: skip
        """Claim at most ``count`` messages, the oldest first. Return a list of :class:`Message`.

        ``receiver`` is a name that the archive keeps. In an open transaction the claim takes effect at COMMIT; a
        rollback undoes it.
        """
        wanted = json.dumps(filter) if filter is not None else None
        arguments = (self.name, count, lease_seconds, wanted, after_id, receiver)
        return call(connection, _RECEIVE, arguments, _messages, name="receive", in_transaction=False)

    def accept(self, connection: Any, messages: Sequence[Message]) -> Any:
        """Accept messages, in the open transaction if there is one. Return the ids that were still held."""
        return self._settle(connection, _ACCEPT, messages)

    def reject(
        self, connection: Any, messages: Sequence[Message], *, delay_seconds: float = 0.0, reason: str | None = None,
        dead: bool = False, counts: bool = True,
    ) -> Any:  # fmt: skip
        """Return messages to the queue, or make them dead letters. Return the ids that were still held."""
        return self._settle(connection, _REJECT, messages, float(delay_seconds), reason, dead, counts)

    def extend(self, connection: Any, messages: Sequence[Message], lease_seconds: float) -> Any:
        """Extend leases to ``lease_seconds`` from now. Return the ids that were still held."""
        return self._settle(connection, _EXTEND, messages, float(lease_seconds))

    def count(self, connection: Any) -> Any:
        """Return the number of available messages."""
        return call(connection, _COUNT, (self.name,), lambda rows: int(rows[0][0]), name="count", in_transaction=False)

    def _settle(self, connection: Any, statement: Statement, messages: Sequence[Message], *more: Any) -> Any:
        ids, claims = [message.id for message in messages], [message.claim for message in messages]
        arguments = (ids, claims, self.name, *more)
        return call(connection, statement, arguments, _ids, name="accept, reject and extend", in_transaction=False)


def _encoded(payload: Any, content_type: str | None) -> tuple[bytes, str | None]:
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload), content_type
    if isinstance(payload, str):
        return payload.encode(), content_type or "text/plain; charset=utf-8"
    text = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode(), content_type or "application/json"


def _ids(rows: Rows) -> list[int]:
    return [row[0] for row in rows]


def _messages(rows: Rows) -> list[Message]:
    return [_message(*row) for row in rows]


def _message(*row: Any) -> Message:
    number, claim, attempts, leased_until, created_at, content_type, headers, payload, *more = row
    found = json.loads(headers), bytes(payload)
    return Message(number, claim, attempts, leased_until, created_at, content_type, *found, *more)

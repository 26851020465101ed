"""The verbs of a queue in MariaDB or MySQL, each as steps that :mod:`hookwire.jobs.messages.mysql.session` runs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

from hookwire.jobs.messages.message import Message, encoded
from hookwire.jobs.messages.mysql.session import BEGIN, COMMIT, Needs, Statement, Steps, run

__all__ = ["DeadLetter", "MysqlQueue", "queue_names"]

_LEASE_SECONDS: Final = 30.0
_SECONDS_MAX: Final = 315_360_000.0
_REASON_CHARACTERS_MAX: Final = 500
_MANY_MAX: Final = 10_000
_SMALL_BYTES: Final = 256 * 1024
_ROOM_BYTES: Final = 4096
_ROW_BYTES: Final = 256
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", re.ASCII)
_TABLE: Final = re.compile("message_(table|archive)")
_NAME_CHARACTERS_MAX: Final = 56
"""MySQL's limit is 64; the archive's name is eight longer."""
_LOWEST_ID: Final = -(2**63)
_COLUMN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that was delivered too often, or that its receiver gave up."""

    id: int
    created_at: datetime
    deliveries: int
    reason: str | None
    content_type: str | None
    payload: bytes
    type: str | None
    key: str | None


class MysqlQueue:
    """A queue in a table of its name. Raise ValueError for a name that no such table can have."""

    def __init__(self, name: str) -> None:
        if not _NAME.fullmatch(name) or len(name) > _NAME_CHARACTERS_MAX:
            raise ValueError(f"invalid queue {name[:80]!r}: 1-56 of A-Z a-z 0-9 . _ - in dot-separated words")
        self.name = name

    def create(self, connection: Any, *, deliveries_max: int, archive: bool) -> Any:
        """Make the table if it does not exist, and the archive if it is asked for."""
        if not 1 <= deliveries_max <= 1000:
            raise ValueError("deliveries_max is 1 to 1000")

        def steps() -> Steps[None]:
            if archive:
                yield self._statement("create_archive")
            yield self._statement("create", parts={"deliveries_max": deliveries_max, "is_archived": int(archive)})

        return run(connection, steps(), Needs.NONE, "create")

    def submit(
        self, connection: Any, payload: Any, content_type: str | None, headers: Mapping[str, str] | None,
        type: str | None, key: str | None, delay_seconds: float,  # noqa: A002
    ) -> Any:  # fmt: skip
        """Insert one message and return its id."""
        body, kind = encoded(payload, content_type)
        delay = _microseconds("delay_seconds", delay_seconds)
        texts = json.dumps(dict(headers)) if headers else None

        def steps() -> Steps[int]:
            yield from _check_size([body])
            return (yield self._statement("submit", body.hex(), kind, texts, type, key, delay, delay, delay)).last_id

        return run(connection, steps(), Needs.OPEN, "submit")

    def submit_many(self, connection: Any, payloads: Sequence[Any], content_type: str | None) -> Any:
        """Insert messages by one statement and return their ids."""
        found = [encoded(payload, content_type) for payload in payloads]

        def steps() -> Steps[list[int]]:
            if not found:
                return []
            yield from _check_size([body for body, _ in found])
            rows = ", ".join(["(UNHEX(%s), %s)"] * len(found))
            arguments = [value for body, kind in found for value in (body.hex(), kind)]
            first = (yield self._statement("submit_many", *arguments, parts={"rows": rows})).last_id
            step = (yield self._statement("step")).rows[0][0]
            return [first + step * number for number in range(len(found))]

        return run(connection, steps(), Needs.OPEN, "submit_many")

    def receive(
        self, connection: Any, count: int, lease_seconds: float | None, filter: Mapping[str, Any] | None,  # noqa: A002
        after_id: int, receiver: str | None, *, in_order: bool,
    ) -> Any:  # fmt: skip
        """Claim messages. Without ``in_order`` it takes rows that no other session has locked."""
        if not 1 <= count <= _MANY_MAX:
            raise ValueError(f"count is 1 to {_MANY_MAX}")
        lease = _microseconds("lease_seconds", _LEASE_SECONDS if lease_seconds is None else lease_seconds)
        condition, values = _condition(filter or {})

        def look(name: str, most: int) -> Statement:
            return self._statement(name, after_id or _LOWEST_ID, *values, most, parts={"filter": condition})

        def steps() -> Steps[list[Message]]:
            while True:
                rows = (yield look("waiting", count if in_order else 1)).rows
                yield COMMIT
                if ended := [row[0] for row in rows if row[1]]:
                    returned = yield from self._reap(ended)
                    yield COMMIT
                    if returned:
                        continue
                    rows = [row for row in rows if not row[1]]
                if rows and not in_order:
                    yield self._statement("isolation")
                    yield BEGIN
                    rows = (yield look("unlocked", count)).rows
                if not rows:
                    return []
                ids, mark = [row[0] for row in rows], rows[0][2]
                if (yield self._statement("mark", mark, lease, receiver, ids=ids)).affected:
                    found = (yield self._statement("marked", mark, ids=ids)).rows
                    return [_message(*row) for row in found]
                yield COMMIT  # others have taken these rows: look again

        return run(connection, steps(), Needs.NONE, "receive")

    def accept(self, connection: Any, messages: Sequence[Message]) -> Any:
        """Delete messages that are still held; move them to the archive where the row says so."""

        def steps() -> Steps[list[int]]:
            accepted: list[int] = []
            for held in _by_claim(messages):
                rows = (yield self._statement("held", held[0].claim, ids=_ids(held))).rows
                if kept := [row[0] for row in rows if row[1]]:
                    yield self._statement("archive", ids=kept)
                if rows:
                    yield self._statement("delete", ids=[row[0] for row in rows])
                accepted += [row[0] for row in rows]
            return accepted

        return run(connection, steps(), Needs.OWN, "accept")

    def reject(
        self, connection: Any, messages: Sequence[Message], delay_seconds: float, reason: str | None, *, dead: bool,
        counts: bool,
    ) -> Any:  # fmt: skip
        """Return messages that are still held, at once or after a delay, or bury them."""
        delay = _microseconds("delay_seconds", delay_seconds)
        text = None if reason is None else reason[:_REASON_CHARACTERS_MAX]

        def steps() -> Steps[list[int]]:
            rejected: list[int] = []
            for held in _by_claim(messages):
                rows = (yield self._statement("held", held[0].claim, ids=_ids(held))).rows
                buried = [row[0] for row in rows if dead or (counts and row[2])]
                freed = [row[0] for row in rows if row[0] not in buried]
                if buried:
                    yield self._statement("bury", text or "rejected", ids=buried)
                if freed:
                    yield self._statement("free", delay, delay, delay, 0 if counts else 1, text, ids=freed)
                rejected += [row[0] for row in rows]
            return rejected

        return run(connection, steps(), Needs.OWN, "reject")

    def extend(self, connection: Any, messages: Sequence[Message], lease_seconds: float) -> Any:
        """Extend leases that have not ended."""
        lease = _microseconds("lease_seconds", lease_seconds)

        def steps() -> Steps[list[int]]:
            extended: list[int] = []
            for held in _by_claim(messages):
                rows = (yield self._statement("held", held[0].claim, ids=_ids(held))).rows
                if ids := [row[0] for row in rows]:
                    yield self._statement("extend", lease, ids=ids)
                extended += ids
            return extended

        return run(connection, steps(), Needs.OWN, "extend")

    def count(self, connection: Any) -> Any:
        """Return the number of available messages."""

        def steps() -> Steps[int]:
            return int((yield self._statement("count")).rows[0][0])

        return run(connection, steps(), Needs.ANY, "count")

    def counts(self, connection: Any) -> Any:
        """Return the numbers of available, claimed, delayed and dead messages, and the oldest available one's time."""

        def steps() -> Steps[dict[str, Any]]:
            found = (yield self._statement("counts")).rows[0]
            oldest = (yield self._statement("oldest")).rows
            counts = dict(zip(("available", "claimed", "delayed", "dead"), found, strict=True))
            return {**counts, "oldest_at": _moment(oldest[0][0]) if oldest else None}

        return run(connection, steps(), Needs.ANY, "counts")

    def browse(self, connection: Any, count: int, after_id: int) -> Any:
        """Return available messages without a claim."""

        def steps() -> Steps[list[Message]]:
            return [_message(*row) for row in (yield self._statement("browse", after_id or _LOWEST_ID, count)).rows]

        return run(connection, steps(), Needs.ANY, "browse")

    def reap(self, connection: Any, most: int) -> Any:
        """Return messages whose lease or delay has ended, and bury those that were received too often."""

        def steps() -> Steps[int]:
            ended = [row[0] for row in (yield self._statement("ended", most)).rows]
            yield COMMIT
            return (yield from self._reap(ended)) if ended else 0

        return run(connection, steps(), Needs.NONE, "reap")

    def _reap(self, ids: Sequence[int]) -> Steps[int]:
        """Return or bury those of the rows that no other session has locked. Return how many.

        A receiver that settles messages in its own transaction may hold their rows beyond their lease.
        """
        yield self._statement("isolation")
        yield BEGIN
        free = [row[0] for row in (yield self._statement("ended_unlocked", ids=ids)).rows]
        return (yield self._statement("reap", ids=free)).affected if free else 0

    def dead(self, connection: Any, most: int) -> Any:
        """Return the dead letters with the lowest ids."""

        def steps() -> Steps[list[DeadLetter]]:
            rows = (yield self._statement("dead", most)).rows
            return [_letter(*row) for row in rows]

        return run(connection, steps(), Needs.ANY, "dead")

    def redrive(self, connection: Any, ids: Sequence[int]) -> Any:
        """Return dead letters to their old places. Return how many."""
        return self._on_dead(connection, "redrive", ids)

    def purge(self, connection: Any, ids: Sequence[int]) -> Any:
        """Delete dead letters. Return how many."""
        return self._on_dead(connection, "purge", ids)

    def _on_dead(self, connection: Any, name: str, ids: Sequence[int]) -> Any:
        def steps() -> Steps[int]:
            return (yield self._statement(name, ids=list(ids))).affected if ids else 0

        return run(connection, steps(), Needs.OWN, name)

    def _statement(
        self, name: str, *arguments: Any, ids: Sequence[int] = (), parts: Mapping[str, Any] | None = None
    ) -> Statement:
        """Return a statement for this queue's table. Ids are numbers, so they are written into the text."""
        names = {"table": self.name, "archive": f"{self.name}_archive"}
        text = _TABLE.sub(lambda found: f"`{names[found[1]]}`", _texts()[name])
        if ids or parts:
            text = text.format(ids=", ".join(str(int(one)) for one in ids), **(parts or {}))
        return Statement(text, arguments)


def queue_names(connection: Any) -> Any:
    """Return the names of the queues in the connection's database."""

    def steps() -> Steps[list[str]]:
        return [str(row[0]) for row in (yield Statement(_texts()["queues"])).rows]

    return run(connection, steps(), Needs.ANY, "queue_names")


@lru_cache(1)
def _texts() -> Mapping[str, str]:
    """Return the statements of queue.sql by their names."""
    whole = files("hookwire.jobs.messages.mysql").joinpath("queue.sql").read_text("utf-8")
    parts = re.split(r"^-- name: (\w+)\n", whole, flags=re.MULTILINE)[1:]
    without_comments = [re.sub(r"^--.*\n", "", text, flags=re.MULTILINE).strip().rstrip(";") for text in parts[1::2]]
    return dict(zip(parts[::2], without_comments, strict=True))


def _check_size(bodies: Sequence[bytes]) -> Steps[None]:
    """Raise ValueError for a statement that the server would end the connection for."""
    size = sum(2 * len(body) + _ROW_BYTES for body in bodies) + _ROOM_BYTES
    if size < _SMALL_BYTES:
        return
    most = int((yield Statement(_texts()["packet"])).rows[0][0])
    if size > most:
        raise ValueError(f"the messages need {size} bytes in a statement; max_allowed_packet of the server is {most}")


def _condition(wanted: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """Return the SQL of a filter: each column equals its value; None stands for NULL."""
    for column in wanted:
        if not _COLUMN.fullmatch(column):
            raise ValueError(f"a filter names columns of the queue's table, not {column!r}")
    return "".join(f" AND `{column}` <=> %s" for column in wanted), list(wanted.values())


def _microseconds(name: str, seconds: float) -> int:
    if not 0 <= seconds <= _SECONDS_MAX:
        raise ValueError(f"{name} is 0 to {_SECONDS_MAX:.0f}")
    return round(seconds * 1_000_000)


def _by_claim(messages: Sequence[Message]) -> list[list[Message]]:
    """Return messages grouped by their claims, each group by its ids."""
    found: dict[int, list[Message]] = {}
    for message in sorted(messages, key=lambda one: one.id):
        found.setdefault(message.claim, []).append(message)
    return list(found.values())


def _ids(messages: Sequence[Message]) -> list[int]:
    return [message.id for message in messages]


def _moment(value: Any) -> datetime:
    """Return a moment in UTC, and the earliest one for what is none: drivers return text or None for 0000-00-00."""
    return (value if isinstance(value, datetime) else datetime.min).replace(tzinfo=UTC)


def _text(value: bytes | None) -> str | None:
    """Return a text. The server keeps halves of surrogate pairs, which are no text."""
    return None if value is None else bytes(value).decode("utf-8", "replace")


def _headers(value: bytes | None) -> Mapping[str, str]:
    """Return the headers, and none for JSON that is no object or that Python cannot hold."""
    try:
        found = json.loads(_text(value) or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _message(*row: Any) -> Message:
    number, claim, attempts, leased_until, created_at, content_type, headers, payload, kind, key = row
    return Message(
        number, claim, attempts, _moment(leased_until), _moment(created_at), _text(content_type), _headers(headers),
        bytes(payload), _text(kind), _text(key),
    )  # fmt: skip


def _letter(*row: Any) -> DeadLetter:
    number, created_at, deliveries, reason, content_type, payload, kind, key = row
    told, texts = (_text(reason), _text(content_type)), (_text(kind), _text(key))
    return DeadLetter(number, _moment(created_at), deliveries, *told, bytes(payload), *texts)

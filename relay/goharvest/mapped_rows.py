"""MappedRows: the rows of a batch of anybody's outbox table, as records.

Ids are of any type, so records get numbers of this process, and this object knows which row each number stands for.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from relay.goharvest.outbox_table import RowFault
from relay.record import Record

__all__ = ["MappedRows", "parked_name"]

_KEY_BYTES_MAX: Final = 1_000


class MappedRows:
    """The rows that were claimed last."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._ids: dict[int, str] = {}
        self._faults: dict[int, RowFault] = {}

    def clear(self) -> None:
        """Forget the rows of the batch before: it is settled, or its purge would have been tried again first."""
        self._ids.clear()
        self._faults.clear()

    def ids_of(self, numbers: Collection[int]) -> list[str]:
        """Return the ids of rows by their numbers, as texts; numbers of an earlier batch are left out."""
        return [self._ids[number] for number in numbers if number in self._ids]

    def fault(self, record: Record) -> RowFault | None:
        """Return why a row can be no record; None: it can."""
        return self._faults.get(record.id)

    def record(self, row: Mapping[str, Any]) -> Record:
        """Return a row as a record. ``row`` has ``row_id``, ``topic``, ``key``, ``payload``, ``headers`` (JSON) and
        ``content_type``.
        """
        number = next(self._numbers)
        self._ids[number] = row["row_id"] or ""
        headers = _headers(row["headers"])
        if row["row_id"] is None:
            self._faults[number] = RowFault("id_missing", "its id is NULL")
        elif row["topic"] is None:
            self._faults[number] = RowFault("topic_missing", "its topic is NULL")
        elif headers is None:
            self._faults[number] = RowFault("headers_malformed", "its headers are no object of texts and numbers")
        named = headers or ()
        return Record(
            id=number, shard=0, event_id=self._ids[number], tenant="default", topic=row["topic"] or "", key=row["key"],
            sequence=None, content_type=row["content_type"], headers={name.lower(): text for name, text in named},
            payload=row["payload"] or b"", accepted_at=datetime.now(UTC), kafka_topic=row["topic"],
            kafka_headers=tuple((name, text.encode()) for name, text in named), tombstone=row["payload"] is None,
        )  # fmt: skip


def parked_name(lane: str) -> str:
    """Return the text by which a key is parked: its hash if it is long, because an index holds it."""
    key = lane.encode()
    return lane if len(key) <= _KEY_BYTES_MAX else f"sha256:{hashlib.sha256(key).hexdigest()}"


def _headers(text: str | None) -> tuple[tuple[str, str], ...] | None:
    """Return the headers of a row; None if they are none. JSON may hold half of a surrogate pair, a number that is too
    long for Python, or too many levels.
    """
    try:
        found = json.loads(text) if text is not None else {}
        named = _named(found)
        "".join(f"{name}{value}" for name, value in named or ()).encode()
    except (ValueError, RecursionError):
        return None
    return named


def _named(found: object) -> tuple[tuple[str, str], ...] | None:
    if found is None:
        return ()
    if not isinstance(found, dict):
        return None
    named = []
    for name, value in found.items():
        if isinstance(value, (dict, list)):
            return None
        if value is not None:
            named.append((name, value if isinstance(value, str) else json.dumps(value)))
    return tuple(named)

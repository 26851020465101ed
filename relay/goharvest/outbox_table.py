"""Outbox table: the port of the compat harvester to a table of others, goharvest's or any.

Adapters: :mod:`relay.goharvest.compat_table` (PostgreSQL), :mod:`relay.goharvest.maria_table` (MariaDB and MySQL)
for goharvest's table, which pass ``tests/relay/goharvest/test_compat.py``. For any table there are
:mod:`relay.goharvest.mapped_table` (PostgreSQL) and :mod:`relay.goharvest.maria_mapped_table` (MariaDB and MySQL).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from relay.record import Record
from relay.sink import Refusal, Term

__all__ = [
    "PROBES_MAX",
    "PROBE_SECONDS_FIRST",
    "PROBE_SECONDS_MAX",
    "Due",
    "OutboxTable",
    "RowFault",
    "TableRefused",
    "compat_record",
    "headers_fault",
    "lane_of",
]  # fmt: skip

PROBE_SECONDS_FIRST = 2.0
PROBE_SECONDS_MAX = 300.0
PROBES_MAX = 100  # keys tried in one round


class TableRefused(Exception):
    """The outbox is missing, has a wrong form, or keeps rows that were deleted; the text names the cure."""


class RowFault(NamedTuple):
    """Why a row can be no record: ``reason`` is one word, ``detail`` one line."""

    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Due:
    """Parked keys whose probe is due: the ``records`` to try, and the keys whose row ``is gone``."""

    records: Sequence[Record]
    gone: Sequence[str]


class OutboxTable(Protocol):
    """One table, as its leader sees it. ``name`` is the table's quoted name, and the lease's."""

    name: str

    @property
    def leader_id(self) -> str:
        """Return the identity of the term, or of its part since the last unknown outcome."""
        ...

    def begin(self) -> None:
        """Begin a term; no earlier mark counts as ours."""
        ...

    def refresh(self) -> None:
        """Let :meth:`mark` begin again at the lowest id that is not purged, after an unknown outcome."""
        ...

    async def mark(self, term: Term, limit: int) -> list[Record]:
        """Claim the lowest rows of keys that are not parked, in id order; none when the term is over."""
        ...

    async def mark_due(self, term: Term) -> Due:
        """Claim the first rows of the parked keys that may be tried again."""
        ...

    def fault(self, record: Record) -> RowFault | None:
        """Return why a row can be no record; None: it can. It is refused alone then."""
        ...

    async def purge(self, ids: Collection[int]) -> None:
        """Delete confirmed rows; raise ``relay.election.port.LeadershipLost`` when another relay has marked one, and
        :class:`TableRefused` when the table keeps them.
        """
        ...

    async def reset(self, ids: Collection[int]) -> None:
        """Free rows that were not sent."""
        ...

    async def park(self, term: Term, refusals: Sequence[Refusal]) -> None:
        """Park the keys of refused records; raise :class:`relay.election.port.LeadershipLost` when the term is over."""
        ...

    async def unpark(self, keys: Collection[str]) -> None:
        """Unpark keys."""
        ...


def lane_of(record: Record) -> str:
    """Return what waits when a record is refused: its key, or the record alone if it has none."""
    return record.key if record.key is not None else f"#{record.event_id}"


def headers_fault(record: Record) -> RowFault | None:
    """Return the fault of a row of goharvest's table."""
    if record.kafka_headers is not None:
        return None
    return RowFault("headers_unequal", "header names and values differ in number")


def compat_record(row: Mapping[str, Any]) -> Record:
    """Return a row as a record of the Kafka sink: with its own headers only.

    Arrays of unequal lengths, and names that are no texts, cannot be headers; ``kafka_headers`` is then None, and the
    harvester refuses the record alone.
    """
    value = row["kafka_value"]
    return Record(
        id=row["id"], shard=0, event_id=str(row["id"]), tenant="default", topic=row["kafka_topic"],
        key=row["kafka_key"], sequence=None, content_type=None, headers={},
        payload=value.encode() if isinstance(value, str) else value or b"", accepted_at=datetime.now(UTC),
        kafka_topic=row["kafka_topic"],
        kafka_headers=_headers(row["kafka_header_keys"], row["kafka_header_values"]), tombstone=value is None,
    )  # fmt: skip


def _headers(names: Sequence[Any], values: Sequence[Any]) -> tuple[tuple[str, bytes], ...] | None:
    if len(names) != len(values) or not all(isinstance(name, str) for name in names):
        return None
    try:
        "".join(names).encode()
        return tuple((n, b"" if v is None else str(v).encode()) for n, v in zip(names, values, strict=True))
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON allows
        return None

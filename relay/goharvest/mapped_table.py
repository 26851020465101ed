"""Anybody's outbox table in PostgreSQL, as the compat harvester sees it; :mod:`relay.goharvest.mapping` maps it.

A claim writes nothing: a term has one batch in flight, and only the term permits a purge. Ids are of any type, so
records get numbers of this process, and the table remembers which row each number stands for.

What it promises: a row that commits late is found, because each claim begins at the first row. It may then follow a
later one of its key, unless the application locks the key before it draws the row's place.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

import structlog

from db.errors import Refused, ServerTrouble
from db.pool import Database
from db.statements import for_mapped
from relay.election.port import LeadershipLost
from relay.goharvest.foreign_owner import tell_foreign_owner
from relay.goharvest.mapped_rows import parked_name
from relay.goharvest.mapping import OutboxMapping
from relay.goharvest.outbox_table import (
    PROBE_SECONDS_FIRST,
    PROBE_SECONDS_MAX,
    PROBES_MAX,
    Due,
    TableRefused,
    lane_of,
)
from relay.goharvest.unmarked_table import UnmarkedTable
from relay.record import Record
from relay.sink import Refusal, Term

__all__ = ["MappedTable", "looked_at"]

_log = structlog.get_logger(__name__)
_TEXTS: Final = ("text", "character varying", "bpchar")
_NUMBERS: Final = ("bigint", "integer", "smallint")
_TYPES: Final[Mapping[str, Sequence[str]]] = {
    "id": (*_NUMBERS, "uuid", *_TEXTS),
    "topic": _TEXTS,
    "key": (*_TEXTS, *_NUMBERS, "uuid"),
    "payload": ("bytea", "json", "jsonb", *_TEXTS),
    "headers": ("json", "jsonb"),
    "content_type": _TEXTS,
    "waits": ("boolean",),
    "offset": _NUMBERS,
}
"""The types of each part, by names without a length. An expression that is left out is a NULL of type text."""
_UNSEEN_SECONDS: Final = 30.0


async def looked_at(database: Database, mapping: OutboxMapping) -> Database:
    """Check the expressions of a mapping, their types by name, and the rights. Return the database with the statements
    for the table. Raise :class:`TableRefused`, DatabaseError.
    """
    try:
        found = await database.with_statements(for_mapped(mapping.parts())).fetchrow("mapped.types")
    except (ServerTrouble, Refused) as error:
        raise TableRefused(f"{mapping.name} cannot be relayed: {error}") from error
    assert found is not None, "it returns one row"
    for part, types in _TYPES.items():
        left_out = part != "waits" and getattr(mapping, part) is None
        kind = found["offset_type" if part == "offset" else part]
        if not left_out and kind not in types:
            raise TableRefused(f"{part} is of the type {kind}, and has to be {', '.join(types)}")
    is_marked = None if mapping.offset is not None else mapping.mark is not None
    if missing := await database.fetchval("mapped.rights_missing", mapping.name, is_marked):
        raise TableRefused(f"{mapping.name} cannot be relayed: our role has no right to {missing} there")
    await tell_foreign_owner(database, mapping.name)
    payload = mapping.payload if found["payload"] == "bytea" else f"convert_to(({mapping.payload})::text, 'UTF8')"
    key = None if mapping.key is None else f"({mapping.key})::text"
    headers = None if mapping.headers is None else f"({mapping.headers})::text"
    topic = f"({mapping.topic})::text"  # as text, it has no blanks up to a column's length
    content_type = None if mapping.content_type is None else f"({mapping.content_type})::text"
    made = replace(mapping, topic=topic, payload=payload, key=key, headers=headers, content_type=content_type)
    return database.with_statements(for_mapped(made.parts(found["id"])))


class MappedTable(UnmarkedTable):
    """One table, as its leader sees it."""

    def __init__(self, database: Database, mapping: OutboxMapping) -> None:
        super().__init__(mapping.name)
        self._plain = database
        self._mapping = mapping
        self._database = database.with_statements(for_mapped(mapping.parts()))
        self._has_seen = False
        self._inserted: int | None = None
        self._look_at = time.monotonic() + _UNSEEN_SECONDS

    async def look_at(self) -> None:
        """Check the expressions and their types by name; raise :class:`TableRefused`, DatabaseError."""
        self._database = await looked_at(self._plain, self._mapping)

    async def mark(self, term: Term, limit: int) -> list[Record]:
        """Claim the first rows of keys that are not parked, in their order; none when the term is over."""
        rows = await self._database.fetch("mapped.claim", self.name, term.group, term.number, limit)
        self._begin_batch(term)
        self._has_seen = self._has_seen or bool(rows)
        await self._look_for_unseen()
        return [self._rows.record(row) for row in rows]

    async def mark_due(self, term: Term) -> Due:
        """Claim the first rows of the parked keys that may be tried again."""
        rows = await self._database.fetch("mapped.claim_due", self.name, term.group, term.number, PROBES_MAX)
        self._begin_batch(term)
        there = [self._rows.record(row) for row in rows if row["row_id"] is not None]
        return Due(there, [row["parked_key"] for row in rows if row["row_id"] is None])

    async def purge(self, ids: Collection[int]) -> None:
        """Delete or mark confirmed rows. Raise :class:`LeadershipLost` when the term is over, and :class:`TableRefused`
        when rows stay as they were: each claim would find and send them again.
        """
        assert self._term is not None, "rows to purge were claimed under a term"
        rows = self._rows.ids_of(ids)
        given = self.name, self._term.group, self._term.number, rows
        if self._mapping.mark is None:
            found = await self._database.fetchrow("mapped.purge", *given)
        else:
            found = await self._database.fetchrow("mapped.purge_by_mark", *given)
        if found is None or not found["rules"]:
            raise LeadershipLost(f"term {self._term.number} of {self.name} is over")
        if found["rows"] < len(set(rows)) and (left := await self._database.fetchval("mapped.left", rows)):
            done = "deleted" if self._mapping.mark is None else "marked"
            raise TableRefused(
                f"{self.name} cannot be relayed: {left} of {len(rows)} rows that were sent and then {done} still wait;"
                " look for a trigger or a row security policy that keeps them"
                + ("" if self._mapping.mark is None else ", and whether waits is false after mark")
            )

    async def park(self, term: Term, refusals: Sequence[Refusal]) -> None:
        """Park the keys of refused records; raise :class:`LeadershipLost` when the term is over."""
        parked = await self._database.execute(
            "mapped.park", self.name, term.group, term.number,
            [parked_name(lane_of(r.record)) for r in refusals], [r.record.event_id for r in refusals],
            [r.record.topic for r in refusals], [r.reason for r in refusals], PROBE_SECONDS_FIRST, PROBE_SECONDS_MAX,
            [r.detail for r in refusals],
        )  # fmt: skip
        if parked != len(refusals):
            raise LeadershipLost(f"term {term.number} of {self.name} is over")

    async def unpark(self, keys: Collection[str]) -> None:
        """Unpark keys."""
        await self._database.execute("compat.unpark", self.name, [parked_name(key) for key in keys])
        _log.info("compat_keys_go_on", outbox=self.name, keys=len(keys))

    async def _look_for_unseen(self) -> None:
        """Warn where rows have no id, and where rows are inserted and none is ever seen.

        Some applications delete a row in the transaction that inserts it, because their relay has read the log.
        """
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + _UNSEEN_SECONDS
        if await self._database.fetchval("mapped.without_id"):
            _log.warning("outbox_rows_without_id", outbox=self.name, hint="such rows are not sent; give each an id")
        if self._has_seen:
            return
        inserted = int(await self._database.fetchval("mapped.inserted", self.name))
        if self._inserted is not None and inserted > self._inserted:
            _log.warning(
                "outbox_rows_unseen", outbox=self.name, inserted=inserted - self._inserted,
                hint="the application deletes its rows in the transaction that inserts them; let the relay delete them",
            )  # fmt: skip
        self._inserted = inserted

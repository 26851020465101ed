"""Anybody's outbox table in MariaDB or MySQL, as the compat harvester sees it.

As :mod:`relay.goharvest.mapped_table` in PostgreSQL: reading is the claim, the term alone permits a purge, and each
claim begins at the first row. ``id`` is a column with a unique index of its own. Statements look rows up there, so that
they wait for no lock of a writer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import structlog

from db.errors import Refused
from db.mariadb.database import MariaDatabase, as_json
from relay.election.port import LeadershipLost
from relay.goharvest.mapped_rows import parked_name
from relay.goharvest.mapping import OutboxMapping
from relay.goharvest.maria_mapping import maria_looked_at
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

__all__ = ["MariaMappedTable", "maria_record_row"]

_log = structlog.get_logger(__name__)


class MariaMappedTable(UnmarkedTable):
    """One table, as its leader sees it: an `OutboxTable`."""

    def __init__(self, database: MariaDatabase, mapping: OutboxMapping) -> None:
        super().__init__(mapping.name)
        self._database = database
        self._mapping = mapping

    async def look_at(self) -> None:
        """Check the columns, the expressions with their types by name, and the rights. Raise :class:`TableRefused`,
        DatabaseError.
        """
        self._database = await maria_looked_at(self._database, self._mapping)
        try:  # no row has one of no ids, but the server checks the rights and the clause
            await self._purge([], Term(self.name, 0, -1, 1, 0))
        except Refused as error:
            done = "deleted from" if self._mapping.mark is None else "marked in"
            raise TableRefused(f"no row can be {done} {self.name}: {error.message}") from error

    async def mark(self, term: Term, limit: int) -> list[Record]:
        """Claim the first rows of keys that are not parked, in their order; none when the term is over."""
        found = await self._database.fetch("mapped.claim", outbox=self.name, term=term.number, limit=limit)
        self._begin_batch(term)
        return [self._record(row) for row in found]

    async def mark_due(self, term: Term) -> Due:
        """Claim the first rows of the parked keys that may be tried again."""
        due = await self._database.fetch("mapped.due", outbox=self.name, term=term.number, limit=PROBES_MAX)
        ids = [row["row_id"] for row in due]
        found = await self._database.fetch("mapped.rows_of", ids=as_json(ids)) if due else []
        self._begin_batch(term)
        there = {row["row_id"]: self._record(row) for row in found}
        gone = [row["lane"].decode() for row in due if row["row_id"] not in there]
        return Due([there[one] for one in ids if one in there], gone)

    async def purge(self, ids: Collection[int]) -> None:
        """Delete or mark confirmed rows. Raise :class:`LeadershipLost` when the term is over, and :class:`TableRefused`
        when rows stay as they were: each claim would find and send them again.
        """
        assert self._term is not None, "rows to purge were claimed under a term"
        rows = self._rows.ids_of(ids)
        if await self._purge(rows, self._term) == len(rows) and self._mapping.mark is None:
            return
        (left,) = await self._database.fetch(
            "mapped.left", ids=as_json(rows), outbox=self.name, term=self._term.number
        )  # a server counts what it has found to mark, also where `waits` still holds
        if not left["rules"]:
            raise LeadershipLost(f"term {self._term.number} of {self.name} is over")
        if left["rows_left"]:
            done = "deleted" if self._mapping.mark is None else "marked"
            raise TableRefused(
                f"{self.name} cannot be relayed: {left['rows_left']} of {len(rows)} rows that were sent and then {done}"
                " still wait; look for a trigger that keeps them"
                + ("" if self._mapping.mark is None else ", and whether waits is false after mark")
            )

    async def _purge(self, rows: Sequence[str], term: Term) -> int:
        given = {"ids": as_json(rows), "outbox": self.name, "term": term.number}
        if self._mapping.mark is None:
            return (await self._database.execute("mapped.purge", **given)).rows
        return (await self._database.execute("mapped.purge_by_mark", **given)).rows

    async def park(self, term: Term, refusals: Sequence[Refusal]) -> None:
        """Park the keys of refused records; raise :class:`LeadershipLost` when the term is over."""
        rows = [
            {
                "lane": parked_name(lane_of(r.record)), "id": r.record.event_id, "topic": r.record.topic,
                "reason": r.reason, "detail": r.detail,
            }
            for r in refusals
        ]  # fmt: skip
        done = await self._database.execute(
            "mapped.park", refusals=as_json(rows), outbox=self.name, term=term.number,
            seconds_first=PROBE_SECONDS_FIRST, seconds_max=PROBE_SECONDS_MAX,
        )  # fmt: skip
        if not done.rows:
            raise LeadershipLost(f"term {term.number} of {self.name} is over")

    async def unpark(self, keys: Collection[str]) -> None:
        """Unpark keys."""
        array = as_json([parked_name(key) for key in keys])
        await self._database.execute("mapped.probe_topic_now", outbox=self.name, keys=array)
        await self._database.execute("mapped.unpark", outbox=self.name, keys=array)
        _log.info("compat_keys_go_on", outbox=self.name, keys=len(keys))

    def _record(self, row: Mapping[str, Any]) -> Record:
        return self._rows.record(maria_record_row(row))


def maria_record_row(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row with its key and its payload as :class:`MappedRows` expects them."""
    payload = row["payload"]
    return {**row, "key": row["record_key"], "payload": payload.encode() if isinstance(payload, str) else payload}

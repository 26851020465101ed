"""An outbox in MariaDB or MySQL: goharvest's table there, marked or not.

These servers have no UPDATE that returns rows. So a mark reads the lowest rows in a snapshot, which skips no committed
row. It marks them by their ids in one statement that the term fences, and sends the rows that carry the mark.

*Fast* writes no marks: reading is the claim, because one term has one batch in flight, and the term alone permits
purges. That saves an UPDATE for each row. Marks show in the table which relay has which row. They also serve other
relays of the same table that know marks and no term.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import structlog

from db.mariadb.database import MariaDatabase, as_json, for_outbox
from relay.election.port import LeadershipLost
from relay.goharvest.outbox_table import (
    PROBE_SECONDS_FIRST,
    PROBE_SECONDS_MAX,
    PROBES_MAX,
    Due,
    RowFault,
    compat_record,
    headers_fault,
)
from relay.record import Record
from relay.sink import Refusal, Term

__all__ = ["MariaTable"]

_log = structlog.get_logger(__name__)


class MariaTable:
    """One table, as its leader sees it: an `OutboxTable`. ``name`` is its quoted name."""

    def __init__(self, database: MariaDatabase, table: str, *, fast: bool = False) -> None:
        self.name, statements = for_outbox(table)
        self._database = database.with_statements(statements)
        self._fast = fast
        self._identities = [str(uuid.uuid4())]
        self._term: Term | None = None

    @property
    def leader_id(self) -> str:
        """Return the identity in our present marks; without marks, the term's name."""
        return self._identities[-1]

    def begin(self) -> None:
        """Begin a term with a new identity, so that no earlier mark counts as ours."""
        self._identities = [str(uuid.uuid4())]

    def refresh(self) -> None:
        """Take a new identity within the term. The former one still counts as ours, for confirmed rows that are not
        purged.
        """
        self._identities = [*self._identities[-1:], str(uuid.uuid4())]

    async def mark(self, term: Term, limit: int) -> list[Record]:
        """Claim the lowest rows without our mark, of keys that are not parked; return them in id order."""
        rows = await self._database.fetch(
            "outbox.waiting", outbox=self.name, term=term.number, mark=self.leader_id, limit=limit
        )
        return await self._claimed(term, rows)

    async def mark_due(self, term: Term) -> Due:
        """Claim the first rows of the parked keys that may be tried again."""
        rows = await self._database.fetch("outbox.due", outbox=self.name, term=term.number, limit=PROBES_MAX)
        records = await self._claimed(term, sorted((r for r in rows if r["id"] is not None), key=lambda r: r["id"]))
        return Due(records, [row["parked_key"].decode() for row in rows if row["id"] is None])

    async def _claimed(self, term: Term, rows: Sequence[Mapping[str, Any]]) -> list[Record]:
        """Mark rows that were read; return those that then carry our mark."""
        self._term = term
        if rows and not self._fast:
            ids = as_json([row["id"] for row in rows])
            done = await self._database.execute(
                "outbox.mark", ids=ids, outbox=self.name, term=term.number, mark=self.leader_id
            )
            if done.rows != len(rows):  # some rows, or the whole term, may be gone
                ours = await self._database.fetch("outbox.marked", ids=ids, mark=self.leader_id)
                marked = {row["id"] for row in ours}
                rows = [row for row in rows if row["id"] in marked]
        return [_record(row) for row in rows]

    def fault(self, record: Record) -> RowFault | None:
        """Return why a row can be no record; None: it can."""
        return headers_fault(record)

    async def purge(self, ids: Collection[int]) -> None:
        """Delete confirmed rows; raise :class:`LeadershipLost` when the term is over or another relay has
        marked them.
        """
        assert self._term is not None, "rows to purge were claimed under a term"
        array = as_json(ids)
        ruled = {"ids": array, "outbox": self.name, "term": self._term.number}
        if self._fast:
            done = await self._database.execute("outbox.purge_unmarked", **ruled)
        else:
            done = await self._database.execute("outbox.purge", **self._marks(), **ruled)
        if done.rows == len(ids):
            return
        (left,) = await self._database.fetch("outbox.left", **ruled)
        if not left["rules"]:
            raise LeadershipLost(f"term {self._term.number} of {self.name} is over")
        if left["rows_left"]:
            raise LeadershipLost(f"another relay marks rows of {self.name} ({left['rows_left']} of ours)")

    async def reset(self, ids: Collection[int]) -> None:
        """Take our mark off rows that were not sent."""
        if not self._fast:
            await self._database.execute("outbox.reset", ids=as_json(ids), **self._marks())

    async def park(self, term: Term, refusals: Sequence[Refusal]) -> None:
        """Park the keys of refused records; raise :class:`LeadershipLost` when the term is over."""
        rows = [
            {"key": r.record.key, "id": r.record.id, "topic": r.record.topic, "reason": r.reason, "detail": r.detail}
            for r in refusals
        ]
        done = await self._database.execute(
            "outbox.park", refusals=as_json(rows), outbox=self.name, term=term.number,
            seconds_first=PROBE_SECONDS_FIRST, seconds_max=PROBE_SECONDS_MAX,
        )  # fmt: skip
        if not done.rows:
            raise LeadershipLost(f"term {term.number} of {self.name} is over")

    async def unpark(self, keys: Collection[str]) -> None:
        """Unpark keys."""
        array = as_json(keys)
        await self._database.execute("outbox.probe_topic_now", outbox=self.name, keys=array)
        await self._database.execute("outbox.unpark", outbox=self.name, keys=array)
        _log.info("compat_keys_go_on", outbox=self.name, keys=len(keys))

    def _marks(self) -> dict[str, str]:
        """Return our marks: the present one and the former one."""
        return {"mark": self._identities[-1], "mark_before": self._identities[0]}


def _record(row: Mapping[str, Any]) -> Record:
    """Return a row as a record; headers that are no JSON arrays are refused, like arrays of unequal lengths."""
    names, values = _array(row["kafka_header_keys"]), _array(row["kafka_header_values"])
    if names is None or values is None:
        names, values = [None], []
    return compat_record({**row, "kafka_header_keys": names, "kafka_header_values": values})


def _array(text: str | None) -> list[Any] | None:
    try:
        found = json.loads(text or "null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, list):
        return None
    return [one if one is None or isinstance(one, str) else json.dumps(one) for one in found]

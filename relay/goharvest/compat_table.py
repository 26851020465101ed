"""goharvest's outbox table: mark, purge and reset in batches, and the keys that are parked.

The table belongs to goharvest: no column is added, and our own state lies in ``hookwire.compat_parked``. A mark is the
identity of a term in the column ``leader_id``. A foreign mark can be taken over, as in goharvest's failover, so
goharvest and hookwire can take turns. Only rows that carry a mark of this term are purged or reset.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence

import structlog

from db.errors import ServerTrouble
from db.pool import Database
from db.statements import for_outbox, quoted_table
from relay.election.port import LeadershipLost
from relay.goharvest.foreign_owner import tell_foreign_owner
from relay.goharvest.outbox_table import (
    PROBE_SECONDS_FIRST,
    PROBE_SECONDS_MAX,
    PROBES_MAX,
    Due,
    RowFault,
    TableRefused,
    compat_record,
    headers_fault,
)
from relay.record import Record
from relay.sink import Refusal, Term

__all__ = ["CompatTable"]

_log = structlog.get_logger(__name__)
_NOT_SUCH_A_TABLE = "42"
"""SQLSTATE class: the table or a column of it does not exist, or our role may not read it."""


class CompatTable:
    """One table, as its leader sees it. ``name`` is the table's quoted name, and the lease's."""

    def __init__(self, database: Database, table: str) -> None:
        self.name = quoted_table(table)
        self._database = database.with_statements(for_outbox(table))
        self._identities = [uuid.uuid4()]

    async def look_at(self) -> None:
        """Check that a relay can work on the table; raise :class:`TableRefused`, DatabaseError."""
        try:
            await self._database.fetch("compat.columns")
        except ServerTrouble as error:
            if not error.sqlstate.startswith(_NOT_SUCH_A_TABLE):
                raise
            raise TableRefused(f"{self.name} cannot be relayed: {error.message}") from error
        if missing := await self._database.fetchval("compat.rights_missing", self.name):
            raise TableRefused(f"{self.name} cannot be relayed: our role has no right to {missing} there")
        await tell_foreign_owner(self._database, self.name)

    @property
    def leader_id(self) -> str:
        """Return the identity in our present marks."""
        return str(self._identities[-1])

    def begin(self) -> None:
        """Begin a term with a new identity, so that no earlier mark counts as ours."""
        self._identities = [uuid.uuid4()]

    def refresh(self) -> None:
        """Take a new identity within the term, so that all remaining rows are marked again from the lowest id.
        The former identity still counts as ours, for confirmed rows whose purge got no answer.
        """
        self._identities = [*self._identities[-1:], uuid.uuid4()]

    async def mark(self, term: Term, limit: int) -> list[Record]:
        """Mark the lowest rows without our mark, of keys that are not parked; return them in id order."""
        rows = await self._database.fetch(
            "compat.mark", self.name, term.group, term.number, self._identities[-1], limit
        )
        return sorted((compat_record(row) for row in rows), key=lambda record: record.id)

    async def mark_due(self, term: Term) -> Due:
        """Mark the first rows of the parked keys that may be tried again."""
        rows = await self._database.fetch(
            "compat.mark_due", self.name, term.group, term.number, self._identities[-1], PROBES_MAX
        )
        there = [compat_record(row) for row in rows if row["id"] is not None]
        return Due(there, [row["key"] for row in rows if row["id"] is None])

    def fault(self, record: Record) -> RowFault | None:
        """Return why a row can be no record; None: it can."""
        return headers_fault(record)

    async def purge(self, ids: Collection[int]) -> None:
        """Delete confirmed rows; raise :class:`LeadershipLost` when another relay has marked some of them."""
        foreign = await self._database.fetchval("compat.purge", list(ids), self._identities)
        if foreign:
            raise LeadershipLost(
                f"another relay marks rows of {self.name} ({foreign} of our rows); is goharvest still running?"
            )

    async def reset(self, ids: Collection[int]) -> None:
        """Take our mark off rows that were not sent."""
        await self._database.execute("compat.reset", list(ids), self._identities)

    async def park(self, term: Term, refusals: Sequence[Refusal]) -> None:
        """Park the keys of refused records; raise :class:`LeadershipLost` when the term is over."""
        parked = await self._database.execute(
            "compat.park", self.name, term.group, term.number,
            [r.record.key for r in refusals], [r.record.id for r in refusals], [r.record.topic for r in refusals],
            [r.reason for r in refusals], PROBE_SECONDS_FIRST, PROBE_SECONDS_MAX, [r.detail for r in refusals],
        )  # fmt: skip
        if parked != len(refusals):
            raise LeadershipLost(f"term {term.number} of {self.name} is over")

    async def unpark(self, keys: Collection[str]) -> None:
        """Unpark keys."""
        await self._database.execute("compat.unpark", self.name, list(keys))
        _log.info("compat_keys_go_on", outbox=self.name, keys=len(keys))

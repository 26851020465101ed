"""UnmarkedTable: what outbox tables share whose rows carry no mark of a relay, because reading them is the claim."""

from __future__ import annotations

import uuid
from collections.abc import Collection

from relay.goharvest.mapped_rows import MappedRows
from relay.goharvest.outbox_table import RowFault
from relay.record import Record
from relay.sink import Term

__all__ = ["UnmarkedTable"]


class UnmarkedTable:
    """Base of an `OutboxTable`: the rows that were claimed last, and their term. ``name`` is the table's quoted name,
    and the lease's.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._rows = MappedRows()
        self._term: Term | None = None
        self._identity = str(uuid.uuid4())

    @property
    def leader_id(self) -> str:
        """Return the name of the term, or of its part since the last unknown outcome."""
        return self._identity

    def begin(self) -> None:
        """Begin a term."""
        self.refresh()
        self._rows.clear()

    def refresh(self) -> None:
        """Take a new name; the next claim begins at the first row that waits, as each does."""
        self._identity = str(uuid.uuid4())

    def fault(self, record: Record) -> RowFault | None:
        """Return why a row can be no record; None: it can."""
        return self._rows.fault(record)

    async def reset(self, ids: Collection[int]) -> None:
        """Do nothing: a claim leaves no mark."""

    def _begin_batch(self, term: Term) -> None:
        self._term = term
        self._rows.clear()

"""Inner sinks: sinks that write to the hub's own database, where the outbox lies too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from db.errors import DatabaseError
from relay.record import Record
from relay.sink import Batch, Features, Fenced, Receipt, SinkUnavailable, Term

__all__ = ["InnerSink"]


class InnerSink(ABC):
    """A sink in the hub's own database. Its fence is the term, which the statement of :meth:`purge` names.

    A subclass sets ``name``, ``features`` and ``term_over``: the exception of :meth:`purge` when another term is in
    force.
    """

    name: str
    features: Features
    term_over: type[Exception]

    def __init__(self) -> None:
        self._is_open = False

    async def open(self, term: Term) -> None:
        """Return at once: the raised term has fenced every predecessor."""
        self._is_open = True

    async def send(self, batch: Batch) -> Receipt:
        """Purge the records and write their results, such as deliveries, in one transaction."""
        if not self._is_open:
            raise SinkUnavailable(f"the sink {self.name} is not open")
        try:
            return Receipt(acknowledged=await self.purge(batch.term, batch.records))
        except self.term_over:
            raise Fenced(f"term {batch.term.number} of the sink {self.name} is over") from None
        except DatabaseError as error:
            raise SinkUnavailable(str(error)) from error

    async def close(self) -> None:
        """Take no more batches."""
        self._is_open = False

    @abstractmethod
    async def purge(self, term: Term, records: Sequence[Record]) -> Sequence[Record]:
        """Purge records and write their results in one transaction; return the purged records."""

"""The webhook fan-out as a sink: joins two siblings that do not know each other, the relay and the webhooks."""

from __future__ import annotations

from db.errors import DatabaseError
from relay.sink import Batch, Features, Fenced, Receipt, SinkUnavailable, Term
from webhooks.fanout import FanOut, TermOver

__all__ = ["FanOutSink"]


class FanOutSink:
    """Its fence is the term itself, named in the statement that fans out; it has no connection of its own."""

    name = "webhooks"
    features = Features(window="record", batch_records_max=1_000, payload=False, purges=True)

    def __init__(self, fan_out: FanOut) -> None:
        self._fan_out = fan_out
        self._is_open = False

    async def open(self, term: Term) -> None:
        """Return at once: the raised term has fenced every predecessor."""
        self._is_open = True

    async def send(self, batch: Batch) -> Receipt:
        """Purge records and make deliveries, in one transaction."""
        if not self._is_open:
            raise SinkUnavailable("the fan-out is not open")
        try:
            done = await self._fan_out.send(batch.term.group, batch.term.number, batch.records)
        except TermOver:
            raise Fenced(f"term {batch.term.number} of the fan-out is over") from None
        except DatabaseError as error:
            raise SinkUnavailable(str(error)) from error
        return Receipt(acknowledged=done)

    async def close(self) -> None:
        """Take no more batches."""
        self._is_open = False

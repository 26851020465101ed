"""The webhook fan-out as a sink: joins two siblings that do not know each other, the relay and the webhooks."""

from __future__ import annotations

from relay.sink import Batch, Features, Fenced, Receipt, Term
from webhooks.fanout import FanOut, TermOver

__all__ = ["FanOutSink"]


class FanOutSink:
    """Its fence is the term itself, named in the statement that fans out; there is nothing to open or to close."""

    name = "webhooks"
    features = Features(window="record", batch_records_max=1_000, payload=False, purges=True)

    def __init__(self, fan_out: FanOut) -> None:
        self._fan_out = fan_out

    async def open(self, term: Term) -> None:
        """Nothing to do."""

    async def send(self, batch: Batch) -> Receipt:
        """One transaction: purge and deliveries."""
        try:
            done = await self._fan_out.send(batch.term.group, batch.term.number, batch.records)
        except TermOver:
            raise Fenced(f"term {batch.term.number} of the fan-out is over") from None
        return Receipt(acknowledged=done)

    async def close(self) -> None:
        """Nothing to do."""

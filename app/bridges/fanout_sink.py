"""The webhook fan-out as a sink: joins two siblings that do not know each other, the relay and the webhooks."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from app.bridges.inner_sink import InnerSink
from relay.record import Record
from relay.sink import Features, Term
from webhooks.fanout import FanOut, TermOver

__all__ = ["FanOutSink"]


class FanOutSink(InnerSink):
    """The sink whose purge makes the deliveries of each record."""

    name = "webhooks"
    features = Features(window="record", batch_records_max=1_000, payload=False, purges=True)
    term_over = TermOver

    def __init__(self, fan_out: FanOut) -> None:
        super().__init__()
        self._fan_out = fan_out

    @override
    async def purge(self, term: Term, records: Sequence[Record]) -> Sequence[Record]:
        return await self._fan_out.send(term.group, term.number, records)

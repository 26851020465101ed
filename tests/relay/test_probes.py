"""relay/holds/probes.py: how many holds of a topic are probed together."""

from __future__ import annotations

from typing import Any
from unittest.mock import AsyncMock

from relay.holds.hold import DueTopic, Hold
from relay.holds.probes import HoldProbes
from relay.record import Record
from relay.sink import Features, Receipt, Refusal, Term
from runtime.wake import Wake
from tests.relay.amqp.test_window import record


async def test_only_the_topic_that_took_a_record_is_probed_with_more_of_them() -> None:
    """Of a topic that refuses all, a probe stays small, whatever another topic has taken."""
    limits: list[int] = []

    async def heads(_term: Term, due: DueTopic, limit: int, _bytes_max: int) -> dict[Hold, Record]:
        limits.append(limit)
        return {Hold(due.tenant, due.topic, "k"): record(1, "k", due.topic)}

    async def send(_term: Term, records: Any) -> Receipt:
        if records[0].topic == "taking":
            return Receipt(tuple(records))
        return Receipt((), (Refusal(records[0], "topic", "unroutable", ""),))

    holds = AsyncMock(heads=heads, lift=AsyncMock(return_value=[]), give_up=AsyncMock(side_effect=lambda _, r: r))
    probes = HoldProbes(Features(window="batch", batch_records_max=100, overlap=2), holds, Wake(), send, lambda: False)
    for topic in ("taking", "refusing", "taking"):
        await probes._probe(Term("kafka", 0, 1, 1, 0), DueTopic("default", topic, False), is_busy=False)
    assert limits == [40, 40, 200]

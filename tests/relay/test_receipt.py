"""What follows from a receipt, on a real PostgreSQL with sink and election in memory."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client import CollectorRegistry

from relay.metrics import RelayMetrics
from relay.sink import Batch, Features, Receipt, SinkUnavailable
from tests.relay.harness import all_carried, relay_harness, relay_of, running
from tests.relay.memory import MemoryBroker, MemorySink

FEATURES = Features(window="batch", batch_records_max=50, overlap=2)


class HalfAnswered(MemorySink):
    """Its first call keeps half of the records, and hears nothing of the others."""

    listens = False

    async def send(self, batch: Batch) -> Receipt:
        if self.listens:
            return await super().send(batch)
        self.listens = True
        half = batch.records[: len(batch.records) // 2]
        await super().send(replace(batch, records=half))
        return Receipt(half, reopen=True, trouble=SinkUnavailable("no answer to the other half"))


async def test_what_had_no_answer_beside_what_was_kept_is_told(database_url: str) -> None:
    """RO-11, F21: as loudly as when nothing had been kept."""
    registry, broker = CollectorRegistry(), MemoryBroker()
    async with relay_harness(database_url) as harness:
        ids = await harness.publish(*"abcd")
        relay = relay_of(harness, HalfAnswered(broker, FEATURES), metrics=RelayMetrics(registry))
        async with running(relay):
            await all_carried(harness)
    told = [
        registry.get_sample_value(f"hookwire_relay_{name}_total", {"sink": "kafka", "group": "0"})
        for name in ("unsettled", "failures", "acknowledged")
    ]
    assert (told, relay.last_error, broker.ids()) == ([2, 1, 4], "no answer to the other half", ids)

"""The in-memory sink at the harness, with and without manifests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from relay.record import Record
from relay.sink import Features
from tests.contract.sinks.harness import Kept, SinkAdapter
from tests.relay.memory import MemoryBroker, MemorySink


class Harness:
    refused_bytes = 1_000

    def __init__(self, features: Features) -> None:
        self._features = features
        self._broker = MemoryBroker()
        self._broker.record_bytes_max = self.refused_bytes - 1

    def sink(self) -> MemorySink:
        return MemorySink(self._broker, self._features)

    def unreachable(self) -> MemorySink:
        broker = MemoryBroker()
        broker.down = True
        return MemorySink(broker, self._features)

    def homeless(self, record: Record) -> Record:
        self._broker.missing.add(record.topic)
        return record

    async def kept(self, topic: str) -> list[Kept]:
        return [
            Kept(record.key, record.payload, record.event_id, record.sequence, term)
            for term, record in self._broker.log
            if record.topic == topic
        ]


def _adapter(name: str, *, manifests: bool) -> SinkAdapter:
    @asynccontextmanager
    async def harness(_request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
        yield Harness(Features(window="batch", batch_records_max=100, overlap=2, manifests=manifests))

    return SinkAdapter(name, harness, fence="last", overlaps=True, manifests=manifests)


ADAPTERS = [_adapter("memory", manifests=False), _adapter("memory-manifests", manifests=True)]

"""The Kafka sink at the harness, in its modes, on a real broker."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Literal

import pytest

from relay.kafka.sink import KafkaOptions, KafkaSink
from relay.record import Record
from runtime.port import free_port
from tests.contract.sinks.harness import Kept, SinkAdapter
from tests.relay.kafka.kafka_topic import read_committed

Mode = Literal["transactional", "idempotent"]


class Harness:
    refused_bytes = 1_100_000

    def __init__(self, bootstrap: str, mode: Mode, manifests: bool, window: Literal["batch", "record"]) -> None:
        # A lease and topics of its own: nothing of an earlier test is seen.
        self._options = KafkaOptions(
            bootstrap, installation=secrets.token_hex(4), mode=mode, manifests=manifests,
            window=window, topic_prefix=f"{secrets.token_hex(4)}.",
            topic_wait_seconds=60.0,  # the broker makes the topics; on a busy machine that takes longer than usual
        )  # fmt: skip
        self.sinks: list[KafkaSink] = []

    def sink(self) -> KafkaSink:
        self.sinks.append(KafkaSink(self._options))
        return self.sinks[-1]

    def unreachable(self) -> KafkaSink:
        return KafkaSink(replace(self._options, bootstrap_servers=f"127.0.0.1:{free_port()}"))

    def homeless(self, record: Record) -> Record:
        return record._replace(kafka_topic="no kafka topic is called so!")

    async def kept(self, topic: str) -> list[Kept]:
        messages = await read_committed(self._options.bootstrap_servers, self._options.topic_prefix + topic)
        return [
            Kept(
                key=None if message.key is None else message.key.decode(),
                payload=message.value,
                event_id=message.headers["hookwire-event-id"],
                sequence=int(number) if (number := message.headers.get("hookwire-sequence")) else None,
                term=int(message.headers["hookwire-term"]),
            )
            for message in messages
        ]


def _adapter(
    name: str, mode: Mode, *, manifests: bool = False, window: Literal["batch", "record"] = "batch"
) -> SinkAdapter:
    @asynccontextmanager
    async def harness(request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
        kafka = Harness(request.getfixturevalue("kafka").bootstrap, mode, manifests, window)
        yield kafka
        for sink in kafka.sinks:
            await sink.close()

    fence: Literal["last", "none"] = "last" if mode == "transactional" else "none"
    return SinkAdapter(name, harness, fence=fence, overlaps=window == "batch", manifests=manifests)


ADAPTERS = [
    _adapter("kafka-transactional", "transactional", manifests=True),
    _adapter("kafka-fenced", "transactional"),  # as compat mode has it
    _adapter("kafka-idempotent", "idempotent"),
    _adapter("kafka-idempotent-record", "idempotent", window="record"),
]

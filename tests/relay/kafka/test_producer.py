"""The Kafka producer: what the client is told, what counts as an answer, and a cluster without a broker."""

from __future__ import annotations

import asyncio
import gc
import logging
import secrets
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaError, NotLeaderForPartitionError

from relay.kafka.options import KafkaOptions
from relay.kafka.producer import KafkaProducer, _retrieve_failures
from relay.kafka.sink import KafkaSink
from relay.sink import Batch, SinkUnavailable
from scripts.servers.kafka import KafkaServer
from tests.relay.kafka.kafka_topic import make_topic
from tests.relay.kafka.test_sink import TERM, record
from tests.relay.wire import ADD_GROUP, ADD_OFFSETS, ADD_PARTITIONS, END_TRANSACTION, PRODUCE, wire_to
from tests.waiting import until


def producer(monkeypatch: pytest.MonkeyPatch) -> tuple[KafkaProducer, dict[str, Any]]:
    """One without a client, and what that was told."""
    told: dict[str, Any] = {}
    monkeypatch.setattr("relay.kafka.producer.AIOKafkaProducer", lambda **settings: told.update(settings))
    return KafkaProducer(KafkaOptions("localhost:1", "abcd2345"), "id"), told


def test_a_producer_does_not_go_by_the_clients_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """RU-08, RK-12, RO-07: the client's own lose what a leader had alone, and keep a transaction open for a minute."""
    _, told = producer(monkeypatch)
    assert (told["acks"], told["enable_idempotence"], told["transactional_id"]) == ("all", True, "id")
    assert (told["request_timeout_ms"], told["transaction_timeout_ms"]) == (10_000, 15_000)
    assert told["max_batch_size"] >= KafkaOptions("localhost:1", "abcd2345").batch_bytes >= 64 * 1024


async def test_a_batch_without_an_offset_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """RK-18: of a repeat that it knows the broker tells -1, and that is a success."""
    kept, failed = (asyncio.get_running_loop().create_future() for _ in range(2))
    kept.set_result(SimpleNamespace(offset=-1, timestamp=-1))
    error = NotLeaderForPartitionError()
    failed.set_exception(error)
    one, _ = producer(monkeypatch)
    one._wave = [kept, failed]
    assert await one.answers() == [None, error]


@pytest.mark.parametrize("transactional_id", ["fenced", None])
async def test_a_cluster_whose_brokers_are_all_fenced_is_trouble_until_one_is_back(
    transactional_id: str | None, kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FC-04: its metadata lists no broker then, and the client asserts that it has one; the process ended."""
    options = KafkaOptions(kafka.bootstrap, "fenced", request_seconds=10)
    starting = KafkaProducer(options, transactional_id)
    monkeypatch.setattr(starting._producer.client.cluster, "brokers", set)
    with pytest.raises(SinkUnavailable) as caught:
        await starting.start()
    await starting.discard()
    again = KafkaProducer(options, transactional_id)
    await again.start()
    brokers = again.brokers
    await again.discard()
    assert ("Kafka" in str(caught.value), brokers) == (True, 1)


async def test_requests_that_fail_behind_a_sender_that_has_ended_are_not_logged_as_forgotten(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """RK-21: a sender that was fenced waits for none of its other requests; they fail when the client closes."""

    async def fails(*_: Any) -> None:
        raise KafkaError("the connection was closed")

    sender = SimpleNamespace(
        _send_produce_req=fails, _maybe_do_transactional_request=lambda: asyncio.create_task(fails())
    )
    _retrieve_failures(sender)
    with caplog.at_level(logging.ERROR, logger="asyncio"):
        requests = [sender._maybe_do_transactional_request(), asyncio.create_task(sender._send_produce_req(1, {}))]
        await asyncio.wait(requests)
        del requests
        gc.collect()
    assert [entry.getMessage() for entry in caplog.records] == []


async def test_the_marker_of_a_transaction_is_written_before_its_records_are_sent(kafka: KafkaServer) -> None:
    """GR-02: a broker that is asked for both at once has one of them repeated after 20 ms, in one of fifteen small
    batches. The group of the marker is added without a wait for the answer about the partitions.
    """
    topic = f"topic.{secrets.token_hex(4)}"
    await make_topic(kafka.bootstrap, topic, 1)
    sink = KafkaSink(KafkaOptions(kafka.proxied_bootstrap, secrets.token_hex(4)))
    async with wire_to(kafka.advertised_port, kafka.proxied_port) as wire:
        await sink.open(TERM)
        await sink.send(Batch(TERM, [record(1, topic)], 1))
        wire.asked.clear()
        wire.lose_answer = ADD_PARTITIONS
        sending = asyncio.create_task(sink.send(Batch(TERM, [record(2, topic)], 2)))
        await wire.caught.wait()
        try:
            await until(lambda: ADD_GROUP in wire.asked, 5)
        finally:
            wire.release()
        receipt = await sending
        await sink.close()
    steps = [ADD_PARTITIONS, ADD_GROUP, ADD_OFFSETS, PRODUCE, END_TRANSACTION]
    found = dict.fromkeys(key for key in wire.asked if key in steps)  # a request may be repeated
    assert ([r.id for r in receipt.acknowledged], list(found)) == ([2], steps)


async def test_a_marker_without_an_answer_is_not_the_fault_of_the_topic(kafka: KafkaServer) -> None:
    """No record is sent before the marker. A probe is refused for a silent topic, also if only that one is tried."""
    topic = f"topic.{secrets.token_hex(4)}"
    await make_topic(kafka.bootstrap, topic, 1)
    sink = KafkaSink(KafkaOptions(kafka.proxied_bootstrap, secrets.token_hex(4)))
    async with wire_to(kafka.advertised_port, kafka.proxied_port) as wire:
        await sink.open(TERM)
        await sink.send(Batch(TERM, [record(1, topic)], 1))
        wire.lose_answer = ADD_OFFSETS
        sending = asyncio.create_task(sink.send(Batch(TERM, [record(2, topic)], 2, is_probe=True)))
        await wire.caught.wait()
        try:
            with pytest.raises(SinkUnavailable, match="coordinator does not answer"):
                await sending
        finally:
            wire.release()
        await sink.close()

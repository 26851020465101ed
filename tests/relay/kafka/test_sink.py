"""The Kafka sink on a real broker: what it writes, what it refuses, and what it does when Kafka fails.

What every sink has in common is in tests/contract/test_sink_port.py.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import secrets
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from aiokafka import errors
from aiokafka.admin import NewPartitions
from aiokafka.protocol.produce import ProduceRequest_v7

import relay.kafka.topics
from event.partition import Partitioner, Scheme
from relay.kafka.admin import KafkaAdmin, TopicLimits
from relay.kafka.batches import BatchLayout, KafkaBatch, Packer
from relay.kafka.error import blame
from relay.kafka.metadata import TopicDescription
from relay.kafka.options import Compression
from relay.kafka.producer import KafkaProducer
from relay.kafka.security import KafkaSecurity
from relay.kafka.sink import KafkaOptions, KafkaSink
from relay.kafka.topic import KafkaTopic, fragility
from relay.kafka.topics import AbsentTopics, KafkaTopics
from relay.record import Record
from relay.sink import Batch, Fenced, Receipt, SinkUnavailable, Term
from scripts.servers.kafka import KafkaServer
from tests.relay.harness import all_carried, relay_harness, relay_of, running
from tests.relay.kafka.kafka_topic import (
    PROBE,
    WRITE,
    allow,
    deny,
    kafka_admin,
    make_topic,
    read_committed,
    set_message_bytes_max,
)
from tests.relay.wire import END_TRANSACTION, PRODUCE, wire_to
from tests.waiting import until

Mode = Literal["transactional", "idempotent"]
TERM = Term("kafka", 0, 1, 1, 0)
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
both_modes = pytest.mark.parametrize("mode", ["transactional", "idempotent"])


@pytest.fixture
def topic() -> str:
    return f"topic.{secrets.token_hex(4)}"


def options_of(bootstrap: str, mode: Mode = "idempotent", **more: object) -> KafkaOptions:
    """Patient with topics that the broker makes: on a busy machine that may take longer than usual."""
    patient = {"topic_wait_seconds": 60.0, **more}
    return KafkaOptions(bootstrap, installation=secrets.token_hex(4), mode=mode, **patient)  # type: ignore[arg-type]


def record(number: int, topic: str, key: str | None = "k", payload: bytes = b"data", **more: object) -> Record:
    basis = Record(
        id=number, shard=0, event_id=f"evt_abcd2345_{number}", tenant="default", topic=topic, key=key,
        sequence=number, content_type=None, headers={}, payload=payload, accepted_at=MOMENT,
    )  # fmt: skip
    return basis._replace(**more)


class Relay:
    """A sink with running batch numbers, which is reopened when it asks for it."""

    def __init__(self, sink: KafkaSink) -> None:
        self.sink = sink
        self.reopened = 0
        self._number = 0

    def batch(self, *records: Record) -> Batch:
        self._number += 1
        return Batch(TERM, records, self._number if self.sink.features.manifests else None)

    async def send(self, *records: Record) -> Receipt:
        receipt = await self.sink.send(self.batch(*records))
        if receipt.reopen:
            self.reopened += 1
            await self.sink.open(TERM)
        return receipt

    async def carry(self, *records: Record) -> list[int]:
        """Send until everything is acknowledged or refused, as the harvester does; returns the refused ids."""
        left, refused = list(records), []
        while left:
            receipt = await self.send(*left)
            refused += [refusal.record for refusal in receipt.refused]
            done = {r.id for r in [*receipt.acknowledged, *refused]}
            left = [r for r in left if r.id not in done]
        return [r.id for r in refused]


@asynccontextmanager
async def opened(options: KafkaOptions) -> AsyncIterator[Relay]:
    sink = KafkaSink(options)
    await sink.open(TERM)
    try:
        yield Relay(sink)
    finally:
        await sink.close()


async def values(bootstrap: str, topic: str) -> list[str]:
    messages = [message.value or b"" for message in await read_committed(bootstrap, topic)]
    return [value.decode() for value in messages if not value.startswith(PROBE)]


# --- what it writes ---------------------------------------------------------------------------------------------


@both_modes
async def test_a_record_carries_the_publishers_headers_and_ours(kafka: KafkaServer, topic: str, mode: Mode) -> None:
    """RK-20, RO-15, WH-C08; a publisher cannot forge our headers."""
    sent = record(
        7, topic, content_type="application/json",
        headers={"ce-id": "é", "ce-type": "a.b", "x-trace": "1", "hookwire-sequence": "999"},
    )  # fmt: skip
    async with opened(options_of(kafka.bootstrap, mode)) as relay:
        await relay.send(sent)
        await relay.send(record(8, topic, sequence=None))
    first, second = await read_committed(kafka.bootstrap, topic)
    assert (first.key, first.value, first.timestamp_ms) == (b"k", b"data", int(MOMENT.timestamp() * 1000))
    assert list(first.headers.items()) == [
        ("content-type", "application/json"),
        ("ce_id", "é"),
        ("ce_type", "a.b"),
        ("x-trace", "1"),
        ("hookwire-event-id", "evt_abcd2345_7"),
        ("hookwire-term", "1"),
        ("hookwire-accepted-at", "2026-01-02T03:04:05.678901+00:00"),
        ("hookwire-sequence", "7"),
    ]
    assert "hookwire-sequence" not in second.headers


async def test_without_our_headers_a_record_has_the_publishers_alone(kafka: KafkaServer, topic: str) -> None:
    """RO-15."""
    async with opened(options_of(kafka.bootstrap, own_headers=False)) as relay:
        await relay.send(record(7, topic, headers={"x-trace": "1"}))
    (message,) = await read_committed(kafka.bootstrap, topic)
    assert message.headers == {"x-trace": "1"}


@pytest.mark.parametrize("scheme", list(Scheme))
async def test_a_key_goes_to_the_partition_of_the_chosen_scheme(kafka: KafkaServer, topic: str, scheme: Scheme) -> None:
    """RK-22."""
    keys = [f"key {number}" for number in range(40)]
    async with opened(options_of(kafka.bootstrap, partitioner=scheme)) as relay:
        await relay.send(*(record(number, topic, key) for number, key in enumerate(keys, 1)))
    found = {message.key: message.partition for message in await read_committed(kafka.bootstrap, topic)}
    partitioner = Partitioner(scheme)
    assert found == {key.encode(): partitioner.partition(key.encode(), 4) for key in keys}


async def test_records_without_key_spread_over_the_partitions(kafka: KafkaServer, topic: str) -> None:
    async with opened(options_of(kafka.bootstrap)) as relay:
        await relay.send(*(record(number, topic, None) for number in range(8)))
    messages = await read_committed(kafka.bootstrap, topic)
    assert sorted(m.partition for m in messages) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert {m.key for m in messages} == {None}


async def test_the_topics_own_kafka_topic_wins_over_the_prefix(kafka: KafkaServer, topic: str) -> None:
    async with opened(options_of(kafka.bootstrap, topic_prefix="prefix.")) as relay:
        await relay.send(record(1, topic), record(2, topic, kafka_topic=f"{topic}.own"))
    assert [len(await values(kafka.bootstrap, name)) for name in (f"prefix.{topic}", f"{topic}.own")] == [1, 1]


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
@both_modes
async def test_compressed_batches_are_read_back(
    kafka: KafkaServer, topic: str, mode: Mode, compression: Compression
) -> None:
    """RK-28, FM-06."""
    async with opened(options_of(kafka.bootstrap, mode, compression=compression)) as relay:
        await relay.send(*(record(number, topic, payload=b"x" * 1_000) for number in range(50)))
    assert await values(kafka.bootstrap, topic) == ["x" * 1_000] * 50


@both_modes
async def test_many_large_records_are_cut_into_batches_that_the_topic_takes(
    kafka: KafkaServer, topic: str, mode: Mode
) -> None:
    """RK-20: a batch counts as one message against the topic's limit."""
    await make_topic(kafka.bootstrap, topic, 1, max_message_bytes="5000")
    async with opened(options_of(kafka.bootstrap, mode)) as relay:
        refused = await relay.carry(*(record(number, topic, payload=b"%02d" % number * 700) for number in range(20)))
    found = await values(kafka.bootstrap, topic)
    assert (refused, [value[:2] for value in found]) == ([], [f"{number:02}" for number in range(20)])


@both_modes
async def test_an_event_that_is_too_old_for_its_topic_gets_the_time_of_its_sending(
    kafka: KafkaServer, topic: str, mode: Mode
) -> None:
    """GW-12: after an outage it was held for ever."""
    await make_topic(kafka.bootstrap, topic, 1, message_timestamp_before_max_ms="3600000")
    async with opened(options_of(kafka.bootstrap, mode)) as relay:
        left = await relay.carry(
            record(1, topic, accepted_at=datetime.now(UTC) - timedelta(days=2)), record(2, topic, "new")
        )
    assert (left, len(await values(kafka.bootstrap, topic))) == ([], 2)


@both_modes
async def test_new_partitions_are_used_once_they_are_known(kafka: KafkaServer, topic: str, mode: Mode) -> None:
    """RK-23, F58."""
    await make_topic(kafka.bootstrap, topic, 1)
    async with opened(options_of(kafka.bootstrap, mode)) as relay:
        await relay.send(*(record(number, topic, f"key {number % 9}") for number in range(50)))
        async with kafka_admin(kafka.bootstrap) as admin:
            await admin.create_partitions({topic: NewPartitions(3)})
        await relay.sink.open(TERM)
        await relay.send(*(record(number, topic, f"key {number % 9}") for number in range(50, 100)))
    messages = await read_committed(kafka.bootstrap, topic)
    assert (len(messages), {m.partition for m in messages}) == (100, {0, 1, 2})


# --- what it refuses --------------------------------------------------------------------------------------------


@both_modes
async def test_a_topic_that_is_not_there_is_refused_until_it_is(strict_kafka: KafkaServer, mode: Mode) -> None:
    """F21: the wait for it is bounded."""
    topic = f"late.{secrets.token_hex(4)}"
    async with opened(options_of(strict_kafka.bootstrap, mode, topic_wait_seconds=0.3)) as relay:
        refusals = [await relay.send(record(1, topic), record(2, topic, "other")) for _ in range(2)]
        await make_topic(strict_kafka.bootstrap, topic)
        left = await relay.carry(record(1, topic), record(2, topic, "other"))
    assert [[(r.record.id, r.scope, r.reason) for r in receipt.refused] for receipt in refusals] == [
        [(1, "topic", "topic_missing")]
    ] * 2
    assert (left, len(await values(strict_kafka.bootstrap, topic))) == ([], 2)


async def test_a_slow_answer_does_not_count_as_waiting_for_the_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """RK-23: our question makes a busy broker create it, so after the first answer we ask once more, however late."""
    clock = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(relay.kafka.topics, "time", SimpleNamespace(monotonic=lambda: clock.seconds))

    class SlowAdmin:
        asked = 0

        async def describe(self, names: Collection[str]) -> dict[str, TopicDescription]:
            clock.seconds += 60.0
            self.asked += 1
            error = errors.UnknownTopicOrPartitionError if self.asked == 1 else None
            return {name: TopicDescription(error, 1) for name in names}

        async def limits(self, names: Collection[str]) -> dict[str, TopicLimits]:
            return {name: TopicLimits(1_000, 1) for name in names}

    class Producer:
        brokers = 1

        def partitions(self, _: str) -> int:
            return 0

        async def learn(self, _: str) -> int:
            return 4

    topics = KafkaTopics(SlowAdmin(), Producer(), options_of("localhost:1"), AbsentTopics(60.0))  # type: ignore[arg-type]
    assert await topics.resolve({"new"}) == {"new": KafkaTopic("new", 4, 1_000)}


async def test_a_missing_topic_holds_up_no_other(strict_kafka: KafkaServer) -> None:
    present = f"present.{secrets.token_hex(4)}"
    await make_topic(strict_kafka.bootstrap, present)
    async with opened(options_of(strict_kafka.bootstrap, topic_wait_seconds=0.3)) as relay:
        receipt = await relay.send(record(1, "absent"), record(2, present), record(3, "absent"))
    assert ([r.id for r in receipt.acknowledged], [r.record.id for r in receipt.refused]) == ([2], [1])


@both_modes
async def test_a_topic_that_we_may_not_write_to_holds_up_no_other(strict_kafka: KafkaServer, mode: Mode) -> None:
    """RL-07, RO-08, F21, GW-01: the first refusal is the broker's. Then metadata tells, before a transaction begins."""
    closed, open_ = (f"{name}.{secrets.token_hex(4)}" for name in ("closed", "open"))
    for name in (closed, open_):
        await make_topic(strict_kafka.bootstrap, name, 1)
    records = [record(number, (closed, open_)[number % 2], payload=b"%d" % number) for number in range(4)]
    async with opened(options_of(strict_kafka.bootstrap, mode)) as relay:
        await relay.send(record(9, closed, payload=b"9"))
        await deny(strict_kafka.bootstrap, closed, WRITE)
        first = await relay.send(*records)
        others = await relay.carry(*(one for one in records if one.topic == open_ and one not in first.acknowledged))
        second = await relay.send(records[0])
        await allow(strict_kafka.bootstrap, closed, WRITE)
        healed = await relay.carry(records[0], records[2])
    refused = [[(r.record.id, r.scope, r.reason) for r in receipt.refused] for receipt in (first, second)]
    arrived = [await values(strict_kafka.bootstrap, name) for name in (closed, open_)]
    assert (refused, others, healed) == (
        [[(0, "topic", "topic_refused")], [(0, "topic", "topic_not_authorised")]], [], [],
    )  # fmt: skip
    assert arrived == [["9", "0", "2"], ["1", "3"]]


@both_modes
async def test_a_limit_that_was_raised_is_noticed_at_the_next_probe(kafka: KafkaServer, topic: str, mode: Mode) -> None:
    await make_topic(kafka.bootstrap, topic, 1, max_message_bytes="5000")
    large, small = record(1, topic, payload=bytes(6_000)), record(2, topic, "other", payload=b"small")
    async with opened(options_of(kafka.bootstrap, mode)) as relay:
        first = await relay.send(large)
        await relay.send(small)  # the limit is known from it
        await set_message_bytes_max(kafka.bootstrap, topic, 50_000)
        second = await relay.sink.send(replace(relay.batch(large), is_probe=True))
    assert ([r.reason for r in first.refused], list(second.acknowledged)) == (["too_large"], [large])


async def test_a_record_that_is_too_large_has_its_own_topic_asked_again_and_no_other(
    kafka: KafkaServer, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what was laid out stands, unless the answer is another one. What was read a moment ago is not asked again."""
    monkeypatch.setattr("relay.kafka.sink._FRESH_SECONDS", -1.0)
    asked, packed = [], []

    async def limits(self: KafkaAdmin, names: Collection[str]) -> Mapping[str, TopicLimits]:
        asked.append(sorted(names))
        return await ask(self, names)

    def pack(self: Packer, *given: Sequence[Any]) -> BatchLayout:
        packed.append(len(given[0]))
        return lay_out(self, *given)

    ask, lay_out = KafkaAdmin.limits, Packer.pack
    monkeypatch.setattr(KafkaAdmin, "limits", limits)
    monkeypatch.setattr(Packer, "pack", pack)
    other = f"{topic}.other"
    await make_topic(kafka.bootstrap, topic, 1, max_message_bytes="5000")
    await make_topic(kafka.bootstrap, other, 1)
    async with opened(options_of(kafka.bootstrap)) as relay:
        await relay.send(record(1, topic), record(2, other))
        receipt = await relay.send(record(3, topic, payload=bytes(6_000)), record(4, other))
    assert ([r.record.id for r in receipt.refused], [r.id for r in receipt.acknowledged]) == ([3], [4])
    assert (asked, packed) == ([[topic, other], [topic]], [2, 2])


@both_modes
async def test_a_limit_that_was_lowered_is_learned_from_the_brokers_refusal(
    kafka: KafkaServer, topic: str, mode: Mode
) -> None:
    """RK-15, F21, GW-01: the answer names no record, so the topic waits; then its new limit names it."""
    await make_topic(kafka.bootstrap, topic, 1)
    async with opened(options_of(kafka.bootstrap, mode)) as relay:
        await relay.send(record(1, topic, payload=b"first"))
        await set_message_bytes_max(kafka.bootstrap, topic, 2_000)
        records = record(2, topic, "a", b"small"), record(3, topic, "b", bytes(3_000)), record(4, topic, "c", b"small")
        unknown = await relay.send(*records)
        refused = await relay.carry(*records)
    [refusal] = unknown.refused
    # A busy broker may also answer that it could not verify the transaction, and then the producer is opened anew.
    assert (refusal.scope, refusal.reason, relay.reopened <= 1) == ("topic", "topic_refused", True)
    assert refusal.detail.startswith("Kafka's error 10 MESSAGE_TOO_LARGE")
    assert (refused, await values(kafka.bootstrap, topic)) == ([3], ["first", "small", "small"])


COMPACTED = (
    "Kafka's error 87 INVALID_RECORD: Compacted topic cannot accept message without key in topic partition {}-0; "
    "publish with Hookwire-Key, or change the topic's cleanup.policy"
)


@both_modes
@pytest.mark.parametrize("names", [True, False], ids=["named", "unnamed"])
async def test_records_that_only_the_broker_refuses_are_found_by_one_producer(
    kafka: KafkaServer, topic: str, mode: Mode, names: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RO-08, RK-24, GW-01: a broker of Kafka 2.4 or later names them and says why (KIP-467). With an older one, the
    answer to a record that travels alone names it.
    """
    if not names:
        monkeypatch.setattr("relay.kafka.refused_batch.ProduceRequest_v8", ProduceRequest_v7)
    monkeypatch.setattr(KafkaAdmin, "limits", _knowing_no_policy(KafkaAdmin.limits))
    await make_topic(kafka.bootstrap, topic, 1, cleanup_policy="compact")
    records = [record(number, topic, f"key {number}", b"%d" % number) for number in range(100)]
    for number in (17, 61):
        records[number] = records[number]._replace(key=None)
    async with opened(options_of(kafka.bootstrap, mode)) as relay:
        first = await relay.send(*records)
        known = [refusal.record.id for refusal in first.refused] if names else []
        refused = known + await relay.carry(*(record for record in records if record.id not in known))
    found = [int(value) for value in await values(kafka.bootstrap, topic)]
    assert (sorted(refused), found, relay.reopened) == ([17, 61], [n for n in range(100) if n not in (17, 61)], 0)
    if names:
        assert {(r.scope, r.detail) for r in first.refused} == {("record", COMPACTED.format(topic))}


def _knowing_no_policy(ask: Any) -> Any:
    """The settings of topics, without what is known of their clean-up."""

    async def limits(self: KafkaAdmin, names: Collection[str]) -> Mapping[str, TopicLimits]:
        return {name: replace(found, is_compacted=False) for name, found in (await ask(self, names)).items()}

    return limits


@pytest.mark.parametrize(
    ("error", "whose"),
    [
        (errors.NotEnoughReplicasError(), "sink"),
        (errors.NotLeaderForPartitionError(), "sink"),
        (errors.OutOfOrderSequenceNumber(), "sink"),
        (errors.KafkaConnectionError(), "sink"),
        (errors.TopicAuthorizationFailedError("orders"), "topic"),
        (errors.InvalidTopicError(), "topic"),
        (errors.MessageSizeTooLargeError(), "record"),
        (errors.for_code(87)(), "record"),
    ],
)
def test_an_error_tells_against_the_broker_unless_it_names_record_or_topic(error: Exception, whose: str) -> None:
    """RK-14, RO-08, F21, RK-24: sink-level errors park nothing."""
    assert blame(error) == whose


@pytest.mark.parametrize(
    ("brokers", "replicas", "in_sync_min", "weakness"),
    [(1, 1, 1, ""), (3, 1, 1, "replication factor 1"), (3, 3, 1, "min.insync.replicas 1"), (3, 3, 2, "")],
)
def test_a_topic_that_could_lose_what_it_confirmed_is_called_fragile(
    brokers: int, replicas: int, in_sync_min: int, weakness: str
) -> None:
    """SC-02."""
    assert fragility(brokers, replicas, in_sync_min) == weakness


# --- fences -----------------------------------------------------------------------------------------------------


async def test_without_a_trusted_lease_the_idempotent_mode_sends_nothing(kafka: KafkaServer, topic: str) -> None:
    """RR-02: it has no fence at the broker."""
    sink = KafkaSink(options_of(kafka.bootstrap), trusted=lambda: False)
    await sink.open(TERM)
    with pytest.raises(Fenced):
        await sink.send(Batch(TERM, [record(1, topic)]))
    await sink.close()
    assert await values(kafka.bootstrap, topic) == []


async def test_being_fenced_leaves_no_exception_that_nobody_retrieved(
    kafka: KafkaServer, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """RK-21."""
    options = options_of(kafka.bootstrap, "transactional")
    with caplog.at_level(logging.ERROR, logger="asyncio"):
        async with opened(options) as old, opened(options):
            with pytest.raises(Fenced):
                await old.send(record(1, topic))
        del old
        gc.collect()
        await asyncio.sleep(0)
    assert [entry.getMessage() for entry in caplog.records if entry.name == "asyncio"] == []


async def test_other_layouts_groups_and_installations_are_not_fenced(kafka: KafkaServer, topic: str) -> None:
    """RP-10, RR-06, RR-11: the transactional id holds all three."""
    options = options_of(kafka.bootstrap, "transactional")
    terms = [TERM, replace(TERM, group=1), replace(TERM, layout=2), TERM]
    sinks = [KafkaSink(options) for _ in range(3)]
    sinks.append(KafkaSink(replace(options, installation="another2")))
    for sink, term in zip(sinks, terms, strict=True):
        await sink.open(term)
    receipts = [await sink.send(Batch(TERM, [record(1, topic)], 1)) for sink in sinks]
    for sink in sinks:
        await sink.close()
    assert [len(receipt.acknowledged) for receipt in receipts] == [1, 1, 1, 1]


# --- the wire ---------------------------------------------------------------------------------------------------

# Given up before the client repeats a request by itself, which it does after request_seconds.
IMPATIENT = {"request_seconds": 2.5, "delivery_seconds": 0.7, "transaction_seconds": 6.0}


async def test_a_commit_whose_answer_is_lost_is_settled_by_the_marker(kafka: KafkaServer, topic: str) -> None:
    """RU-14, RO-07, F56: no duplicate for read-committed readers, because the number is known to be committed."""
    options = options_of(kafka.proxied_bootstrap, "transactional", **IMPATIENT)
    async with wire_to(kafka.advertised_port, kafka.proxied_port) as wire, opened(options) as relay:
        await relay.send(record(1, topic))
        wire.lose_answer = END_TRANSACTION
        with pytest.raises(SinkUnavailable):
            await relay.send(record(2, topic))
        assert wire.caught.is_set()
        committed = await relay.sink.open(TERM)
        await relay.send(record(3, topic, payload=b"after"))
    assert (committed, await values(kafka.bootstrap, topic)) == (2, ["data", "data", "after"])


async def test_what_was_kept_before_an_answer_is_missing_is_not_sent_again(
    kafka: KafkaServer, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RR-01, F20, F21: two requests, of which the second has no answer; without transactions the first stands."""
    submitted = []

    async def submit(self: KafkaProducer, batches: Sequence[KafkaBatch]) -> None:
        submitted.append(len(batches))
        wire.hold_request = PRODUCE if len(submitted) == 2 else None
        await send(self, batches)

    send = KafkaProducer.submit
    monkeypatch.setattr(KafkaProducer, "submit", submit)
    await make_topic(kafka.bootstrap, topic, 1)
    records = [record(1, topic, payload=bytes(600)), record(2, topic, payload=bytes(601))]
    options = options_of(kafka.proxied_bootstrap, batch_bytes=1_000, **IMPATIENT)
    async with wire_to(kafka.advertised_port, kafka.proxied_port) as wire, opened(options) as relay:
        first = await relay.sink.send(relay.batch(*records))
        await relay.sink.close()  # else the client repeats the request on a new connection
        wire.cut()
        await relay.sink.open(TERM)
        second = await relay.sink.send(relay.batch(*records[1:]))
    arrived = [len(value) for value in await values(kafka.bootstrap, topic)]
    assert (first.acknowledged, first.reopen, second.acknowledged) == (records[:1], True, records[1:])
    assert "no answer in time" in str(first.trouble)
    assert (submitted, arrived) == ([1, 1, 1], [600, 601])


async def test_a_request_that_arrives_after_its_transaction_was_given_up_is_refused(
    kafka: KafkaServer, topic: str
) -> None:
    """RL-21, F54, RK-16: the new producer has the same transactional id and a higher epoch."""
    await make_topic(kafka.bootstrap, topic, 1)
    options = options_of(kafka.proxied_bootstrap, "transactional", **IMPATIENT)
    async with wire_to(kafka.advertised_port, kafka.proxied_port) as wire, opened(options) as relay:
        await relay.send(record(1, topic, payload=b"1"))
        wire.hold_request = PRODUCE
        with pytest.raises(SinkUnavailable):
            await relay.send(record(2, topic, payload=b"2"))
        assert wire.caught.is_set()
        committed = await relay.sink.open(TERM)
        await relay.send(record(2, topic, payload=b"2"), record(3, topic, payload=b"3"))
        wire.release()
        await relay.send(record(4, topic, payload=b"4"))
    assert (committed, await values(kafka.bootstrap, topic)) == (1, ["1", "2", "3", "4"])


async def test_a_lost_answer_in_idempotent_mode_repeats_one_run_after_a_silence(kafka: KafkaServer, topic: str) -> None:
    """F20, RR-01, RK-16: nothing is re-sent before the old request can no longer be on its way."""
    options = options_of(kafka.proxied_bootstrap, "idempotent", **IMPATIENT)
    async with wire_to(kafka.advertised_port, kafka.proxied_port) as wire, opened(options) as relay:
        await relay.send(record(1, topic, payload=b"1"))
        wire.lose_answer = PRODUCE
        with pytest.raises(SinkUnavailable):
            await relay.send(record(2, topic, payload=b"2"), record(3, topic, payload=b"3"))
        await relay.sink.close()
        closed_at = asyncio.get_running_loop().time()
        await relay.sink.open(TERM)
        silence_seconds = asyncio.get_running_loop().time() - closed_at
        await relay.carry(record(2, topic, payload=b"2"), record(3, topic, payload=b"3"))
    assert (await values(kafka.bootstrap, topic), silence_seconds > 2.4) == (["1", "2", "3", "2", "3"], True)


async def test_a_broker_that_falls_silent_is_given_up_in_time_and_closing_is_quick(
    kafka: KafkaServer, topic: str
) -> None:
    """RK-27, F20."""
    options = options_of(kafka.proxied_bootstrap, "transactional", **IMPATIENT)
    async with wire_to(kafka.advertised_port, kafka.proxied_port) as wire:
        sink = KafkaSink(options)
        await sink.open(TERM)
        wire.hold_request = PRODUCE
        async with asyncio.timeout(30):
            with pytest.raises(SinkUnavailable):
                await sink.send(Batch(TERM, [record(1, topic)], 1))
            await sink.close()


# --- the whole way ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mortal_kafka(servers_folder: Path) -> Iterator[KafkaServer]:
    """A broker that tests may kill."""
    server = KafkaServer("mortal", servers_folder / "mortal")
    server.start()
    yield server
    server.discard()


@both_modes
async def test_a_broker_that_is_killed_in_the_middle_of_a_drain_costs_nothing_and_no_order(
    mortal_kafka: KafkaServer, database_url: str, topic: str, mode: Mode
) -> None:
    """RK-14, F19, I1, I3; in transactional mode I4: not one duplicate."""
    options = options_of(
        mortal_kafka.bootstrap, mode, batch_records_max=100,
        request_seconds=2.0, delivery_seconds=2.5, transaction_seconds=6.0,
    )  # fmt: skip
    async with relay_harness(database_url) as harness:
        ids = await harness.publish(*(f"key {number % 20}" for number in range(4_000)), topic=topic)
        async with running(relay_of(harness, KafkaSink(options))):

            async def begun() -> bool:
                return len(await harness.owed()) < 3_500

            await until(begun)
            await asyncio.to_thread(mortal_kafka.kill)
            await asyncio.to_thread(mortal_kafka.start)
            await all_carried(harness)
    arrived: dict[bytes | None, list[int]] = {}
    for message in await read_committed(mortal_kafka.bootstrap, topic):
        arrived.setdefault(message.key, []).append(int(message.headers["hookwire-sequence"]))
    expected = {f"key {key}".encode(): ids[key::20] for key in range(20)}
    assert {key: list(dict.fromkeys(numbers)) for key, numbers in arrived.items()} == expected
    if mode == "transactional":
        assert arrived == expected


# --- options ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"bootstrap_servers": ""}, "bootstrap_servers is empty"),
        ({"mode": "fast"}, "neither transactional nor idempotent"),
        ({"window": "record"}, "window=record is for mode=idempotent"),
        ({"compression": "brotli"}, "compression 'brotli' is not available"),
        ({"delivery_seconds": 15.0}, "shorter than transaction_seconds"),
    ],
)
def test_options_that_could_not_work_or_would_not_be_safe_are_refused(wrong: dict[str, object], says: str) -> None:
    """RK-28, SC-01, SC-20, RG-09."""
    with pytest.raises(ValueError, match=says):
        KafkaOptions(**{"bootstrap_servers": "localhost:9092", "installation": "abcd2345", **wrong})  # type: ignore[arg-type]


def test_options_do_not_show_their_secrets() -> None:
    """SE-07."""
    options = KafkaOptions(
        "localhost:9092",
        "abcd2345",
        security=KafkaSecurity("SASL_SSL", mechanism="PLAIN", username="u", password="secret"),
    )
    assert "secret" not in repr(options)

"""One Kafka topic that takes no records, beside others (GW-01): nobody else waits, whatever is refused, however much.

None of these tests depends on speed. Bystanders arrive while the refused records still wait; the sink is opened once;
and the number of transactions that are aborted does not grow with the number of refusals.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, UnknownError

from relay.kafka.producer import KafkaProducer
from relay.kafka.sink import KafkaOptions, KafkaSink
from relay.sink import Term
from scripts.servers.kafka import KafkaFollower, KafkaServer
from tests.relay.harness import Harness, all_carried, relay_harness, relay_of, running
from tests.relay.kafka.kafka_topic import (
    WRITE,
    allow,
    alter_topic,
    deny,
    kafka_admin,
    make_topic,
    read_committed,
)
from tests.waiting import until

Mode = Literal["transactional", "idempotent"]
both_modes = pytest.mark.parametrize("mode", ["transactional", "idempotent"])
BACKLOG = 450
BATCH = 100


class Counting(KafkaSink):
    """Counts how often it is opened."""

    opened = 0

    async def open(self, term: Term) -> int | None:
        self.opened += 1
        return await super().open(term)


class Scene:
    """A topic that refuses and one that does not, carried by one sink."""

    def __init__(self, harness: Harness, bootstrap: str, sink: Counting) -> None:
        self.harness = harness
        self.sink = sink
        self.suspect, self.other = (f"{name}.{secrets.token_hex(4)}" for name in ("suspect", "other"))
        self._bootstrap = bootstrap

    async def publish(self, *keys: str | None, payload: bytes = b"x") -> None:
        await self.harness.publish(*keys, topic=self.suspect, payload=payload)

    async def bystanders_arrive(self, count: int = 20) -> None:
        """Publish to the other topic, in order, and wait for all of it."""
        ids = await self.harness.publish(*["key"] * count, topic=self.other)
        await self.arrive(self.other, ids)

    async def arrive(self, topic: str, ids: list[int]) -> None:
        async def come() -> bool:
            try:
                found = await self.ids(topic)
            except KafkaError:  # the reader has asked a broker that has gone
                return False
            return found[-len(ids) :] == ids

        await until(come)

    async def ids(self, topic: str) -> list[int]:
        messages = await read_committed(self._bootstrap, topic)
        events = [message.headers.get("hookwire-event-id", "") for message in messages]
        return [int(event.rpartition("_")[2]) for event in events if event]

    async def all_wait(self, count: int) -> None:
        async def held() -> bool:
            return len(await self.harness.held()) == count

        await until(held)

    async def details(self) -> set[str]:
        rows = await self.harness.connection.fetch(
            "SELECT DISTINCT detail FROM hookwire.holds WHERE reason <> 'topic_held'"
        )
        return {row["detail"] for row in rows}

    async def heals(self) -> None:
        """Wait until nothing waits; whoever has held anything is probed at once."""

        async def carried() -> bool:
            await self.harness.probe_now()
            return not (await self.harness.owed() or await self.harness.held() or await self.harness.holds())

        await until(carried)


@pytest.fixture
def aborted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The transactions that were begun, and those that were aborted."""
    counts: Counter[str] = Counter()

    def counted(name: str, verb: Any) -> Any:
        async def call(self: KafkaProducer, *arguments: Any) -> Any:
            counts[name] += 1
            return await verb(self, *arguments)

        return call

    monkeypatch.setattr(KafkaProducer, "begin", counted("begun", KafkaProducer.begin))
    monkeypatch.setattr(KafkaProducer, "commit", counted("committed", KafkaProducer.commit))
    return counts


def _sink(bootstrap: str, mode: Mode) -> Counting:
    return Counting(KafkaOptions(bootstrap, secrets.token_hex(4), mode=mode, batch_records_max=BATCH))


@pytest.fixture
async def scene(database_url: str, strict_kafka: KafkaServer, mode: Mode) -> AsyncIterator[Scene]:
    async with relay_harness(database_url) as harness:
        scene = Scene(harness, strict_kafka.bootstrap, _sink(strict_kafka.bootstrap, mode))
        await make_topic(strict_kafka.bootstrap, scene.other, 1)
        yield scene


@both_modes
async def test_a_compacted_topic_refuses_a_backlog_without_keys_and_nobody_else_waits(
    scene: Scene, strict_kafka: KafkaServer, aborted: Counter[str]
) -> None:
    """GW-01: a backlog of several batches and a stream. Its records with keys go on as well."""
    await make_topic(strict_kafka.bootstrap, scene.suspect, 1, cleanup_policy="compact")
    await scene.publish(*[None] * BACKLOG)
    async with running(relay_of(scene.harness, scene.sink)):
        await scene.bystanders_arrive()
        for number in range(30):
            await scene.publish(None, f"key {number}")
            await scene.bystanders_arrive(1)
        await scene.all_wait(BACKLOG + 30)
        keyed = len(await scene.ids(scene.suspect))
        details = await scene.details()
        opened, unfinished = scene.sink.opened, aborted["begun"] - aborted["committed"]
        await alter_topic(strict_kafka.bootstrap, scene.suspect, cleanup_policy="delete")
        await scene.heals()
    assert (keyed, opened, unfinished) == (30, 1, 0)
    assert details == {
        f"the Kafka topic {scene.suspect} is compacted and takes no record without a key (Kafka's error 87 "
        "INVALID_RECORD); publish with Hookwire-Key, or change the topic's cleanup.policy"
    }
    assert len(await scene.ids(scene.suspect)) == BACKLOG + 60


@both_modes
async def test_what_only_the_broker_can_tell_costs_one_aborted_transaction_and_no_producer(
    scene: Scene, strict_kafka: KafkaServer, aborted: Counter[str]
) -> None:
    """GW-01, KIP-467: the clean-up policy is changed behind the sink's back."""
    await make_topic(strict_kafka.bootstrap, scene.suspect, 1)
    async with running(relay_of(scene.harness, scene.sink)):
        await scene.publish("first")
        await scene.bystanders_arrive()
        await alter_topic(strict_kafka.bootstrap, scene.suspect, cleanup_policy="compact")
        await until(_is_compacted(strict_kafka.bootstrap, scene.suspect))
        await scene.publish(*[None] * BACKLOG, "last")
        await scene.bystanders_arrive()
        await scene.all_wait(BACKLOG)
        opened, unfinished = scene.sink.opened, aborted["begun"] - aborted["committed"]
        await alter_topic(strict_kafka.bootstrap, scene.suspect, cleanup_policy="delete")
        await scene.heals()
    assert (opened, unfinished <= 2) == (1, True)
    assert len(await scene.ids(scene.suspect)) == BACKLOG + 2


def _is_compacted(bootstrap: str, topic: str) -> Any:
    """Return a condition: the broker refuses a record without a key."""

    async def condition() -> bool:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            try:
                await producer.send_and_wait(topic, b"probe")
            except UnknownError:
                return True
            return False

    return condition


@both_modes
async def test_records_that_are_too_large_hold_their_own_keys_alone(
    scene: Scene, strict_kafka: KafkaServer, aborted: Counter[str]
) -> None:
    """GW-01: a backlog larger than a batch."""
    await make_topic(strict_kafka.bootstrap, scene.suspect, 1, max_message_bytes="2000")
    await scene.publish(*[None] * BACKLOG, payload=bytes(3_000))
    async with running(relay_of(scene.harness, scene.sink)):
        await scene.bystanders_arrive()
        await scene.publish("small", None)
        await scene.bystanders_arrive()
        await scene.all_wait(BACKLOG)
        opened, unfinished = scene.sink.opened, aborted["begun"] - aborted["committed"]
        small = len(await scene.ids(scene.suspect))
        await alter_topic(strict_kafka.bootstrap, scene.suspect, max_message_bytes="100000")
        await scene.heals()
    assert (opened, unfinished, small, len(await scene.ids(scene.suspect))) == (1, 0, 2, BACKLOG + 2)


@both_modes
async def test_a_topic_that_is_deleted_under_way_waits_alone(scene: Scene, strict_kafka: KafkaServer) -> None:
    """GW-01: the broker that is asked for it answers, and what was sent has no answer."""
    await make_topic(strict_kafka.bootstrap, scene.suspect, 1)
    async with running(relay_of(scene.harness, scene.sink)):
        await scene.publish("key")
        await scene.bystanders_arrive()
        async with kafka_admin(strict_kafka.bootstrap) as admin:
            await admin.delete_topics([scene.suspect])
        await scene.publish(*["key", None] * BACKLOG)
        await scene.bystanders_arrive()
        await scene.all_wait(2 * BACKLOG)
        opened = scene.sink.opened
        await scene.bystanders_arrive()
        await scene.harness.probe_now()
        await scene.bystanders_arrive()
        assert (scene.sink.opened, {"does not exist" in detail for detail in await scene.details()}) == (opened, {True})
        await make_topic(strict_kafka.bootstrap, scene.suspect, 1)
        await scene.heals()
    assert len(await scene.ids(scene.suspect)) == 2 * BACKLOG


@both_modes
async def test_a_topic_that_may_not_be_written_to_waits_alone(
    scene: Scene, strict_kafka: KafkaServer, aborted: Counter[str]
) -> None:
    """GW-01: the right to write is asked for before a transaction begins (KIP-430)."""
    await make_topic(strict_kafka.bootstrap, scene.suspect, 1)
    await deny(strict_kafka.bootstrap, scene.suspect, WRITE)
    await scene.publish(*["key", None] * BACKLOG)
    async with running(relay_of(scene.harness, scene.sink)):
        await scene.bystanders_arrive()
        await scene.all_wait(2 * BACKLOG)
        for _ in range(5):
            await scene.harness.probe_now()
            await scene.bystanders_arrive(1)
        opened, unfinished = scene.sink.opened, aborted["begun"] - aborted["committed"]
        details = await scene.details()
        await allow(strict_kafka.bootstrap, scene.suspect, WRITE)
        await scene.heals()
    assert (opened, unfinished) == (1, 0)
    assert details == {f"the Kafka topic {scene.suspect} may not be written to by this user; grant WRITE on it"}
    assert len(await scene.ids(scene.suspect)) == 2 * BACKLOG


# --- a topic without a leader -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair(servers_folder: Path) -> Iterator[tuple[KafkaServer, KafkaFollower]]:
    """Two brokers; what Kafka keeps for itself is with the first, so that the second may go."""
    first = KafkaServer("one", servers_folder / "one", auto_create_topics=False)
    second = KafkaFollower("two", servers_folder / "two", first)
    try:
        first.start()
        asyncio.run(_own_topics_made(first.bootstrap))
        second.start()
        yield first, second
    finally:
        second.discard()
        first.discard()


async def _own_topics_made(bootstrap: str) -> None:
    await make_topic(bootstrap, "hookwire.progress", 1)
    async with (
        AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="one") as producer,
        producer.transaction(),
    ):
        await producer.send_and_wait("hookwire.progress", b"first")
        await producer.send_offsets_to_transaction({TopicPartition("hookwire.progress", 0): 0}, "one")


@both_modes
@pytest.mark.parametrize("moment", [pytest.param("before", marks=pytest.mark.slow), "under way"])
async def test_a_topic_without_a_leader_waits_alone(
    mode: Mode, moment: str, pair: tuple[KafkaServer, KafkaFollower], database_url: str
) -> None:
    """GW-01: it is the topic's fault, not the sink's; also where a transaction with it is open and cannot end."""
    first, second = pair
    async with relay_harness(database_url) as harness:
        scene = Scene(harness, first.bootstrap, _sink(first.bootstrap, mode))
        await make_topic(first.bootstrap, scene.other, 1, brokers=(1,))
        await make_topic(first.bootstrap, scene.suspect, 1, brokers=(2,))
        try:
            if moment == "before":
                await _without_leader(second, scene.suspect, first.bootstrap)
            async with running(relay_of(harness, scene.sink)):
                if moment == "under way":
                    await scene.publish("key")
                    await all_carried(harness)
                    await asyncio.to_thread(second.kill)
                await scene.publish(*["key", None] * BACKLOG)
                await scene.bystanders_arrive()
                await scene.all_wait(2 * BACKLOG)
                opened = scene.sink.opened
                for _ in range(3):
                    await harness.probe_now()
                    await scene.bystanders_arrive()
                details = await scene.details()
                assert scene.sink.opened == opened <= (1 if moment == "before" else 5)
                await asyncio.to_thread(second.start)
                await scene.heals()
        finally:
            await asyncio.to_thread(second.start)
        assert {("has no leader" in detail or "no answer" in detail) for detail in details} == {True}
        assert len(await scene.ids(scene.suspect)) == 2 * BACKLOG + (moment == "under way")


async def _without_leader(broker: KafkaFollower, topic: str, bootstrap: str) -> None:
    await asyncio.to_thread(broker.kill)

    async def gone() -> bool:
        async with kafka_admin(bootstrap) as admin:
            try:
                [described] = await admin.describe_topics([topic])
            except KafkaError:  # it has asked the broker that has gone
                return False
            return all(partition["leader"] < 0 for partition in described["partitions"])

    await until(gone)

"""A Kafka topic gets more partitions while events go there (F58)."""

from collections import defaultdict
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import NewPartitions

from app.chaos.arrivals import read_arrivals
from app.chaos.scenario import TOPIC
from scripts.servers.kafka import KafkaServer
from tests.faults.harness import CALM, CLEAN, Kafka, open_harness
from tests.relay.kafka.kafka_topic import kafka_admin, make_topic
from tests.waiting import until


async def used(bootstrap: str, topic: str, partitions: range, seconds_max: float = 90.0) -> None:
    """Wait until something is in each of these partitions."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    await consumer.start()
    try:
        ours = [TopicPartition(topic, number) for number in partitions]

        async def holds() -> object:
            return all((await consumer.end_offsets(ours)).values())

        await until(holds, seconds_max)
    finally:
        await consumer.stop()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["transactional", pytest.param("idempotent", marks=pytest.mark.soak)])
async def test_a_key_that_moves_to_a_new_partition_keeps_its_order_by_the_brokers_clock(
    mode: str, database_url: str, kafka: KafkaServer, tmp_path: Path, seed: int
) -> None:
    """RK-23, F58: I3 over all partitions, I1 I4=0. Topics are looked at every half minute, so this takes as long."""
    broker = Kafka(kafka.bootstrap, mode=mode)
    topic = broker.prefix + TOPIC
    await make_topic(kafka.bootstrap, topic, 2, message_timestamp_type="LogAppendTime")
    options = {"keys": 24, "transactors": 0, "pause_seconds": 0.5, **CALM}
    async with open_harness(database_url, tmp_path, seed, broker, **options) as harness:
        async with harness.scenario.load():
            await harness.accepts(100)
            async with kafka_admin(kafka.bootstrap) as admin:
                await admin.create_partitions({topic: NewPartitions(5)})
            await used(kafka.bootstrap, topic, range(2, 5))
            await harness.accepts(200)
        assert await harness.concluded(duplicates_max=0) == CLEAN
    homes = defaultdict(set)
    for arrival in read_arrivals(tmp_path / "arrivals-kafka.jsonl"):
        homes[arrival.mark.key].add(arrival.stream)
    moved = [key for key, streams in homes.items() if key is not None and len(streams) > 1]
    print(f"seed {seed}, {len(moved)} of 24 keys have moved")
    assert moved

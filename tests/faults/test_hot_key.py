"""Nine events in ten have one key, and one of them is poison: what the others notice of it (F57)."""

from pathlib import Path

import pytest

from app.witness.stage import TOPIC
from scripts.servers.kafka import KafkaServer
from tests.faults.rig import CALM, CLEAN, Kafka, open_rig, until
from tests.faults.traffic import Traffic, read_by
from tests.relay.kafka_topic import ask_for_message_bytes_max, make_topic

HOT_SHARE = 9  # of ten
# Promised are 2; the machine is others' too, and may be busy in one phase and idle in the next.
SLOWER_MAX = 20
SECONDS_MIN = 0.05


@pytest.mark.slow
async def test_other_keys_go_on_beside_a_hot_key_and_beside_poison_on_it(
    database_url: str, kafka: KafkaServer, tmp_path: Path, seed: int
) -> None:
    """RL-08, F57: I7 I1 I3 I4=0. In one run: cold keys alone, then with the hot one, then with poison at its head."""
    broker = Kafka(kafka.bootstrap)
    topic = broker.prefix + TOPIC
    await make_topic(kafka.bootstrap, topic, 4, max_message_bytes="5000")
    async with open_rig(database_url, tmp_path, seed, broker, processes=1, **CALM) as rig:
        traffic = Traffic(rig)
        async with read_by(traffic, kafka.bootstrap, topic):
            await traffic.phase(0)  # whatever is done for the first time
            _, alone = await traffic.phase(0)
            hot, beside_hot = await traffic.phase(HOT_SHARE)
            await until(lambda: traffic.arrived.keys() >= set(hot), 60)
            [poison] = await traffic.publish("hot", payload_bytes=20_000)
            behind_poison, beside_poison = await traffic.phase(HOT_SHARE)
            overtaken = traffic.arrived.keys() & {poison, *behind_poison}
            await ask_for_message_bytes_max(kafka.bootstrap, topic, 100_000)
            await until(lambda: traffic.arrived.keys() >= {poison, *behind_poison}, 60)
        p99 = {name: traffic.p99(cold) for name, cold in (("hot", beside_hot), ("poison", beside_poison))}
        usual = traffic.p99(alone)
        for name, seconds in p99.items():
            print(f"seed {seed}, cold keys beside {name}: p99 {seconds * 1000:.0f} ms, {seconds / usual:.1f} x alone")
        assert await rig.concluded(duplicates_max=0) == CLEAN
    assert (overtaken, max(p99.values()) <= SLOWER_MAX * max(usual, SECONDS_MIN)) == (set(), True), p99

"""Nine events in ten have one key, and one of them is poison: what the others notice of it (F57)."""

from pathlib import Path

import pytest

from app.chaos.scenario import TOPIC
from scripts.servers.kafka import KafkaServer
from tests.faults.harness import CALM, CLEAN, Kafka, open_harness
from tests.faults.traffic import Traffic, is_slower, p99, read_by
from tests.relay.kafka.kafka_topic import ask_for_message_bytes_max, make_topic
from tests.waiting import until

HOT_SHARE = 9  # of ten
SEEDED_SECONDS = 5.0  # long enough for what takes a tenth of a second without the bug


@pytest.mark.slow
async def test_other_keys_go_on_beside_a_hot_key_and_beside_poison_on_it(
    database_url: str, kafka: KafkaServer, tmp_path: Path, seed: int
) -> None:
    """RL-08, F57: I7 I1 I3 I4=0. In one run: cold keys alone, then with the hot one, then with poison at its head."""
    broker = Kafka(kafka.bootstrap)
    topic = broker.prefix + TOPIC
    await make_topic(kafka.bootstrap, topic, 4, max_message_bytes="5000")
    # No webhook is refused: each would hold up the hot key's lane there for a second, which is not what is looked at.
    async with open_harness(database_url, tmp_path, seed, broker, processes=1, refused_share=0.0, **CALM) as harness:
        traffic = Traffic(harness)
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
        found = {name: traffic.p99(cold) for name, cold in (("hot", beside_hot), ("poison", beside_poison))}
        usual = traffic.p99(alone)
        for name, seconds in found.items():
            print(f"seed {seed}, cold keys beside {name}: p99 {seconds * 1000:.0f} ms, {seconds / usual:.1f} x alone")
        assert await harness.concluded(duplicates_max=0) == CLEAN
    assert (overtaken, is_slower(max(found.values()), usual)) == (set(), False), found


@pytest.mark.slow
async def test_poison_that_stops_all_is_noticed_by_the_other_keys(
    database_url: str, kafka: KafkaServer, tmp_path: Path, seed: int
) -> None:
    """F57: the check above can fail; here with the seeded bug that has every key wait for the poison."""
    broker = Kafka(kafka.bootstrap)
    topic = broker.prefix + TOPIC
    await make_topic(kafka.bootstrap, topic, 4, max_message_bytes="5000")
    seeded = {"processes": 1, "seeded_bug": "poison-stops-all", **CALM}
    async with open_harness(database_url, tmp_path, seed, broker, **seeded) as harness:
        traffic = Traffic(harness)
        async with read_by(traffic, kafka.bootstrap, topic):
            await traffic.phase(HOT_SHARE)
            await traffic.publish("hot", payload_bytes=20_000)
            with pytest.raises(TimeoutError):
                await traffic.phase(HOT_SHARE, SEEDED_SECONDS)
        assert not harness.scenario.crashes, "a crash is not what was to be found"


def test_what_is_measured_tells_a_slow_phase_from_a_single_slow_event() -> None:
    """F25 F57: two late events in sixty make a phase slower, one does not; less than a second is not noticed."""
    usual = [0.02] * 60
    p99s = {late: p99([*usual[late:], *[1.5] * late]) for late in (0, 1, 2, 60)}
    assert {late: is_slower(found, p99(usual)) for late, found in p99s.items()} == {
        0: False, 1: False, 2: True, 60: True,
    }  # fmt: skip

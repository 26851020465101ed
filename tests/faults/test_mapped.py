"""Relays of a mapped outbox table that are killed and paused, with the witness's checks (GU-18).

The table is goharvest's, read by a mapping, so that the witness of compat mode judges it. Each key has one writer, so
the order of ids is that of commits.
"""

import random
from pathlib import Path

import pytest

from app.failpoints import POINTS
from scripts.servers.kafka import KafkaServer
from tests.faults.compat_harness import open_compat_harness
from tests.faults.harness import CLEAN, Kafka
from tests.faults.test_compat import REPEATS_PER_HARM

MAPPING = """to = "kafka"
table = "outbox"
id = "id"
topic = "kafka_topic"
key = "kafka_key"
payload = "kafka_value"
headers = "jsonb_object(kafka_header_keys, kafka_header_values)"
order = "id"
"""


@pytest.mark.parametrize("harm", ["killed", "stopped past its lease"])
async def test_a_relay_of_a_mapped_table_is_succeeded_and_writes_nothing_behind_its_successor(
    harm: str, database_url: str, kafka: KafkaServer, tmp_path: Path
) -> None:
    """I1 I3 I4: two processes; no row is lost, and no key goes backwards."""
    async with open_compat_harness(database_url, tmp_path, Kafka(kafka.bootstrap), mapping=MAPPING) as harness:
        async with harness.load(keys=10, pause_seconds=0.01):
            first = await harness.leader()
            await harness.writes(200)
            if harm == "killed":
                await first.kill()
            else:
                first.pause()
            await harness.leader(other_than=first)
            await harness.writes(200)
            if harm == "killed":
                await first.start(wait=False)
            else:
                first.resume()
            await harness.writes(100)
        assert await harness.concluded(duplicates_max=REPEATS_PER_HARM) == CLEAN


@pytest.mark.slow
async def test_a_relay_of_a_mapped_table_may_die_at_each_step(
    database_url: str, kafka: KafkaServer, tmp_path: Path, seed: int
) -> None:
    """F03: I1 I3 I4; at the n-th claim, send or purge, round after round, with nobody to succeed it."""
    chance = random.Random(seed)
    steps = [f"relay.{when}_{what}" for what in ("claim", "send", "purge") for when in ("before", "after")]
    assert set(steps) <= set(POINTS)
    async with open_compat_harness(
        database_url, tmp_path, Kafka(kafka.bootstrap), relays=1, mapping=MAPPING
    ) as harness:
        [relay] = harness.relays
        async with harness.load(keys=10, pause_seconds=0.01):
            for step in [*steps, "relay.mid_purge"]:
                await relay.kill()
                await relay.start(f"{step}:kill@{chance.randint(1, 10)}", wait=False)
                assert await relay.ended(60) == -9, f"{step} was not reached"
            await relay.start(wait=False)
            await harness.writes(100)
        assert await harness.concluded(duplicates_max=(len(steps) + 1) * REPEATS_PER_HARM) == CLEAN

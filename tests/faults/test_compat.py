"""Relays of goharvest's own table that are killed, stopped and restarted, with the witness's checks (RO-01)."""

import asyncio
import random
from pathlib import Path

import pytest

from app.failpoints import POINTS
from scripts.servers.kafka import KafkaServer
from scripts.servers.postgres import PostgresServer
from tests.faults.compat_harness import open_compat_harness
from tests.faults.harness import CLEAN, Kafka
from tests.faults.test_processes import in_time

# What a relay has in flight when it dies is one batch: what ten writers wrote while the one before it was away.
REPEATS_PER_HARM = 400


@pytest.mark.parametrize(
    ("harm", "repeats_max"),
    [("killed", REPEATS_PER_HARM), ("stopped past its lease", REPEATS_PER_HARM), ("asked to end", 0)],
)
async def test_a_relay_of_goharvests_table_is_succeeded_and_writes_nothing_behind_its_successor(
    harm: str, repeats_max: int, database_url: str, kafka: KafkaServer, tmp_path: Path
) -> None:
    """RO-01, F03 F05 F08: I1 I3 I4, RR-01; asked to end, it repeats nothing."""
    calm = {"LEASE_SECONDS": "15"} if harm == "asked to end" else {}
    async with open_compat_harness(database_url, tmp_path, Kafka(kafka.bootstrap), settings=calm) as harness:
        async with harness.load(keys=10, pause_seconds=0.01):
            first = await harness.leader()
            await harness.writes(200)
            if harm == "killed":
                await first.kill()
            elif harm == "asked to end":
                assert in_time([await first.drain(seconds_max=60)])
            else:
                first.pause()
            await harness.leader(other_than=first)
            await harness.writes(200)
            if harm == "stopped past its lease":
                first.resume()
            else:
                await first.start(wait=False)
            await harness.writes(100)
        assert await harness.concluded(duplicates_max=repeats_max) == CLEAN


@pytest.mark.slow
async def test_a_relay_of_goharvests_table_may_die_at_each_step(
    database_url: str, kafka: KafkaServer, tmp_path: Path, seed: int
) -> None:
    """RO-01, F03: I1 I3 I4; at the n-th mark, send or purge, round after round, with nobody to succeed it."""
    chance = random.Random(seed)
    steps = [f"relay.{when}_{what}" for what in ("claim", "send", "purge") for when in ("before", "after")]
    assert set(steps) <= set(POINTS)
    async with open_compat_harness(database_url, tmp_path, Kafka(kafka.bootstrap), relays=1) as harness:
        [relay] = harness.relays
        async with harness.load(keys=10, pause_seconds=0.01):
            for step in steps * 2:
                await relay.kill()
                await relay.start(f"{step}:kill@{chance.randint(1, 10)}", wait=False)
                assert await relay.ended(60) == -9, f"{step} was not reached"
            await relay.start(wait=False)
            await harness.writes(100)
        assert await harness.concluded(duplicates_max=2 * len(steps) * REPEATS_PER_HARM) == CLEAN


@pytest.mark.slow
@pytest.mark.parametrize("server", ["postgres", "kafka"])
async def test_a_server_that_restarts_costs_goharvests_table_nothing(
    server: str, database_url: str, postgres18: PostgresServer, kafka: KafkaServer, tmp_path: Path, seed: int
) -> None:
    """RO-01, F11, F19: I1 I3 I4."""
    chance = random.Random(seed)

    def restart() -> None:
        if server == "postgres":
            postgres18.restart(chance.choice(["fast", "immediate"]))
        else:
            kafka.kill()
            kafka.start()

    async with open_compat_harness(database_url, tmp_path, Kafka(kafka.bootstrap)) as harness:
        async with harness.load(keys=10, pause_seconds=0.01):
            for _ in range(3):
                await harness.writes(300)
                await asyncio.to_thread(restart)
            await harness.writes(300)
        assert await harness.concluded(duplicates_max=2_000 * 3) == CLEAN

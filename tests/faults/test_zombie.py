"""A relay that wakes up late and takes Kafka's fence from the rightful leader (F55)."""

import asyncio
import random
from pathlib import Path

import pytest

from app.chaos.child import Child
from scripts.servers.kafka import KafkaServer
from tests.faults.harness import CLEAN, Harness, Kafka, open_harness
from tests.relay.wire import INIT_PRODUCER, wire_to
from tests.waiting import until

# Two are enough: the zombie's successor, and whoever is elected after its fence was taken. A machine that is short of
# processors may let a lease run out besides; two that fence each other for ever would make five a second.
TERMS_MAX = 8
LEASE_SECONDS = 3.0


async def leads(harness: Harness, child: Child, seconds_max: float = 60.0) -> None:

    async def holds() -> object:
        return await harness.scenario.leader("kafka") is child

    await until(holds, seconds_max)


async def term(harness: Harness) -> int:
    row = await harness.scenario.database.fetchrow("term.current", "kafka", 0)
    assert row is not None
    return int(row["term"])


async def carries(harness: Harness, broker: Kafka, count: int, seconds_max: float = 60.0) -> None:
    """Wait until Kafka has so many more."""
    goal = await broker.count() + count

    async def is_there() -> bool:
        return await broker.count() >= goal

    await until(is_there, seconds_max)


@pytest.mark.slow
async def test_a_zombie_that_takes_kafkas_fence_steps_down_and_the_rightful_leader_is_elected_again(
    database_url: str, kafka: KafkaServer, tmp_path: Path, seed: int
) -> None:
    """RO-04 step 4, F55: I1 I3 I4 I5 I6

    Its request for a new producer is on the wire when it is stopped (SIGSTOP), and arrives when its successor leads:
    the broker grants its fence to whoever asks last. What happens to the successor is seen while the zombie sleeps on;
    what the zombie does is seen after it woke up.
    """
    broker = Kafka(kafka.proxied_bootstrap, kafka.bootstrap)
    chance = random.Random(seed)
    async with (
        wire_to(kafka.advertised_port, kafka.proxied_port) as wire,
        open_harness(database_url, tmp_path, seed, broker, keys=16, lease_seconds=LEASE_SECONDS) as harness,
    ):
        zombie, rightful = harness.scenario.children
        async with harness.scenario.load():
            await carries(harness, broker, 50)
        await rightful.kill()
        await zombie.kill()
        wire.hold_request = INIT_PRODUCER
        await zombie.start()
        async with asyncio.timeout(60):
            await wire.caught.wait()
        await leads(harness, zombie)
        first = await term(harness)
        zombie.pause()
        try:
            await rightful.start()
            async with harness.scenario.load():
                await leads(harness, rightful)
                await carries(harness, broker, chance.randint(20, 100))
                second = await term(harness)
                wire.release()

                async def holds() -> object:
                    return await term(harness) != second

                await until(holds)
                await carries(harness, broker, 50)
                asleep = await term(harness)
                zombie.resume()
                await carries(harness, broker, chance.randint(20, 100))
                awake = await term(harness)
        finally:
            zombie.resume()
        print(f"seed {seed}, terms: {first} zombie, {second} successor, {asleep} after the fence, {awake} at the end")
        assert await harness.concluded(duplicates_max=300) == CLEAN
    assert (first < second < asleep <= awake, awake - first <= TERMS_MAX) == (True, True)

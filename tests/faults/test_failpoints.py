"""kill -9 at every step between POST and purge (F01, F02, F03; OR-09): at the n-th passing, the seed says which n."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.chaos.client import ChaosClient, ClientAnswer, NoAnswer
from app.chaos.scenario import TOPIC
from app.failpoints import POINTS
from scripts.servers.kafka import KafkaServer
from scripts.servers.rabbitmq import RabbitServer
from tests.faults.harness import CLEAN, SOAK, Harness, Kafka, Rabbit, open_harness

# What one process can have in flight when it dies: 64 attempts of each subscription, at each broker one batch.
DUPLICATES_PER_KILL = 200

# How often a point is passed for certain while the load lasts: each of the three sinks is initialised once.
PASSINGS = {"relay.after_init": 3}


@pytest.mark.parametrize("walk", ["publish", "relay", "deliver"])
async def test_nothing_is_lost_or_reordered_when_the_service_dies_at_each_step(
    walk: str, database_url: str, kafka: KafkaServer, rabbitmq: RabbitServer, tmp_path: Path, seed: int
) -> None:
    """WH-T09, F01 F02 F03: I1 I2 I3 I4 I13"""
    points = [point for point in POINTS if point.startswith(f"{walk}.")]
    chance = random.Random(seed)
    brokers = Kafka(kafka.bootstrap), Rabbit(rabbitmq.url)
    async with open_harness(database_url, tmp_path, seed, *brokers, processes=1) as harness:
        await dies_at_each(harness, [(point, chance.randint(1, PASSINGS.get(point, 4))) for point in points])
        assert await harness.concluded(duplicates_max=2 * len(points) * DUPLICATES_PER_KILL) == CLEAN


async def dies_at_each(harness: Harness, steps: Sequence[tuple[str, int]]) -> None:
    """Under load the only service dies at each of these points, at that passing of it; then it goes on."""
    [child] = harness.scenario.children
    async with harness.scenario.load():
        await harness.accepts(50)
        for point, passing in steps:
            await child.kill()
            await child.start(f"{point}:kill@{passing}", wait=False)
            assert await child.ended(60) == -9, f"{point} was not reached"
        await child.start()
        await harness.accepts(50)


LEADERS_STEPS = (
    "relay.before_manifest", "relay.after_manifest", "relay.mid_send", "relay.after_send", "relay.mid_purge",
    "relay.after_purge",
)  # fmt: skip
"""Round the mark (a manifest stands for it), after the send, after its acknowledgement, in and after the purge."""


@pytest.mark.parametrize("run", [pytest.param(number, marks=SOAK, id=f"run {number} of 20") for number in range(1, 21)])
async def test_a_leader_dies_at_each_of_its_six_steps_in_twenty_runs(
    run: int, database_url: str, kafka: KafkaServer, rabbitmq: RabbitServer, tmp_path: Path, seed: int
) -> None:
    """F03: I1 I3 I4 I13; each run is one seed, which chooses their order and at which passing each is reached."""
    chance = random.Random(f"{seed}/{run}")
    steps = [(step, chance.randint(1, 4)) for step in chance.sample(LEADERS_STEPS, len(LEADERS_STEPS))]
    print(f"run {run}: " + ", ".join(f"{step} at {passing}" for step, passing in steps))
    async with open_harness(
        database_url, tmp_path, seed, Kafka(kafka.bootstrap), Rabbit(rabbitmq.url), processes=1
    ) as harness:
        await dies_at_each(harness, steps)
        assert await harness.concluded(duplicates_max=2 * len(steps) * DUPLICATES_PER_KILL) == CLEAN


@pytest.mark.slow
async def test_with_a_record_window_a_kill_repeats_at_most_the_last_record_of_a_key(
    database_url: str, kafka: KafkaServer, tmp_path: Path, seed: int
) -> None:
    """RR-01, F03: Kafka without transactions; between the acknowledgement and the purge, again and again."""
    chance = random.Random(seed)
    broker = Kafka(kafka.bootstrap, mode="idempotent", window="record")
    async with open_harness(database_url, tmp_path, seed, broker, processes=1) as harness:
        child = harness.scenario.children[0]
        async with harness.scenario.load():
            await harness.accepts(50)
            for point in ("relay.after_send", "relay.before_purge", "relay.after_purge", "relay.after_send"):
                await child.kill()
                await child.start(f"{point}:kill@{chance.randint(1, 40)}", wait=False)
                assert await child.ended(60) == -9, f"{point} was not reached"
            await child.start()
            await harness.accepts(50)
        assert await harness.concluded(duplicates_max=8 * DUPLICATES_PER_KILL) == CLEAN


async def publish(harness: Harness, name: str) -> ClientAnswer | None:
    """POST one event with this Idempotency-Key; None when no answer comes."""
    client = ChaosClient(harness.scenario.children[0].port, 10)
    try:
        return await client.request("POST", f"/topics/{TOPIC}/events", b"{}", {"Idempotency-Key": name})
    except NoAnswer:
        return None
    finally:
        client.close()


async def stored(harness: Harness) -> list[int]:
    return [row["id"] for row in await harness.scenario.database.fetch("witness.archive", TOPIC)]


@pytest.mark.parametrize(
    ("point", "stored_before_the_repeat", "is_replay"),
    [("publish.after_commit", 1, True), ("publish.before_commit", 0, False)],
)
async def test_a_publisher_that_got_no_answer_repeats_with_its_key_and_there_is_one_event(
    point: str, stored_before_the_repeat: int, is_replay: bool, database_url: str, tmp_path: Path, seed: int
) -> None:
    """F01 F02: I1 I2, OR-01; killed before COMMIT it is nowhere, killed after it the repeat is told the same id."""
    async with open_harness(database_url, tmp_path, seed, processes=1) as harness:
        child = harness.scenario.children[0]
        await child.kill()
        await child.start(f"{point}:kill")
        first = await publish(harness, "once")
        await child.ended(10)
        before = await stored(harness)
        await child.start()
        again = await publish(harness, "once")
        after = await stored(harness)
    assert first is None
    assert again is not None
    assert (again.status, "idempotency-replayed" in again.headers) == (202, is_replay)
    assert (len(before), len(after)) == (stored_before_the_repeat, 1)
    assert json.loads(again.body)["sequence"] == after[0]

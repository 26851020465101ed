"""The layout is changed while two processes relay and clients publish, on real brokers (RO-05, RR-11)."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from scripts.servers.kafka import KafkaServer
from scripts.servers.rabbitmq import RabbitServer
from tests.faults.harness import CALM, CLEAN, Harness, Kafka, Rabbit, open_harness

COMMAND = Path(sys.executable).parent / "hookwire"


async def change(harness: Harness, *words: str) -> tuple[dict[str, int], str]:
    """`hookwire layout change ... --json` beside the processes; the groups as they are then, and what it said."""
    settings = {"DATABASE_URL": harness.scenario.options.database_url, **harness.scenario.options.settings}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOOKWIRE_")}
    environment |= {f"HOOKWIRE_{name}": value for name, value in settings.items()}
    child = await asyncio.create_subprocess_exec(
        COMMAND, "layout", "change", *words, "--json", env=environment, cwd=harness.scenario.options.folder,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, said = await asyncio.wait_for(child.communicate(), 90)
    assert child.returncode == 0, said.decode()
    return json.loads(output)["after"]["groups"], said.decode()


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_two_relays_go_on_under_another_layout_and_lose_reorder_and_repeat_nothing(
    database_url: str, kafka: KafkaServer, rabbitmq: RabbitServer, tmp_path: Path, seed: int
) -> None:
    """I1 I3 I4=0 I5: Kafka from 2 groups to 6 and to 3, then AMQP to 2, then keys in order across topics."""
    brokers = Kafka(kafka.bootstrap), Rabbit(rabbitmq.url)
    options = {"keys": 16, "pause_seconds": 0.05, "kafka_groups": 2, **CALM}
    steps = (["--groups", "kafka=6"], ["--groups", "kafka=3"], ["--groups", "amqp=2"], ["--order-scope", "key"])
    async with open_harness(database_url, tmp_path, seed, *brokers, **options) as harness:
        groups = []
        async with harness.scenario.load():
            for step in steps:
                await harness.accepts(150)
                found, said = await change(harness, *step)
                groups.append(found)
                print(said)
            await harness.accepts(150)
        assert await harness.concluded(duplicates_max=0) == CLEAN
    assert groups == [{"kafka": 6}, {"kafka": 3}, {"amqp": 2, "kafka": 3}, {"amqp": 2, "kafka": 3}]

"""Relays whose Kafka sink is governed by NELI: the faults of the lease's suite, under the other election."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from app.witness.child import Child
from scripts.servers.kafka import KafkaServer
from tests.faults.rig import CALM, CLEAN, Kafka, Rig, open_rig

NELI = {"KAFKA_ELECTION": "neli", "NELI_SESSION_SECONDS": "3"}


async def leads(rig: Rig, child: Child, seconds_max: float = 90.0) -> None:
    async with asyncio.timeout(seconds_max):
        while await rig.stage.leader("kafka") is not child:  # noqa: ASYNC110 - it looks at other processes
            await asyncio.sleep(0.05)


def other(rig: Rig, child: Child) -> Child:
    return next(one for one in rig.stage.children if one is not child)


async def leader(rig: Rig) -> Child:
    async with asyncio.timeout(90):
        while (found := await rig.stage.leader("kafka")) is None:  # noqa: ASYNC110 - it looks at other processes
            await asyncio.sleep(0.05)
    return found


@pytest.mark.parametrize("harm", ["stopped past its session", "killed", "asked to end"])
async def test_a_leader_by_neli_is_succeeded_and_writes_nothing_behind_its_successor(
    harm: str, database_url: str, kafka: KafkaServer, tmp_path: Path, seed: int
) -> None:
    """F05, F08, F09: I5 I3 I1; the term fences, whoever is elected (RR-08)."""
    async with open_rig(database_url, tmp_path, seed, Kafka(kafka.bootstrap), settings=NELI, keys=10) as rig:
        async with rig.stage.load():
            first = await leader(rig)
            await rig.accepts(100)
            if harm == "killed":
                await first.kill()
            elif harm == "asked to end":
                await first.drain(seconds_max=15)
            else:
                first.pause()
            await leads(rig, other(rig, first))
            await rig.accepts(100)
            if harm == "stopped past its session":
                first.resume()
            else:
                await first.start()
            await rig.accepts(100)
        assert await rig.concluded(duplicates_max=300) == CLEAN


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_a_storm_of_rebalances_loses_reorders_and_repeats_nothing(
    database_url: str, kafka: KafkaServer, tmp_path: Path, seed: int
) -> None:
    """F22, RO-06: I1 I3 I4=0. Ten strangers join the election's group one after the other and leave it again, round
    after round; whoever of them has a partition leads nothing, so those groups wait until it has gone."""
    options = {"keys": 10, "pause_seconds": 0.02, "kafka_groups": 4, **CALM}
    async with open_rig(database_url, tmp_path, seed, Kafka(kafka.bootstrap), settings=NELI, **options) as rig:
        group = f"hookwire.neli.{await rig.stage.database.fetchval('event.installation')}"
        async with rig.stage.load():
            await leader(rig)
            for _ in range(3):
                async with AsyncExitStack() as strangers:
                    for _ in range(10):
                        await strangers.enter_async_context(stranger(kafka.bootstrap, group))
                        await rig.accepts(30)
        assert await rig.concluded(duplicates_max=0, quiet_seconds_max=120) == CLEAN


def stranger(bootstrap: str, group: str) -> AIOKafkaConsumer:
    """A member of the election's group that reads and never leads."""
    return AIOKafkaConsumer(
        group, bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False, heartbeat_interval_ms=200,
        session_timeout_ms=3000, partition_assignment_strategy=(RoundRobinPartitionAssignor,),
    )  # fmt: skip

"""Relays whose Kafka sink is governed by NELI: the faults of the lease's suite, under the other election."""

import asyncio
import itertools
import random
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import app.assembly.relays
from app.chaos.child import Child
from app.chaos.scenario import scenario_settings
from app.embed import open_relay
from app.settings.settings import Settings
from scripts.servers.kafka import KafkaServer
from tests.faults.harness import CALM, CLEAN, Harness, Kafka, open_harness
from tests.waiting import lasts, until

NELI = {"KAFKA_ELECTION": "neli", "NELI_SESSION_SECONDS": "3"}


async def leads(harness: Harness, child: Child, seconds_max: float = 90.0) -> None:

    async def holds() -> object:
        return await harness.scenario.leader("kafka") is child

    await until(holds, seconds_max)


def other(harness: Harness, child: Child) -> Child:
    return next(one for one in harness.scenario.children if one is not child)


async def leader(harness: Harness) -> Child:
    found: Child = await until(lambda: harness.scenario.leader("kafka"), 90)
    return found


@pytest.mark.parametrize("harm", ["stopped past its session", "killed", "asked to end"])
async def test_a_leader_by_neli_is_succeeded_and_writes_nothing_behind_its_successor(
    harm: str, database_url: str, kafka: KafkaServer, tmp_path: Path, seed: int
) -> None:
    """F05, F08, F09: I5 I3 I1; the term fences, whoever is elected (RR-08)."""
    # A delivery's lease outlasts the pause: a worker stopped longer may be in the middle of a POST.
    options: dict[str, Any] = {"keys": 10, "delivery_timeout_seconds": 15.0}
    async with open_harness(database_url, tmp_path, seed, Kafka(kafka.bootstrap), settings=NELI, **options) as harness:
        async with harness.scenario.load():
            first = await leader(harness)
            await harness.accepts(100)
            if harm == "killed":
                await first.kill()
            elif harm == "asked to end":
                await first.drain(seconds_max=15)
            else:
                first.pause()
            await leads(harness, other(harness, first))
            await harness.accepts(100)
            if harm == "stopped past its session":
                first.resume()
            else:
                await first.start()
            await harness.accepts(100)
        assert await harness.concluded(duplicates_max=300) == CLEAN


# Every member that comes or goes takes the classic group protocol's leases back from everybody; leases move one by one.
STORM_RATE_MIN = {"lease": 0.5, "neli": 0.25}


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("election", ["lease", "neli"])
@pytest.mark.parametrize("seconds", [20, pytest.param(60, marks=pytest.mark.soak)])
async def test_a_storm_of_rebalances_loses_reorders_and_repeats_nothing(
    seconds: int, election: str, database_url: str, kafka: KafkaServer, tmp_path: Path, seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """RU-07, RK-02, F22, RO-06: I1 I3 I4=0 I5, I6: each second one of ten more relays joins, or leaves again, whoever's
    turn it is; what arrives meanwhile is compared with what was accepted meanwhile."""
    names = itertools.count(1)
    monkeypatch.setattr(app.assembly.relays, "process_name", lambda: f"member-{next(names)}")
    settings = {**NELI, "KAFKA_ELECTION": election}
    options = {"keys": 10, "pause_seconds": 0.1, "kafka_groups": 4, **CALM}
    async with open_harness(
        database_url, tmp_path, seed, Kafka(kafka.bootstrap), settings=settings, **options
    ) as harness:
        [broker] = harness.brokers
        async with harness.scenario.load():
            await leader(harness)
            await harness.accepts(100)
            before = harness.scenario.accepted, await broker.count(), await terms(database_url)
            await storm(harness, seconds, random.Random(seed))
            accepted, relayed = harness.scenario.accepted - before[0], await broker.count() - before[1]
            begun = await terms(database_url) - before[2]
        print(f"seed {seed}, {election}: {begun} new begun, {accepted} accepted meanwhile, {relayed} relayed")
        assert await harness.concluded(duplicates_max=0, quiet_seconds_max=120) == CLEAN
    assert (begun >= 1, relayed >= STORM_RATE_MIN[election] * accepted) == (True, True)


async def terms(database_url: str) -> int:
    """How many begun there were of the Kafka sink's groups."""
    sql = await asyncpg.connect(database_url)
    count: int = await sql.fetchval("SELECT sum(term)::bigint FROM hookwire.relay_terms WHERE sink = 'kafka'")
    await sql.close()
    return count


async def storm(harness: Harness, seconds: int, chance: random.Random) -> None:
    """Each second one of ten relays of this process joins, or leaves if it is there."""
    async with asyncio.TaskGroup() as tasks:
        leaving: dict[int, asyncio.Event] = {}
        ends = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < ends:
            number = chance.randrange(10)
            if number in leaving:
                leaving.pop(number).set()
            else:
                leaving[number] = asyncio.Event()
                tasks.create_task(member(harness, leaving[number]))
            await lasts(1)
        for asked in leaving.values():
            asked.set()


async def member(harness: Harness, asked_to_leave: asyncio.Event) -> None:
    """One more relay of the same sinks, until it is asked to leave."""
    told = scenario_settings(harness.scenario.options) | {"LISTEN": "127.0.0.1:0", "DATABASE_CONNECTIONS_MAX": "4"}
    settings = Settings.model_validate({name.lower(): value for name, value in told.items()})
    async with open_relay(settings) as relay:
        await relay.start()
        await asked_to_leave.wait()
        relay.stop()
        await relay.wait()

"""Failovers with the standby fence: whatever a receiver or Kafka has, the promoted server knows (HA-11 to HA-13)."""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path

import asyncpg
import pytest

from app.chaos.arrivals import read_arrivals
from app.chaos.history import Attempt, HistoryWriter, PublishOutcome
from app.chaos.log import LineLog
from app.chaos.mark import Mark
from app.chaos.scenario import TOPIC
from db.migrate import migrate
from scripts.servers.kafka import KafkaServer
from scripts.servers.postgres import embedded_bin_dir
from tests.faults.cluster import REQUIRED, Cluster, Loss, booted_cluster
from tests.faults.harness import CLEAN, SOAK, Harness, Kafka, open_harness
from tests.faults.test_forgotten import compared
from tests.waiting import lasts, until

DUPLICATES_MAX = 600
"""Attempts in flight of two processes, for each failover."""
RECOVERY_SECONDS = 120.0
_LOOKS, _LOOK_SECONDS = 8, 0.1
"""A hub without a fence sends what it sees within that time."""


class SqlPublisher:
    """A foreign service that publishes by SQL and waits for no standby. None of its commits is certain."""

    def __init__(self, cluster: Cluster, history: HistoryWriter) -> None:
        self._cluster = cluster
        self._history = history

    async def run(self) -> None:
        """Publish until cancelled."""
        for n in count(1):
            mark, at = Mark("sql", TOPIC, f"sql {n % 20}", n), time.time()
            self._history.record(Attempt(mark, PublishOutcome.UNKNOWN, None, 1, at))
            with suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                async with asyncio.timeout(1), self._cluster.asking() as sql:
                    await sql.execute("SELECT hookwire.publish($1, $2::bytea, key => $3)", TOPIC,
                                      mark.to_payload(at), mark.key)  # fmt: skip
            await lasts(0.1)


@asynccontextmanager
async def publishing(cluster: Cluster, harness: Harness) -> AsyncIterator[None]:
    """The witness's load by HTTP, and ours by SQL, while the block runs."""
    with LineLog(harness.scenario.options.folder / "history.jsonl") as log:
        async with harness.scenario.load():
            running = asyncio.create_task(SqlPublisher(cluster, HistoryWriter(log)).run())
            try:
                yield
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)


async def expose(cluster: Cluster, kind: str, chance: random.Random) -> None:
    """Let the primary have commits that are visible there, and that no standby has, or only one.

    Whoever waits for a standby is woken for a while, so that a hub without a fence can send what it sees.
    """
    cut = [chance.choice(cluster.standbys)] if kind == "one standby" else cluster.standbys
    for standby in cut:
        cluster.links[standby.name].hold()
    if kind == "emptied list":
        await cluster.empty_list()
    for _ in range(_LOOKS):
        if kind in ("cancelled waits", "death"):
            await cluster.cancel_waits()
        await lasts(_LOOK_SECONDS)


async def fail_over(cluster: Cluster, harness: Harness, kind: str, loss: Loss, chance: random.Random) -> None:
    """One round."""
    await expose(cluster, kind, chance)
    child = chance.choice(harness.scenario.children)
    if kind == "death":
        await child.kill()
    await cluster.fail_over(loss)
    if kind == "death":
        await child.start()
    await harness.accepts(30, RECOVERY_SECONDS)
    await harness.receives("ordered", 30, RECOVERY_SECONDS)


KINDS = ("cancelled waits", "emptied list", "death", "one standby")
LOSSES: tuple[Loss, ...] = ("killed", "cut off", "stopped")


async def failovers(cluster: Cluster, harness: Harness, rounds: int, seed: int) -> None:
    """So many rounds, of all kinds in turn."""
    chance = random.Random(seed)
    async with publishing(cluster, harness):
        await harness.accepts(30)
        await harness.receives("ordered", 30)
        for number in range(rounds):
            kind, loss = KINDS[number % len(KINDS)], LOSSES[number % len(LOSSES)]
            began = time.monotonic()
            await fail_over(cluster, harness, kind, loss, chance)
            print(
                f"failover {number + 1}: {kind}, the primary is {loss}; {cluster.primary.name} took over, "
                f"{harness.scenario.accepted} accepted, {time.monotonic() - began:.1f} s"
            )


async def ghosts(cluster: Cluster, harness: Harness, sink: str = "*") -> set[str]:
    """The events that a sink has and the database does not."""
    async with cluster.asking() as sql:
        known = {row["id"] for row in await sql.fetch("SELECT id FROM hookwire.events")}
    folder = harness.scenario.options.folder
    arrived = {
        one.event_id for path in folder.glob(f"arrivals-{sink}.jsonl") for one in read_arrivals(path) if one.event_id
    }
    return {one for one in arrived if int(one.rpartition("_")[2]) not in known}


@asynccontextmanager
async def opened(
    folder: Path, tmp_path: Path, seed: int, kafka: KafkaServer, fence: str
) -> AsyncIterator[tuple[Cluster, Harness]]:
    """A cluster, and two processes of the hub with this fence."""
    async with booted_cluster(folder, embedded_bin_dir()) as cluster:
        await migrate(cluster.url)
        broker = Kafka(kafka.bootstrap)
        settings = {"STANDBY_FENCE": fence}
        async with open_harness(
            cluster.url, tmp_path, seed, broker, settings=settings, keys=20, transactors=0
        ) as harness:
            yield cluster, harness


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("rounds", [5, pytest.param(50, marks=SOAK)])
async def test_after_failovers_nobody_knows_an_event_that_the_new_primary_does_not(
    rounds: int, servers_folder: Path, kafka: KafkaServer, tmp_path: Path, seed: int
) -> None:
    """HA-11, HA-12, HA-13: by one unchanged setting, with waits that are cancelled, and processes that die."""
    async with opened(servers_folder, tmp_path, seed, kafka, REQUIRED) as (cluster, harness):
        await failovers(cluster, harness, rounds, seed)
        found = await harness.concluded(duplicates_max=rounds * DUPLICATES_MAX)
        assert (found, await ghosts(cluster, harness)) == (CLEAN, set())


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["cancelled waits", "emptied list"])
async def test_without_the_fence_the_same_failover_makes_ghosts(
    kind: str, servers_folder: Path, kafka: KafkaServer, tmp_path: Path, seed: int
) -> None:
    """HA-11: else the scenario above would show nothing."""
    async with opened(servers_folder, tmp_path, seed, kafka, "") as (cluster, harness):
        async with publishing(cluster, harness):
            await harness.receives("ordered", 30)
            await expose(cluster, kind, random.Random(seed))
            await cluster.fail_over("killed")
            await harness.accepts(30, RECOVERY_SECONDS)
        assert await ghosts(cluster, harness)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_the_ghosts_of_a_wrong_promotion_are_listed(
    servers_folder: Path, kafka: KafkaServer, tmp_path: Path, seed: int
) -> None:
    """HA-12, HA-24: `any:1` holds only where the standby with most is promoted."""
    async with opened(servers_folder, tmp_path, seed, kafka, "any:1") as (cluster, harness):
        [broker] = harness.brokers
        assert isinstance(broker, Kafka)
        async with publishing(cluster, harness):
            await harness.receives("ordered", 30)
            cluster.links[cluster.standbys[-1].name].hold()
            before = await broker.count()
            await harness.receives("ordered", 30)
            await until(lambda: has_grown(broker, before))
            await cluster.fail_over("killed", to_wrong=True)
        await broker.read(tmp_path)
        witness = await ghosts(cluster, harness, "kafka")
        listed = {event.event_id for one in await compared(cluster.url, broker) for event in one.only_there}
        print(f"ghosts in Kafka: {len(witness)}, at receivers: {len(await ghosts(cluster, harness, 'ordered'))}")
        assert (listed, bool(witness)) == (witness, True)


async def has_grown(broker: Kafka, before: int) -> bool:
    """Return whether Kafka has more than so many records."""
    return await broker.count() > before

"""The elections that the port's suite runs on: in memory, by leases in PostgreSQL and MariaDB, by NELI on Kafka."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from db.direct import connect_direct
from relay.election.lease import LeaseOptions, Leases
from relay.election.neli import NeliElection
from relay.election.neli_core import NeliTimes
from relay.election.neli_options import NeliOptions
from relay.election.port import Election
from relay.goharvest.maria_election import MariaElection
from relay.kafka.options import KafkaOptions
from tests.relay.goharvest.harness import on_mariadb
from tests.relay.harness import Harness
from tests.relay.memory import MemoryElection

Service = Leases | NeliElection | MariaElection
TIMES = NeliTimes(beat_seconds=0.25, fence_seconds=4, session_seconds=6, rebalance_seconds=10)


@dataclass(frozen=True)
class Ground:
    """What the arenas stand on: a database with a sink, Kafka, and the URL of an empty database on MariaDB."""

    harness: Harness
    bootstrap: str
    mariadb_url: str


@dataclass(frozen=True)
class Arena:
    """``member`` opens one process's election; ``lose_leadership`` ends the present term behind its back; ``term`` is
    the present one, by the database."""

    member: Callable[[], Awaitable[Election]]
    lose_leadership: Callable[[], Awaitable[None]]
    term: Callable[[], Awaitable[int]]


@asynccontextmanager
async def in_memory(ground: Ground) -> AsyncIterator[Arena]:
    """All members share the one lease, and the object."""
    election = MemoryElection(ground.harness.begin_term)

    async def member() -> Election:
        return election

    async def lose_leadership() -> None:
        election.lose_leadership()

    yield Arena(member, lose_leadership, lambda: _term(ground.harness))


@asynccontextmanager
async def by_lease(ground: Ground) -> AsyncIterator[Arena]:
    harness = ground.harness
    async with _services(harness) as (start, lose_leadership):

        async def member() -> Election:
            leases = Leases(
                harness.database,
                lambda: connect_direct(harness.database.options),
                [harness.sink],
                LeaseOptions("test", lease_seconds=6, poll_seconds=0.2),
            )
            start(leases)
            return leases.election(harness.sink)

        yield Arena(member, lose_leadership, lambda: _term(harness))


@asynccontextmanager
async def by_neli(ground: Ground) -> AsyncIterator[Arena]:
    harness, bootstrap = ground.harness, ground.bootstrap
    installation = secrets.token_hex(4)
    async with _services(harness) as (start, lose_leadership):

        async def member() -> Election:
            kafka = KafkaOptions(bootstrap, installation)
            options = NeliOptions("test", installation, times=TIMES)
            election = NeliElection(harness.database, kafka, harness.sink, options)
            start(election)
            return election

        yield Arena(member, lose_leadership, lambda: _term(harness))


@asynccontextmanager
async def by_mariadb(ground: Ground) -> AsyncIterator[Arena]:
    async with on_mariadb(ground.mariadb_url) as outbox, _running() as start:

        async def member() -> Election:
            election = MariaElection(
                outbox.database, outbox.name, LeaseOptions("test", lease_seconds=2, poll_seconds=0.1)
            )
            start(election)
            return election

        async def lose_leadership() -> None:
            await outbox.change("UPDATE hookwire_terms SET term = term + 1, owner = 'somebody else'")

        async def term() -> int:
            return int((await outbox.select("SELECT term FROM hookwire_terms"))[0][0])

        yield Arena(member, lose_leadership, term)


async def _term(harness: Harness) -> int:
    return int(await harness.connection.fetchval("SELECT term FROM hookwire.relay_terms WHERE sink = 'kafka'"))


@asynccontextmanager
async def _services(harness: Harness) -> AsyncIterator[tuple[Callable[[Service], None], Callable[[], Awaitable[None]]]]:
    async def lose_leadership() -> None:
        await harness.connection.execute("UPDATE hookwire.relay_terms SET term = term + 1, owner = 'somebody else'")

    async with _running() as start:
        yield start, lose_leadership


@asynccontextmanager
async def _running() -> AsyncIterator[Callable[[Service], None]]:
    """Runs what is started until the end."""
    started: list[tuple[Service, asyncio.Task[None]]] = []

    def start(service: Service) -> None:
        started.append((service, asyncio.create_task(service.run())))

    yield start
    for service, _ in started:
        service.stop()
    await asyncio.gather(*(task for _, task in started))


ARENAS = {"memory": in_memory, "lease": by_lease, "neli": by_neli, "mariadb": by_mariadb}

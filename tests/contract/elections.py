"""The elections that the port's suite runs on: in memory, by leases in PostgreSQL, by NELI over a real Kafka."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from db.direct import connect_direct
from relay.election import Election
from relay.kafka_options import KafkaOptions
from relay.lease import LeaseOptions, Leases
from relay.memory import MemoryElection
from relay.neli import NeliElection
from relay.neli_core import NeliTimes
from relay.neli_options import NeliOptions
from tests.relay.stage import Stage

TIMES = NeliTimes(beat_seconds=0.25, fence_seconds=4, session_seconds=6, rebalance_seconds=10)


@dataclass(frozen=True)
class Arena:
    """``member`` opens one process's election; ``depose`` ends whatever reign there is, behind its back."""

    member: Callable[[], Awaitable[Election]]
    depose: Callable[[], Awaitable[None]]


@asynccontextmanager
async def in_memory(stage: Stage, _: str) -> AsyncIterator[Arena]:
    """All members share the one seat, and the object."""
    election = MemoryElection(stage.reign)

    async def member() -> Election:
        return election

    async def depose() -> None:
        election.depose()

    yield Arena(member, depose)


@asynccontextmanager
async def by_lease(stage: Stage, _: str) -> AsyncIterator[Arena]:
    async with _services(stage) as (start, depose):

        async def member() -> Election:
            leases = Leases(
                stage.database,
                lambda: connect_direct(stage.database.options),
                [stage.sink],
                LeaseOptions("test", lease_seconds=6, poll_seconds=0.2),
            )
            start(leases)
            return leases.election(stage.sink)

        yield Arena(member, depose)


@asynccontextmanager
async def by_neli(stage: Stage, bootstrap: str) -> AsyncIterator[Arena]:
    installation = secrets.token_hex(4)
    async with _services(stage) as (start, depose):

        async def member() -> Election:
            kafka = KafkaOptions(bootstrap, installation)
            options = NeliOptions("test", installation, partitions=4, times=TIMES)
            election = NeliElection(stage.database, kafka, stage.sink, options)
            start(election)
            return election

        yield Arena(member, depose)


@asynccontextmanager
async def _services(
    stage: Stage,
) -> AsyncIterator[tuple[Callable[[Leases | NeliElection], None], Callable[[], Awaitable[None]]]]:
    """Runs what is started until the end."""
    started: list[tuple[Leases | NeliElection, asyncio.Task[None]]] = []

    def start(service: Leases | NeliElection) -> None:
        started.append((service, asyncio.create_task(service.run())))

    async def depose() -> None:
        await stage.connection.execute("UPDATE hookwire.relay_terms SET term = term + 1, owner = 'somebody else'")

    yield start, depose
    for service, _ in started:
        service.stop()
    await asyncio.gather(*(task for _, task in started))


ARENAS = {"memory": in_memory, "lease": by_lease, "neli": by_neli}

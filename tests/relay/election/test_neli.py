"""NELI on a real broker: what its shell does when brokers or database cannot be reached.

The machine itself is in tests/relay/election/test_neli_core.py, what every election has in common in
tests/contract/test_election_port.py.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime

import pytest

from db.pool import Database
from relay.election.neli import NeliElection
from relay.election.neli_core import NeliTimes
from relay.election.neli_options import NeliOptions
from relay.election.port import LeadershipLost, Lease
from relay.kafka.options import KafkaOptions
from scripts.servers.kafka import KafkaServer
from tests.relay.harness import DEADLINE_SECONDS, Harness, relay_harness
from tests.relay.wire import PRODUCE, wire_to
from tests.waiting import until

OFFSET_COMMIT = 8  # API key of the Kafka protocol; the coordinator's connection carries heartbeats, too
TIMES = NeliTimes(beat_seconds=0.2, fence_seconds=1.5, session_seconds=3.0, rebalance_seconds=10.0)


@pytest.fixture
async def harness(database_url: str) -> AsyncIterator[Harness]:
    async with relay_harness(database_url) as opened:
        yield opened


@asynccontextmanager
async def member(
    database: Database, bootstrap: str, installation: str, times: NeliTimes = TIMES
) -> AsyncIterator[NeliElection]:
    options = NeliOptions("test", installation, partitions=1, times=times)
    election = NeliElection(database, KafkaOptions(bootstrap, installation), "kafka", options)
    service = asyncio.create_task(election.run())
    try:
        yield election
    finally:
        election.stop()
        async with asyncio.timeout(DEADLINE_SECONDS):
            await service


async def next_lease(election: NeliElection) -> Lease:
    async with asyncio.timeout(DEADLINE_SECONDS):
        return await election.acquire()


async def reigned(election: NeliElection, lease: Lease) -> None:
    """Until it is over."""
    async with election.hold(lease), asyncio.timeout(DEADLINE_SECONDS):
        await asyncio.Event().wait()


async def test_a_seat_that_is_held_is_seen_to_be_held(harness: Harness, kafka: KafkaServer) -> None:
    """RR-11, GU-20: a change of the layout waits for who sits on it; the status page and `layout show` name the leader.

    A beat that is 1.5 s late would end it, and is late on a busy machine.
    """
    patient = replace(TIMES, fence_seconds=20.0, session_seconds=25.0, rebalance_seconds=30.0)
    async with member(harness.database, kafka.bootstrap, secrets.token_hex(4), patient) as election:
        async with election.hold(await next_lease(election)):
            first = await harness.connection.fetchval("SELECT lease_until FROM hookwire.relay_terms")
            await until(lambda: is_renewed(harness, first))
            await election.end_candidacy()  # or the lease falls to it again, as there is nobody else
        occupied = await harness.database.fetch("layout.occupied", ["kafka"])
    assert occupied == []


async def is_renewed(harness: Harness, since: datetime) -> bool:
    found = await harness.connection.fetchval(
        "SELECT lease_until > $1 FROM hookwire.relay_terms WHERE owner = 'test'", since
    )
    return bool(found)


@pytest.mark.parametrize("unreachable", ["coordinator", "partition leader"])
async def test_a_leader_that_reaches_half_of_the_brokers_fences_itself_and_may_lead_again(
    unreachable: str, harness: Harness, kafka: KafkaServer
) -> None:
    """F23, RK-11: its beats arrive and are not confirmed, or do not arrive; long before its session has ended."""
    installation = secrets.token_hex(4)
    async with (
        wire_to(kafka.advertised_port, kafka.proxied_port) as wire,
        member(harness.database, kafka.proxied_bootstrap, installation) as election,
    ):
        lease = await next_lease(election)
        wire.hold_request = OFFSET_COMMIT if unreachable == "coordinator" else PRODUCE
        # On a busy machine the client may find the coordinator lost first, and then its seat is over.
        with pytest.raises(LeadershipLost, match=r"no beat was confirmed in time|term 1 of kafka/0 is over"):
            await reigned(election, lease)
        trusted = election.trusted(0)
        wire.release()
        again = await next_lease(election)
        async with election.hold(again):
            assert (trusted, again.term.number > lease.term.number) == (False, True)


async def test_a_database_that_hangs_while_a_seat_is_given_back_holds_up_no_successor(
    harness: Harness, kafka: KafkaServer
) -> None:
    """F53, RL-15: the barrier ends in its bound, here that of giving back."""
    installation = secrets.token_hex(4)
    hanging = Hanging(harness.database._pool, harness.database.options)
    async with member(hanging, kafka.bootstrap, installation) as first:
        ours = await next_lease(first)
        async with member(harness.database, kafka.bootstrap, installation) as second:
            async with first.hold(ours), asyncio.timeout(DEADLINE_SECONDS):
                await first.end_candidacy()
                await ours.asked.wait()  # the rebalance of the second's joining
                hanging.hangs = True
            theirs = await next_lease(second)
            async with second.hold(theirs):
                assert theirs.term.number > ours.term.number


class Hanging(Database):
    """Once told so, it never answers when a term is given back."""

    hangs = False

    async def execute(self, name: str, *args: object) -> int:
        if self.hangs and name == "term.release":
            await asyncio.Event().wait()
        return await super().execute(name, *args)

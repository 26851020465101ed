"""The election by a lease, on a real PostgreSQL: who gets the seat when, and who notices that it is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import asyncpg
import pytest

from db.direct import Direct, connect_direct
from db.errors import Unavailable
from db.pool import Database, PoolOptions, open_database
from relay.election import Deposed
from relay.lease import Lease, LeaseOptions
from relay.sink import Term
from tests.relay.stage import DEADLINE_SECONDS, FaultyDatabase, Stage, staged, until

LONG_SECONDS = 600.0


@pytest.fixture
async def stage(database_url_both: str) -> AsyncIterator[Stage]:
    async with staged(database_url_both) as opened:
        yield opened


class Connections:
    """Opens the sessions of a lease, or refuses to."""

    def __init__(self, database: Database) -> None:
        self.refused = False
        self.opened: list[Direct] = []
        self._database = database

    async def connect(self) -> Direct:
        if self.refused:
            raise Unavailable("too many connections")
        self.opened.append(await connect_direct(self._database.options))
        return self.opened[-1]


def lease_of(
    stage: Stage,
    owner: str = "one",
    seconds: float = LONG_SECONDS,
    database: Database | None = None,
    connections: Connections | None = None,
) -> Lease:
    connections = connections or Connections(stage.database)
    options = LeaseOptions(owner, lease_seconds=seconds, poll_seconds=0.02)
    return Lease(database or stage.database, connections.connect, stage.sink, 0, options)


async def elected(lease: Lease) -> Term:
    async with asyncio.timeout(DEADLINE_SECONDS):
        return await lease.campaign()


async def seat(stage: Stage) -> tuple[int, str | None]:
    row = await stage.connection.fetchrow("SELECT term, owner FROM hookwire.relay_terms")
    return row["term"], row["owner"]


async def session_locks(stage: Stage) -> int:
    return await stage.connection.fetchval(
        "SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database"
        " WHERE locktype = 'advisory' AND d.datname = current_database()"
    )


async def lose_sessions(stage: Stage) -> None:
    """Close the connection of whoever holds the session lock, as a crash does."""
    await stage.connection.fetch(
        "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_database d ON d.oid = database"
        " WHERE locktype = 'advisory' AND d.datname = current_database()"
    )
    await until(lambda: _none_left(stage))


async def _none_left(stage: Stage) -> bool:
    return await session_locks(stage) == 0


async def test_the_first_candidate_is_elected_at_once(stage: Stage) -> None:
    lease = lease_of(stage)
    term = await elected(lease)
    assert (term, await seat(stage), lease.trusted()) == (Term("kafka", 0, 1, 1, 0), (1, "one"), True)
    async with lease.reign(term):
        pass


async def test_a_free_session_lock_hands_the_seat_over_at_once(stage: Stage) -> None:
    """RO-14: the predecessor's connection is closed, so its lease, which has long to run, is not waited for."""
    await elected(lease_of(stage))
    await lose_sessions(stage)
    successor = lease_of(stage, "two")
    term = await elected(successor)
    assert (term.number, await seat(stage)) == (2, (2, "two"))
    async with successor.reign(term):
        pass


async def test_an_expired_lease_hands_the_seat_over_from_a_leader_that_hangs(stage: Stage) -> None:
    """RO-14, F05: it still holds its session lock, but renews no more."""
    hanging = lease_of(stage, seconds=0.3)
    old_term = await elected(hanging)
    successor = lease_of(stage, "two")
    term = await elected(successor)
    assert (term.number, hanging.trusted(), await seat(stage)) == (2, False, (2, "two"))
    with pytest.raises(Deposed):
        async with hanging.reign(old_term), asyncio.timeout(DEADLINE_SECONDS):
            await asyncio.Event().wait()
    async with successor.reign(term):
        pass


async def test_renewals_keep_the_seat_beyond_the_first_lease(stage: Stage) -> None:
    leader, candidate = lease_of(stage, seconds=0.6), lease_of(stage, "two")
    term = await elected(leader)
    first_end = await stage.connection.fetchval("SELECT lease_until FROM hookwire.relay_terms")
    async with leader.reign(term), asyncio.TaskGroup() as tasks:
        campaign = tasks.create_task(candidate.campaign())
        await until(lambda: stage.connection.fetchval("SELECT $1 < clock_timestamp()", first_end))
        assert (leader.trusted(), campaign.done(), await seat(stage)) == (True, False, (1, "one"))
        campaign.cancel()


async def test_leaving_frees_the_seat_at_once(stage: Stage) -> None:
    """RO-06(c)."""
    first, second = lease_of(stage), lease_of(stage, "two")
    async with first.reign(await elected(first)):
        pass
    free = await seat(stage), await session_locks(stage)
    term = await elected(second)
    assert (free, term.number) == (((1, None), 0), 2)
    async with second.reign(term):
        pass


async def test_a_raised_term_deposes_the_leader_at_its_next_renewal(stage: Stage) -> None:
    """RR-08, I5."""
    leader = lease_of(stage, seconds=0.6)
    term = await elected(leader)
    await stage.reign()
    with pytest.raises(Deposed):
        async with leader.reign(term), asyncio.timeout(DEADLINE_SECONDS):
            await asyncio.Event().wait()
    assert await seat(stage) == (2, "test")


async def test_a_leader_that_cannot_renew_deposes_itself_before_its_lease_can_end(stage: Stage) -> None:
    """RR-09."""
    database = FaultyDatabase(stage.database)
    leader = lease_of(stage, seconds=0.6, database=database)
    term = await elected(leader)
    database.faults = {"term.renew": 1_000, "term.release": 1}
    with pytest.raises(Deposed):
        async with leader.reign(term), asyncio.timeout(DEADLINE_SECONDS):
            await asyncio.Event().wait()
    assert not leader.trusted()


class Hanging(FaultyDatabase):
    """A renewal that does not come back: it outlives a first cancellation, as one does whose connection hangs while
    it is given back; or it ends by a cancellation that nobody asked for, as client libraries make them.
    """

    def __init__(self, database: Database, way: str) -> None:
        super().__init__(database)
        self._way = way

    async def execute(self, name: str, *args: object) -> int:
        if name != "term.renew":
            return await super().execute(name, *args)
        if self._way == "cancelled by the client":
            raise asyncio.CancelledError
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.parametrize("way", ["cancelled by the client", "hanging beyond its time-out"])
async def test_a_leader_whose_renewal_never_ends_is_deposed_by_the_clock(stage: Stage, way: str) -> None:
    """RR-09, I5."""
    leader = lease_of(stage, seconds=0.6, database=Hanging(stage.database, way))
    term = await elected(leader)
    with pytest.raises(Deposed, match="run out"):
        async with asyncio.timeout(DEADLINE_SECONDS), leader.reign(term):
            await asyncio.Event().wait()
    assert (await seat(stage), await session_locks(stage)) == ((1, None), 0)


async def test_a_lost_session_lock_costs_nothing_while_the_lease_is_renewed(stage: Stage) -> None:
    connections = Connections(stage.database)
    leader = lease_of(stage, seconds=0.6, connections=connections)
    term = await elected(leader)
    first_end = await stage.connection.fetchval("SELECT lease_until FROM hookwire.relay_terms")
    async with leader.reign(term):
        connections.refused = True
        await lose_sessions(stage)
        await until(lambda: stage.connection.fetchval("SELECT $1 < clock_timestamp()", first_end))
        trusted_without = leader.trusted()
        connections.refused = False
        await until(lambda: session_locks(stage))
        assert (trusted_without, await seat(stage)) == (True, (1, "one"))


async def test_a_stopped_leader_that_blocks_the_term_is_disconnected(stage: Stage) -> None:
    """RR-08: a backend that holds KEY SHARE on the term row would hold off every successor."""
    await stage.reign()
    options = PoolOptions(stage.url, connections_min=1, lock_seconds=1.2)
    impatient = await open_database(options)
    blocker = await asyncpg.connect(stage.url, server_settings={"application_name": "hookwire stopped"})
    await blocker.execute("BEGIN")
    await blocker.fetch("SELECT FROM hookwire.relay_terms FOR KEY SHARE")
    lease = lease_of(stage, "two", database=impatient)
    term = await elected(lease)
    await until(blocker.is_closed)
    assert (term.number, await seat(stage)) == (2, (2, "two"))
    async with lease.reign(term):
        pass
    await impatient.aclose()


async def test_a_campaign_that_is_given_up_leaves_no_session_behind(stage: Stage) -> None:
    """Its session lock would make the others wait for a lease although nobody leads."""
    leader, connections = lease_of(stage), Connections(stage.database)
    term = await elected(leader)
    async with leader.reign(term):
        campaign = asyncio.create_task(lease_of(stage, "two", connections=connections).campaign())
        await until(lambda: connections.opened)
        campaign.cancel()
        await asyncio.gather(campaign, return_exceptions=True)
        async with asyncio.timeout(DEADLINE_SECONDS):
            await connections.opened[0].lost.wait()

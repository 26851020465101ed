"""The election by leases, on a real PostgreSQL: who gets which leases when, and who notices that they are gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress

import asyncpg
import pytest
from typing_extensions import override

from db.direct import Direct, connect_direct
from db.errors import PrimaryChanged, Unavailable
from db.pool import Database, PoolOptions, Row, open_database
from db.replication.primary import ServerIdentity
from relay.election.lease import LeaseElection, LeaseOptions, Leases, quota
from relay.election.port import LeadershipLost, Lease
from relay.sink import Term
from tests.relay.harness import DEADLINE_SECONDS, FaultyDatabase, Harness, raise_term, relay_harness
from tests.waiting import until

LONG_SECONDS = 600.0
GROUPS = 4


@pytest.fixture
async def harness(database_url_both: str) -> AsyncIterator[Harness]:
    async with relay_harness(database_url_both) as opened:
        yield opened


@pytest.fixture
async def shared_harness(database_url: str) -> AsyncIterator[Harness]:
    async with relay_harness(database_url, groups=GROUPS) as opened:
        yield opened


class Connections:
    """Opens the sessions of a member, or refuses to."""

    def __init__(self, database: Database) -> None:
        self.refused = False
        self.opened: list[Direct] = []
        self._database = database

    async def connect(self) -> Direct:
        if self.refused:
            raise Unavailable("too many connections")
        self.opened.append(await connect_direct(self._database.options))
        return self.opened[-1]


class Process:
    """A relay process as the election knows it: it takes every lease that falls to it, and leaves when it is asked."""

    def __init__(self, leases: Leases, election: LeaseElection) -> None:
        self.leases = leases
        self.election = election
        self.held: dict[int, Lease] = {}
        self.lost: list[int] = []
        self.heartbeat: asyncio.Task[None]
        self.willing = asyncio.Event()
        self.willing.set()

    @property
    def groups(self) -> list[int]:
        """What it holds."""
        return sorted(self.held)

    async def run(self) -> None:
        """Acquire and hold leases until cancelled."""
        async with asyncio.TaskGroup() as terms:
            while True:
                terms.create_task(self._lead(await self.election.acquire()))

    async def _lead(self, lease: Lease) -> None:
        try:
            async with self.election.hold(lease):
                self.held[lease.term.group] = lease
                await lease.asked.wait()
                await self.willing.wait()
        except LeadershipLost:
            self.lost.append(lease.term.group)
        finally:
            self.held.pop(lease.term.group)


def leases_of(
    harness: Harness,
    owner: str = "one",
    seconds: float = LONG_SECONDS,
    database: Database | None = None,
    connections: Connections | None = None,
) -> Leases:
    connections = connections or Connections(harness.database)
    options = LeaseOptions(owner, lease_seconds=seconds, poll_seconds=0.02, blocked_seconds=1.1)
    return Leases(database or harness.database, connections.connect, [harness.sink], options)


@asynccontextmanager
async def process(leases: Leases, sink: str = "kafka") -> AsyncIterator[Process]:
    """Run a process; at the end it leaves."""
    one = Process(leases, leases.election(sink))
    heartbeat, leading = asyncio.create_task(leases.run()), asyncio.create_task(one.run())
    one.heartbeat = heartbeat
    try:
        yield one
    finally:
        await one.election.end_candidacy()
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)
        leases.stop()
        async with asyncio.timeout(DEADLINE_SECONDS):
            await asyncio.gather(heartbeat, return_exceptions=True)


async def rows(harness: Harness) -> list[tuple[int, int, str | None]]:
    found = await harness.connection.fetch("SELECT grp, term, owner FROM hookwire.relay_terms ORDER BY grp")
    return [tuple(row) for row in found]


async def session_locks(harness: Harness) -> int:
    return await harness.connection.fetchval(
        "SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database"
        " WHERE locktype = 'advisory' AND d.datname = current_database()"
    )


async def lose_sessions(harness: Harness) -> None:
    """Close the direct connection of every member, as a crash does."""
    await harness.connection.fetch(
        "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_database d ON d.oid = database"
        " WHERE locktype = 'advisory' AND d.datname = current_database()"
    )


async def hung_member(harness: Harness, lease_seconds: float = LONG_SECONDS) -> asyncpg.Connection:
    """A member that entered, took every lease and does nothing any more; its session is returned."""
    await harness.connection.execute(
        "INSERT INTO hookwire.relay_members (name, sinks, until)"
        " VALUES ('hung', '{kafka}', clock_timestamp() + make_interval(secs => $1))",
        lease_seconds,
    )
    member = await harness.connection.fetchval("SELECT id FROM hookwire.relay_members WHERE name = 'hung'")
    await harness.database.execute("term.ensure", [harness.sink])
    for group in range(await harness.connection.fetchval("SELECT count(*) FROM hookwire.relay_terms")):
        await raise_term(harness.database, harness.sink, group, "hung", lease_seconds, member)
    session = await asyncpg.connect(harness.url)
    await session.execute("SELECT pg_advisory_lock(1215262572, $1)", member)
    return session


# --- one lease ---------------------------------------------------------------------------------------------------


async def test_the_first_candidate_is_elected_at_once(harness: Harness) -> None:
    async with process(leases_of(harness)) as one:
        await until(lambda: one.groups == [0])
        assert (one.held[0].term, await rows(harness), one.election.trusted(0)) == (
            Term("kafka", 0, 1, 1, 0, 1),
            [(0, 1, "one")],
            True,
        )


async def test_a_member_whose_session_is_gone_loses_its_seats_at_once(harness: Harness) -> None:
    """RO-14, RO-06: a crash closes the connection; the lease, which has long to run, is not waited for."""
    session = await hung_member(harness)
    async with process(leases_of(harness, "two")) as two:
        await until(lambda: two.leases._member)
        held_off = two.groups
        await session.close()
        await until(lambda: two.groups == [0])
        assert (held_off, await rows(harness)) == ([], [(0, 2, "two")])


async def test_an_expired_lease_hands_the_seat_over_from_a_member_that_hangs(harness: Harness) -> None:
    """RU-18, RO-14, F05: it still holds its session lock, but renews no more."""
    session = await hung_member(harness, lease_seconds=0.3)
    async with process(leases_of(harness, "two")) as two:
        await until(lambda: two.groups == [0])
        assert (await rows(harness), session.is_closed()) == ([(0, 2, "two")], False)
    await session.close()


async def test_renewals_keep_the_seat_beyond_the_first_lease(harness: Harness) -> None:
    async with process(leases_of(harness, seconds=3.0)) as one, process(leases_of(harness, "two")) as two:
        await until(lambda: one.groups + two.groups == [0])
        leader = one if one.groups else two
        first_end = await harness.connection.fetchval("SELECT lease_until FROM hookwire.relay_terms")
        if leader is one:
            await until(lambda: harness.connection.fetchval("SELECT $1 < clock_timestamp()", first_end))
        assert (leader.election.trusted(0), [term for _, term, _ in await rows(harness)]) == (True, [1])


async def test_leaving_frees_the_seat_at_once(harness: Harness) -> None:
    """RO-06(c)."""
    async with process(leases_of(harness)) as one:
        await until(lambda: one.groups == [0])
    free = await rows(harness), await session_locks(harness)
    async with process(leases_of(harness, "two")) as two:
        await until(lambda: two.groups == [0])
    assert free == ([(0, 1, None)], 0)


async def test_a_raised_term_deposes_the_leader_at_its_next_look(harness: Harness) -> None:
    """RR-08, I5."""
    async with process(leases_of(harness)) as one:
        await until(lambda: one.groups == [0])
        await harness.begin_term()
        one.leases.look()
        await until(lambda: one.lost == [0])
        assert await rows(harness) == [(0, 2, "test")]


async def test_a_leader_that_cannot_renew_deposes_itself_before_its_lease_can_end(harness: Harness) -> None:
    """RR-09."""
    database = FaultyDatabase(harness.database)
    async with process(leases_of(harness, seconds=0.6, database=database)) as one:
        await until(lambda: one.groups == [0])
        database.faults = {"member.heartbeat": 1_000_000}
        await until(lambda: one.lost == [0])
        assert not one.election.trusted(0)


class Hanging(FaultyDatabase):
    """Once told so, a look does not come back: it outlives a first cancellation, as one does whose connection hangs
    while it is given back; or it ends by a cancellation that nobody asked for, as client libraries make them.
    """

    def __init__(self, database: Database, way: str) -> None:
        super().__init__(database)
        self.broken = False
        self._way = way

    async def fetch(self, name: str, *args: object) -> Sequence[Row]:
        if name != "member.heartbeat" or not self.broken:
            return await super().fetch(name, *args)
        if self._way == "cancelled by the client":
            raise asyncio.CancelledError
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.parametrize("way", ["cancelled by the client", "hanging beyond its time-out"])
async def test_a_leader_whose_renewal_never_ends_is_deposed_by_the_clock(harness: Harness, way: str) -> None:
    """RL-20, RR-09, I5."""
    database = Hanging(harness.database, way)
    async with process(leases_of(harness, seconds=0.6, database=database)) as one:
        await until(lambda: one.groups == [0])
        database.broken = True
        await until(lambda: one.lost == [0])
        assert await rows(harness) == [(0, 1, None)]
        one.heartbeat.cancel()


async def test_a_lost_session_costs_nothing_while_nobody_else_is_there(harness: Harness) -> None:
    connections = Connections(harness.database)
    async with process(leases_of(harness, seconds=0.9, connections=connections)) as one:
        await until(lambda: one.groups == [0])
        connections.refused = True
        await lose_sessions(harness)
        first_end = await harness.connection.fetchval("SELECT lease_until FROM hookwire.relay_terms")
        await until(lambda: harness.connection.fetchval("SELECT $1 < clock_timestamp()", first_end))
        without = one.election.trusted(0), await session_locks(harness)
        connections.refused = False
        await until(lambda: session_locks(harness))
        assert (without, await rows(harness)) == ((True, 0), [(0, 1, "one")])


async def test_a_session_that_has_no_lock_is_opened_anew(harness: Harness) -> None:
    """Other members count a process without its session lock as dead, and take its leases again and again."""
    connections = Connections(harness.database)
    async with process(leases_of(harness, seconds=0.9, connections=connections)) as one:
        await until(lambda: one.groups == [0])
        count = len(connections.opened)  # more than one where an answer came late
        await connections.opened[-1]._connection.execute("SELECT pg_advisory_unlock_all()")
        await until(lambda: len(connections.opened) > count)
        await until(lambda: session_locks(harness))
        assert await rows(harness) == [(0, 1, "one")]


class StalledConnections(Connections):
    """Its first session never gets an answer about its lock."""

    @override
    async def connect(self) -> Direct:
        session = await super().connect()
        if len(self.opened) == 1:
            session.fetchval = lambda *_: asyncio.Event().wait()  # type: ignore[assignment, return-value, method-assign]
        return session


async def test_a_heartbeat_that_ends_while_its_session_opens_leaves_none(harness: Harness) -> None:
    connections = StalledConnections(harness.database)
    async with process(leases_of(harness, seconds=0.9, connections=connections)) as one:
        await until(lambda: session_locks(harness))
        assert (len(connections.opened), connections.opened[0].lost.is_set()) == (2, True)
        await until(lambda: one.groups == [0])


async def test_a_stopped_leader_that_blocks_the_term_is_disconnected(harness: Harness) -> None:
    """F18, RR-08: a backend that holds KEY SHARE on the term row would hold off every successor."""
    await harness.begin_term()
    await harness.connection.execute("UPDATE hookwire.relay_terms SET lease_until = '-infinity'")
    blocker = await asyncpg.connect(harness.url, server_settings={"application_name": "hookwire stopped"})
    await blocker.execute("BEGIN")
    await blocker.fetch("SELECT FROM hookwire.relay_terms FOR KEY SHARE")
    async with process(leases_of(harness, "two")) as two:
        await until(lambda: two.groups == [0])
        await until(blocker.is_closed)
        assert await rows(harness) == [(0, 2, "two")]


async def test_a_closed_seat_is_taken_by_nobody_and_asked_back_from_its_holder(harness: Harness) -> None:
    """RR-11: what a change of layout rests on."""
    async with process(leases_of(harness)) as one:
        await until(lambda: one.groups == [0])
        await harness.connection.execute("UPDATE hookwire.relay_terms SET is_open = false")
        one.leases.look()
        await until(lambda: not one.groups)
        closed = await rows(harness)
        await harness.connection.execute("UPDATE hookwire.relay_terms SET is_open = true")
        one.leases.look()
        await until(lambda: one.groups == [0])
        assert (closed, one.lost) == ([(0, 1, None)], [])


# --- several leases ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("holders", "members", "shares"),
    [
        ([None] * 4, [1], [4]),
        ([None] * 4, [1, 2], [2, 2]),
        ([None] * 4, [1, 2, 3], [2, 1, 1]),
        ([None], [5, 9], [1, 0]),
        ([9], [5, 9], [0, 1]),
        ([1, 1], [1, 2, 3], [1, 1, 0]),
        ([1, 1, 2, 2], [1, 2, 3], [2, 1, 1]),
        ([None] * 64, [1, 2, 3], [22, 21, 21]),
    ],
)
def test_the_seats_are_shared_out_to_the_last_and_nothing_moves_without_need(
    holders: list[int | None], members: list[int], shares: list[int]
) -> None:
    """RO-05."""
    assert [quota(holders, members, member) for member in members] == shares


def test_who_does_not_stand_has_no_share() -> None:
    assert quota([None] * 4, [1, 2], 3) == 0


async def test_a_member_that_joins_is_given_its_share_and_nobody_is_deposed(shared_harness: Harness) -> None:
    """RL-13, RO-05, RO-06: the surplus is handed over in an orderly way, the rest goes on undisturbed."""
    async with process(leases_of(shared_harness)) as one:
        await until(lambda: one.groups == [0, 1, 2, 3])
        kept = one.held[0]
        async with process(leases_of(shared_harness, "two")) as two:
            await until(lambda: two.groups == [2, 3])
            assert (one.groups, one.held[0] is kept, one.lost, two.lost) == ([0, 1], True, [], [])
            assert [term for _, term, _ in await rows(shared_harness)] == [1, 1, 2, 2]


async def test_a_seat_that_is_asked_for_is_nobody_elses_before_it_is_left(shared_harness: Harness) -> None:
    """RU-07, RO-06(c): what is in flight is finished first, however long that takes."""
    async with process(leases_of(shared_harness)) as one:
        await until(lambda: one.groups == [0, 1, 2, 3])
        one.willing.clear()
        async with process(leases_of(shared_harness, "two")) as two:
            await until(lambda: one.held[3].asked.is_set())
            before = two.groups, one.groups
            one.willing.set()
            await until(lambda: two.groups == [2, 3])
            assert before == ([], [0, 1, 2, 3])


async def test_what_a_member_leaves_falls_to_the_others(shared_harness: Harness) -> None:
    """RO-06."""
    async with process(leases_of(shared_harness)) as one:
        await until(lambda: one.groups == [0, 1, 2, 3])
        async with process(leases_of(shared_harness, "two")) as two:
            await until(lambda: (one.groups, two.groups) == ([0, 1], [2, 3]))
        await until(lambda: one.groups == [0, 1, 2, 3])
        assert (one.lost, two.lost) == ([], [])


async def test_a_member_that_is_gone_without_a_word_is_replaced_by_the_others(shared_harness: Harness) -> None:
    """RU-18, RO-06, F03: SIGKILL."""
    session = await hung_member(shared_harness)
    async with process(leases_of(shared_harness)) as one, process(leases_of(shared_harness, "two")) as two:
        await until(lambda: two.leases._member)
        await session.close()
        await until(lambda: sorted(one.groups + two.groups) == [0, 1, 2, 3])
        await until(lambda: len(one.groups) == len(two.groups) == 2)


async def test_when_another_primary_takes_over_every_lease_is_lost_at_once(harness: Harness) -> None:
    """HA-03: before the new primary is asked anything. It may not know our terms, or may give them to others."""
    async with aclosing(await open_database(PoolOptions(harness.url))) as database:
        leases = leases_of(harness, database=database, connections=Connections(database))
        async with process(leases) as one:
            await until(lambda: one.groups == [0])
            lease = one.held[0]
            row = await database.fetchrow("session.identity")
            with pytest.raises(PrimaryChanged):
                database.options.primary.admit(ServerIdentity(row["system"], row["timeline"] + 1))
            assert (lease.lost.is_set(), one.election.trusted(0)) == (True, False)

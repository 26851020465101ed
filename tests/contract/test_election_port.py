"""The port :class:`relay.election.port.Election`, one suite for every adapter: memory, leases twice, NELI."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from relay.election.port import Election, LeadershipLost, Lease
from scripts.servers.kafka import KafkaServer
from tests.contract.elections import ARENAS, Arena, Ground
from tests.relay.harness import Harness, relay_harness
from tests.waiting import until

DEADLINE_SECONDS = 60


@pytest.fixture
async def harness(database_url: str) -> AsyncIterator[Harness]:
    async with relay_harness(database_url) as opened:
        yield opened


@pytest.fixture(params=list(ARENAS))
async def arena(
    request: pytest.FixtureRequest, harness: Harness, kafka: KafkaServer, mariadb_url: str
) -> AsyncIterator[Arena]:
    async with ARENAS[request.param](Ground(harness, kafka.bootstrap, mariadb_url)) as opened:
        yield opened


async def next_lease(election: Election) -> Lease:
    async with asyncio.timeout(DEADLINE_SECONDS):
        return await election.acquire()


async def deposed_during(election: Election, lease: Lease, arena: Arena) -> None:
    async with election.hold(lease), asyncio.timeout(DEADLINE_SECONDS):
        await arena.lose_leadership()
        await asyncio.Event().wait()


async def test_a_seat_comes_with_a_term_that_was_raised_and_may_be_trusted(arena: Arena) -> None:
    """RO-04: before anything is carried the database refuses every earlier term."""
    election = await arena.member()
    lease = await next_lease(election)
    async with election.hold(lease):
        assert (lease.term.number, election.trusted(0), lease.lost.is_set()) == (await arena.term(), True, False)


async def test_a_second_member_waits_and_succeeds_with_a_higher_term_when_the_first_leaves(arena: Arena) -> None:
    """RO-06 c. The first withdraws before it leaves, or a fair election might give the lease back to it."""
    first = await arena.member()
    ours = await next_lease(first)  # before the second stands, or the lease might fall to that
    second = await arena.member()
    async with first.hold(ours), asyncio.timeout(DEADLINE_SECONDS):
        acquiring = asyncio.create_task(second.acquire())
        await asyncio.sleep(0)
        done_early = acquiring.done()
        await first.end_candidacy()
    async with asyncio.timeout(DEADLINE_SECONDS):
        theirs = await acquiring
    async with second.hold(theirs):
        assert (done_early, theirs.term.number > ours.term.number) == (False, True)


async def test_a_reign_ends_with_deposed_when_somebody_else_has_the_term(arena: Arena) -> None:
    """RR-08: never a crash, and never unnoticed for ever."""
    election = await arena.member()
    lease = await next_lease(election)
    with pytest.raises(LeadershipLost):
        await deposed_during(election, lease, arena)
    assert not election.trusted(0)


async def test_a_deposed_member_may_be_elected_again(arena: Arena) -> None:
    election = await arena.member()
    first = await next_lease(election)
    with pytest.raises(LeadershipLost):
        await deposed_during(election, first, arena)
    again = await next_lease(election)
    async with election.hold(again):
        assert again.term.number > first.term.number


async def test_who_withdraws_keeps_what_is_held_until_it_is_left(arena: Arena) -> None:
    """RK-05."""
    election = await arena.member()
    lease = await next_lease(election)
    await election.end_candidacy()
    async with election.hold(lease):
        held = election.trusted(0)
    assert (held, election.trusted(0)) == (True, False)


async def test_a_campaign_that_is_cancelled_gives_nothing_away(arena: Arena) -> None:
    election = await arena.member()
    acquiring = asyncio.create_task(election.acquire())
    await asyncio.sleep(0)
    acquiring.cancel()
    await asyncio.gather(acquiring, return_exceptions=True)
    lease = await next_lease(election)
    async with election.hold(lease):
        assert election.trusted(0)


@pytest.mark.parametrize("kind", ["lease", "neli"])
async def test_members_share_the_seats_and_each_seat_is_held_once(
    kind: str, database_url: str, kafka: KafkaServer
) -> None:
    """RL-11, RU-06, F52, RO-05: four groups, two members; what one gives up the other takes, and all is led again when
    one goes."""
    async with AsyncExitStack() as stack:
        harness = await stack.enter_async_context(relay_harness(database_url, groups=4))
        arena = await stack.enter_async_context(ARENAS[kind](Ground(harness, kafka.bootstrap, "")))
        first = await stack.enter_async_context(_Taker(await arena.member()))
        await until(lambda: _held(first) == {0, 1, 2, 3})
        second = await stack.enter_async_context(_Taker(await arena.member()))
        await until(lambda: (len(_held(first)), len(_held(second))) == (2, 2))
        shared = (_held(first) | _held(second), _held(first) & _held(second))
        await first.leave()
        await until(lambda: _held(second) == {0, 1, 2, 3})
        assert shared == ({0, 1, 2, 3}, set())


def _held(taker: _Taker) -> set[int]:
    return set(taker.groups)


class _Taker:
    """Takes every lease that falls to it and leaves when it is asked, as a relay does."""

    def __init__(self, election: Election) -> None:
        self.groups: set[int] = set()
        self._election = election
        self._leases: set[Lease] = set()
        self._going = asyncio.Event()

    async def __aenter__(self) -> _Taker:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.leave()

    async def leave(self) -> None:
        """As a relay that is stopped: take no more, leave what is held."""
        if not self._going.is_set():
            self._going.set()
            await self._election.end_candidacy()
            for lease in list(self._leases):
                lease.ask()
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as terms:
            while True:
                lease = await self._election.acquire()
                terms.create_task(self._lead(lease))

    async def _lead(self, lease: Lease) -> None:
        self._leases.add(lease)
        try:
            async with self._election.hold(lease):
                self.groups.add(lease.term.group)
                await lease.asked.wait()
                self.groups.discard(lease.term.group)
        except LeadershipLost:
            pass
        finally:
            self.groups.discard(lease.term.group)
            self._leases.discard(lease)

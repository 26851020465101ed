"""Election by leases in PostgreSQL: one member for each relay process, one lease for each (sink, group).

::

    enter --> heartbeat, twice a second --> leases assigned here --> acquire() hands them out
                 |     ^                                                   |
                 |     +------------- released, asked for, lost <----------+
                 +-- sign on, renew, list members and vacant leases

A *member* is a relay process. It has a row with an expiry, and a session lock on its id. Two signs show that it is
gone. Its session lock is free, because its connection is closed (it is dead or cut off). Or it has expired by the
database's clock (it hangs). Then its leases are vacant. Both signs only detect. A higher term refuses a leader that
wakes up, because every deciding write names its term.

The leases of a sink are shared out fairly. Of N leases and P members each has N div P, and the N mod P members
that hold most have one more. A member with more asks its own harvesters to release the surplus. They finish the records
in flight and release the lease, so nothing is sent twice. A member with less takes vacant leases. NOTIFY announces new
members and free leases, so a hand-over takes milliseconds. The next heartbeat notices a dead member.

A leader trusts its lease from the moment *before* the renewal left, on a clock that also runs during suspend.
If it cannot renew in time it gives up the leadership: a watch beside each lease reads only the clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import groupby

import structlog

from db.direct import Direct
from db.errors import DatabaseError
from db.pool import Database, Row
from relay.election.leases_table import ensure_leases
from relay.election.port import Lease, boot_seconds, holding, until_untrusted
from relay.sink import Term
from runtime.cancellation import end_if_cancelled
from runtime.pause import pause
from runtime.trouble import Trouble

__all__ = ["LeaseElection", "LeaseOptions", "Leases", "quota"]

_log = structlog.get_logger(__name__)
_CHANNEL = "hookwire_relay"


def quota(holders: Sequence[int | None], members: Sequence[int], me: int) -> int:
    """Return how many of a sink's leases are a member's share. ``holders`` are the present owners; ``members`` are
    alive.

    A member that has more already gets the surplus lease, so that nothing moves without need.

    >>> [quota([None, 8, 8, 8], [7, 8, 9], member) for member in (7, 8, 9)]
    [1, 2, 1]
    """
    if me not in members:
        return 0
    everyone, rest = divmod(len(holders), len(members))
    ranked = sorted(members, key=lambda member: (-holders.count(member), member))
    return everyone + (ranked.index(me) < rest)


class SessionLockTaken(Exception):
    """Another connection holds the session lock of this member."""


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    """Times of the election. ``lease_seconds``: how long a silent leader keeps its leases. ``poll_seconds``: pause
    between two heartbeats. ``blocked_seconds``: how long a vacant lease's row may be locked before the locking session
    is ended. A process that is alone polls only as often as it has to renew, because new members announce themselves.
    """

    owner: str
    lease_seconds: float = 6.0
    poll_seconds: float = 0.5
    blocked_seconds: float = 4.0


class Leases:
    """This process's membership, and the elections of its sinks. A service: run it for as long as leases are held."""

    def __init__(
        self,
        database: Database,
        connect: Callable[[], Awaitable[Direct]],
        sinks: Sequence[str],
        options: LeaseOptions,
    ) -> None:
        self.name = "election"
        self._database = database
        self._connect = connect
        self._options = options
        self._elections = {sink: LeaseElection(sink, self) for sink in sinks}
        self._member: int | None = None
        self._session: Direct | None = None
        self._alone = False
        self._candidate_for = list(sinks)
        self._renewed_at = -options.lease_seconds
        self._in_vain: dict[tuple[str, int, int], float] = {}
        self._trouble = Trouble("election_unattended", "election_attended")
        self._lock_trouble = Trouble("session_lock_not_held", "session_lock_held")
        self._look = asyncio.Event()
        self._stopping = asyncio.Event()
        database.options.primary.on_change(self._step_down)

    def election(self, sink: str) -> LeaseElection:
        """Return the election of one sink."""
        return self._elections[sink]

    def look(self) -> None:
        """Send a heartbeat at once."""
        self._look.set()

    def stop(self) -> None:
        """Leave. Call it when no lease is held any more."""
        self._stopping.set()
        self.look()

    async def run(self) -> None:
        """Send a heartbeat until stopped, then leave."""
        try:
            while not self._stopping.is_set():
                self._look.clear()
                try:
                    await self._heartbeat()
                    self._trouble.over()
                except (DatabaseError, TimeoutError, asyncio.CancelledError) as error:
                    end_if_cancelled()  # a client library may cancel a statement by itself
                    self._trouble.tell(error)
                await self._pause()
        finally:
            await self._leave()

    def _step_down(self) -> None:
        """Give up everything at once: the new primary may know neither our membership nor our terms."""
        self._member = None
        for _, lease in self._held():
            lease.lose("another server has taken over as the primary")
        self.look()

    def _patience(self) -> float:
        """Return how long to wait for the database: not beyond the end of one of our leases."""
        ends = [
            election.trusted_until(lease) - boot_seconds()
            for election, lease in self._held()
            if not lease.lost.is_set()
        ]
        return max(min([self._options.lease_seconds / 2, *ends]), 0.001)

    async def _pause(self) -> None:
        options = self._options
        undisturbed = self._alone and not self._in_vain and not self._trouble.lasts
        seconds = options.lease_seconds / 3 if undisturbed else options.poll_seconds
        await pause(self._look, min(seconds, options.lease_seconds / 3))

    def _held(self) -> list[tuple[LeaseElection, Lease]]:
        return [(election, lease) for election in self._elections.values() for lease in election.leases.values()]

    async def _heartbeat(self) -> None:
        """Sign on, renew where due, read the state, give and take leases."""
        async with asyncio.timeout(self._patience()):
            member = await self._entered()
            asked_at = boot_seconds()
            renew = asked_at - self._renewed_at >= self._options.lease_seconds / 3 * 0.9
            held = [lease.term for _, lease in self._held()]
            rows = await self._database.fetch(
                "member.heartbeat", member, self._options.lease_seconds, [t.sink for t in held],
                [t.group for t in held], [t.number for t in held], list(self._elections), renew,
            )  # fmt: skip
        if member != self._member:
            return  # the primary has changed meanwhile
        if renew:
            self._renewed_at = asked_at
        if any(not row["is_present"] for row in rows):
            await self._drop_session()  # the server has ended it, and no packet told us
        self._alone = all(len(row["members"]) <= 1 for row in rows)
        for sink, leases in groupby(rows, key=lambda row: row["sink"]):
            await self._elections[sink].heard(member, list(leases), asked_at if renew else None)

    async def _entered(self) -> int:
        """Return our id, with a session lock on it if possible. Without the lock, other members count this one as
        dead.
        """
        if self._member is None:
            await ensure_leases(self._database, list(self._elections))
            self._member = await self._database.fetchval(
                "member.enter", self._options.owner, self._candidate_for, self._options.lease_seconds
            )
        member = self._member
        if self._session is None or self._session.lost.is_set():
            await self._open_session(member)
            await self._database.execute("member.notify")
        return member

    async def _open_session(self, member: int) -> None:
        """Keep a connection only if it has the lock and listens. A heartbeat that ends in between leaves none."""
        await self._drop_session()
        try:
            session = await self._connect()
            try:
                if not await session.fetchval("member.try_session_lock", member):
                    raise SessionLockTaken("an earlier connection of this process still holds its lock")
                await session.listen(_CHANNEL, lambda _: self.look())
            except BaseException:
                await session.aclose()
                raise
        except (DatabaseError, SessionLockTaken) as error:
            self._lock_trouble.tell(error)
        else:
            self._session = session
            self._lock_trouble.over()

    async def _drop_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.aclose()

    async def take(self, sink: str, row: Row) -> Term | None:
        """Raise the term of a vacant lease; return None when another member was faster, or its last holder blocks the
        row.
        """
        options, lease = self._options, (sink, row["grp"], row["term"])
        taken = await self._database.fetchrow(
            "term.take", sink, row["grp"], options.owner, options.lease_seconds, row["term"], self._member
        )
        if taken is not None:
            self._in_vain.clear()
            return Term(
                sink, row["grp"], taken["term"], taken["layout"], taken["batch_no"], taken["groups"],
                taken["order_scope"],
            )  # fmt: skip
        # A leader that was stopped in the middle of a deciding statement may hold the row for ever.
        if boot_seconds() - self._in_vain.setdefault(lease, boot_seconds()) >= options.blocked_seconds:
            self._in_vain[lease] = boot_seconds()
            ended = await self._database.fetchval("term.terminate_blockers")
            _log.warning("term_blockers_ended", sink=sink, connections=ended)
        return None

    async def release(self, term: Term) -> None:
        """Free a lease at once, if the database answers; otherwise the lease ends by itself."""
        try:
            async with asyncio.timeout(2):
                await self._database.execute("term.release", term.sink, term.group, term.number)
        except (DatabaseError, TimeoutError):
            _log.warning("lease_not_released", sink=term.sink, group=term.group, term=term.number)

    @property
    def lease_seconds(self) -> float:
        """Return how long a lease lasts."""
        return self._options.lease_seconds

    async def end_candidacy(self, sink: str) -> None:
        """Take no more leases of a sink, so that other processes get them."""
        self._candidate_for = [name for name in self._candidate_for if name != sink]
        if self._member is None:
            return
        try:
            async with asyncio.timeout(2):
                await self._database.execute("member.set_candidacy", self._member, self._candidate_for)
        except (DatabaseError, TimeoutError) as error:
            _log.warning("not_withdrawn", sink=sink, error=str(error))

    async def _leave(self) -> None:
        for election, lease in self._held():
            await election.give_up(lease)
        if self._member is not None:
            try:
                async with asyncio.timeout(2):
                    await self._database.execute("member.leave", self._member)
                    await self._database.execute("member.notify")
            except (DatabaseError, TimeoutError) as error:
                _log.warning("member_not_removed", error=str(error))
        await self._drop_session()


class LeaseElection:
    """The leases of one sink: :class:`relay.election.port.Election`. ``leases`` are ours, by group."""

    def __init__(self, sink: str, leases: Leases) -> None:
        self.leases: dict[int, Lease] = {}
        self._sink = sink
        self._leases = leases
        self._trusted_until: dict[int, float] = {}
        self._fallen: asyncio.Queue[Lease] = asyncio.Queue()
        self._is_candidate = True

    async def acquire(self) -> Lease:
        """Return the next lease that this process gets."""
        return await self._fallen.get()

    async def end_candidacy(self) -> None:
        """Take no more leases; held leases stay ours until they are released."""
        self._is_candidate = False
        await self._leases.end_candidacy(self._sink)

    def trusted(self, group: int) -> bool:
        """Return whether the lease still holds by our own clock."""
        lease = self.leases.get(group)
        return lease is not None and not lease.lost.is_set() and boot_seconds() < self._trusted_until[group]

    def trusted_until(self, lease: Lease) -> float:
        """Return the end of a lease by our own clock."""
        return self._trusted_until[lease.term.group]

    async def heard(self, member: int, rows: Sequence[Row], renewed_at: float | None) -> None:
        """Apply the state of the leases; ``renewed_at`` is when the renewal was sent, if any."""
        by_group: Mapping[int, Row] = {row["grp"]: row for row in rows}
        for group, lease in self.leases.items():
            row = by_group.get(group)
            if row is None or row["term"] != lease.term.number:
                lease.lose(f"term {lease.term.number} of {self._sink}/{group} is over")
            elif renewed_at is not None:
                self._trusted_until[group] = renewed_at + self._leases.lease_seconds
            if row is not None and not row["is_open"]:
                lease.ask()
        open_rows = [row for row in rows if row["is_open"]]
        holders = [row["holder"] for row in open_rows]
        share = quota(holders, open_rows[0]["members"], member) if open_rows else 0
        self._give(len(self.leases) - share)
        await self._take([row for row in open_rows if row["vacant"]], share)

    def _give(self, surplus: int) -> None:
        """Ask for the surplus leases back, highest groups first."""
        if surplus <= 0 or not self._is_candidate:
            return
        for group in sorted(self.leases)[-surplus:]:
            self.leases[group].ask()

    async def _take(self, vacant: Sequence[Row], share: int) -> None:
        for row in vacant:
            if len(self.leases) >= share or not self._is_candidate:
                return
            asked_at = boot_seconds()
            if row["grp"] not in self.leases and (term := await self._leases.take(self._sink, row)) is not None:
                self._trusted_until[term.group] = asked_at + self._leases.lease_seconds
                lease = self.leases[term.group] = Lease(term)
                self._fallen.put_nowait(lease)

    @asynccontextmanager
    async def hold(self, lease: Lease) -> AsyncIterator[None]:
        """Hold a lease while the block runs; the leases' service renews it."""
        try:
            whose = f"{self._sink}/{lease.term.group}"
            async with holding(lease, lambda: until_untrusted(lease, lambda: self.trusted_until(lease), whose)):
                yield
        finally:
            await self.give_up(lease)

    async def give_up(self, lease: Lease) -> None:
        """Record that no task here holds the lease any more."""
        await self._leases.release(lease.term)  # also a lost lease: it is free at once if no member has taken it
        self.leases.pop(lease.term.group, None)
        self._leases.look()

"""Election by NELI: the shell of :mod:`relay.election.neli_core` round a Kafka consumer group.

::

    membership (joins, beats, asks) --inputs--> neli_core --events--> leases: take the term, ask, lose
         ^                                          |
         +------------- beats, questions -----------+

NELI elects, the term fences (RR-08, RR-09): before a lease is handed out its term is raised in PostgreSQL. Use it for
the Kafka sink only: while Kafka is down, its leaders give up their leases.

The machine has its own clock task, so that a leadership ends in time even if the consumer hangs (RL-20).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from db.errors import DatabaseError
from db.pool import Database
from relay.election.leases_table import ensure_leases
from relay.election.neli_core import (
    Assigned,
    BarrierOpen,
    Confirm,
    Event,
    Heard,
    Input,
    LeaderAcquired,
    LeaderFenced,
    LeaderRevoked,
    Left,
    Neli,
    Output,
    Revoked,
    SendBeat,
    TermRaised,
    Tick,
)
from relay.election.neli_group import Membership
from relay.election.neli_options import NeliOptions
from relay.election.port import Lease, boot_seconds, holding
from relay.kafka.options import KafkaOptions
from relay.sink import SinkUnavailable, Term
from runtime.cancellation import TaskGroup, end_if_cancelled
from runtime.pause import pause
from runtime.trouble import Trouble

__all__ = ["NeliElection", "NeliOptions"]

_log = structlog.get_logger(__name__)
_RETRY_SECONDS = 0.25
_RETRY_SECONDS_MAX = 4.0
_LOOK_SECONDS = 2.0
_SEEN_SECONDS = 3 * _LOOK_SECONDS  # how long a lease counts as held in the database; its holder asks Kafka


class NeliElection:
    """The leases of one sink, and the service of the election. Run it for as long as leases are held."""

    def __init__(self, database: Database, kafka: KafkaOptions, sink: str, options: NeliOptions) -> None:
        self.name = f"election {sink}"
        self.leases: dict[int, Lease] = {}
        self._database = database
        self._kafka = kafka
        self._sink = sink
        self._options = options
        self._me = f"{options.owner}-{secrets.token_hex(4)}"
        self._core = Neli(self._me, 1, 0, options.times)
        self._roles = 0
        self._membership: Membership | None = None
        self._tasks: TaskGroup | None = None
        self._taking: dict[int, asyncio.Task[None]] = {}
        self._fallen: asyncio.Queue[Lease] = asyncio.Queue()
        self._barrier_open = asyncio.Event()
        self._outputs: asyncio.Queue[Output] = asyncio.Queue()
        self._trouble = Trouble("election_unattended", "election_attended")
        self._is_candidate = True
        self._leaving = asyncio.Event()
        self._outdated = asyncio.Event()
        database.options.primary.on_change(self._step_down)

    def _step_down(self) -> None:
        """Give up every term: the new primary may not know it (HA-03)."""
        for lease in self.leases.values():
            lease.lose("another server has taken over as the primary")

    # --- the port -----------------------------------------------------------------------------------------------

    async def acquire(self) -> Lease:
        """Return the next lease that this process gets. A lease that was lost before it was returned is skipped."""
        while True:
            lease = await self._fallen.get()
            if not lease.lost.is_set():
                return lease
            await self._give_up(lease)

    @asynccontextmanager
    async def hold(self, lease: Lease) -> AsyncIterator[None]:
        """Hold a lease while the block runs."""
        try:
            async with holding(lease):
                yield
        finally:
            await self._give_up(lease)

    async def end_candidacy(self) -> None:
        """Take no more leases, and leave the group with the last one, so that a successor need not wait (RO-06 c)."""
        self._is_candidate = False
        self._leave_if_idle()

    def trusted(self, group: int) -> bool:
        """Return whether this process leads, by its own clock."""
        lease = self.leases.get(group)
        return lease is not None and not lease.lost.is_set() and boot_seconds() < self._core.trusted_until(group)

    # --- the service --------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Leave. Call it when no lease is held any more."""
        self._is_candidate = False
        self._leaving.set()

    async def run(self) -> None:
        """Send heartbeats until stopped, with one membership after the other."""
        async with TaskGroup() as tasks:
            self._tasks = tasks
            service = [tasks.create_task(work(), name=self.name) for work in (self._clock, self._send, self._look)]
            backoff = _RETRY_SECONDS
            while not self._leaving.is_set():
                begun = boot_seconds()
                try:
                    await self._heartbeat()
                except (SinkUnavailable, DatabaseError) as error:
                    end_if_cancelled()
                    self._trouble.tell(error, sink=self._sink)
                    lasted = boot_seconds() - begun > _RETRY_SECONDS_MAX * 2
                    is_short = lasted or isinstance(error, DatabaseError)
                    backoff = _RETRY_SECONDS if is_short else min(backoff * 2, _RETRY_SECONDS_MAX)
                    await pause(self._leaving, backoff)
            for task in [*service, *self._taking.values()]:
                task.cancel()

    async def _heartbeat(self) -> None:
        """Run one membership, from joining to leaving."""
        await ensure_leases(self._database, [self._sink])
        self._outdated.clear()
        self._roles = await self._count_roles()
        membership = Membership(self._kafka, self._options, self._receive, self._barrier)
        try:
            partitions = await membership.join()
            await self._until_leases_are_free()
            self._core = Neli(self._me, partitions, self._roles, self._options.times)
            self._membership = membership
            await self._until_leaving(membership)
        finally:
            self._membership = None
            self._receive(Revoked())  # the client does not report its stop (RK-05)
            await membership.leave()

    async def _until_leaving(self, membership: Membership) -> None:
        waits = [membership.heartbeat(), self._leaving.wait(), self._outdated.wait()]
        tasks = [asyncio.ensure_future(wait) for wait in waits]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if tasks[0].done():
                tasks[0].result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_leases_are_free(self) -> None:
        """Wait until the former leases are free: a new machine does not know them."""
        while self.leases or self._taking:
            for lease in self.leases.values():
                lease.lose("the membership in the election has ended")
            await pause(self._leaving, 0.02)

    async def _count_roles(self) -> int:
        row = await self._database.fetchrow("term.current", self._sink, 0)
        assert row is not None, "the leases were just ensured"
        return int(row["groups"])

    async def _clock(self) -> None:
        while True:
            now = boot_seconds()
            await asyncio.sleep(max(self._core.due_at(now) - now, 0.01))
            self._receive(Tick())

    async def _send(self) -> None:
        while True:
            output = await self._outputs.get()
            membership = self._membership
            if membership is not None and isinstance(output, SendBeat):
                await membership.beat(output)

    async def _look(self) -> None:
        """Check whether another member took one of our leases, whether a lease was closed, and whether there are more
        (RR-11).
        """
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                held = [lease.term for lease in self.leases.values() if not lease.lost.is_set()]
                found = await self._database.fetch(
                    "term.check", self._sink, [term.group for term in held], [term.number for term in held],
                    _SEEN_SECONDS,
                )  # fmt: skip
                rows = {row["grp"]: row for row in found}
                if self._membership is not None and await self._count_roles() != self._roles:
                    self._outdated.set()
            except DatabaseError:
                end_if_cancelled()
                continue  # the term fences the wrong holder
            for group, lease in list(self.leases.items()):
                if group not in rows or rows[group]["term"] != lease.term.number:
                    lease.lose(f"term {lease.term.number} of {self._sink}/{group} is over")
                elif not rows[group]["is_open"]:
                    lease.ask()

    # --- the machine's inputs, outputs and events ---------------------------------------------------------------

    def _receive(self, event: Input) -> None:
        """Apply an input without waiting, so that nothing comes between an input and its outputs."""
        if isinstance(event, Heard) or (isinstance(event, Assigned) and not event.partitions):
            self._trouble.over(sink=self._sink)  # the group has admitted us, and our partitions can be read
        outputs, events = self._core.receive(boot_seconds(), event)
        for happened in events:
            self._happened(happened)
        for output in outputs:
            match output:
                case BarrierOpen():
                    self._barrier_open.set()
                case Confirm():
                    if self._membership is not None:
                        self._membership.confirm(output)
                case SendBeat():
                    self._outputs.put_nowait(output)

    async def _barrier(self) -> None:
        """Wait until the rebalance may go on; the machine's own deadline ends it."""
        await self._barrier_open.wait()
        self._barrier_open.clear()

    def _happened(self, event: Event) -> None:
        match event:
            case LeaderAcquired(role):
                if self._is_candidate and self._tasks is not None:
                    taking = self._tasks.create_task(self._take(role), name=f"{self.name} {role}")
                    taking.add_done_callback(lambda taking: self._taken(role, taking))
                    self._taking[role] = taking
            case LeaderRevoked(role):
                self._stop_taking(role)
                if role in self.leases:
                    self.leases[role].ask()
            case LeaderFenced(role, reason):
                self._stop_taking(role)
                if role in self.leases:
                    self.leases[role].lose(reason)

    def _stop_taking(self, role: int) -> None:
        if role in self._taking:
            self._taking[role].cancel()

    async def _take(self, role: int) -> None:
        """Raise the term and hand out the lease; report a failure to the machine."""
        try:
            term = await self._raised(role)
            lease = self.leases[role] = Lease(term)
        finally:
            self._taking.pop(role, None)
            if role not in self.leases:
                self._left(role)
        self._receive(TermRaised(role, term.number))
        self._fallen.put_nowait(lease)

    def _taken(self, role: int, taking: asyncio.Task[None]) -> None:
        """Give up a take-over that was cancelled before its first step: its ``finally`` has not run."""
        if self._taking.get(role) is taking:
            del self._taking[role]
            self._left(role)

    async def _raised(self, role: int) -> Term:
        """Repeat until the database answers and the lease is open; cancelled when the leadership ends."""
        while True:
            try:
                row = await self._database.fetchrow(
                    "term.raise", self._sink, role, self._options.owner, self._options.times.session_seconds
                )
                if row is not None:
                    return Term(
                        self._sink, role, row["term"], row["layout"], row["batch_no"], row["groups"], row["order_scope"]
                    )
            except DatabaseError as error:
                end_if_cancelled()
                _log.warning("term_not_raised", sink=self._sink, group=role, error=str(error))
                await self._end_blockers()
            await asyncio.sleep(_RETRY_SECONDS)

    async def _end_blockers(self) -> None:
        """End sessions that block the row: a leader stopped in a deciding statement may hold it for ever (RR-08)."""
        try:
            await self._database.fetchval("term.terminate_blockers")
        except DatabaseError as error:
            _log.warning("term_blockers_not_ended", sink=self._sink, error=str(error))

    async def _give_up(self, lease: Lease) -> None:
        """Record that no task here holds the lease any more."""
        group = lease.term.group
        try:
            async with asyncio.timeout(2):
                await self._database.execute("term.release", self._sink, group, lease.term.number)
        except (DatabaseError, TimeoutError) as error:
            _log.warning("term_not_released", sink=self._sink, group=group, error=str(error))
        finally:
            self.leases.pop(group, None)
            self._left(group)
            self._leave_if_idle()

    def _left(self, role: int) -> None:
        self._receive(Left(role))

    def _leave_if_idle(self) -> None:
        if not self._is_candidate and not self.leases and not self._taking:
            self._leaving.set()

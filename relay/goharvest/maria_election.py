"""Election by a lease in MariaDB or MySQL: one lease for each outbox, which lies in the same database.

::

    run, every poll_seconds --> is the lease over? take it: term + 1 --> acquire() hands the lease out
            |                                                               |
            +-- held: renew it, a third of a lease at a time <--------------+--> left: freed at once

Taking is one statement that compares and sets by the server's clock. A leader trusts its lease from the moment *before*
the renewal left, on a clock that also runs during suspend (RR-09). A watch beside the term reads only the clock. All
this only detects. The term in every deciding statement (RO-04) and Kafka's transactional id refuse a leader that wakes
up.

A dead leader has a successor when its lease has run out. There is no session lock as with PostgreSQL
(:mod:`relay.election.lease`), so choose ``lease_seconds`` by how long the table may wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from db.errors import DatabaseError
from db.mariadb.database import MariaDatabase
from relay.election.lease import LeaseOptions
from relay.election.port import Lease, boot_seconds, holding, until_untrusted
from relay.sink import Term
from runtime.cancellation import end_if_cancelled
from runtime.pause import pause
from runtime.trouble import Trouble

__all__ = ["MariaElection"]

_log = structlog.get_logger(__name__)


class MariaElection:
    """The one lease of an outbox: an `Election`. A service: run it for as long as it is held."""

    def __init__(self, database: MariaDatabase, sink: str, options: LeaseOptions) -> None:
        self.name = "election"
        self._database = database
        self._sink = sink
        self._options = options
        self._lease: Lease | None = None
        self._trusted_until = 0.0
        self._fallen: asyncio.Queue[Lease] = asyncio.Queue()
        self._is_candidate = True
        self._trouble = Trouble("election_unattended", "election_attended")
        self._look = asyncio.Event()
        self._stopping = asyncio.Event()

    async def acquire(self) -> Lease:
        """Wait until this process gets the lease, and return it."""
        return await self._fallen.get()

    async def end_candidacy(self) -> None:
        """Take the lease no more; a held lease stays ours until it is released."""
        self._is_candidate = False

    def trusted(self, group: int) -> bool:
        """Return whether the lease still holds by our own clock."""
        lease = self._lease
        return (
            lease is not None
            and lease.term.group == group
            and not lease.lost.is_set()
            and boot_seconds() < self._trusted_until
        )

    def stop(self) -> None:
        """Leave. Call it when the lease is not held any more."""
        self._stopping.set()
        self._look.set()

    async def run(self) -> None:
        """Take and renew the lease until stopped, then leave."""
        try:
            while not self._stopping.is_set():
                self._look.clear()
                try:
                    await self._heartbeat()
                    self._trouble.over(sink=self._sink)
                except (DatabaseError, TimeoutError) as error:
                    end_if_cancelled()
                    self._trouble.tell(error, sink=self._sink)
                await self._pause()
        finally:
            if self._lease is not None:
                await self._give_up(self._lease)

    async def _heartbeat(self) -> None:
        """Take the lease if it is free, renew it if it is ours."""
        async with asyncio.timeout(self._options.lease_seconds / 2):
            if self._lease is None:
                await self._take()
            elif not self._lease.lost.is_set():
                await self._renew(self._lease)

    async def _take(self) -> None:
        if not self._is_candidate:
            return
        asked_at, seconds = boot_seconds(), self._options.lease_seconds
        if not self._trusted_until:
            await self._database.execute("lease.ensure", sink=self._sink)
        done = await self._database.execute(
            "lease.take", sink=self._sink, owner=self._options.owner, lease_seconds=seconds
        )
        if done.rows:
            self._trusted_until = asked_at + seconds
            self._lease = Lease(Term(self._sink, 0, done.last_id, 1, 0))
            self._fallen.put_nowait(self._lease)

    async def _renew(self, lease: Lease) -> None:
        asked_at, seconds = boot_seconds(), self._options.lease_seconds
        done = await self._database.execute(
            "lease.renew", sink=self._sink, term=lease.term.number, lease_seconds=seconds
        )
        if done.rows:
            self._trusted_until = asked_at + seconds
        else:
            lease.lose(f"term {lease.term.number} of {self._sink} is over")

    async def _pause(self) -> None:
        held = self._lease is not None
        seconds = min(self._options.poll_seconds, self._options.lease_seconds / 3)
        await pause(self._look, self._options.lease_seconds / 3 if held else seconds)

    @asynccontextmanager
    async def hold(self, lease: Lease) -> AsyncIterator[None]:
        """Hold the lease while the block runs; the service renews it."""
        try:
            async with holding(lease, lambda: until_untrusted(lease, lambda: self._trusted_until, self._sink)):
                yield
        finally:
            await self._give_up(lease)

    async def _give_up(self, lease: Lease) -> None:
        """Record that no task here holds the lease any more, and free its row if the database answers."""
        try:
            async with asyncio.timeout(2):
                await self._database.execute("lease.release", sink=self._sink, term=lease.term.number)
        except (DatabaseError, TimeoutError):
            _log.warning("lease_not_released", sink=self._sink, term=lease.term.number)
        self._lease = None
        self._look.set()

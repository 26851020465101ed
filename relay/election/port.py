"""Election: the port that decides which partition groups of a sink this process relays.

::

    acquire() --> Lease --> async with hold(lease): carry --> the lease is free again
                               |  lease.asked: another process should get it; finish the records in flight and leave
                               |  lease.lost:  it is gone; LeadershipLost is raised in the block

There is one lease for each (sink, partition group). A process may hold several at a time, so ``acquire`` is called
again while other leases are still held. Detection only; the fence is at the resource: before it returns a
lease, an election has raised the term in the database. Adapters: :mod:`relay.election.lease` (PostgreSQL),
:mod:`relay.election.neli` (Kafka), :mod:`relay.goharvest.maria_election` (MariaDB and MySQL). Tests
have one in memory (tests/relay/memory.py).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

from relay.sink import Term
from runtime.cancellation import TaskGroup

__all__ = ["Election", "LeadershipLost", "Lease", "boot_seconds", "holding", "next_lease", "until_untrusted"]


class LeadershipLost(Exception):
    """This process no longer leads. Stop at once and become a candidate again; this is no failure of the process."""


class Lease:
    """The right to carry a group for one term, as its election and its holder see it.

    ``asked`` is set when the holder should finish the records in flight and leave (an orderly hand-over).
    ``lost`` is set when the lease is gone. The holder sets ``notify``, which is called to wake it when the lease is
    asked for.
    """

    def __init__(self, term: Term) -> None:
        self.term = term
        self.asked = asyncio.Event()
        self.lost = asyncio.Event()
        self.reason = ""
        self.notify: Callable[[], None] = lambda: None

    def ask(self) -> None:
        """Ask the holder to leave; idempotent."""
        self.asked.set()
        self.notify()

    def lose(self, reason: str) -> None:
        """Tell the holder that it has lost the lease, and ask it to leave; idempotent."""
        self.reason = self.reason or reason
        self.lost.set()
        self.ask()


class Election(Protocol):
    """The leases of one sink."""

    async def acquire(self) -> Lease:
        """Wait until this process gets a lease; its term has been raised. A cancelled call returns no lease and keeps
        none.
        """
        ...

    def hold(self, lease: Lease) -> AbstractAsyncContextManager[None]:
        """Hold a lease while the block runs; free it on a clean exit. :class:`LeadershipLost` ends the block."""
        ...

    async def end_candidacy(self) -> None:
        """Take no more leases, because the process stops; held leases stay until they are released."""
        ...

    def trusted(self, group: int) -> bool:
        """Return whether this process leads a group by its own clock. Ask it before a send that no broker fences."""
        ...


async def next_lease(election: Election, stopping: asyncio.Event) -> Lease | None:
    """Return the next lease that this process gets, or None when it is stopped first."""
    acquiring = asyncio.ensure_future(election.acquire())
    stopped = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait({acquiring, stopped}, return_when=asyncio.FIRST_COMPLETED)
        return acquiring.result() if acquiring.done() else None
    finally:
        for task in (acquiring, stopped):
            task.cancel()
        await asyncio.gather(acquiring, stopped, return_exceptions=True)


@asynccontextmanager
async def holding(
    lease: Lease, watch_clock: Callable[[], Coroutine[Any, Any, None]] | None = None
) -> AsyncIterator[None]:
    """Run a block until it ends or the lease is lost: then cancel it and raise :class:`LeadershipLost`. For adapters.

    ``watch_clock`` runs beside the block and raises :class:`LeadershipLost` when the lease is no longer trusted.
    """

    async def watch() -> None:
        await lease.lost.wait()
        raise LeadershipLost(lease.reason)

    try:
        async with TaskGroup() as tasks:
            watching = [tasks.create_task(watch(), name=f"lease {lease.term.sink}/{lease.term.group}")]
            if watch_clock is not None:
                watching.append(tasks.create_task(watch_clock(), name=f"clock of {lease.term.sink}"))
            yield
            for one in watching:
                one.cancel()
            if lease.lost.is_set():  # the block may have ended because it was asked to, before it was cancelled
                raise LeadershipLost(lease.reason)
    except BaseExceptionGroup as failed:
        # A lost leadership outranks any error of the cancelled block.
        raise next((e for e in failed.exceptions if isinstance(e, LeadershipLost)), failed.exceptions[0]) from failed


def boot_seconds() -> float:
    """Return seconds on a monotonic clock that also runs while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


async def until_untrusted(lease: Lease, trusted_until: Callable[[], float], whose: str) -> None:
    """End a term when its lease has run out, for :func:`holding`. It reads only the clock, regardless of the renewals.
    A renewal may hang beyond its time-out, while its connection is returned. A cancellation by the client library ends
    a renewal without an error.
    """
    while (left := trusted_until() - boot_seconds()) > 0:  # noqa: ASYNC110 - a renewal may move the end
        await asyncio.sleep(left)
    lease.lose(f"the lease of {whose} has run out")
    raise LeadershipLost(lease.reason)

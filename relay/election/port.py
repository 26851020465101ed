"""Election: the port that decides which partition groups of a sink this process relays (RO-05).

::

    campaign() --> Seat --> async with reign(seat): carry --> the seat is free again
                               |  seat.asked: somebody else should have it; finish what is in flight and leave
                               |  seat.lost:  it is gone; Deposed is raised in the block

There is one seat for each (sink, partition group). A process may hold several at a time, so ``campaign`` is called
again while other seats are still held. Detection only; the fence is at the resource (RO-04): before it returns a
seat, an election has raised the term in the database. Adapters: :mod:`relay.election.lease` (PostgreSQL),
:mod:`relay.election.neli` (Kafka), :mod:`relay.goharvest.maria_election` (MariaDB and MySQL), :mod:`relay.memory`
(tests).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

from relay.sink import Term
from runtime.cancellation import TaskGroup

__all__ = ["Deposed", "Election", "Seat", "boot_seconds", "elected", "seated", "until_untrusted"]


class Deposed(Exception):
    """This process no longer leads. Stop at once and stand again; never a crash."""


class Seat:
    """One reign over a group, as its election and its holder see it.

    ``asked`` is set when the holder should finish what is in flight and leave (an orderly hand-over, RG-07); ``lost``
    when the seat is gone. ``notify`` is the holder's: called when the seat is asked for, to wake it.
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
        """Tell the holder that it is deposed; idempotent. It is asked to leave as well, should it miss that."""
        self.reason = self.reason or reason
        self.lost.set()
        self.ask()


class Election(Protocol):
    """The seats of one sink."""

    async def campaign(self) -> Seat:
        """Wait until a seat falls to this process; its term has been raised. Cancelling it gives nothing away."""
        ...

    def reign(self, seat: Seat) -> AbstractAsyncContextManager[None]:
        """Keep a seat while the block runs; :class:`Deposed` ends the block. Frees the seat on a clean exit."""
        ...

    async def withdraw(self) -> None:
        """Hand out no more seats, because the process stops; those that are held stay until they are left."""
        ...

    def trusted(self, group: int) -> bool:
        """Whether we lead a group by our own clock; asked before anything is sent without a broker's fence (RR-02)."""
        ...


async def elected(election: Election, stopping: asyncio.Event) -> Seat | None:
    """The next seat that falls to this process, or None when it is told to stop first."""
    campaign = asyncio.ensure_future(election.campaign())
    stopped = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait({campaign, stopped}, return_when=asyncio.FIRST_COMPLETED)
        return campaign.result() if campaign.done() else None
    finally:
        for task in (campaign, stopped):
            task.cancel()
        await asyncio.gather(campaign, stopped, return_exceptions=True)


@asynccontextmanager
async def seated(seat: Seat, watch_clock: Callable[[], Coroutine[Any, Any, None]] | None = None) -> AsyncIterator[None]:
    """Run a block until it ends or the seat is lost: then it is cancelled and :class:`Deposed` raised. For adapters.

    ``watch_clock`` runs beside the block and raises :class:`Deposed` when the seat must not be trusted any more.
    """

    async def watch() -> None:
        await seat.lost.wait()
        raise Deposed(seat.reason)

    try:
        async with TaskGroup() as tasks:
            watching = [tasks.create_task(watch(), name=f"seat {seat.term.sink}/{seat.term.group}")]
            if watch_clock is not None:
                watching.append(tasks.create_task(watch_clock(), name=f"clock of {seat.term.sink}"))
            yield
            for one in watching:
                one.cancel()
    except BaseExceptionGroup as failed:
        # Being deposed outranks whatever the cancelled block made of it.
        raise next((e for e in failed.exceptions if isinstance(e, Deposed)), failed.exceptions[0]) from failed


def boot_seconds() -> float:
    """Seconds on a clock that nobody sets and that runs while the machine sleeps (RR-09)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


async def until_untrusted(seat: Seat, trusted_until: Callable[[], float], whose: str) -> None:
    """Ends a reign when its lease has run out, whatever became of the renewals: :func:`seated` watches by it.

    It asks the clock and nobody else: a renewal may hang beyond its time-out, while its connection is given back, and
    a cancellation that the client library made of its own accord ends one without an error.
    """
    while (left := trusted_until() - boot_seconds()) > 0:  # noqa: ASYNC110 - the end moves while it sleeps
        await asyncio.sleep(left)
    seat.lose(f"the lease of {whose} has run out")
    raise Deposed(seat.reason)

"""Election by a lease in PostgreSQL (RO-14), one seat per (sink, partition group).

::

                 session lock free, or lease expired
      candidate ------------------------------------> leader (term + 1)
          ^                                              |
          |   renewal finds another term, or             |  renews every third of the lease
          |   the lease ran out on our own clock         |
          +----------------------------------------------+
                       Deposed

Two signs say that a predecessor is gone. Its *session lock* is free: its connection is closed, so it is dead or
cut off, and the seat can be taken at once. Or its *lease* has ended by the database's clock: it hangs. Both only
detect; raising the term is what refuses a leader that wakes up (every deciding write names its term).

A leader trusts its lease from the moment *before* the renewal request left, on a clock that also runs during
suspend (RR-09). If it cannot renew in time it deposes itself: a watch beside the keeper asks only the clock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from db.direct import Direct
from db.errors import Busy, DatabaseError
from db.pool import Database, Row
from relay.election import Deposed
from relay.sink import Term

__all__ = ["Lease", "LeaseOptions"]

_log = structlog.get_logger(__name__)


def _now() -> float:
    """Seconds on a clock that nobody sets and that runs while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    """``lease_seconds``: how long a silent leader keeps the seat; ``poll_seconds``: how often a candidate asks."""

    owner: str
    lease_seconds: float = 6.0
    poll_seconds: float = 0.5


class Lease:
    """The seat of (sink, group). Not shared between tasks."""

    def __init__(
        self,
        database: Database,
        connect: Callable[[], Awaitable[Direct]],
        sink: str,
        group: int,
        options: LeaseOptions,
    ) -> None:
        self._database = database
        self._connect = connect
        self._sink = sink
        self._group = group
        self._options = options
        self._session: Direct | None = None
        self._has_session_lock = False
        self._trusted_until = 0.0

    async def campaign(self) -> Term:
        """Ask until elected."""
        try:
            await self._database.execute("term.ensure", self._sink, self._group)
            while True:
                asked_at = _now()
                row = await self._stand()
                if row is not None:
                    self._trusted_until = asked_at + self._options.lease_seconds
                    term = Term(self._sink, self._group, row["term"], row["layout"], row["batch_no"])
                    _log.info("leader_acquired", sink=self._sink, group=self._group, term=term.number)
                    return term
                await asyncio.sleep(self._options.poll_seconds)
        except BaseException:
            await self._drop_session()  # its lock would tell the others that somebody leads
            raise

    async def _stand(self) -> Row | None:
        """One try: by the session lock if it is free, else by an expired lease."""
        try:
            predecessor_gone = await self._take_session_lock()
            return await self._raise(predecessor_gone)
        except Busy:
            ended = await self._database.fetchval("term.terminate_blockers")
            _log.warning("term_blockers_ended", sink=self._sink, connections=ended)
            return None

    async def _raise(self, predecessor_gone: bool) -> Row | None:
        options = self._options
        return await self._database.fetchrow(
            "term.raise", self._sink, self._group, options.owner, options.lease_seconds, predecessor_gone
        )

    async def _take_session_lock(self) -> bool:
        if self._session is None or self._session.lost.is_set():
            await self._drop_session()
            self._session = await self._connect()
        if not self._has_session_lock:
            self._has_session_lock = bool(
                await self._session.fetchval("term.try_session_lock", self._sink, self._group)
            )
        return self._has_session_lock

    async def _drop_session(self) -> None:
        session, self._session, self._has_session_lock = self._session, None, False
        if session is not None:
            await session.aclose()

    @asynccontextmanager
    async def reign(self, term: Term) -> AsyncIterator[None]:
        """Renew in the background while the block runs; the block is cancelled and Deposed raised when that fails."""
        try:
            async with asyncio.TaskGroup() as tasks:
                keeper = tasks.create_task(self._keep(term), name=f"lease {self._sink}/{self._group}")
                watch = tasks.create_task(self._watch(), name=f"lease watch {self._sink}/{self._group}")
                yield
                keeper.cancel()
                watch.cancel()
        except BaseExceptionGroup as failed:
            # Being deposed outranks whatever the cancelled block made of it.
            raise next((e for e in failed.exceptions if isinstance(e, Deposed)), failed.exceptions[0]) from failed
        finally:
            await self._resign(term)

    async def _keep(self, term: Term) -> None:
        options = self._options
        while True:
            await asyncio.sleep(options.lease_seconds / 3)
            asked_at = _now()
            try:
                async with asyncio.timeout(max(self._trusted_until - asked_at, 0)):
                    renewed = await self._database.execute(
                        "term.renew", self._sink, self._group, term.number, options.lease_seconds
                    )
            except (DatabaseError, TimeoutError) as error:
                if _now() >= self._trusted_until:
                    raise Deposed(f"the lease of {self._sink}/{self._group} could not be renewed: {error}") from error
                continue
            if renewed != 1:
                raise Deposed(f"term {term.number} of {self._sink}/{self._group} is over")
            self._trusted_until = asked_at + options.lease_seconds
            await self._keep_session_lock()

    async def _watch(self) -> None:
        """Ends the reign when the lease has run out, whatever became of the keeper.

        It asks the clock and nobody else: a renewal may hang beyond its time-out, while its connection is given back,
        and a cancellation that the client library made of its own accord ends the keeper without an error.
        """
        while (left := self._trusted_until - _now()) > 0:  # noqa: ASYNC110 - the end moves while it sleeps
            await asyncio.sleep(left)
        raise Deposed(f"the lease of {self._sink}/{self._group} has run out")

    async def _keep_session_lock(self) -> None:
        """Take the lock anew after its connection was lost; without it the lease alone keeps the seat."""
        try:
            async with asyncio.timeout(self._options.lease_seconds / 3):
                await self._take_session_lock()
        except (DatabaseError, TimeoutError) as error:
            _log.warning("session_lock_not_held", sink=self._sink, group=self._group, error=str(error))

    def trusted(self) -> bool:
        """Whether the lease still holds by our own clock; asked before anything is sent without a broker's fence."""
        return _now() < self._trusted_until

    async def _resign(self, term: Term) -> None:
        """Free the seat at once, if the database can be asked; otherwise the lease ends by itself."""
        try:
            async with asyncio.timeout(2):
                await self._database.execute("term.release", self._sink, self._group, term.number)
        except (DatabaseError, TimeoutError):
            _log.warning("lease_not_released", sink=self._sink, group=self._group, term=term.number)
        finally:
            await self._drop_session()
        _log.info("leader_revoked", sink=self._sink, group=self._group, term=term.number)

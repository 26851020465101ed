"""The dispatcher executes accepted requests, extends their leases, stores the replies and deletes old requests.

::

    find services with requests ------> is a worker registered? --no--> ask again after a second
                                                 | yes
                                                 v
                              claim, up to a limit for each service
                                                 |
              release, with a pause  <--none--  call  --reply-->  settle

Each call is a task of its own, so a slow or absent service does not delay the others. While no service that
waits has a worker, several accepts share one read of the store, because a read costs more than an accept.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar

from reqrep.counters import Counters
from reqrep.frames import Frames
from reqrep.titanic.caller import NotAnswered, ServiceCaller
from reqrep.titanic.change import ChangeSignal
from reqrep.titanic.options import TitanicOptions
from reqrep.titanic.store import ClaimedRequest, Receipt, RequestStore, Settled, StoreError

__all__ = ["Dispatcher"]

_LOG = logging.getLogger(__name__)
_STORE_PAUSE_SECONDS = 1.0
_WARN_SECONDS = 60.0
_EXTENSIONS_PER_LEASE = 3
_IN_VAIN_PAUSE_SECONDS = 0.02
_PAUSE_OVER_SECONDS = 0.02
T = TypeVar("T")


class Dispatcher:
    """Works in :meth:`run`; cancel that to stop. Requests claimed by then can be claimed again after their leases."""

    def __init__(self, store: RequestStore, caller: ServiceCaller, options: TitanicOptions | None = None) -> None:
        self.counters = Counters()
        self._store = store
        self._caller = caller
        self._options = options or TitanicOptions()
        self._running: dict[Receipt, str] = {}
        self._calls: Counter[str] = Counter()
        self._absent_until: dict[str, float] = {}
        self._looked_in_vain = False
        self._warn_at = 0.0
        self._wake = ChangeSignal()

    async def run(self) -> None:
        """Execute requests until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch())
            tasks.create_task(self._extend())
            tasks.create_task(self._expire())
            while True:
                for claimed in await self._retried(self._claim):
                    tasks.create_task(self._execute(claimed))
                if self._looked_in_vain:
                    await asyncio.sleep(_IN_VAIN_PAUSE_SECONDS)
                await self._wake.wait(self._options.look_seconds)

    async def _watch(self) -> None:
        """Wake the claiming loop when the store has a claimable request."""
        while True:
            await self._retried(lambda: self._store.changed(self._options.look_seconds))
            self._wake.notify()

    async def _claim(self) -> list[ClaimedRequest]:
        """Claim requests of services that have a worker, within the limits of concurrent calls."""
        limits, absent = {}, 0
        waiting = await self._store.waiting()
        for service in waiting:
            free = min(self._options.concurrency - self._calls[service], self._options.calls_max - len(self._running))
            if free <= 0:
                continue
            if await self._is_live(service):
                limits[service] = free
            else:
                absent += 1
        self._looked_in_vain = 0 < absent == len(waiting)
        if not limits:
            return []
        share = max(1, (self._options.calls_max - len(self._running)) // len(limits))
        limits = {service: min(limit, share) for service, limit in limits.items()}
        claims = await self._store.claim(limits, self._options.lease_seconds)
        for claimed in claims:
            self._running[claimed.receipt] = claimed.request.service
            self._calls[claimed.request.service] += 1
        return claims

    async def _is_live(self, service: str) -> bool:
        """Return whether the service has a worker. After a "no", ask again only after ``look_seconds``."""
        now = time.monotonic()
        if self._absent_until.get(service, now) > now:
            return False
        self._absent_until.pop(service, None)
        is_live = await self._caller.is_live(service)
        if not is_live:
            self._absent_until[service] = now + self._options.look_seconds
        return is_live

    async def _execute(self, claimed: ClaimedRequest) -> None:
        try:
            try:
                async with asyncio.timeout(self._options.execution_seconds):
                    reply = await self._caller.call(claimed.request)
            except NotAnswered as error:
                await self._again(claimed, str(error))
            except TimeoutError:
                await self._again(claimed, "execution-timeout")
            else:
                await self._settle(claimed.receipt, reply)
        finally:
            del self._running[claimed.receipt]
            self._calls[claimed.request.service] -= 1
            if not self._calls[claimed.request.service]:
                del self._calls[claimed.request.service]
            self._wake.notify()

    async def _again(self, claimed: ClaimedRequest, reason: str) -> None:
        """Release the request for another attempt, after a pause that doubles with each attempt."""
        self.counters.drop(reason)
        doublings = min(claimed.attempts - 1, 30)
        pause = min(self._options.retry_seconds_max, self._options.retry_seconds * 2**doublings)
        await self._retried(lambda: self._store.release(claimed.receipt, pause))
        if pause < self._options.look_seconds:
            asyncio.get_running_loop().call_later(pause + _PAUSE_OVER_SECONDS, self._wake.notify)

    async def _settle(self, receipt: Receipt, reply: Frames) -> None:
        """Store the reply. Repeat while the store fails or is full; :meth:`_extend` extends the lease meanwhile."""
        settled = await self._retried(lambda: self._store.settle(receipt, reply))
        self.counters.totals["executed"] += 1
        if settled is not Settled.STORED:
            self.counters.drop(f"reply-{settled}")

    async def _extend(self) -> None:
        while True:
            await asyncio.sleep(self._options.lease_seconds / _EXTENSIONS_PER_LEASE)
            if self._running:
                await self._retried(lambda: self._store.extend(list(self._running), self._options.lease_seconds))

    async def _expire(self) -> None:
        while True:
            gone = await self._retried(lambda: self._store.expire(self._options.retention_seconds))
            self.counters.totals["expired"] += gone
            now = time.monotonic()
            self._absent_until = {service: until for service, until in self._absent_until.items() if until > now}
            await asyncio.sleep(self._options.expire_seconds)

    def _warn(self, error: StoreError) -> None:
        """Log one warning a minute."""
        now = time.monotonic()
        if now >= self._warn_at:
            self._warn_at = now + _WARN_SECONDS
            count = self.counters.drops["store-failure"]
            _LOG.warning("Titanic's store failed (%d times), next try in %s s: %s", count, _STORE_PAUSE_SECONDS, error)

    async def _retried(self, step: Callable[[], Awaitable[T]]) -> T:
        """Repeat a step until the store does not fail, and return its result."""
        while True:
            try:
                return await step()
            except StoreError as error:
                self.counters.drop("store-failure")
                self._warn(error)
                await asyncio.sleep(_STORE_PAUSE_SECONDS)

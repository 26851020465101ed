"""Workers wait for requests and callers wait for replies; all waits of a process share two queries.

At most as many workers wake up as requests wait, the longest-waiting worker first. A notice of another process names
the request or the service, and ends these waits without a query.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import structlog

from db.errors import DatabaseError
from db.pool import Database
from reqrep.bridge.plain_reply import PlainReply
from reqrep.bridge.request_notices import OVER, WAITING
from reqrep.bridge.waiting_worker import WaitingWorker
from runtime.shared_wait import SharedWait

__all__ = ["ServiceWaiting"]

_log = structlog.get_logger(__name__)
_WORKER = "worker"
_CALLER = "caller"
_UNMET_MAX = 1_000


class ServiceWaiting(SharedWait):
    """A background service: ``for_request`` and ``for_reply`` wait, ``available`` and ``over`` end waits."""

    name = "service_waiting"

    def __init__(self, database: Database, pause_seconds: tuple[float, float] = (0.02, 0.5)) -> None:
        super().__init__(pause_seconds)
        self._database = database
        self._workers: dict[asyncio.Future[None], WaitingWorker] = {}
        self._unmet: Counter[str] = Counter()

    async def for_request(self, worker: WaitingWorker, seconds: float) -> bool:
        """Return True as soon as the worker's service may have a request, or the worker was handed one. Return False
        after the time or when hookwire stops. If no worker waited for a request that came after this one's last claim
        had begun, it returns at once.
        """
        if worker.met != (met := self.unmet(worker.service)) and seconds > 0:
            worker.met = met
            return True
        waiter = worker.waiter()
        self._workers[waiter] = worker
        try:
            return await self._wait((worker.service, _WORKER), seconds, waiter) or worker.has_request
        finally:
            worker.met = self.unmet(worker.service)
            del self._workers[waiter]

    async def for_reply(self, request_id: str, seconds: float) -> PlainReply | bool:
        """Return the reply if a worker gave it to this process. Return True as soon as the request may be over, False
        after the time or when hookwire stops.
        """
        waiter: asyncio.Future[PlainReply | None] = asyncio.get_running_loop().create_future()
        if not await self._wait((request_id, _CALLER), seconds, waiter):
            return False
        return waiter.result() or True

    def available(self, service: str, count: int = 1) -> None:
        """Wake as many workers of a service as it has waiting requests."""
        if not self._wake((service, _WORKER), count):
            if len(self._unmet) >= _UNMET_MAX:
                self._unmet.clear()
            self._unmet[service] += 1

    def unmet(self, service: str) -> int:
        """Return how many requests of a service came while no worker of it waited here."""
        return self._unmet[service]

    def over(self, request_id: str, reply: PlainReply | None = None) -> bool:
        """Wake the callers of a request that was answered or closed, or has failed; return whether there are any."""
        return bool(self._wake((request_id, _CALLER), None, reply))

    def told(self, notice: str) -> None:
        """Wake those whom a notice of another process names; an empty one names nobody, so the queries run."""
        if not notice:
            self.notify()
        for line in notice.splitlines():
            about, _, name = line.partition(" ")
            number, _, service = name.partition(" ")
            if about == WAITING and number.isdecimal():
                self.available(service, int(number))
            elif about == OVER:
                self.over(name)

    def reserve(self, service: str) -> WaitingWorker | None:
        """Return the worker that has waited longest, for a request that the caller makes; None: no worker waits here.

        The caller gives it the request, or puts it back.
        """
        waiter = self._reserve((service, _WORKER))
        return None if waiter is None else self._workers[waiter]

    def put_back(self, worker: WaitingWorker) -> None:
        """Let a reserved worker wait on, unless its wait is over."""
        if (waiter := worker.waiting) is not None:
            self._put_back((worker.service, _WORKER), waiter)

    async def _ask(self) -> bool:
        try:
            return await self._ask_requests() | await self._ask_replies()
        except DatabaseError as error:
            _log.warning("service_waiting_failed", error=str(error))
            return False

    async def _ask_requests(self) -> bool:
        waiting = {name: len(waiters) for (name, role), waiters in self._waiters.items() if role == _WORKER}
        if not waiting:
            return False
        rows = await self._database.fetch("request.waiting_among", list(waiting), list(waiting.values()))
        for row in rows:
            self._wake((row["service"], _WORKER), row["available"])
        return any(row["available"] for row in rows)

    async def _ask_replies(self) -> bool:
        waiting = [name for name, role in self._waiters if role == _CALLER]
        if not waiting:
            return False
        rows = await self._database.fetch("request.over_among", waiting)
        for row in rows:
            self.over(row["id"])
        return bool(rows)

"""Titanic in a thread of the broker's process, so that a slow disk does not delay heartbeats.

The broker's thread passes requests and answers to this thread's event loop. This thread posts replies and calls to the
broker's reactor. Both directions use batches.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from itertools import count

from reqrep.frames import Frames
from reqrep.inside import CallAnswered, CallMade, ReplyGiven, RequestTaken, split_number
from reqrep.titanic.caller import NotAnswered
from reqrep.titanic.dispatcher import Dispatcher
from reqrep.titanic.options import TitanicOptions
from reqrep.titanic.services import TitanicServices
from reqrep.titanic.store import AcceptedRequest, RequestStore, StoreError

__all__ = ["BrokerMail", "TitanicPlan", "TitanicThread"]

Announce = Callable[[list[str]], Awaitable[None]]
AnswerService = Callable[[Frames, str], Awaitable[Frames]]
OpenStore = Callable[[], AbstractAsyncContextManager[RequestStore]]
_ANNOUNCE_SECONDS = 10.0
_COUNTS_SECONDS = 1.0
_WARN_SECONDS = 60.0
_OK = b"200"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TitanicPlan:
    """The parts of a Titanic thread.

    * ``open_store`` opens the store, in the thread's event loop.
    * ``options``: how requests are executed.
    * ``others``: further services that the thread answers while the store is open.
    * ``announce`` gets the names of the services that have workers, every ten seconds.
    """

    open_store: OpenStore
    options: TitanicOptions = field(default_factory=TitanicOptions)
    others: Mapping[bytes, AnswerService] = field(default_factory=dict)
    announce: Announce | None = None


BrokerMail = ReplyGiven | CallMade


class TitanicThread:
    """The thread. ``post`` gets each batch for the broker. ``failed`` is called if an exception ends the thread."""

    def __init__(self, plan: TitanicPlan, post: Callable[[list[BrokerMail]], None], failed: Callable[[], None]) -> None:
        self.counts: dict[str, int] = {}
        self.error: BaseException | None = None
        self._plan = plan
        self._post = post
        self._failed = failed
        self._calls: dict[int, asyncio.Future[CallAnswered]] = {}
        self._numbers = count(1)
        self._mail: list[BrokerMail] = []
        self._begin: Callable[[RequestTaken], object]
        self._opened: Future[None] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._warn_at = 0.0
        self._thread = threading.Thread(target=self._run, name="titanic")

    def start(self) -> None:
        """Start the thread and open the store. Raise the exception of the opening."""
        self._thread.start()
        self._opened.result()

    def stop(self) -> None:
        """Finish the write in progress, close the store and end the thread."""
        self._soon(self._stopping.set)
        if self._thread.ident is not None:
            self._thread.join()

    def take(self, requests: list[RequestTaken], answers: list[CallAnswered]) -> None:
        """Accept a batch of the broker. Called in the broker's thread."""
        self._soon(lambda: self._taken(requests, answers))

    def _soon(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` in the thread's event loop. Do nothing if the loop has ended, which may happen any time."""
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(callback)

    # --- in the thread ------------------------------------------------------------------------------------------

    async def is_live(self, service: str) -> bool:
        """Return whether the service has a worker, as ``mmi.service`` answers."""
        answer = await self._answer(b"mmi.service", [service.encode()], "")
        return answer.body[:1] == [_OK]

    async def call(self, request: AcceptedRequest) -> Frames:
        """Call a worker through the broker and return its reply. Raise :class:`NotAnswered`."""
        answer = await self._answer(request.service.encode(), request.body, request.user)
        if answer.status != _OK:
            raise NotAnswered(answer.body[0].decode())
        return answer.body

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except BaseException as error:  # noqa: BLE001 - the broker's thread raises it
            if not self._opened.done():
                self._opened.set_exception(error)
                return
            self.error = error
            self._failed()

    async def _work(self) -> None:
        async with self._plan.open_store() as store:
            self._services = TitanicServices(store)
            self._loop = asyncio.get_running_loop()
            self._opened.set_result(None)
            async with asyncio.TaskGroup() as tasks:
                self._begin = lambda request: tasks.create_task(self._serve(request))
                dispatcher = Dispatcher(store, self, self._plan.options)
                steps = [dispatcher.run(), self._count(store, dispatcher), self._announce()]
                working = [tasks.create_task(step) for step in steps]
                await self._stopping.wait()
                for task in working:
                    task.cancel()

    async def _count(self, store: RequestStore, dispatcher: Dispatcher) -> None:
        """Refresh the numbers for the metrics and ``mmi.titanic`` once per second."""
        while True:
            try:
                found = await store.counts()
                held = {"pending": found.pending, "leased": found.leased, "answered": found.answered}
            except StoreError:
                held = {}
            self.counts = {**self.counts, **held, **dispatcher.counters.totals}
            await asyncio.sleep(_COUNTS_SECONDS)

    async def _announce(self) -> None:
        """Announce the services that have workers, every ten seconds."""
        while self._plan.announce is not None:
            answer = await self._answer(b"mmi.list", [b""], "")
            services = json.loads(answer.body[1]) if answer.body[:1] == [_OK] else []
            try:
                await self._plan.announce([service["name"] for service in services if service["workers"]])
            except StoreError as error:
                self._warn(error)
            await asyncio.sleep(_ANNOUNCE_SECONDS)

    def _warn(self, error: StoreError) -> None:
        """Log one warning a minute."""
        now = time.monotonic()
        if now >= self._warn_at:
            self._warn_at = now + _WARN_SECONDS
            _LOG.warning("cannot store which services have workers: %s", error)

    def _taken(self, requests: list[RequestTaken], answers: list[CallAnswered]) -> None:
        for answer in answers:
            waiting = self._calls.pop(answer.number, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)
        for request in requests:
            self._begin(request)

    async def _serve(self, request: RequestTaken) -> None:
        other = self._plan.others.get(request.service)
        if other is None:
            body = await self._services.answer(request.service, request.body, request.user)
        else:
            number, asked = split_number(request.body)
            body = [*number, *await other(asked, request.user)]
        self._send(ReplyGiven(request.ticket, body))

    async def _answer(self, service: bytes, body: Frames, user: str) -> CallAnswered:
        number = next(self._numbers)
        waiting: asyncio.Future[CallAnswered] = asyncio.get_running_loop().create_future()
        self._calls[number] = waiting
        try:
            self._send(CallMade(number, service, body, user))
            return await waiting
        finally:
            self._calls.pop(number, None)

    def _send(self, mail: BrokerMail) -> None:
        """Post the message at the end of this turn of the loop, together with the turn's other messages."""
        assert self._loop is not None
        self._mail.append(mail)
        if len(self._mail) == 1:
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        mail, self._mail = self._mail, []
        self._post(mail)

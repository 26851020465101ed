"""A worker for asyncio: it offers coroutines as services.

However a coroutine ends, its request ends, and the worker goes on; after a KeyboardInterrupt it stops softly.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from hookwire.services.asyncio_link import AsyncioLink
from hookwire.services.envelope import split_number
from hookwire.services.machine import Event, Frames, Run
from hookwire.services.mdp import DIALECTS, Version
from hookwire.services.presence import HeartbeatOptions
from hookwire.services.transport import Curve, SocketOptions
from hookwire.services.worker import frames_of
from hookwire.services.worker_machine import WorkerMachine, WorkerOptions
from hookwire.slots import WARNINGS, Ending, Slots

__all__ = ["AsyncHandler", "AsyncWorker"]

AsyncHandler = Callable[[bytes], Awaitable[bytes]]
_LOG = logging.getLogger("hookwire.services")


class AsyncWorker:
    """Offers coroutines as Majordomo services. A coroutine that blocks the event loop also stops the heartbeats."""

    def __init__(
        self,
        *endpoints: str,
        heartbeat: HeartbeatOptions | None = None,
        reconnect_seconds: float = 2.5,
        version: Version = "0.1",
        curve: Curve | None = None,
        grace_seconds: float = 10.0,
    ) -> None:
        self._grace_seconds = grace_seconds
        self._endpoints = endpoints
        self._options = WorkerOptions(heartbeat or HeartbeatOptions(), reconnect_seconds)
        self._dialect = DIALECTS[version]
        self._socket_options = SocketOptions(curve=curve)
        self._services: list[tuple[str, AsyncHandler, int]] = []
        self._stopped = asyncio.Event()

    def service(self, name: str, *, concurrency: int = 1) -> Callable[[AsyncHandler], AsyncHandler]:
        """Offer a coroutine as a service. At most ``concurrency`` requests per broker run at once."""

        def decorate(handler: AsyncHandler) -> AsyncHandler:
            self._services.append((name, handler, concurrency))
            return handler

        return decorate

    async def run(self) -> None:
        """Register and serve until :meth:`stop`. Requests in progress are still answered, for ``grace_seconds``."""
        if not self._services or not self._endpoints:
            raise ValueError("a worker needs at least one endpoint and one service: pass an endpoint, call service()")
        connections: list[_Connection] = []
        running: Slots[_Request] = Slots(self._ended, _warn)
        try:
            for name, handler, concurrency in self._services:
                for endpoint in self._endpoints * concurrency:
                    machine = WorkerMachine(endpoint, name.encode(), self._dialect, self._options)
                    connections.append(_Connection(name, machine, handler, running, self._socket_options))
            await self._stopped.wait()
            await running.drain(self._grace_seconds)
        finally:
            await running.drain(0)
            for connection in connections:
                connection.close()

    def _ended(self, request: _Request, ending: Ending) -> None:
        request.connection.settle(request.run, ending)
        if isinstance(ending.error, KeyboardInterrupt):
            self.stop()

    def stop(self) -> None:
        """End :meth:`run`."""
        self._stopped.set()


@dataclass(frozen=True, slots=True)
class _Request:
    """A request that runs, and the connection that it came on."""

    connection: _Connection
    run: Run


def _warn(event: str, request: _Request) -> None:
    _LOG.warning(WARNINGS[event], f"a request for {request.connection.name}")


class _Connection:
    """One service at one broker. Its handler runs in a slot of the worker."""

    def __init__(
        self, name: str, machine: WorkerMachine, handler: AsyncHandler, running: Slots[_Request], options: SocketOptions
    ) -> None:
        self.name = name
        self._machine = machine
        self._handler = handler
        self._running = running
        self._link = AsyncioLink(machine, self._found, options)
        self._link.carry_out(machine.start(self._link.now()))

    def close(self) -> None:
        self._link.carry_out(self._machine.stop())
        self._link.close()

    def settle(self, run: Run, ending: Ending) -> None:
        """Send the reply, or disconnect if the handler has failed, so that the broker treats the request as lost."""
        if ending.error is None:
            self._link.carry_out(self._machine.reply(self._link.now(), run.ticket, ending.result))
            return
        _LOG.error("the handler of a service failed; the broker treats the request as lost", exc_info=ending.error)
        self._link.carry_out(self._machine.abandon(self._link.now(), run.ticket))

    def _found(self, event: Event) -> None:
        if isinstance(event, Run):
            self._running.begin(_Request(self, event), self._reply)
        else:
            _LOG.debug("dropped a message: %s", event)

    async def _reply(self, request: _Request) -> Frames:
        number, body = split_number(request.run.body)
        return [*number, *frames_of(await self._handler(b"".join(body)))]

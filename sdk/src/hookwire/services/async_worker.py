"""A worker for asyncio: it offers coroutines as services."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from hookwire.services.asyncio_link import AsyncioLink
from hookwire.services.envelope import split_number
from hookwire.services.machine import Event, Frames, Run
from hookwire.services.mdp import DIALECTS, Version
from hookwire.services.presence import HeartbeatOptions
from hookwire.services.transport import Curve, SocketOptions
from hookwire.services.worker import frames_of
from hookwire.services.worker_machine import WorkerMachine, WorkerOptions

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
    ) -> None:
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
        """Register and serve until :meth:`stop`. Requests in progress are still answered."""
        if not self._services or not self._endpoints:
            raise ValueError("a worker needs at least one endpoint and one service: pass an endpoint, call service()")
        connections: list[_Connection] = []
        try:
            async with asyncio.TaskGroup() as tasks:
                for name, handler, concurrency in self._services:
                    for endpoint in self._endpoints * concurrency:
                        machine = WorkerMachine(endpoint, name.encode(), self._dialect, self._options)
                        connections.append(_Connection(machine, handler, tasks, self._socket_options))
                await self._stopped.wait()
        finally:
            for connection in connections:
                connection.close()

    def stop(self) -> None:
        """End :meth:`run`."""
        self._stopped.set()


class _Connection:
    """One service at one broker. Its handler runs in a task of the worker's group."""

    def __init__(
        self, machine: WorkerMachine, handler: AsyncHandler, tasks: asyncio.TaskGroup, options: SocketOptions
    ) -> None:
        self._machine = machine
        self._handler = handler

        def begin(run: Run) -> None:
            tasks.create_task(self._run(run))

        self._begin = begin
        self._link = AsyncioLink(machine, self._found, options)
        self._link.carry_out(machine.start(self._link.now()))

    def close(self) -> None:
        self._link.carry_out(self._machine.stop())
        self._link.close()

    def _found(self, event: Event) -> None:
        if isinstance(event, Run):
            self._begin(event)
        else:
            _LOG.debug("dropped a message: %s", event)

    async def _run(self, run: Run) -> None:
        """Run the handler. Its exception ends the request, never the worker."""
        number, body = split_number(run.body)
        try:
            reply: Frames = frames_of(await self._handler(b"".join(body)))
        except Exception:  # noqa: BLE001 - user code may raise anything
            _LOG.exception("the handler of a service failed; the broker treats the request as lost")
            self._link.carry_out(self._machine.abandon(self._link.now(), run.ticket))
        else:
            self._link.carry_out(self._machine.reply(self._link.now(), run.ticket, [*number, *reply]))

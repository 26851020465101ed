"""Process life: one TaskGroup of named services, a soft stop in phases, then a hard stop.

::

    start --> running --SIGTERM/SIGINT--> soft stop --all ended--> exit 0
                 |                           |  second signal, or drain_seconds are over
                 | a service fails           v
                 +--------------------> hard stop (cancel) --> exit

A service is anything with ``name``, ``run()`` and ``stop()``. ``stop`` asks; ``run`` returns when its work in flight
is done. Phases are stopped one after the other, so that what feeds ends before what is fed: first the front door,
then publishing, then the relays and workers. A service that fails ends the process, loudly (decision 13).
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Sequence
from typing import Any, Protocol

import structlog

__all__ = ["Process", "Service", "process_name"]

_log = structlog.get_logger(__name__)


def process_name() -> str:
    """The name under which this process holds leases and claims: the host's and the process id."""
    return f"{socket.gethostname()}-{os.getpid()}"


class Service(Protocol):
    """One named duty of the process."""

    name: str

    async def run(self) -> None:
        """Work until stopped; an exception ends the process."""
        ...

    def stop(self) -> None:
        """Ask for a soft stop; idempotent, returns at once."""
        ...


class _HardStop(Exception):
    """Ends the TaskGroup from within."""


class Process:
    """Runs services in phases; ``drain_seconds`` bounds the whole soft stop."""

    def __init__(self, phases: Sequence[Sequence[Service]], drain_seconds: float) -> None:
        self._phases = phases
        self._drain_seconds = drain_seconds
        self._stop = asyncio.Event()
        self._hard = asyncio.Event()

    def stop(self) -> None:
        """Soft stop the first time, hard stop the second."""
        if self._stop.is_set():
            self._hard.set()
        self._stop.set()

    async def run(self) -> None:
        """Run everything until stopped; handles SIGTERM and SIGINT meanwhile."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = {
                    service.name: group.create_task(service.run(), name=service.name)
                    for phase in self._phases
                    for service in phase
                }
                group.create_task(self._stop_in_phases(tasks), name="stop")
        except* _HardStop:
            _log.warning("hard_stop")
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

    async def _stop_in_phases(self, tasks: dict[str, asyncio.Task[None]]) -> None:
        await self._stop.wait()
        _log.info("soft_stop", drain_seconds=self._drain_seconds)
        hard = asyncio.ensure_future(self._hard.wait())
        try:
            async with asyncio.timeout(self._drain_seconds):
                for phase in self._phases:
                    for service in phase:
                        service.stop()
                    running: set[asyncio.Future[Any]] = {tasks[service.name] for service in phase}
                    while running and not hard.done():
                        _, pending = await asyncio.wait({*running, hard}, return_when=asyncio.FIRST_COMPLETED)
                        running = pending - {hard}
                    if hard.done():
                        raise _HardStop
        except TimeoutError:
            raise _HardStop from None
        finally:
            hard.cancel()

"""Process life: one TaskGroup of named services, a soft stop in phases, then a hard stop.

::

    start --> running --SIGTERM/SIGINT--> soft stop --all ended--> exit 0
                 |                           |  second signal, or drain_seconds are over
                 | a service fails           v
                 +--------------------> hard stop (cancel) --> exit 0
                                             | closing takes too long
                                             v
                                        cut off, exit 75

A service has ``name``, ``run()`` and ``stop()``. After ``stop``, ``run`` returns when its work in flight is done.
Phases stop one after the other, producers before consumers: first HTTP, then publishing, then relays and workers.
A service that fails ends the process with an error.

The process ends within ``drain_seconds`` and three more, even if a service hangs. Without this limit, closing would
wait for a database that does not answer once for each lease, member and connection.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

import structlog

__all__ = ["CLOSING_SECONDS", "CUT_OFF_CODE", "Process", "Service", "end_within", "last_act", "process_name"]

_log = structlog.get_logger(__name__)
CLOSING_SECONDS: Final = 3.0
"""Time limit for closing after a hard stop: a few round trips to servers that answer."""
CUT_OFF_CODE: Final = 75
"""Exit code of a cut-off: EX_TEMPFAIL of sysexits.h.

The cause may pass, and a restart is enough. The code 1 would look like a failure to examine, and 128 and more mean a
signal.
"""
_TELLING_SECONDS: Final = 0.3
_last_acts: list[Callable[[], object]] = []


def process_name() -> str:
    """Return the name under which this process holds leases and claims: the host's and the process id."""
    return f"{socket.gethostname()}-{os.getpid()}"


@contextmanager
def last_act(act: Callable[[], object]) -> Iterator[None]:
    """Also run this function before a cut-off ends the process. It does work that no other code would do afterwards.

    Another thread calls it, and it must not wait for anything.
    """
    _last_acts.append(act)
    try:
        yield
    finally:
        _last_acts.remove(act)


def end_within(seconds: float) -> None:
    """End this process with exit code 75 after so many seconds, unless it has ended by then.

    Nothing more is closed. As after a SIGKILL, nothing is lost. A thread does it, because the event loop may hang. The
    thread first runs each :func:`last_act`. Of two calls the earlier end counts.
    """
    timer = threading.Timer(seconds, _cut_off)
    timer.daemon = True
    timer.start()


def _cut_off() -> None:
    try:
        for act in tuple(_last_acts):
            act()
        telling = threading.Thread(target=_tell_of_it, daemon=True)  # the reader of the log may hang
        telling.start()
        telling.join(_TELLING_SECONDS)
    finally:
        os._exit(CUT_OFF_CODE)


def _tell_of_it() -> None:
    _log.error("cut_off", hint="something did not close in time; leases and claims that are left end by themselves")


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
    """Runs services in phases; ``drain_seconds`` bounds the whole soft stop.

    ``end_within`` gets the seconds until the process must have ended, closing included. :func:`end_within` does that
    where hookwire owns the process.
    """

    def __init__(
        self, phases: Sequence[Sequence[Service]], drain_seconds: float,
        end_within: Callable[[float], None] = lambda _: None,
    ) -> None:  # fmt: skip
        names = Counter(service.name for phase in phases for service in phase)
        if repeated := [name for name, count in names.items() if count > 1]:
            raise ValueError(f"several services have the name {repeated[0]}: a stop would wait for one of them only")
        self._phases = phases
        self._drain_seconds = drain_seconds
        self._end_within = end_within
        self._stop = asyncio.Event()
        self._hard = asyncio.Event()

    def stop(self) -> None:
        """Soft stop the first time, hard stop the second."""
        if not self._stop.is_set():
            self._stop.set()
            self._end_within(self._drain_seconds + CLOSING_SECONDS)
        elif not self._hard.is_set():
            self._hard.set()
            self._end_within(CLOSING_SECONDS)

    async def run(self) -> None:
        """Run everything until stopped, and handle SIGTERM and SIGINT meanwhile."""
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

"""``hookwire scale``: start and stop worker processes by the number of tasks."""

from __future__ import annotations

import asyncio
import signal
import time
from asyncio.subprocess import Process
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.entry import Config, run, settings_from, tell
from app.cli.failure import CommandFailed
from runtime.counted import counted

if TYPE_CHECKING:
    from app.settings.settings import Settings
    from jobs.tasks.scaler import Scaler
    from jobs.tasks.tasks import Tasks

__all__ = ["scale"]

Least = Annotated[int, typer.Option("--min", min=0, help="The least number of workers.")]
Most = Annotated[int, typer.Option("--max", min=1, help="The largest number of workers.")]
Interval = Annotated[float, typer.Option("--interval", min=0.05, help="Seconds between two measurements.")]
CoolDown = Annotated[float, typer.Option("--cool-down", min=0, help="The least number of seconds between two changes.")]
_DRAIN_SECONDS = 30.0


def scale(
    context: typer.Context, least: Least = 1, most: Most = 4, interval: Interval = 1.0, cool_down: CoolDown = 5.0,
    config: Config = None,
) -> None:  # fmt: skip
    """Start and stop workers by the rates at which tasks arrive and are completed.

    A worker that is not needed any more gets SIGTERM and finishes its task. A worker that ends by itself is replaced.
    If this command is killed, its workers go on. If it is stopped, they finish their tasks and end.

    Example:

      hookwire scale --min 1 --max 8 -- hookwire work --kind mail.send -- ./send-mail
    """
    from jobs.tasks.scaler import Scaler, ScalerOptions

    if not context.args:
        raise CommandFailed("name the worker after --, such as: hookwire scale -- hookwire work -- ./program", 2)
    from app.cli.working.program_handler import check_program

    check_program(context.args)
    try:
        options = ScalerOptions(least, most, cool_down_seconds=cool_down, idle_seconds=2 * cool_down)
    except ValueError as error:
        raise CommandFailed(f"--min and --max: {error}", 2) from None
    run(_scale(settings_from(config), Scaler(options), context.args, interval))


async def _scale(settings: Settings, scaler: Scaler, command: Sequence[str], interval: float) -> int:
    from app.cli.database import opened_database
    from db.errors import DatabaseError
    from jobs.tasks.tasks import Tasks
    from runtime.pause import pause

    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    crew = _Crew(command)
    async with opened_database(settings, application_name="hookwire scale", connections_max=2) as database:
        tasks = Tasks(database)
        try:
            while not stopping.is_set():
                try:
                    await crew.become(await _wanted(tasks, scaler))
                except DatabaseError as error:
                    tell(f"the database does not answer ({error}); the workers stay as they are")
                await pause(stopping, interval)
        finally:
            await crew.drain()
    return 0


async def _wanted(tasks: Tasks, scaler: Scaler) -> int:
    from jobs.tasks.scaler import Sample

    rates = await tasks.rates()
    return scaler.decide(Sample(time.monotonic(), rates["arrived"], rates["completed"], rates["waiting"]))


class _Crew:
    """The worker processes, in the order of their start."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._workers: list[Process] = []
        self._leaving: list[Process] = []

    async def become(self, wanted: int) -> None:
        """Start or stop workers until there are ``wanted``. Replace workers that ended by themselves."""
        self._workers = [worker for worker in self._workers if worker.returncode is None]
        self._leaving = [worker for worker in self._leaving if worker.returncode is None]
        before = len(self._workers)
        while len(self._workers) < wanted:
            # In a session of its own: Ctrl-C reaches only this command, which then drains the worker.
            self._workers.append(await asyncio.create_subprocess_exec(*self._command, start_new_session=True))
        while len(self._workers) > wanted:
            self._stop(self._workers.pop())
        if before != wanted:
            tell(counted(wanted, "worker"))

    async def drain(self) -> None:
        """Stop all workers and wait until their tasks are finished."""
        for worker in self._workers:
            self._stop(worker)
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                await asyncio.gather(*(worker.wait() for worker in self._leaving))

    def _stop(self, worker: Process) -> None:
        with suppress(ProcessLookupError):
            worker.send_signal(signal.SIGTERM)
        self._leaving.append(worker)

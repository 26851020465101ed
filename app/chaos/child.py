"""A child: one ``hookwire serve`` that can be killed, paused, drained and started again, always by its pid.

::

               start                    pause (SIGSTOP)
     down --------------> ready ---------------------------> paused
      ^   same port          |  <---------------------------   |
      |                      |        resume (SIGCONT)         |
      +----------------------+---------------------------------+
        kill (SIGKILL), drain (SIGTERM), or a fail point was reached
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import IO

import app
from app.chaos.client import ChaosClient, NoAnswer
from app.settings.settings import PREFIX
from runtime.loopback import at_loopback
from runtime.port import free_port
from runtime.process import CUT_OFF_CODE

__all__ = ["Child", "ChildFailed", "ChildOverdue", "free_port"]

_READY_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.05
# The kernel ends the command when its parent has ended for any reason (prctl(2), PR_SET_PDEATHSIG). It is text, not a
# module: the tree of the product may be another version's. A parent that ended before the call sends no signal.
_LEASHED = """import ctypes, os, sys
if ctypes.CDLL(None).prctl(1, ctypes.c_ulong(9)) or os.getppid() != int(sys.argv.pop(1)):
    os._exit(1)
from {module} import main
main()"""


class ChildFailed(Exception):
    """A child has ended or does not answer, though it should run. The text ends with its last log lines."""


class ChildOverdue(ChildFailed, TimeoutError):
    """The child runs, but did not answer in time."""


class Child:
    """One child process. ``settings`` are HOOKWIRE_* without the prefix. The child gets no other settings of the
    caller, and never outlives the thread that started it.

    ``command`` are the arguments of ``hookwire``; only a command with an API, or metrics, is ever ready.
    ``seeded_bug``: start the product with this bug, by :mod:`app.cli.seeded_bug`. ``tree``: the folder of the product's
    code; set it before a start to run another version. ``environment``: further variables of the next starts.
    """

    def __init__(
        self, name: str, folder: Path, settings: Mapping[str, str], seeded_bug: str | None = None,
        command: Sequence[str] = ("serve",),
    ) -> None:  # fmt: skip
        self.name = name
        self.port = free_port()
        self.log_path = folder / f"{name}.log"
        self._folder = folder
        self._settings = settings
        self._seeded_bug = seeded_bug
        self._command = command
        self.tree = Path(app.__path__[0]).parents[app.__name__.count(".")]
        self.environment: dict[str, str] = {}
        self._crashes: list[int] = []
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """Return the id of the process that was started last."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Return whether it was started and has not ended (it may be paused)."""
        return self._process is not None and self._process.returncode is None

    @property
    def crashes(self) -> Sequence[int]:
        """Return its exit codes, without ends on request or by our SIGKILL. A cut-off counts as an end on request: a
        hanging broker did not close in time.
        """
        return (*self._crashes, *self._latest_crash())

    def _latest_crash(self) -> Sequence[int]:
        code = self._process.returncode if self._process is not None else None
        return () if code in (None, 0, CUT_OFF_CODE, -signal.SIGKILL) else (code,)

    async def start(self, failpoints: str = "", *, wait: bool = True) -> None:
        """Start it and, if ``wait``, return when it answers; raises :class:`ChildFailed`."""
        assert not self.is_running
        environment = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        environment |= {PREFIX + name: value for name, value in self._settings.items()}
        environment |= {PREFIX + "LISTEN": at_loopback(self.port), "PYTHONPATH": str(self.tree)}
        environment |= self.environment
        if failpoints:
            environment[PREFIX + "FAILPOINTS"] = failpoints
        self._crashes += self._latest_crash()
        with self.log_path.open("ab") as log:
            self._process = await self._spawn(environment, log)
        if wait:
            await self.ready()

    async def _spawn(self, environment: Mapping[str, str], log: IO[bytes]) -> asyncio.subprocess.Process:
        bug = self._seeded_bug
        product = _LEASHED.format(module=f"{app.__name__}.cli.seeded_bug" if bug else f"{app.__name__}.cli.main")
        arguments = [str(os.getpid()), *([bug] if bug else []), *self._command]
        return await asyncio.create_subprocess_exec(
            sys.executable, "-c", product, *arguments, cwd=self._folder, env=environment,
            stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip

    async def ready(self, seconds_max: float = _READY_SECONDS_MAX) -> None:
        """Wait until it answers; raises :class:`ChildFailed`, after that time :class:`ChildOverdue`."""
        deadline = time.monotonic() + seconds_max
        with closing(ChaosClient(self.port, 1.0)) as client:
            while time.monotonic() < deadline:
                if not self.is_running:
                    raise ChildFailed(f"{self.name} ended while it started:\n{self.log_tail()}")
                try:
                    await client.request("GET", "/healthz")
                    return
                except NoAnswer:
                    await asyncio.sleep(_POLL_SECONDS)
        raise ChildOverdue(f"{self.name} does not answer after {seconds_max:g} s:\n{self.log_tail()}")

    async def ended(self, seconds_max: float) -> int:
        """Wait for its end; returns the exit code, negative for a signal. Raises TimeoutError."""
        assert self._process is not None
        async with asyncio.timeout(seconds_max):
            return await self._process.wait()

    async def kill(self) -> None:
        """Send SIGKILL, like a crash; harmless on an ended child."""
        if self.is_running:
            os.kill(self.pid, signal.SIGKILL)
            await self.ended(10)

    def pause(self) -> None:
        """Send SIGSTOP: connections stay open and nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT."""
        if self.is_running:
            os.kill(self.pid, signal.SIGCONT)

    async def drain(self, seconds_max: float) -> tuple[int, float]:
        """Send SIGTERM and wait; return exit code and seconds. Raise TimeoutError."""
        began = time.monotonic()
        os.kill(self.pid, signal.SIGTERM)
        return await self.ended(seconds_max), time.monotonic() - began

    async def end(self) -> None:
        """End it from any state; it has ended when this returns."""
        self.resume()
        await self.kill()

    def log_tail(self, lines_max: int = 15) -> str:
        """Return the last lines that it printed."""
        try:
            return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines_max:])
        except FileNotFoundError:
            return ""

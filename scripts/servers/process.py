"""One server's life: a child process with its own folder, log and ports, that can be hurt and healed.

The folder holds `server.json` (pid, start time, ports), by which another process finds the server again. It also holds
`server.log` (standard output and error of every run, appended) and the server's own files.
"""

import json
import os
import signal
import stat
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, TypedDict

from runtime.port import free_port
from scripts.servers.probe import Probe
from scripts.servers.tree import ProcessTree
from scripts.servers.warden import WARDEN

_POLL_SECONDS = 0.02
_LOG_TAIL_LINES = 15


class ServerFailedError(RuntimeError):
    """A server ended or stayed silent where it should have answered; the message ends with its last log lines."""


class ServerOverdueError(ServerFailedError, TimeoutError):
    """It lived, and did not answer or end in its time."""


class Account(TypedDict, total=False):
    """The account of a child process, in the terms of subprocess; empty: our own."""

    user: int
    group: int
    extra_groups: list[int]


class ServerProcess(ABC):
    """A server on loopback: `start`, `stop`, `kill`, `pause`, `resume`, `restart`, always on the same ports and data.

    All methods block and may be called from any thread. `outlives_us=False` (a test session's servers) means that
    the server ends with this process, however this process ends.
    """

    software: ClassVar[str]
    """Its name for people: "Apache Kafka"."""
    port_names: ClassVar[tuple[str, ...]]
    """Which ports it needs; the first one is where clients connect."""
    probe: ClassVar[Probe]
    stop_signal: ClassVar[int] = signal.SIGTERM
    """Asks the root for an orderly end."""
    quit_signal: ClassVar[int] = signal.SIGKILL
    """The quickest end that leaves nothing behind in the kernel; used where the data is thrown away anyway."""
    ready_seconds_max: ClassVar[float] = 180.0
    stop_seconds_max: ClassVar[float] = 60.0

    def __init__(self, name: str, folder: Path, *, outlives_us: bool = False) -> None:
        self.name = name
        self.folder = folder.absolute()
        self.outlives_us = outlives_us
        self.boot_seconds: float | None = None
        self._child: subprocess.Popen[bytes] | None = None
        record = self._read_record()
        self.tree = ProcessTree(record["pid"], record["created_at"]) if record else None
        self.ports: dict[str, int] = record["ports"] if record else {}

    @property
    @abstractmethod
    def address(self) -> str:
        """Return the address for a client: a URL, or host:port for Kafka."""

    @property
    @abstractmethod
    def version(self) -> str:
        """Return the version of the software, such as "18.6"."""

    @property
    def port(self) -> int:
        """Return where clients connect."""
        return self.ports[self.port_names[0]]

    @property
    def log_path(self) -> Path:
        """Return everything that the server printed, all runs one after the other."""
        return self.folder / "server.log"

    @property
    def pid(self) -> int | None:
        """Return the root process, or None while the server is down."""
        return self.tree.pid if self.tree and self.tree.is_alive() else None

    @abstractmethod
    def _prepare(self) -> None:
        """Makes data and configuration where they are missing. Runs before each start. May raise MissingServerError."""

    @abstractmethod
    def _command(self) -> list[str]:
        """Return the program and its arguments."""

    def _environment(self) -> dict[str, str]:
        return dict(os.environ)

    def _account(self) -> Account:
        return Account()

    def start(self) -> None:
        """Start the server from any state and wait until it answers; resume a paused server.

        Raises MissingServerError when the software is not installed, ServerFailedError when it does not come up.
        """
        if self.pid is not None:
            self.resume()
            self.wait_ready()
            return
        begun = time.monotonic()
        self.folder.mkdir(parents=True, exist_ok=True)
        for port_name in self.port_names:
            self.ports.setdefault(port_name, free_port())
        self._prepare()
        self._spawn()
        self.wait_ready()
        self.boot_seconds = time.monotonic() - begun

    def wait_ready(self) -> None:
        """Waits until the server answers its protocol's greeting.

        Raises ServerFailedError when it ends instead, ServerOverdueError when it stays silent.
        """
        deadline = time.monotonic() + self.ready_seconds_max
        while not self.is_ready():
            if self.pid is None:
                raise ServerFailedError(f"{self.software} ({self.name}) ended while it started.\n{self._log_tail()}")
            if time.monotonic() > deadline:
                raise ServerOverdueError(
                    f"{self.software} ({self.name}) does not answer after {self.ready_seconds_max:g} s."
                    f"\n{self._log_tail()}"
                )
            time.sleep(_POLL_SECONDS)

    def is_ready(self) -> bool:
        """Returns whether our own server answers: it runs, is not paused, and replies within 2 s."""
        if self.tree is None or not self.tree.is_alive() or self.tree.is_paused():
            return False
        return self.probe.is_answered("127.0.0.1", self.port)

    def is_paused(self) -> bool:
        """Returns whether `pause` holds the server."""
        return self.tree is not None and self.tree.is_paused()

    def stop(self) -> None:
        """Ends the server in an orderly way, waking it first if it is paused.

        Raises ServerOverdueError when it needed more than `stop_seconds_max`; it is killed then.
        """
        self._end(self.stop_signal, self.stop_seconds_max)

    def kill(self) -> None:
        """Ends the whole tree by SIGKILL, as a crash would; the data is left as it lies."""
        if self.tree is not None:
            self.tree.kill()
            self._ended()

    def pause(self) -> None:
        """Stops the whole tree (SIGSTOP): connections stay open and nothing answers."""
        if self.tree is not None:
            self.tree.pause()

    def resume(self) -> None:
        """Continues the whole tree (SIGCONT)."""
        if self.tree is not None:
            self.tree.resume()

    def restart(self) -> None:
        """Stops the server in an orderly way and starts it again on the same ports and data."""
        self.stop()
        self.start()

    def discard(self) -> None:
        """Ends the server the quickest way that leaves nothing behind but its folder, which is not worth keeping."""
        if self.tree is not None:
            self.tree.end(self.quit_signal, self.stop_seconds_max)
            self._ended()

    def _end(self, number: int, grace_seconds: float) -> None:
        if self.tree is None:
            return
        in_time = self.tree.end(number, grace_seconds)
        self._ended()
        if not in_time:
            raise ServerOverdueError(
                f"{self.software} ({self.name}) did not stop within {grace_seconds:g} s and was killed."
                f"\n{self._log_tail()}"
            )

    def _spawn(self) -> None:
        with self.log_path.open("ab") as log:
            self._child = subprocess.Popen(
                self._command(),
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **self._account(),
            )
        self.tree = ProcessTree.of(self._child.pid)
        if not self.outlives_us:
            WARDEN.watch(self.tree, self.quit_signal)
        self._write_record()

    def _ended(self) -> None:
        if self._child is not None:
            self._child.wait()
            self._child = None
        if self.tree is not None and not self.outlives_us:
            WARDEN.forget(self.tree)

    def _write_record(self) -> None:
        assert self.tree is not None
        record = {"pid": self.tree.pid, "created_at": self.tree.created_at, "ports": self.ports}
        # Renamed into place: a reader in another process sees the old record or the new one, never half of it.
        draft = self.folder / "server.json.draft"
        draft.write_text(json.dumps(record))
        draft.replace(self.folder / "server.json")

    def _read_record(self) -> dict[str, Any] | None:
        try:
            text = (self.folder / "server.json").read_text()
        except FileNotFoundError:
            return None
        record: dict[str, Any] = json.loads(text)
        return record

    def _log_tail(self) -> str:
        try:
            lines = self.log_path.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return "It wrote no log."
        return "\n".join([f"Its log, {self.log_path}, ends:", *lines[-_LOG_TAIL_LINES:]])


def let_pass(path: Path) -> None:
    """Add o+x to every folder from the root to the path that lacks it; no account can list more than before."""
    for folder in [path, *path.parents]:
        mode = folder.stat().st_mode
        if not mode & stat.S_IXOTH:
            folder.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)

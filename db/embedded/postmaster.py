"""PostgreSQL's first process: the contents of ``postmaster.pid``, and whether that process is our server.

A recorded pid alone proves nothing. The process may be gone, or another process may have its number. So a record counts
only if the process lives, is called postgres and works in our data folder. In addition, it must have started at the
recorded time, or be the listener on the recorded socket by the kernel's word (RR-14). The second proof covers a machine
whose clock was set while the server ran.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from db.embedded.socket import listener_pid

__all__ = ["Postmaster", "read_record", "recorded_pid"]

_START_TOLERANCE_SECONDS = 10.0  # a fork may take long on a loaded machine
_RECORD_LINES = 8


@dataclass(frozen=True, slots=True)
class Postmaster:
    """One ``postmaster.pid``. ``status`` is PostgreSQL's word: starting, ready, standby or stopping."""

    pid: int
    started_at_seconds: int
    socket_dir: Path
    status: str

    def serves(self, cluster: Path) -> bool:
        """Return whether the recorded process lives and serves this data folder."""
        started_at_seconds = _postgres_started_at_seconds(self.pid)
        if started_at_seconds is None or not _works_in(self.pid, cluster):
            return False
        if abs(started_at_seconds - self.started_at_seconds) <= _START_TOLERANCE_SECONDS:
            return True
        return listener_pid(self.socket_dir) == self.pid

    def send(self, signal_number: signal.Signals, cluster: Path) -> bool:
        """Signal the process if it still serves the data folder; return False otherwise.

        The pid cannot be reused in the microseconds between check and signal.
        """
        if not self.serves(cluster):
            return False
        try:
            os.kill(self.pid, signal_number)
        except ProcessLookupError:
            return False
        return True


def read_record(cluster: Path) -> Postmaster | None:
    """Return the record in a data folder, or None when it is missing or not complete yet."""
    lines = _record_lines(cluster)
    if len(lines) < _RECORD_LINES or not (lines[0].isdigit() and lines[2].isdigit()):
        return None
    return Postmaster(int(lines[0]), int(lines[2]), Path(lines[4]), lines[7].strip())


def recorded_pid(cluster: Path) -> int | None:
    """Return the pid in the record's first line, which is written first; None when it is missing."""
    lines = _record_lines(cluster)
    return int(lines[0]) if lines and lines[0].isdigit() else None


def _record_lines(cluster: Path) -> list[str]:
    try:
        return (cluster / "postmaster.pid").read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []


def _postgres_started_at_seconds(pid: int) -> float | None:
    """Return the start of a living process called postgres, in seconds since the epoch; None for any other process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name stands in parentheses and may hold any character. The state follows it, and 19 fields later the start.
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    if name != "postgres" or fields[0] in {"Z", "X"}:
        return None
    return _booted_at_seconds() + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _booted_at_seconds() -> int:
    for line in Path("/proc/stat").read_text(encoding="ascii").splitlines():
        if line.startswith("btime "):
            return int(line.split()[1])
    raise AssertionError("/proc/stat has no btime")


def _works_in(pid: int, cluster: Path) -> bool:
    """Return whether the process serves the folder: the server's working folder is its data folder.

    In a container, root may be unable to read the working folder of another user's process. It can read the command
    line.
    """
    try:
        return os.path.samefile(f"/proc/{pid}/cwd", cluster)
    except (FileNotFoundError, ProcessLookupError):
        return False
    except PermissionError:
        return _was_told(pid, cluster)


def _was_told(pid: int, cluster: Path) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        folder = words[words.index(b"-D") + 1]
        return os.path.samefile(folder, os.fsencode(cluster))
    except (OSError, ValueError, IndexError):
        return False

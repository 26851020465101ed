"""The cluster, PostgreSQL's word for a data folder: its place, its creation, and whether it can be used.

The cluster is ``DATA_DIR/postgres``, with one exception. A service that runs as root runs the server as an unprivileged
account. That account may be unable to enter DATA_DIR, because ``/root`` is closed on most machines. hookwire does not
change the permissions of other owners' folders. It creates the cluster as ``/var/lib/hookwire/postgres-<hash>``, and
``DATA_DIR/postgres`` is a symbolic link to it. If DATA_DIR is deleted, that cluster stays, and the next start links it
again.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from db.embedded.binaries import major_version
from db.embedded.error import EmbeddedError
from db.embedded.socket import folder_hash
from db.embedded.user import Account, account_for

__all__ = ["DATABASE", "USER", "Cluster", "locate_cluster"]

USER = "hookwire"
DATABASE = "hookwire"
_INITDB_SECONDS = 120.0
_CLUSTER_MIB = 100
_INITDB_OPTIONS = (
    f"--username={USER}",
    "--encoding=UTF8",
    "--locale=C",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--auth-local=trust",  # the mode of the socket folder decides which users can connect
    "--auth-host=reject",
    "--no-instructions",
)
# Written into postgresql.conf, where the owner may change them. Settings that must hold are on the server's command
# line.
_SETTINGS = (
    "max_connections=100",
    "shared_buffers=64MB",
    "max_wal_size=1GB",
    "autovacuum=on",
    "autovacuum_naptime=15s",  # queue tables turn over quickly
    "timezone=UTC",
    "log_timezone=UTC",
    "logging_collector=on",
    "log_directory=log",
    "log_filename=postgresql-%a.log",  # one file for each day of the week, overwritten a week later
    "log_truncate_on_rotation=on",
    "log_rotation_age=1d",
    "log_rotation_size=0",
    "log_min_messages=warning",
    "log_checkpoints=off",
    "log_startup_progress_interval=2s",
)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The folder of PostgreSQL's data and the account that owns it. The folder may not exist yet."""

    folder: Path
    account: Account

    @property
    def made(self) -> bool:
        """Return whether the folder has contents."""
        return self.folder.exists() and any(self.folder.iterdir())

    def check_version(self) -> None:
        """Raise EmbeddedError unless this major version of PostgreSQL made the folder."""
        try:
            version = (self.folder / "PG_VERSION").read_text(encoding="ascii").strip()
        except FileNotFoundError:
            raise EmbeddedError(f"{self.folder} is not empty and holds no PostgreSQL data") from None
        if version != major_version():
            raise EmbeddedError(
                f"{self.folder} was made by PostgreSQL {version}, and the installed one is {major_version()}",
                "Move the data with pg_dump from the release that made it, set HOOKWIRE_DATA_DIR to another "
                "folder, or HOOKWIRE_DATABASE_URL to a PostgreSQL of your own.",
            )

    async def make(self, programs: Path, lock_descriptor: int) -> None:
        """Run initdb beside the place and rename the result into it, so that an interruption leaves nothing half made.

        initdb inherits the lock. A later start waits for an initdb that outlived its service.
        """
        await asyncio.to_thread(self._remove_leftovers)
        fresh = self.folder.with_name(f"{self.folder.name}.new-{os.getpid()}")
        try:
            fresh.mkdir(mode=0o700)
            self.account.own(fresh)
            options = [f"--pgdata={fresh}", *_INITDB_OPTIONS, *(f"--set={setting}" for setting in _SETTINGS)]
            command: list[str | Path] = [programs / "initdb", *options]
            finished = await self.account.run(command, timeout_seconds=_INITDB_SECONDS, pass_fds=(lock_descriptor,))
            if finished.status != 0:
                raise EmbeddedError(
                    f"initdb could not make {self.folder}: {finished.last_lines()}{_shortage(self.folder.parent)}"
                )
            fresh.rename(self.folder)
            _sync_folder(self.folder.parent)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def _remove_leftovers(self) -> None:
        for leftover in self.folder.parent.glob(f"{self.folder.name}.new-*"):
            shutil.rmtree(leftover)

    def log_tail(self, lines_max: int = 3) -> str:
        """Return the last lines of the server's newest log, on one line; empty when it has written none."""
        logs = sorted((self.folder / "log").glob("*.log"), key=lambda path: path.stat().st_mtime)
        return last_lines(logs[-1], lines_max) if logs else ""


def last_lines(path: Path, lines_max: int) -> str:
    """Return the end of a text file on one line; empty when there is no such file."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4096))
            return " / ".join(file.read().decode(errors="replace").strip().splitlines()[-lines_max:])
    except FileNotFoundError:
        return ""


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


async def locate_cluster(data_dir: Path, system_dir: Path) -> Cluster:
    """Find the cluster of a data folder, or the place for a new one, and the account for it."""
    place = data_dir / "postgres"
    account = await account_for(place)
    if not place.is_symlink() and not place.exists() and not await account.reaches(data_dir):
        place.symlink_to(system_dir.resolve() / f"postgres-{folder_hash(data_dir)}")
    folder = place.resolve()
    if not folder.parent.exists():
        folder.parent.mkdir(parents=True)
        folder.parent.chmod(0o755)
    account = await account_for(folder)
    within = folder if folder.exists() else folder.parent
    if not await account.reaches(within):
        raise EmbeddedError(f"user {account.name}, which runs the embedded PostgreSQL, can't enter {within}")
    return Cluster(folder, account)


def _shortage(folder: Path) -> str:
    """Return a sentence if the disk is too full for a new cluster. initdb may have died without naming that."""
    free = shutil.disk_usage(folder).free // 1_048_576
    return (
        f". The disk of {folder} has {free} MiB free, and a new database needs {_CLUSTER_MIB}"
        if free < _CLUSTER_MIB
        else ""
    )

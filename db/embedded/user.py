"""The system account that PostgreSQL's programs run as, and how they are run.

PostgreSQL refuses to run as root, so a service that runs as root hands the server to an unprivileged account. That is
the owner of an existing cluster, else the first of :data:`ACCOUNT_NAMES` that exists, else a new system account of the
first name. Any other user runs the server as itself.

The programs are started with :class:`subprocess.Popen`, and a thread waits for them. uvloop cannot switch the user of a
child. asyncio's own transport kills its child when it is collected, which a server must survive.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from db.embedded.error import EmbeddedError

__all__ = ["ACCOUNT_NAMES", "Account", "Finished", "account_for"]

ACCOUNT_NAMES = ("hookwire_postgres", "postgres", "embedded_postgres")
_NO_ACCOUNT_CURE = (
    f"Make one with `useradd --system {ACCOUNT_NAMES[0]}`, run as another user than root, "
    "or set HOOKWIRE_DATABASE_URL to a PostgreSQL of your own."
)
# Keep the caller's environment from the server: PGPORT, PGDATA, LD_LIBRARY_PATH, a locale.
_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


@dataclass(frozen=True, slots=True)
class Finished:
    """The exit status of a program and its output, both streams in one."""

    status: int
    output: str

    def last_lines(self, count: int = 3) -> str:
        """Return the end of the output on one line, for an error message."""
        return " / ".join(self.output.strip().splitlines()[-count:])


@dataclass(frozen=True, slots=True)
class Account:
    """A user of this machine that may run PostgreSQL."""

    name: str
    uid: int
    gid: int

    @property
    def switched(self) -> bool:
        """Return whether a child has to change its user to become this account."""
        return self.uid != os.geteuid()

    def own(self, path: Path) -> None:
        """Make the account the owner of one of our files or folders, but not of a folder's contents."""
        if self.switched:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def spawn(
        self,
        command: Sequence[str | Path],
        output: IO[bytes] | int,
        *,
        environment: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> subprocess.Popen[bytes]:
        """Start a program as this account, in its own session, so that the terminal's Ctrl-C does not reach it."""
        try:
            return subprocess.Popen(  # noqa: S603 - no shell, and only programs that we located
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                env=_ENVIRONMENT | dict(environment or {}),
                user=self.uid if self.switched else None,
                group=self.gid if self.switched else None,
                extra_groups=[] if self.switched else None,
                umask=0o077,
                start_new_session=True,
                pass_fds=pass_fds,
            )
        except OSError as error:
            raise EmbeddedError(f"{command[0]} can't be run as user {self.name}: {error}") from error

    async def run(
        self, command: Sequence[str | Path], *, timeout_seconds: float, pass_fds: Sequence[int] = ()
    ) -> Finished:
        """Run a program to its end. Kill it when the time is over or the caller is cancelled."""
        # Use a file, not a pipe: a grandchild that lives on cannot delay the end of the output.
        with tempfile.TemporaryFile() as output:
            child = self.spawn(command, output, pass_fds=pass_fds)
            try:
                async with asyncio.timeout(timeout_seconds):
                    status = await asyncio.to_thread(child.wait)
            except TimeoutError as error:
                raise EmbeddedError(f"{command[0]} did not end within {timeout_seconds:g} s") from error
            finally:
                if child.poll() is None:
                    child.kill()
                    child.wait()
            output.seek(0)
            return Finished(status, output.read().decode(errors="replace"))

    async def reaches(self, path: Path) -> bool:
        """Return whether the account may enter the folder, or run the program, at this path. The kernel answers."""
        if not self.switched:
            return os.access(path, os.X_OK)
        command = ("/bin/sh", "-c", 'test -x "$1"', "sh", path)
        return (await self.run(command, timeout_seconds=10)).status == 0


async def account_for(cluster: Path) -> Account:
    """Return the account that runs the server of this cluster; the folder need not exist yet."""
    try:
        owner_uid = cluster.stat().st_uid
    except FileNotFoundError:
        owner_uid = None
    if os.geteuid() != 0:
        return _own_account(cluster, owner_uid)
    if owner_uid is None:
        return await _chosen_account()
    if owner_uid == 0:
        raise EmbeddedError(
            f"{cluster} belongs to root, and PostgreSQL refuses to run as root",
            f"Change its owner with `chown -R`, for example to {ACCOUNT_NAMES[1]}, "
            "or set HOOKWIRE_DATA_DIR to another folder.",
        )
    return _account_of(owner_uid)


def _own_account(cluster: Path, owner_uid: int | None) -> Account:
    if owner_uid is not None and owner_uid != os.geteuid():
        owner = _account_of(owner_uid).name
        raise EmbeddedError(f"{cluster} belongs to user {owner}, and this process runs as uid {os.geteuid()}")
    return Account(_account_of(os.geteuid()).name, os.geteuid(), os.getegid())


def _account_of(uid: int) -> Account:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return Account(str(uid), uid, uid)
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


async def _chosen_account() -> Account:
    for name in ACCOUNT_NAMES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
    return await _new_account(ACCOUNT_NAMES[0])


async def _new_account(name: str) -> Account:
    program = shutil.which("useradd")
    if program is None:
        raise EmbeddedError("PostgreSQL refuses to run as root, and there is no account for it", _NO_ACCOUNT_CURE)
    root = Account("root", os.geteuid(), os.getegid())
    command = (program, "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent")
    finished = await root.run((*command, "--shell", "/usr/sbin/nologin", name), timeout_seconds=30)
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise EmbeddedError(
            f"PostgreSQL refuses to run as root, and `useradd {name}` failed: {finished.last_lines()}", _NO_ACCOUNT_CURE
        ) from None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)

"""The folder of the server's Unix socket: short, private, and the same at every start (EC-P02, EC-P04).

It lies in ``/tmp``. ``$XDG_RUNTIME_DIR`` goes away when its user logs out, while the server stays. Any user can create
names in ``/tmp``. So an existing folder is used only if it is a real folder of the server's account. Its mode 0700 is
the server's whole access control.
"""

from __future__ import annotations

import hashlib
import os
import socket
import struct
from contextlib import suppress
from pathlib import Path

from db.embedded.error import EmbeddedError
from db.embedded.user import Account

__all__ = ["PORT", "clear_socket", "folder_hash", "listener_pid", "make_socket_dir", "socket_dir_for"]

PORT = 5432
"""The number in the socket's name; nothing listens on a network port."""

_PATH_BYTES_MAX = 107  # sun_path of unix(7), without its closing zero


def folder_hash(data_dir: Path) -> str:
    """Return twelve hexadecimal digits of the hash of a folder's resolved path."""
    return hashlib.sha256(os.fsencode(data_dir.resolve())).hexdigest()[:12]


def socket_dir_for(data_dir: Path, socket_root: Path) -> Path:
    """Return the socket folder of this data folder and of the user of this process."""
    return socket_root / f"hookwire-{os.geteuid()}-{folder_hash(data_dir)}"


def make_socket_dir(socket_dir: Path, account: Account) -> None:
    """Create the folder, or check that the existing one is ours. Raise EmbeddedError when it is not."""
    if len(os.fsencode(_socket(socket_dir))) > _PATH_BYTES_MAX:
        raise EmbeddedError(f"{_socket(socket_dir)} is longer than the {_PATH_BYTES_MAX} bytes of a socket's path")
    with suppress(FileExistsError):
        socket_dir.mkdir(mode=0o700)
    try:
        # Use a descriptor, so that the checked folder is the changed one, even if other users replace the name.
        descriptor = os.open(socket_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise EmbeddedError(f"{socket_dir} is in the way of the server's socket: {error.strerror}") from error
    try:
        # Root may have been killed before it gave its new folder to the account.
        if os.fstat(descriptor).st_uid not in (account.uid, os.geteuid()):
            raise EmbeddedError(f"{socket_dir} is in the way: it does not belong to user {account.name}")
        os.fchmod(descriptor, 0o700)
        os.fchown(descriptor, account.uid, account.gid)
    finally:
        os.close(descriptor)


def clear_socket(socket_dir: Path) -> None:
    """Remove the leftovers of a killed server from the folder. Call it only when no server uses the folder."""
    for path in (_socket(socket_dir), _socket(socket_dir).with_name(f"{_socket(socket_dir).name}.lock")):
        path.unlink(missing_ok=True)


def listener_pid(socket_dir: Path) -> int | None:
    """Return the pid of the process that listens on the server's socket, from the kernel; None when none does.

    Return zero when a process listens whose pid cannot be seen from here.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(os.fspath(_socket(socket_dir)))
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            return None
        except (BlockingIOError, TimeoutError):
            return 0  # a listener with a full queue
        pid, _uid, _gid = struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return int(pid)


def _socket(socket_dir: Path) -> Path:
    return socket_dir / f".s.PGSQL.{PORT}"

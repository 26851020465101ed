"""Read the contents of a command's argument: text, standard input or a file. Check texts for headers and addresses."""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import sys
import termios
from typing import Final
from urllib.parse import quote

from app.cli.failure import CommandFailed

__all__ = ["has_waiting_input", "is_file", "line", "read_data", "segment"]

_DATA_BYTES_MAX: Final = 64 * 1024 * 1024


def read_data(data: str | None) -> bytes:
    """Return the bytes, never more than a hub could accept . ``-``: standard input; ``@name``: a file."""
    if data is None:
        return b""
    if data != "-" and not data.startswith("@"):
        return data.encode("utf-8", "surrogateescape")
    if data == "-" and sys.stdin is None:
        raise CommandFailed("standard input is closed", 2)
    try:
        if data == "-":
            body = sys.stdin.buffer.read(_DATA_BYTES_MAX + 1)
        else:
            with open(data[1:], "rb") as file:
                body = file.read(_DATA_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise CommandFailed(f"cannot read {'standard input' if data == '-' else data[1:]}: {reason}", 2) from None
    if len(body) > _DATA_BYTES_MAX:
        raise CommandFailed(f"the data have at most {_DATA_BYTES_MAX} bytes", 2)
    return body


def has_waiting_input() -> bool:
    """Return whether standard input is a file or a pipe with bytes that nobody has read yet."""
    try:
        descriptor = sys.stdin.fileno()
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode):
            return found.st_size > os.lseek(descriptor, 0, os.SEEK_CUR)
        if not stat.S_ISFIFO(found.st_mode):
            return False
        waiting: int = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))[0]
        return waiting > 0
    except (AttributeError, OSError, ValueError):  # it is closed, or no file of the system
        return False


def is_file(text: str) -> bool:
    """Return whether a text has a slash or a suffix, and names a file."""
    try:
        return ("/" in text or "." in text) and os.path.isfile(text)
    except ValueError:  # a zero byte
        return False


def line(option: str, value: str) -> str:
    """Return the value of an option that becomes a header."""
    if not value.isascii() or not value.isprintable():
        raise CommandFailed(f"{option} is one line of printable ASCII", 2)
    return value


def segment(name: str) -> str:
    """Return a name or an id as one segment of an address."""
    try:
        quoted = quote(name, safe="")
    except UnicodeEncodeError:
        raise CommandFailed(f"{name!r} is not UTF-8", 2) from None
    if quoted in ("", ".", ".."):
        raise CommandFailed(f"{name!r} is not a name or an id", 2)
    return quoted

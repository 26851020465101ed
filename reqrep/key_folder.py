"""A folder of CURVE public keys: the file ``alice.key`` holds the public key of the user ``alice``."""

from __future__ import annotations

import re
from pathlib import Path

from reqrep.transport import raw_key

__all__ = ["KeyFolder", "KeyFolderRefused"]

_PUBLIC_KEY = re.compile(r'^[ \t]*public-key[ \t]*=[ \t]*"([^"\n]{40})"[ \t]*$', re.MULTILINE)
_FILE_BYTES_MAX = 64 * 1024


class KeyFolderRefused(ValueError):
    """The folder or a file in it cannot be used; the message names it."""


class KeyFolder:
    """The users of a folder. The next connection already sees an added or removed file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._version = -1
        self._users: dict[bytes, str] = {}
        self._reload()

    def user_of(self, key: bytes) -> str | None:
        """Return the user of a public key of 32 bytes, or None. Raise :class:`KeyFolderRefused`."""
        if self._modified() != self._version:
            self._reload()
        return self._users.get(key)

    def _modified(self) -> int:
        try:
            return self._folder.stat().st_mtime_ns
        except OSError as error:
            raise KeyFolderRefused(f"the folder of keys {self._folder} cannot be read: {error.strerror}") from error

    def _reload(self) -> None:
        self._version = self._modified()
        self._users = {self._key_in(file): file.stem for file in sorted(self._folder.glob("*.key"))}

    def _key_in(self, file: Path) -> bytes:
        try:
            with file.open(encoding="utf-8") as text:
                found = _PUBLIC_KEY.search(text.read(_FILE_BYTES_MAX))
            if found is None:
                raise KeyFolderRefused(f'{file} holds no line public-key = "..." of 40 characters')
            return raw_key(found[1])
        except (OSError, UnicodeDecodeError) as error:
            raise KeyFolderRefused(f"{file} cannot be read: {error}") from error

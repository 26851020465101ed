"""What each user of a broker with keys may do: ``users.toml`` in the folder of keys.

::

    [alice]
    publish = ["orders.*"]      # topics, as in the scopes of API keys
    call = ["pay.*", "report"]  # services, as in --services
    [pay-worker]
    serve = ["pay.*"]

A user that is not in the file may do nothing.
"""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from event.topic import TopicError, matches, validate_pattern, validate_topic

__all__ = ["RIGHTS_FILE", "Rights", "RightsFile", "RightsRefused"]

RIGHTS_FILE: Final = "users.toml"
_LOG = logging.getLogger(__name__)
_NAME_BYTES_MAX: Final = 255
_FIELDS: Final = ("publish", "call", "serve")


class RightsRefused(ValueError):
    """The file cannot be used; the message names it and the reason."""


@dataclass(frozen=True, slots=True)
class Rights:
    """Patterns of topics to publish, of services to call, and of services to serve."""

    publish: tuple[str, ...] = ()
    call: tuple[str, ...] = ()
    serve: tuple[str, ...] = ()

    def may_publish(self, topic: bytes) -> bool:
        """Return whether a topic is among those to publish."""
        try:
            name = validate_topic(topic.decode())
        except ValueError:
            return False
        return any(matches(pattern, name) for pattern in self.publish)

    def may_call(self, service: bytes) -> bool:
        """Return whether a service is among those to call."""
        return _fits(self.call, service)

    def may_serve(self, service: bytes) -> bool:
        """Return whether a service is among those to serve."""
        return _fits(self.serve, service)


class RightsFile:
    """The rights of each user. :meth:`reload` takes a changed file; one with a mistake changes nothing."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._version = self._found_version()
        self._users = self._read()

    def of(self, user: str) -> Rights | None:
        """Return the rights of a user, or None for a user that is not in the file."""
        return self._users.get(user)

    def reload(self) -> None:
        """Read the file again if it has changed. Warn if it cannot be used, and keep the rights."""
        version = self._found_version()
        if version == self._version:
            return
        self._version = version
        try:
            self._users = self._read()
        except RightsRefused as error:
            _LOG.warning("the rights stay as they were: %s", error)

    def _found_version(self) -> tuple[int, int] | None:
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size

    def _read(self) -> dict[str, Rights]:
        try:
            table = tomllib.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RightsRefused(f"{self._file} cannot be read: {error}") from error
        return {user: self._rights(user, given) for user, given in table.items()}

    def _rights(self, user: str, given: object) -> Rights:
        if not isinstance(given, Mapping):
            raise RightsRefused(f"{self._file}: {user!r} is no table of rights")
        for name, patterns in given.items():
            if name not in _FIELDS:
                raise RightsRefused(f"{self._file}: {user!r} has no right {name!r}; choose from {', '.join(_FIELDS)}")
            if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
                raise RightsRefused(f"{self._file}: {name} of {user!r} is no list of patterns")
        try:
            topics = tuple(validate_pattern(pattern) for pattern in given.get("publish", ()))
        except TopicError as error:
            raise RightsRefused(f"{self._file}: publish of {user!r}: {error}") from error
        return Rights(topics, tuple(given.get("call", ())), tuple(given.get("serve", ())))


def _fits(patterns: tuple[str, ...], service: bytes) -> bool:
    if len(service) > _NAME_BYTES_MAX:
        return False
    name = service.decode("utf-8", "replace")
    return any(fnmatchcase(name, pattern) for pattern in patterns)

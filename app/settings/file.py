"""Where settings stand: a TOML file with one key for each, and variables of the environment."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

__all__ = [
    "PREFIX",
    "SettingsFile",
    "SettingsRefused",
    "are_given",
    "hint",
    "is_foreign",
    "read_file",
    "unknown_variables",
]

PREFIX: Final = "HOOKWIRE_"
_PLACE: Final = "HOOKWIRE_CONFIG"
_FOREIGN: Final = (
    _PLACE,
    # Variables of the commands and the git hook, and those that `hookwire consume` gives to its programs.
    "HOOKWIRE_URL", "HOOKWIRE_TOKEN", "HOOKWIRE_REPOSITORY", "HOOKWIRE_EVENT_ID", "HOOKWIRE_TOPIC",
    "HOOKWIRE_KEY", "HOOKWIRE_SEQUENCE", "HOOKWIRE_CONTENT_TYPE", "HOOKWIRE_ATTEMPT", "HOOKWIRE_SOURCE_SECRET",
    "HOOKWIRE_TASK_ID", "HOOKWIRE_TASK_KIND", "HOOKWIRE_MESSAGE_ID",
)  # fmt: skip
_FILE: Final = Path("hookwire.toml")


class SettingsRefused(Exception):
    """A setting is unknown or invalid; the text names it and the cure."""


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """The contents of the file, unchecked; empty without a file."""

    path: Path
    values: dict[str, Any] = field(default_factory=dict)
    text: str = ""

    def place(self, name: str) -> str:
        """Return the place of a key for messages: ``hookwire.toml, line 3``."""
        key = re.escape(name)
        found = re.search(rf"""^[ \t]*(?:\[+[ \t]*)?["']?{key}["']?[ \t]*[=.\]]""", self.text, re.MULTILINE)
        line = f", line {self.text.count(chr(10), 0, found.start()) + 1}" if found else ""
        return f"{self.path}{line}"

    def unknown(self, known: Collection[str]) -> Iterator[str]:
        """Return one line for each key that is no setting."""
        for name, value in self.values.items():
            if name not in known:
                nearest = "; no setting stands in a section" if isinstance(value, dict) else hint(name, known)
                yield f"{self.place(name)}: unknown setting {name}{nearest}"


def are_given(file: Path | None, environment: Mapping[str, str]) -> bool:
    """Return whether a file or a variable holds settings; without them, all have their defaults."""
    named = (name for name in environment if name.upper().startswith(PREFIX))
    return file is not None or _FILE.exists() or any(name == _PLACE or not is_foreign(name) for name in named)


def is_foreign(name: str) -> bool:
    """Return whether a variable with our prefix is no setting."""
    return name in _FOREIGN or name.startswith(("HOOKWIRE_TEST_", "HOOKWIRE_HEADER_"))


def read_file(file: Path | None) -> SettingsFile:
    """Read the file; None: ``hookwire.toml`` in the working directory, if it exists.

    Raise :class:`SettingsRefused` for a file that is missing, is no TOML, or cannot be read.
    """
    path = file or _FILE
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        if file is not None:
            raise SettingsRefused(f"--config or HOOKWIRE_CONFIG: {path} does not exist") from None
        return SettingsFile(path)
    except OSError as error:
        raise SettingsRefused(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise _no_toml(path, error) from None
    return _parsed(path, text)


def _parsed(path: Path, text: str) -> SettingsFile:
    import tomllib

    try:
        return SettingsFile(path, tomllib.loads(text), text)
    except RecursionError:
        raise SettingsRefused(f"{path}: it is nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        raise _no_toml(path, error) from None


def _no_toml(path: Path, error: ValueError) -> SettingsRefused:
    return SettingsRefused(
        f"{path}: it is no TOML: {error}. A line is name = value, and a text stands in quotes: "
        'listen = "127.0.0.1:8080"'
    )


def unknown_variables(names: Iterable[str], prefix: str, fields: Iterable[str]) -> Iterator[str]:
    """Return one line for each variable of the environment that is no setting."""
    known = {field.upper() for field in fields}
    for name in sorted(names):
        own = name.upper().removeprefix(prefix)  # the prefix is in all of them, and would make any two alike
        if own not in known:
            nearest = difflib.get_close_matches(own, known, 1)
            yield f"unknown setting {name}" + (f"; did you mean {prefix}{nearest[0]}?" if nearest else "")


def hint(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean ...?`` with the nearest of the known names, or nothing."""
    nearest = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {nearest[0]}?" if nearest else ""

"""The file of settings: TOML, one key for each setting."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

__all__ = ["SettingsRefused", "read_file"]


class SettingsRefused(Exception):
    """A setting is unknown or makes no sense; the text names it and what to do."""


def read_file(file: Path | None) -> dict[str, Any]:
    """What it holds, unjudged; None: ``hookwire.toml`` in the working directory, if it is there.

    Raises :class:`SettingsRefused` for one that is not there, or is no TOML.
    """
    path = file or Path("hookwire.toml")
    if not path.exists():
        if file is not None:
            raise SettingsRefused(f"HOOKWIRE_CONFIG: {path} does not exist")
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsRefused(f"{path}: {error}") from None

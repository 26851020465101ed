"""Settings that a command takes as ``--set name=value``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from app.cli.failure import CommandFailed

__all__ = ["named_values"]


def named_values(settings: Sequence[str]) -> dict[str, Any]:
    """Return the values by name: parsed if a value is JSON, else as text. Raise ``CommandFailed`` for a setting without
    =.
    """
    found = {}
    for setting in settings:
        name, separator, text = setting.partition("=")
        if not separator:
            raise CommandFailed(f"--set is name=value, not {setting}", 2)
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
    return found

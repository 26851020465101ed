"""Hatchling's hook for the server's wheel: its contents are the rooms, moved into one package."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parents[1]))
from scripts.one_name import PACKAGE, move

__all__ = ["OneName"]


class OneName(BuildHookInterface):  # type: ignore[type-arg]
    """An editable installation is the checkout as it is; any other wheel is moved."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Give hatchling a moved copy of the rooms."""
        if version == "editable":
            return
        self._copy = tempfile.TemporaryDirectory()
        target = Path(self._copy.name) / PACKAGE
        move(Path(self.root), target)
        build_data["force_include"][str(target)] = PACKAGE

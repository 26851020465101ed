"""``hookwire --version``: what may stand before a command's name."""

from __future__ import annotations

import importlib.metadata
from typing import Annotated

import typer

from app.cli.entry import say

__all__ = ["common"]


def _tell(version: bool) -> None:
    if version:
        # Not of hookwire, which is the SDK and lives in other people's environments.
        say(f"hookwire {importlib.metadata.version('hookwire-server')}")
        raise typer.Exit


_Version = Annotated[
    bool, typer.Option("--version", help="Print hookwire's version and leave.", is_eager=True, callback=_tell)
]


def common(version: _Version = False) -> None:
    """Typer's place for options of all commands; its own help stands in ``app.cli.main``."""

"""``hookwire --version``: the options before a command's name."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.entry import say
from app.cli.lines.own_version import own_version

__all__ = ["common"]


def _tell(version: bool) -> None:
    if version:
        say(own_version())
        raise typer.Exit


_Version = Annotated[
    bool, typer.Option("--version", help="Print hookwire's version and end.", is_eager=True, callback=_tell)
]


def common(version: _Version = False) -> None:
    """Take the options before a command's name. The help text is in ``app.cli.main``."""

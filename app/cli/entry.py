"""Shared parts of commands: common options, settings, the event loop, output."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.failure import CommandFailed
from app.cli.process.running import run, settings_from

__all__ = ["Config", "Deadline", "Json", "Url", "Why", "parsed", "run", "say", "settings_from", "tell"]

Config = Annotated[
    Path | None, typer.Option("--config", help="TOML file of settings (default: hookwire.toml if it exists).")
]
Deadline = Annotated[float, typer.Option("--timeout", min=0.1, max=3600, help="Time limit of the command in seconds.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Url = Annotated[
    str | None,
    typer.Option(
        "--url", envvar="HOOKWIRE_URL", help="The hub (default: HOOKWIRE_PUBLIC_URL, else http://HOOKWIRE_LISTEN)."
    ),
]
Why = Annotated[str | None, typer.Option("--why", help="The reason, for the audit trail.")]


def parsed(name: str, text: str) -> Any:
    """Return an argument parsed as JSON. Raises ``CommandFailed`` with the argument's name."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CommandFailed(f"{name} is not valid JSON: {error}", 2) from None


def say(text: str) -> None:
    """Print one line of a command's result, on standard output."""
    print(text)  # noqa: T201 - this is the command's voice


def tell(text: str) -> None:
    """Print one line about a command's progress, on standard error."""
    print(f"hookwire: {text}", file=sys.stderr, flush=True)  # noqa: T201 - this is the command's voice

"""``hookwire config``: check and print the settings, without connecting to anything."""

from __future__ import annotations

import json
import os
from typing import Annotated

import typer

from app.cli.entry import Config, Json, say, settings_from

__all__ = ["config"]

Everything = Annotated[bool, typer.Option("--all", help="Also print settings that have their default.")]
config = typer.Typer(help="Look at the settings, without connecting to anything.", no_args_is_help=True)


@config.command()
def validate(as_json: Json = False, file: Config = None) -> None:
    """Check the settings of the environment and the file. Exit code 0: valid; 1: findings; 2: they cannot be read.

    Examples:

      hookwire config validate

      hookwire config validate --config /etc/hookwire.toml --json
    """
    from app.checks.settings import settings_checks
    from app.cli.commands.doctor import print_checks
    from app.settings.egress_policy import guard_policy

    settings = settings_from(file)
    guard_policy(settings, settings.listen_address[1])
    raise typer.Exit(print_checks(settings_checks(settings, os.environ), as_json=as_json))


@config.command()
def show(as_json: Json = False, everything: Everything = False, file: Config = None) -> None:
    """Print the settings that are set, with secrets masked.

    Examples:

      hookwire config show

      hookwire config show --all --json
    """
    settings = settings_from(file)
    values = settings.model_dump(mode="json", include=None if everything else settings.model_fields_set)
    say(json.dumps(values) if as_json else "\n".join(f"{name} = {json.dumps(one)}" for name, one in values.items()))

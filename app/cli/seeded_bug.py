"""Run ``python -m app.cli.seeded_bug NAME COMMAND ...``: the command with one bug of :mod:`app.chaos.seeded_bugs`."""

from __future__ import annotations

import sys

from app.chaos.seeded_bugs import StaleBug, apply
from app.cli.main import main as run_command
from app.settings.settings import SettingsRefused, load_settings

__all__ = ["main"]


def main() -> None:
    """Put the bug into this process, then run the command that follows the name."""
    _, name, *command = sys.argv
    try:
        apply(name, load_settings())
    except (SettingsRefused, StaleBug) as error:
        print(f"hookwire: {error}", file=sys.stderr)  # noqa: T201 - this is the command's voice
        sys.exit(2)
    sys.argv = ["hookwire", *command]
    run_command()


if __name__ == "__main__":
    main()

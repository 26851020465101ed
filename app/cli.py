"""The command ``hookwire``. Exit codes: 0 done, 1 findings or failures, 2 wrong use, 3 a dependency is unreachable."""

from __future__ import annotations

import os
import sys
from typing import Final

import typer

from app.checks.check import ChecksRefused
from app.commands.consume import consume
from app.commands.doctor import doctor
from app.commands.entry import CommandFailed
from app.commands.migrate import migrate
from app.commands.prove import prove
from app.commands.publish import publish
from app.commands.serve import deliver, relay, serve
from app.commands.subscribe import subscribe
from app.server import ListenError
from app.settings import SettingsRefused
from db.embedded_error import EmbeddedError
from db.errors import DatabaseError
from db.migrate import MigrationRefused
from db.secret_box import SecretBoxError

__all__ = ["main"]

_HELP: Final = """POST an event once; it reaches every webhook, Kafka topic and AMQP exchange that asked for it.

Exit codes: 0 done, 1 findings or failures, 2 wrong use, 3 a dependency is unreachable, 130 interrupted.
"""
_INTERRUPTED: Final = 130
_STANDARD_ERROR: Final = 2
app = typer.Typer(name="hookwire", help=_HELP, no_args_is_help=True, pretty_exceptions_enable=False)
for command in (serve, relay, deliver, publish, subscribe, migrate, doctor, prove):
    app.command()(command)
# What follows --exec belongs to the program, whatever it looks like.
app.command(context_settings={"allow_extra_args": True, "allow_interspersed_args": False})(consume)


def main() -> None:
    """Entry point: every expected failure ends in one sentence and an exit code, never in a traceback."""
    _occupy_standard_descriptors()
    try:
        _run()
    except BrokenPipeError:
        # Whoever read our output has left (B-52); the interpreter must not complain while it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)


def _occupy_standard_descriptors() -> None:
    """A caller may have closed 0, 1 or 2 (B-51); no socket of ours must get such a number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STANDARD_ERROR:
        pass
    os.close(descriptor)


def _run() -> None:
    try:
        app(standalone_mode=True)
    except SystemExit:
        if sys.stdout is not None:
            sys.stdout.flush()
        raise
    except CommandFailed as failed:
        _fail(str(failed), failed.code)
    except (ChecksRefused, MigrationRefused) as error:
        _fail(str(error), 1)
    except (SettingsRefused, ListenError) as error:
        _fail(str(error), 2)
    except SecretBoxError as error:
        _fail(f"{error} (HOOKWIRE_SECRET_KEYS, or else secret.keys in HOOKWIRE_DATA_DIR)", 2)
    except EmbeddedError as error:
        _fail(str(error), 3)
    except DatabaseError as error:
        _fail(f"the database cannot be used: {error} (see HOOKWIRE_DATABASE_URL)", 3)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def _fail(text: str, code: int) -> None:
    print(f"hookwire: {text}", file=sys.stderr)  # noqa: T201 - this is the command's voice
    sys.exit(code)

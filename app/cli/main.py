"""The command ``hookwire``. Exit codes: 0 done, 1 findings or failures, 2 wrong use, 3 a dependency is unreachable, 4
not finished.
"""

from __future__ import annotations

import gc
import inspect
import os
import signal
import sys
from collections.abc import Sequence
from copy import copy
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from app.cli.lines.command_list import PANELS, module_of
from app.cli.lines.own_version import own_version

if TYPE_CHECKING:
    import typer

__all__ = ["application", "brief", "main"]

_HELP: Final = """POST an event once; it reaches every webhook, Kafka topic and AMQP exchange that asked for it.

Exit codes: 0 done, 1 findings or failures, 2 wrong use, 3 a server is unreachable, 4 not finished: events are still on
their way, 75 stopped by force, 130 Ctrl-C.
"""
_RUN_PROGRAMS: Final = ("consume", "work", "scale")
_INTERRUPTED: Final = 130
_STANDARD_ERROR: Final = 2


def main() -> None:
    """Entry point: every expected failure ends in one sentence and an exit code, never in a traceback."""
    # Before a command's event loop runs, nothing has to be closed. So Ctrl-C ends the process at once, also during
    # imports. The loop handles Ctrl-C itself (``app.cli.process.running``).
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _reserve_std_fds()
    # Imported objects stay. Searching them for cycles after every 700 objects would take a seventh of a start.
    # ``app.cli.process.running`` sets the thresholds for a command that serves.
    gc.set_threshold(200_000)
    try:
        _run()
    except BrokenPipeError:
        # The reader of our output has gone. The interpreter's flush at exit must not print an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)


def _reserve_std_fds() -> None:
    """Open descriptors 0, 1 and 2 where a caller has closed them, so that no socket gets such a number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STANDARD_ERROR:
        pass
    os.close(descriptor)


def _run() -> None:
    words = sys.argv[1:]
    if words == ["--version"]:
        print(own_version(), flush=True)  # noqa: T201 - this is the command's voice
        return
    from app.cli.failure import explained
    from app.cli.process.late_methods import compile_late
    from app.cli.process.stand_ins import put_stand_ins

    compile_late()
    put_stand_ins()
    try:
        if words == ["serve"]:  # without typer, which is a tenth of what a start imports
            from app.cli.process.running import run_hub

            run_hub()
        (brief() if _need_no_command(words) else application(_named(words), words[1:2]))(standalone_mode=True)
    except SystemExit:
        if sys.stdout is not None:
            sys.stdout.flush()
        raise
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except BrokenPipeError:
        raise
    except Exception as error:
        if (failure := explained(error)) is None:
            raise
        print(f"hookwire: {failure}", file=sys.stderr)  # noqa: T201 - this is the command's voice
        sys.exit(failure.code)


def application(only: str | None = None, then: Sequence[str] = ()) -> typer.Typer:
    """Return the list of commands; with ``only``, that command alone, so that a start imports no other's modules.

    ``then`` is the word after it. If that names a command of a group, typer has to read the options of that one alone.
    """
    commands = _empty()
    for panel, offered in PANELS.items():
        for name in offered:
            if only in (None, name):
                module = import_module(f"{__package__}.{module_of(name)}")
                _add(commands, name, panel, _with_one(getattr(module, name.replace("-", "_")), then))
    _unwrap(commands)
    return commands


def brief() -> typer.Typer:
    """Return the names of all commands and the first words of their help: what ``--help`` prints, without a command."""
    commands = _empty()
    for panel, offered in PANELS.items():
        for name, words in offered.items():
            commands.command(name, help=words, rich_help_panel=panel)(lambda: None)
    return commands


def _empty() -> typer.Typer:
    import typer

    from app.cli.commands.version import common
    from app.cli.lines.misplaced_option import Group

    commands = typer.Typer(
        name="hookwire", cls=Group, help=_HELP, no_args_is_help=True, pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )  # fmt: skip
    commands.callback()(common)
    return commands


def _add(commands: typer.Typer, name: str, panel: str, command: Any) -> None:
    """Add one command, or a group that has commands of its own."""
    import typer

    if isinstance(command, typer.Typer):
        commands.add_typer(command, name=name, rich_help_panel=panel)
    else:
        # Arguments after --exec, or --, belong to the program, in any form.
        takes_any = {"allow_extra_args": True, "allow_interspersed_args": False} if name in _RUN_PROGRAMS else None
        commands.command(rich_help_panel=panel, context_settings=takes_any)(command)


def _with_one(command: Any, words: Sequence[str]) -> Any:
    """Return a group with the one command that the word names; anything else as it is."""
    registered = getattr(command, "registered_commands", ())
    if chosen := [one for one in registered if [one.name or one.callback.__name__.replace("_", "-")] == list(words)]:
        command = copy(command)
        command.registered_commands, command.registered_groups = chosen, []
    return command


def _named(words: Sequence[str]) -> str | None:
    """Return the command that the words begin with, if it is one. Another first word needs the whole list."""
    return words[0] if words and any(words[0] in offered for offered in PANELS.values()) else None


def _need_no_command(words: Sequence[str]) -> bool:
    """Return whether the words ask for the list of commands. Without words a shell may want to complete a line."""
    completes = any(name.endswith("_COMPLETE") for name in os.environ)
    return words in (["--help"], ["-h"], ["--version"]) or not (words or completes)


def _unwrap(commands: typer.Typer) -> None:
    """Make each paragraph of a help one line: the terminal's width breaks it, not the source's. Give each group the
    words about options before a command.
    """
    from app.cli.lines.misplaced_option import Group
    from app.cli.lines.plain_value import PlainCommand

    for command in commands.registered_commands:
        command.cls = PlainCommand
        paragraphs = inspect.cleandoc(command.help or getattr(command.callback, "__doc__", None) or "").split("\n\n")
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    for group in commands.registered_groups:
        group.cls = Group
        if group.typer_instance is not None:
            _unwrap(group.typer_instance)

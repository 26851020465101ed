"""The command ``hookwire``. Exit codes: 0 done, 1 findings or failures, 2 wrong use, 3 a dependency is unreachable, 4
not finished.
"""

from __future__ import annotations

import gc
import inspect
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import ModuleType

    import typer

__all__ = ["application", "main"]

_HELP: Final = """POST an event once; it reaches every webhook, Kafka topic and AMQP exchange that asked for it.

Exit codes: 0 done, 1 findings or failures, 2 wrong use, 3 a server is unreachable, 4 not finished: events are still on
their way, 75 stopped by force, 130 Ctrl-C.
"""
_PANELS: Final[Mapping[str, Mapping[str, str]]] = {
    "Run": {
        "serve": "commands.serve", "relay": "commands.serve", "deliver": "commands.serve", "doctor": "commands.doctor",
        "migrate": "commands.migrate", "rewrite": "commands.erase", "broker": "commands.broker",
        "config": "commands.config", "keys": "commands.keys", "layout": "commands.layout",
    },
    "Publish and receive": {
        "publish": "commands.publish", "subscribe": "commands.subscribe", "listen": "commands.listen",
        "monitor": "commands.monitor", "chat": "commands.chat", "sync": "commands.syncing.sync",
        "test-filter": "commands.filter_check", "consume": "commands.consume",
        "subscriptions": "commands.subscriptions", "topics": "commands.topics",
    },
    "See and mend": {
        "status": "commands.status", "attempts": "commands.attempts", "undelivered": "commands.undelivered",
        "replay": "commands.replay", "erase": "commands.erase", "events": "commands.events",
        "incidents": "commands.mending.incidents", "holds": "commands.mending.holds",
        "sinks": "commands.mending.sinks",
        "deadletters": "commands.mending.deadletters", "sources": "commands.sources.commands",
        "forgotten": "commands.mending.forgotten", "reincarnate": "commands.mending.reincarnate",
    },
    "Try": {
        "quickstart": "commands.quickstart", "seed": "commands.seed", "prove": "commands.prove",
        "pump": "commands.pump",
    },
    "Queues and tasks": {
        "work": "commands.work", "scale": "commands.scale", "queues": "commands.queues", "jobs": "commands.jobs",
        "tasks": "commands.tasks",
    },
    "Services": {"call": "commands.call", "services": "commands.services", "requests": "commands.requests"},
    "The lake": {"pipeline": "pipeline.commands"},
}  # fmt: skip
"""The commands in each panel of the help, and their modules in this package. A module has the command's name, or names
the command's function so, with _ for -.
"""
_RUN_PROGRAMS: Final = ("consume", "work", "scale")
_INTERRUPTED: Final = 130
_STANDARD_ERROR: Final = 2


def main() -> None:
    """Entry point: every expected failure ends in one sentence and an exit code, never in a traceback."""
    # Before a command's event loop runs, nothing has to be closed. So Ctrl-C ends the process at once, also during
    # imports. The loop handles Ctrl-C itself (``app.cli.entry``).
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _reserve_std_fds()
    # Imported objects stay. Searching them for cycles after every 700 objects would take a seventh of a start.
    # ``app.cli.entry`` sets the thresholds for a command that serves.
    gc.set_threshold(200_000)
    # httpx imports its own command, where it can: with rich, pygments and click that is a fifth of a start.
    sys.modules["httpx._main"] = None  # type: ignore[assignment]  # it has other code for this case
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
    from app.cli.failure import explained

    try:
        application(_named(sys.argv[1:]))(standalone_mode=True)
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


def application(only: str | None = None) -> typer.Typer:
    """Return the list of commands; with ``only``, that command alone, so that a start imports no other's modules."""
    import typer

    from app.cli.commands.version import common
    from app.cli.lines.misplaced_option import Group

    commands = typer.Typer(
        name="hookwire", cls=Group, help=_HELP, no_args_is_help=True, pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )  # fmt: skip
    commands.callback()(common)
    for panel, offered in _PANELS.items():
        for name, module in offered.items():
            if only in (None, name):
                _add(commands, name, panel, getattr(_imported(module), name.replace("-", "_")))
    _unwrap(commands)
    return commands


def _imported(module: str) -> ModuleType:
    return import_module(f"{__package__}.{module}")


def _add(commands: typer.Typer, name: str, panel: str, command: Any) -> None:
    """Add one command, or a group that has commands of its own."""
    import typer

    if isinstance(command, typer.Typer):
        commands.add_typer(command, name=name, rich_help_panel=panel)
    else:
        # Arguments after --exec, or --, belong to the program, in any form.
        takes_any = {"allow_extra_args": True, "allow_interspersed_args": False} if name in _RUN_PROGRAMS else None
        commands.command(rich_help_panel=panel, context_settings=takes_any)(command)


def _named(words: Sequence[str]) -> str | None:
    """Return the command that the words begin with, if it is one. Another first word needs the whole list."""
    return words[0] if words and any(words[0] in offered for offered in _PANELS.values()) else None


def _unwrap(commands: typer.Typer) -> None:
    """Make each paragraph of a help one line: the terminal's width breaks it, not the source's. Give each group the
    words about options before a command.
    """
    from app.cli.lines.misplaced_option import Group

    for command in commands.registered_commands:
        paragraphs = inspect.cleandoc(command.help or getattr(command.callback, "__doc__", None) or "").split("\n\n")
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    for group in commands.registered_groups:
        group.cls = Group
        if group.typer_instance is not None:
            _unwrap(group.typer_instance)

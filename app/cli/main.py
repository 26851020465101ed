"""The command ``hookwire``. Exit codes: 0 done, 1 findings or failures, 2 wrong use, 3 a dependency is unreachable, 4
not finished.
"""

from __future__ import annotations

import gc
import inspect
import os
import signal
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import typer

__all__ = ["application", "main"]

_HELP: Final = """POST an event once; it reaches every webhook, Kafka topic and AMQP exchange that asked for it.

Exit codes: 0 done, 1 findings or failures, 2 wrong use, 3 a server is unreachable, 4 not finished: events are still on
their way, 75 stopped by force, 130 Ctrl-C.
"""
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
        application()(standalone_mode=True)
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


def application() -> typer.Typer:
    """Return the list of commands."""
    import typer

    from app.cli.commands.attempts import attempts
    from app.cli.commands.broker import broker
    from app.cli.commands.call import call
    from app.cli.commands.chat import chat
    from app.cli.commands.consume import consume
    from app.cli.commands.doctor import doctor
    from app.cli.commands.erase import erase, rewrite
    from app.cli.commands.filter_check import test_filter
    from app.cli.commands.listen import listen
    from app.cli.commands.migrate import migrate
    from app.cli.commands.monitor import monitor
    from app.cli.commands.prove import prove
    from app.cli.commands.publish import publish
    from app.cli.commands.pump import pump
    from app.cli.commands.quickstart import quickstart
    from app.cli.commands.replay import replay
    from app.cli.commands.scale import scale
    from app.cli.commands.seed import seed
    from app.cli.commands.serve import deliver, relay, serve
    from app.cli.commands.status import status
    from app.cli.commands.subscribe import subscribe
    from app.cli.commands.syncing.sync import sync
    from app.cli.commands.undelivered import undelivered
    from app.cli.commands.version import common
    from app.cli.commands.work import work

    commands = typer.Typer(
        name="hookwire", help=_HELP, no_args_is_help=True, pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )  # fmt: skip
    commands.callback()(common)
    offered = {
        "Run": (serve, relay, deliver, doctor, migrate, rewrite),
        "Publish and receive": (publish, subscribe, listen, monitor, chat, sync, test_filter),
        "See and mend": (status, attempts, undelivered, replay, erase),
        "Try": (quickstart, seed, prove, pump),
    }
    for panel, verbs in offered.items():
        for verb in verbs:
            commands.command(rich_help_panel=panel)(verb)
    commands.command(rich_help_panel="Run")(broker)
    # Arguments after --exec, or --, belong to the program, in any form.
    programs = {"allow_extra_args": True, "allow_interspersed_args": False}
    commands.command(rich_help_panel="Publish and receive", context_settings=programs)(consume)
    commands.command(rich_help_panel="Queues and tasks", context_settings=programs)(work)
    commands.command(rich_help_panel="Queues and tasks", context_settings=programs)(scale)
    commands.command(rich_help_panel="Services")(call)
    for panel, named in _groups().items():
        for name, group in named.items():
            commands.add_typer(group, name=name, rich_help_panel=panel)
    _unwrap(commands)
    return commands


def _groups() -> dict[str, dict[str, typer.Typer]]:
    """Return the commands that have commands of their own, by panel."""
    from app.cli.commands.config import config
    from app.cli.commands.events import events
    from app.cli.commands.jobs import jobs
    from app.cli.commands.keys import keys
    from app.cli.commands.layout import layout
    from app.cli.commands.mending.deadletters import deadletters
    from app.cli.commands.mending.holds import holds
    from app.cli.commands.mending.incidents import incidents
    from app.cli.commands.queues import queues
    from app.cli.commands.requests import requests
    from app.cli.commands.services import services
    from app.cli.commands.sources import sources
    from app.cli.commands.subscriptions import subscriptions
    from app.cli.commands.tasks import tasks
    from app.cli.commands.topics import topics
    from app.cli.pipeline.commands import pipeline

    return {
        "Queues and tasks": {"queues": queues, "jobs": jobs, "tasks": tasks},
        "Services": {"services": services, "requests": requests},
        "Run": {"config": config, "keys": keys, "layout": layout},
        "Publish and receive": {"subscriptions": subscriptions, "topics": topics},
        "See and mend": {
            "events": events,
            "incidents": incidents,
            "holds": holds,
            "deadletters": deadletters,
            "sources": sources,
        },
        "The lake": {"pipeline": pipeline},
    }


def _unwrap(commands: typer.Typer) -> None:
    """Make each paragraph of a help one line: the terminal's width breaks it, not the source's."""
    for command in commands.registered_commands:
        paragraphs = inspect.cleandoc(command.help or getattr(command.callback, "__doc__", None) or "").split("\n\n")
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    for group in commands.registered_groups:
        if group.typer_instance is not None:
            _unwrap(group.typer_instance)

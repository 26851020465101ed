"""Shared parts of commands: common options, settings, the event loop, output."""

from __future__ import annotations

import gc
import json
import signal
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.failure import CommandFailed

if TYPE_CHECKING:
    from app.settings.settings import Settings

__all__ = ["Config", "Deadline", "Json", "Url", "Why", "parsed", "run", "say", "settings_from", "tell", "tune_gc"]

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


def settings_from(config: Path | None) -> Settings:
    """Return the settings of the environment and the file. Raises ``SettingsRefused``.

    Their modules are imported here, because most commands ask a hub and need none: that is half of a start.
    """
    with _without("rich"):  # structlog would draw tracebacks by it; ours are texts before they come there
        from app.log import configure_logging
    from app.settings.settings import load_settings

    settings = load_settings(file=config)
    configure_logging(settings.log_format, settings.log_level)
    return settings


@contextmanager
def _without(package: str) -> Iterator[None]:
    """Let imports find no such package, unless it has been imported already."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment]  # what asks for it has other code for this case
    try:
        yield
    finally:
        del sys.modules[package]


def run(work: Coroutine[Any, Any, int]) -> None:
    """Run the command's coroutine and exit with its exit code. Ctrl-C cancels the coroutine."""
    import asyncio

    import uvloop

    signal.signal(signal.SIGINT, signal.default_int_handler)
    tune_gc()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        code = runner.run(work)
    raise typer.Exit(code)


def tune_gc() -> None:
    """Collect garbage more seldom than a script needs: the default costs a tenth of a publish (benchmarks/README.md).

    Imported objects live as long as the process, and a request's objects die by their reference counts. Imported
    objects are set aside without a collection, which would take a tenth of a start and free almost nothing.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


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

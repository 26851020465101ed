"""Run a command's coroutine, and the hub. It imports no typer, so that a hub starts without the command line."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from app.settings.settings import Settings

__all__ = ["run", "run_hub", "settings_from", "tune_gc"]


def run_hub(config: Path | None = None, roles: Sequence[str] | None = None) -> NoReturn:
    """Run the roles (all by default) in this process until it is stopped."""
    settings = settings_from(config)  # first: it decides what the log imports
    from app.serve import serve

    # It goes on importing while it runs, so garbage is collected as seldom as during imports until all is there.
    _run(serve(settings, roles or None, tune_gc))


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


def run(work: Coroutine[Any, Any, int]) -> NoReturn:
    """Run the command's coroutine and exit with its exit code. Ctrl-C cancels the coroutine."""
    tune_gc()
    _run(work)


def _run(work: Coroutine[Any, Any, int]) -> NoReturn:
    import asyncio

    import uvloop

    signal.signal(signal.SIGINT, signal.default_int_handler)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        code = runner.run(work)
    raise SystemExit(code)


def tune_gc() -> None:
    """Collect garbage more seldom than a script needs: the default costs a tenth of a publish (benchmarks/README.md).

    Imported objects live as long as the process, and a request's objects die by their reference counts. Imported
    objects are set aside without a collection, which would take a tenth of a start and free almost nothing.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)

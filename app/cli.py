"""The command ``hookwire``. Exit codes: 0 done, 1 findings or failures, 2 wrong use, 3 a dependency is unreachable."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop

from app.log import configure_logging
from app.server import ListenError
from app.settings import Settings, SettingsRefused, load_settings
from db.embedded_error import EmbeddedError
from db.errors import DatabaseError
from db.secret_box import SecretBoxError

__all__ = ["main"]

_HELP = "hookwire: POST an event once; it reaches every webhook, Kafka topic and AMQP exchange that asked for it."
app = typer.Typer(name="hookwire", help=_HELP, no_args_is_help=True, pretty_exceptions_enable=False)

Config = Annotated[
    Path | None, typer.Option("--config", help="TOML file of settings (default: hookwire.toml if it is there).")
]


def _settings(config: Path | None) -> Settings:
    settings = load_settings(file=config)
    configure_logging(settings.log_format, settings.log_level)
    return settings


def _run(work: Coroutine[Any, Any, int]) -> int:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


@app.command()
def serve(
    config: Config = None,
    role: Annotated[
        list[str] | None, typer.Option("--role", help="api, relay or deliver; several times for several. Default: all.")
    ] = None,
) -> None:
    """Run the hub: API, relay and delivery in one process, on the embedded database unless one is configured."""
    from app.serve import serve as serve_hub

    raise typer.Exit(_run(serve_hub(_settings(config), role or None)))


@app.command()
def relay(config: Config = None) -> None:
    """Run the relay alone: the sidecar that carries the outbox to Kafka, to AMQP and into the fan-out."""
    from app.serve import serve as serve_hub

    raise typer.Exit(_run(serve_hub(_settings(config), ["relay"])))


@app.command()
def deliver(config: Config = None) -> None:
    """Run delivery alone: any number of these may run."""
    from app.serve import serve as serve_hub

    raise typer.Exit(_run(serve_hub(_settings(config), ["deliver"])))


def main() -> None:
    """Entry point: every expected failure ends in one sentence and an exit code, never in a traceback."""
    try:
        app(standalone_mode=True)
    except (SettingsRefused, ListenError) as error:
        _fail(str(error), 2)
    except (EmbeddedError, DatabaseError, SecretBoxError) as error:
        _fail(str(error), 3)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)


def _fail(text: str, code: int) -> None:
    print(f"hookwire: {text}", file=sys.stderr)  # noqa: T201 - this is the command's voice
    sys.exit(code)

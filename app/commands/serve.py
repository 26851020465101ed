"""``hookwire serve``, and its roles alone: ``hookwire relay``, ``hookwire deliver``."""

from __future__ import annotations

from typing import Annotated

import typer

from app.commands.entry import Config, run, settings_from

__all__ = ["deliver", "relay", "serve"]

Role = Annotated[
    list[str] | None, typer.Option("--role", help="api, relay or deliver; several times for several. Default: all.")
]


def serve(config: Config = None, role: Role = None) -> None:
    """Run the hub: API, relay and delivery in one process, on the embedded database unless one is configured.

    Examples:

      hookwire serve

      HOOKWIRE_LISTEN=127.0.0.1:9090 hookwire serve

      HOOKWIRE_DATABASE_URL=postgresql://hookwire:secret@db/hookwire hookwire serve --role api
    """
    from app.serve import serve as serve_hub

    run(serve_hub(settings_from(config), role or None))


def relay(config: Config = None) -> None:
    """Run the relay alone: the sidecar that carries the outbox to Kafka, to AMQP and into the fan-out.

    Example:

      HOOKWIRE_DATABASE_URL=postgresql://hookwire:secret@db/hookwire hookwire relay
    """
    serve(config, ["relay"])


def deliver(config: Config = None) -> None:
    """Run delivery alone: any number of these may run.

    Example:

      HOOKWIRE_DATABASE_URL=postgresql://hookwire:secret@db/hookwire hookwire deliver
    """
    serve(config, ["deliver"])

"""``hookwire serve`` runs all roles; ``hookwire relay`` and ``hookwire deliver`` run one role each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli.entry import Config, Json, run, settings_from
from app.cli.process.running import run_hub
from app.settings.settings import SettingsRefused

__all__ = ["deliver", "relay", "serve"]

Role = Annotated[
    list[str] | None,
    typer.Option("--role", help="api, relay, deliver or source; may be repeated. Default: all."),
]


def serve(config: Config = None, role: Role = None) -> None:
    """Run the hub: API, relay, delivery and sources in one process, on the embedded database unless one is configured.

    Examples:

      hookwire serve

      HOOKWIRE_LISTEN=127.0.0.1:9090 hookwire serve

      HOOKWIRE_DATABASE_URL=postgresql://hookwire:secret@db/hookwire hookwire serve --role api
    """
    run_hub(config, role)


Compat = Annotated[
    Path | None, typer.Option("--compat", help="Relay goharvest's table by this reaper.yaml of goharvest.")
]
CompatTable = Annotated[
    str | None,
    typer.Option(
        "--compat-table",
        help="Relay this goharvest table by hookwire's settings (with HOOKWIRE_OUTBOX_URL in MariaDB or MySQL).",
    ),
]
Table = Annotated[
    Path | None, typer.Option("--table", help="Relay the outbox table that this TOML file maps, of any form.")
]
Check = Annotated[
    bool, typer.Option("--check", help="With --compat: print the meaning of each key in the file, and end.")
]
PartitionerName = Annotated[
    str | None, typer.Option("--partitioner", help="With --compat: crc32 (as goharvest) or murmur2 (as Java clients).")
]


def relay(
    config: Config = None, compat: Compat = None, compat_table: CompatTable = None, partitioner: PartitionerName = None,
    check: Check = False, as_json: Json = False, table: Table = None,
) -> None:  # fmt: skip
    """Run the relay alone: the sidecar that carries the outbox to Kafka, to AMQP and into the fan-out.

    With --table it relays an outbox table of any form, such as Debezium's, to Kafka, to AMQP or into the hub.

    With --compat or --compat-table it relays goharvest's own table instead, and goharvest must not run on that table.

    Examples:

      HOOKWIRE_DATABASE_URL=postgresql://hookwire:secret@db/hookwire hookwire relay

      hookwire relay --compat reaper.yaml --check

      hookwire relay --compat reaper.yaml --partitioner crc32

      HOOKWIRE_OUTBOX_URL=mysql://hookwire:secret@db:3306/shop hookwire relay --compat-table outbox

      hookwire relay --table outbox.toml
    """
    if table is not None:
        if compat is not None or compat_table is not None or partitioner is not None or check:
            raise SettingsRefused("--table stands alone: goharvest's options are for goharvest's table")
        from app.cli.goharvest.mapped import read_mapping, serve_mapped

        settings = settings_from(config)
        run(serve_mapped(settings, read_mapping(table, settings)))
    if compat is None and compat_table is None:
        if partitioner is not None or check:
            raise SettingsRefused("--partitioner and --check belong to --compat")
        serve(config, ["relay"])
    if compat is None and check:
        raise SettingsRefused("--check belongs to --compat: it prints the meaning of each key of a reaper.yaml")
    from app.cli.goharvest.command import relay_compat

    relay_compat(config, compat, compat_table, partitioner, check=check, as_json=as_json)


def deliver(config: Config = None) -> None:
    """Run delivery alone. Any number of these processes may run.

    Example:

      HOOKWIRE_DATABASE_URL=postgresql://hookwire:secret@db/hookwire hookwire deliver
    """
    serve(config, ["deliver"])

"""``hookwire relay --compat``: relay goharvest's own table until told to stop (RO-01, RO-12)."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from app.process import Process, process_name
from app.settings import Settings, SettingsRefused
from app.sinks import kafka_options
from app.storage import open_storage
from db.direct import Direct, connect_direct
from db.statements import quoted_table
from relay.compat import CompatHarvester, CompatOptions
from relay.compat_table import CompatTable
from relay.embeddable import Relay
from relay.kafka import KafkaSink
from relay.lease import LeaseOptions, Leases
from relay.observer import Handler, Observer

__all__ = ["Compat", "open_compat", "serve_compat"]


@dataclass(frozen=True, slots=True)
class Compat:
    """What ``reaper.yaml``, or the command line, says beyond the settings. ``kafka`` are fields of the Kafka sink's
    options, ``meter_seconds`` is how often the meter is read."""

    table: str = "outbox"
    options: CompatOptions = field(default_factory=CompatOptions)
    kafka: Mapping[str, Any] = field(default_factory=dict)
    meter_seconds: float = 5.0


@asynccontextmanager
async def open_compat(settings: Settings, compat: Compat, on_event: Handler | None = None) -> AsyncIterator[Relay]:
    """A relay of goharvest's table, not started yet; its connections are closed on exit.

    The schema ``hookwire`` is made in the table's database; it holds the lease and the parked keys. Raises
    SettingsRefused, DatabaseError.
    """
    if not settings.kafka_bootstrap_servers:
        raise SettingsRefused("HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS: goharvest's table is relayed to Kafka; name a server")
    try:
        name = quoted_table(compat.table)
    except ValueError as error:
        raise SettingsRefused(f"the outbox table: {error}") from None
    kafka = replace(kafka_options(settings, "compat"), manifests=False, **compat.kafka)
    async with open_storage(settings) as storage:

        async def direct() -> Direct:
            return await connect_direct(storage.database.options)

        observer = Observer(name, on_event, compat.meter_seconds)
        options = LeaseOptions(process_name(), settings.lease_seconds)
        leases = Leases(storage.database, direct, [name], options)
        election = leases.election(name)
        kafka = replace(kafka, installation=f"{storage.incarnation}.compat")
        table = CompatTable(storage.database, compat.table)
        sink = KafkaSink(kafka, lambda: election.trusted(0))
        harvester = CompatHarvester(table, sink, election, observer, compat.options)
        yield Relay([(harvester, observer)], [leases])


async def serve_compat(settings: Settings, compat: Compat) -> int:
    """Relay until a signal; returns the exit code."""
    async with open_compat(settings, compat) as relay:
        lines = [
            f"hookwire relays {compat.table} to Kafka {settings.kafka_bootstrap_servers}",
            f"  partitioner  {settings.kafka_partitioner}",
            "  goharvest    must not run on this table at the same time",
        ]
        print("\n".join(lines), file=sys.stderr, flush=True)  # noqa: T201 - this is the command's voice
        await Process(relay.phases, settings.drain_seconds).run()
    return 0

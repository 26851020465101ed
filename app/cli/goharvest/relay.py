"""``hookwire relay --compat``: relay goharvest's own table until told to stop."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from app.assembly.outbox_database import open_outbox_database
from app.assembly.sinks import kafka_options
from app.assembly.storage import open_storage
from app.cli.goharvest.outbox_place import OutboxPlace
from app.failpoints import FailpointDatabase, Failpoints, FailpointSink
from app.settings.settings import Settings, SettingsRefused
from db.direct import Direct, connect_direct
from db.mariadb.database import table_parts
from db.statements import quoted_table
from relay.election.lease import LeaseOptions, Leases
from relay.embeddable import Relay
from relay.goharvest.compat import CompatHarvester, CompatOptions
from relay.goharvest.compat_table import CompatTable
from relay.goharvest.maria_election import MariaElection
from relay.goharvest.maria_installation import ensure_tables
from relay.goharvest.maria_table import MariaTable
from relay.goharvest.outbox_table import TableRefused
from relay.kafka.sink import KafkaSink
from relay.observer import Handler, Observer
from runtime.process import Process, end_within, process_name

__all__ = ["Compat", "open_compat", "serve_compat"]


@dataclass(frozen=True, slots=True)
class Compat:
    """Options of ``reaper.yaml`` or of the command line that are no settings. ``meter_seconds``: the interval of the
    meter's readings.
    """

    table: str = "outbox"
    options: CompatOptions = field(default_factory=CompatOptions)
    meter_seconds: float = 5.0


@asynccontextmanager
async def open_compat(settings: Settings, compat: Compat, on_event: Handler | None = None) -> AsyncIterator[Relay]:
    """Yield a relay of goharvest's table, not started yet; close its connections on exit. The lease and the parked keys
    lie in the table's own database: PostgreSQL, or the MariaDB or MySQL of ``outbox_url``. Raise SettingsRefused,
    OutboxUnavailable, DatabaseError.
    """
    if not settings.kafka_bootstrap_servers:
        raise SettingsRefused("HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS: goharvest's table is relayed to Kafka; name a server")
    if settings.outbox_url is None and settings.outbox_mode == "fast":
        raise SettingsRefused(
            "HOOKWIRE_OUTBOX_MODE=fast is for an outbox that HOOKWIRE_OUTBOX_URL names; one in PostgreSQL is marked"
        )
    if settings.kafka_election == "neli":
        raise SettingsRefused(
            "HOOKWIRE_KAFKA_ELECTION=neli is for hookwire's own outbox; the relays of this table are elected by a lease"
            " in its database: set HOOKWIRE_KAFKA_ELECTION=lease or leave it out"
        )
    kafka = kafka_options(settings, "compat", manifests=False)
    points = Failpoints(settings.failpoints)
    on_maria = settings.outbox_url is not None
    opened = _in_maria(settings, compat.table) if on_maria else _in_postgres(settings, compat.table, points)
    async with opened as place:
        observer = Observer(place.table.name, on_event, compat.meter_seconds)
        election = place.election
        kafka = replace(kafka, installation=f"{place.installation}.compat")
        sink = KafkaSink(kafka, lambda: election.trusted(0))
        passed = FailpointSink(sink, points) if points else sink
        harvester = CompatHarvester(place.table, passed, election, observer, compat.options)
        yield Relay([(harvester, observer)], [place.attendant])


@asynccontextmanager
async def _in_postgres(settings: Settings, table: str, points: Failpoints) -> AsyncIterator[OutboxPlace]:
    try:
        name = quoted_table(table)
    except ValueError as error:
        raise SettingsRefused(f"the outbox table: {error}") from None
    async with open_storage(settings) as storage:

        async def direct() -> Direct:
            return await connect_direct(storage.database.options)

        outbox = CompatTable(FailpointDatabase(storage.database, points) if points else storage.database, table)
        try:
            await outbox.look_at()
        except TableRefused as error:
            raise SettingsRefused(f"the outbox table: {error}") from None
        leases = Leases(storage.database, direct, [name], LeaseOptions(process_name(), settings.lease_seconds))
        yield OutboxPlace(outbox, leases.election(name), leases, storage.incarnation)


@asynccontextmanager
async def _in_maria(settings: Settings, table: str) -> AsyncIterator[OutboxPlace]:
    try:
        table_parts(table)
    except ValueError as error:
        raise SettingsRefused(f"the outbox table: {error}") from None
    async with open_outbox_database(settings) as database:
        outbox = MariaTable(database, table, fast=settings.outbox_mode == "fast")
        try:
            installation = await ensure_tables(database, table)
        except TableRefused as error:
            raise SettingsRefused(f"the outbox table: {error}") from None
        election = MariaElection(database, outbox.name, LeaseOptions(process_name(), settings.lease_seconds))
        yield OutboxPlace(outbox, election, election, installation)


async def serve_compat(settings: Settings, compat: Compat) -> int:
    """Relay until a signal; returns the exit code."""
    where = "goharvest    must not run on this table at the same time"
    if settings.outbox_url is not None:
        where = f"mode         {settings.outbox_mode}, in MariaDB or MySQL"
    async with open_compat(settings, compat) as relay:
        lines = [
            f"hookwire relays {compat.table} to Kafka {settings.kafka_bootstrap_servers}",
            f"  partitioner  {settings.kafka_partitioner}",
            f"  {where}",
        ]
        print("\n".join(lines), file=sys.stderr, flush=True)  # noqa: T201 - this is the command's voice
        await Process(relay.phases, settings.drain_seconds, end_within).run()
    return 0

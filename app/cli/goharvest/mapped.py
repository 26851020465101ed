"""``hookwire relay --table outbox.toml``: anybody's outbox table to Kafka, to AMQP, or into the hub."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from app.assembly.outbox_database import open_outbox_database
from app.assembly.sinks import amqp_options, kafka_options
from app.assembly.storage import Storage, open_storage
from app.bridges.publishing_sink import PublishingSink
from app.cli.failure import CommandFailed
from app.cli.goharvest.outbox_place import OutboxPlace
from app.failpoints import FailpointDatabase, Failpoints, FailpointSink
from app.settings.settings import Settings, SettingsRefused
from db.direct import Direct, connect_direct
from db.pool import Database
from event.digest import short_digest
from relay.amqp.sink import AmqpSink
from relay.election.lease import LeaseOptions, Leases
from relay.embeddable import Relay
from relay.goharvest.compat import CompatHarvester, CompatOptions
from relay.goharvest.mapped_offsets import MappedOffsets
from relay.goharvest.mapped_table import MappedTable
from relay.goharvest.mapping import MappingRefused, OutboxMapping, mapping_of
from relay.goharvest.maria_election import MariaElection
from relay.goharvest.maria_installation import ensure_mapped_tables
from relay.goharvest.maria_mapped_table import MariaMappedTable
from relay.goharvest.maria_offsets import MariaOffsets
from relay.goharvest.offset_table import OffsetTable
from relay.goharvest.outbox_table import TableRefused
from relay.kafka.sink import KafkaSink
from relay.observer import Handler, Observer
from relay.sink import Sink
from runtime.process import Process, end_within, process_name

__all__ = ["MappedRelay", "open_mapped", "read_mapping", "serve_mapped"]

_TARGETS: Final = ("kafka", "amqp", "hub")


@dataclass(frozen=True, slots=True)
class MappedRelay:
    """A table and where its records go: kafka, amqp or hub."""

    mapping: OutboxMapping
    target: str


def read_mapping(file: Path, settings: Settings) -> MappedRelay:
    """Read the file; raise SettingsRefused. With ``outbox_url`` its expressions are those of MariaDB or MySQL."""
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsRefused(f"{file}: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise SettingsRefused(f"{file}: {error}") from None
    target = values.pop("to", None)
    if target not in _TARGETS:
        raise SettingsRefused(f"{file}: to is {', '.join(_TARGETS)}: where the records go")
    try:
        return MappedRelay(mapping_of(values, "postgresql" if settings.outbox_url is None else "mysql"), target)
    except MappingRefused as error:
        raise SettingsRefused(f"{file}: {error}") from None


@asynccontextmanager
async def open_mapped(settings: Settings, asked: MappedRelay, on_event: Handler | None = None) -> AsyncIterator[Relay]:
    """Yield a relay of the table, not started yet; close its connections on exit. The lease and the parked keys are in
    the database of the table: PostgreSQL, or the MariaDB or MySQL of ``outbox_url``. Raise SettingsRefused,
    OutboxUnavailable, DatabaseError.
    """
    points = Failpoints(settings.failpoints)
    async with AsyncExitStack() as stack:
        on_maria = asked.mapping.dialect == "mysql"
        storage = None
        if not on_maria or asked.target == "hub":
            storage = await stack.enter_async_context(open_storage(settings))
        opened = _in_maria(settings, asked.mapping) if storage is None or on_maria else (
            _in_postgres(settings, asked.mapping, storage, points)
        )  # fmt: skip
        place = await stack.enter_async_context(opened)
        sink = _sink(settings, asked, place, None if storage is None else storage.database)
        observer = Observer(place.table.name, on_event, 5.0)
        passed = FailpointSink(sink, points) if points else sink
        harvester = CompatHarvester(place.table, passed, place.election, observer, CompatOptions())
        yield Relay([(harvester, observer)], [place.attendant])


@asynccontextmanager
async def _in_postgres(
    settings: Settings, mapping: OutboxMapping, storage: Storage, points: Failpoints
) -> AsyncIterator[OutboxPlace]:
    async def direct() -> Direct:
        return await connect_direct(storage.database.options)

    database = FailpointDatabase(storage.database, points) if points else storage.database
    table = MappedTable(database, mapping) if mapping.lag_seconds is None else (
        OffsetTable(mapping.name, MappedOffsets(database, mapping), mapping.lag_seconds)
    )  # fmt: skip
    await _looked_at(table)
    leases = Leases(storage.database, direct, [table.name], LeaseOptions(process_name(), settings.lease_seconds))
    yield OutboxPlace(table, leases.election(table.name), leases, storage.incarnation)


@asynccontextmanager
async def _in_maria(settings: Settings, mapping: OutboxMapping) -> AsyncIterator[OutboxPlace]:
    async with open_outbox_database(settings) as database:
        installation = await ensure_mapped_tables(database)
        table = MariaMappedTable(database, mapping) if mapping.lag_seconds is None else (
            OffsetTable(mapping.name, MariaOffsets(database, mapping), mapping.lag_seconds)
        )  # fmt: skip
        await _looked_at(table)
        election = MariaElection(database, table.name, LeaseOptions(process_name(), settings.lease_seconds))
        yield OutboxPlace(table, election, election, installation)


async def _looked_at(table: MappedTable | MariaMappedTable | OffsetTable) -> None:
    try:
        await table.look_at()
    except TableRefused as error:
        raise SettingsRefused(f"the outbox table: {error}") from None


def _sink(settings: Settings, asked: MappedRelay, place: OutboxPlace, database: Database | None) -> Sink:
    # Relays of one table fence each other by this name in Kafka, and those of two tables must not.
    table = short_digest(place.table.name)
    if asked.target == "hub":
        assert database is not None, "a relay into the hub has its database"
        return PublishingSink(database, f"{place.installation}.{place.table.name}", settings.event_bytes_max)
    if asked.target == "amqp":
        if settings.amqp_url is None:
            raise SettingsRefused("HOOKWIRE_AMQP_URL: the table is relayed to AMQP; name a broker")
        return AmqpSink(amqp_options(settings, f"{place.installation}.table"))
    if not settings.kafka_bootstrap_servers:
        raise SettingsRefused("HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS: the table is relayed to Kafka; name a server")
    kafka = replace(
        kafka_options(settings, "table", manifests=False), installation=f"{place.installation}.table.{table}"
    )
    return KafkaSink(kafka, lambda: place.election.trusted(0))


async def serve_mapped(settings: Settings, asked: MappedRelay) -> int:
    """Relay until a signal; returns the exit code. Raise CommandFailed if the table keeps rows that were deleted."""
    async with open_mapped(settings, asked) as relay:
        mapping = asked.mapping
        order = f"per key, by {mapping.order}; a row that commits late comes late" if mapping.order else (
            "none is promised: the mapping has no order"
        )  # fmt: skip
        rows = "are deleted" if mapping.mark is None else f"are marked: {mapping.mark}"
        if mapping.offset is not None:
            order = f"by {mapping.offset}"
            rows = f"stay, and are sent {mapping.lag_seconds} s after they were seen; one that commits later is lost"
        lines = (f"hookwire relays {mapping.name} to {asked.target}", f"  order  {order}", f"  rows   {rows}")
        print("\n".join(lines), file=sys.stderr, flush=True)  # noqa: T201 - this is the command's voice
        try:
            await Process(relay.phases, settings.drain_seconds, end_within).run()
        except ExceptionGroup as failures:
            if refused := next((one for one in failures.exceptions if isinstance(one, TableRefused)), None):
                raise CommandFailed(f"the outbox table: {refused}", 1) from None
            raise
    return 0

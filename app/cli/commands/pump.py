"""``hookwire pump``: load for a relay, and a check of the arrivals. ``app.cli.goharvest.pump`` does the work."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import SecretStr

from app.cli.entry import Config, Json, run, say, settings_from
from app.cli.failure import CommandFailed
from app.cli.goharvest.data_source import postgres_url, warning_of
from app.settings.settings import Settings, SettingsRefused
from db.errors import DatabaseError
from db.mariadb.database import for_outbox as maria_statements
from db.mariadb.database import maria_options

if TYPE_CHECKING:
    from app.cli.goharvest.pump import PumpOptions, PumpOutbox, Verified
    from db.mariadb.database import MariaDatabase
    from db.pool import Database

__all__ = ["pump"]

Keys = Annotated[int, typer.Option("--keys", min=1, help="Number of different keys.")]
Records = Annotated[int, typer.Option("--records", min=1, help="Number of records.")]
Interval = Annotated[float, typer.Option("--interval", min=0, help="Milliseconds between two transactions of 20.")]
DataSource = Annotated[
    str | None,
    typer.Option(
        "--ds",
        help="Database: postgresql://..., mysql://..., or host=... dbname=... (default: HOOKWIRE_DATABASE_URL; with "
        "--outbox, HOOKWIRE_OUTBOX_URL if that is set).",
    ),
]
Outbox = Annotated[
    str | None,
    typer.Option(
        "--outbox", help="goharvest's table, in PostgreSQL, MariaDB or MySQL. Default: call hookwire.publish."
    ),
]
Topic = Annotated[str, typer.Option("--topic", help="Kafka topic of the records.")]
Blank = Annotated[
    bool, typer.Option("--blank", help="Write null values to goharvest's table, or empty values by hookwire.publish.")
]
Create = Annotated[bool, typer.Option("--create", help="Create goharvest's table if it is missing.")]
Verify = Annotated[
    bool, typer.Option("--verify", help="Read the Kafka topic until all records have arrived, and verify them.")
]
Idle = Annotated[
    float,
    typer.Option("--idle", min=0.1, help="With --verify: give up if nothing moves for this number of seconds."),
]


def pump(
    keys: Keys, records: Records, interval: Interval = 0.0, ds: DataSource = None, outbox: Outbox = None,
    topic: Topic = "pump", blank: Blank = False, create: Create = False, verify: Verify = False, idle: Idle = 30.0,
    as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Write numbered records for a relay, and verify the records that arrive in Kafka.

    Exit code 1 when a record is lost or given up, or a key's order is broken; repeats are counted and allowed. 4: not
    finished, because records still wait in the outbox, and their number has not changed for the time of --idle.

    Examples:

      hookwire pump --keys 100 --records 20000 --outbox outbox --create

      hookwire pump --keys 10 --records 1000 --verify --json

      hookwire pump --keys 10 --records 1000 --outbox outbox --create --ds mysql://app:secret@db.example/shop
    """
    settings = settings_from(config)
    source = _source(settings, ds, outbox)
    if verify and not settings.kafka_bootstrap_servers:
        raise SettingsRefused("--verify reads Kafka: name a server in HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS")
    if create and outbox is None:
        raise SettingsRefused("--create makes goharvest's table: name it with --outbox")
    from app.cli.goharvest.pump import PumpOptions

    options = PumpOptions(keys, records, interval / 1000, topic, blank, compat=outbox is not None)
    run(_pump(settings, options, source, outbox, create=create, idle_seconds=idle if verify else None, as_json=as_json))


@dataclass(frozen=True, slots=True)
class _Source:
    """The database to write to. ``postgres``: its URL, or None for that of the settings. ``maria``: settings with an
    ``outbox_url``. ``named``: its name for messages.
    """

    named: str
    postgres: str | None = None
    maria: Settings | None = None


def _source(settings: Settings, ds: str | None, outbox: str | None) -> _Source:
    if ds is None:
        if outbox is not None and settings.outbox_url is not None:
            return _Source("HOOKWIRE_OUTBOX_URL", maria=settings)
        return _Source("HOOKWIRE_DATABASE_URL")
    try:
        if not ds.startswith(("mysql://", "mariadb://")):
            source = _Source("--ds", postgres=postgres_url(ds))
            if doubt := warning_of(ds):
                print(f"hookwire: --ds: {doubt}", file=sys.stderr)  # noqa: T201 - this is the command's voice
            return source
        maria_options(ds)
    except ValueError as error:
        raise SettingsRefused(f"--ds: {error}") from None
    if outbox is None:
        raise SettingsRefused("--ds: in MariaDB and MySQL there is no hookwire.publish; name a table with --outbox")
    return _Source("--ds", maria=settings.model_copy(update={"outbox_url": SecretStr(ds)}))


async def _pump(
    settings: Settings, options: PumpOptions, source: _Source, outbox: str | None, *, create: bool,
    idle_seconds: float | None, as_json: bool,
) -> int:  # fmt: skip
    from app.cli.goharvest.pump import pump as write

    try:
        async with AsyncExitStack() as stack:
            written = await _outbox(stack, settings, source, outbox, options, create=create)
            pumped = await write(written.stash, options, _progress("written", options.records))
            verified = None
            if idle_seconds is not None:
                verified = await _verified(settings, written, options, idle_seconds)
    except DatabaseError as error:
        if source.named == "HOOKWIRE_DATABASE_URL":
            raise
        raise CommandFailed(f"the database of {source.named} cannot be used: {error}", 3) from None
    found = {**asdict(pumped), **(asdict(verified) if verified is not None else {})}
    say(json.dumps(found) if as_json else "\n".join(f"{name:<10} {_shown(value)}" for name, value in found.items()))
    return 0 if verified is None else verified.exit_code


async def _outbox(
    stack: AsyncExitStack, settings: Settings, source: _Source, outbox: str | None, options: PumpOptions, *,
    create: bool,
) -> PumpOutbox:  # fmt: skip
    """Return the outbox in the database, which stays open until the stack is closed."""
    from app.cli.database import database_url
    from app.cli.goharvest.pump import outbox_in_maria, outbox_in_postgres

    if source.maria is not None:
        assert outbox is not None, "asked for a table there"
        maria = await _maria(stack, source.maria, outbox)
        if create:
            await maria.execute("outbox.create_table")
        return outbox_in_maria(maria, options)
    url = source.postgres if source.postgres is not None else await stack.enter_async_context(database_url(settings))
    database = await _database(stack, url, outbox)
    if create:
        await database.execute("compat.create_table")
    return outbox_in_postgres(database, options)


async def _maria(stack: AsyncExitStack, settings: Settings, outbox: str) -> MariaDatabase:
    from app.assembly.outbox_database import open_outbox_database

    try:
        _, statements = maria_statements(outbox)
    except ValueError as error:
        raise SettingsRefused(f"--outbox: {error}") from None
    database = await stack.enter_async_context(open_outbox_database(settings))
    return database.with_statements(statements)


async def _database(stack: AsyncExitStack, url: str, outbox: str | None) -> Database:
    from app.cli.database import opened_pool
    from db.statements import STATEMENTS, for_outbox

    try:
        statements = for_outbox(outbox) if outbox is not None else STATEMENTS
    except ValueError as error:
        raise SettingsRefused(f"--outbox: {error}") from None
    pool = await stack.enter_async_context(opened_pool(url, connections_max=2))
    return pool.with_statements(statements)


async def _verified(settings: Settings, outbox: PumpOutbox, options: PumpOptions, idle_seconds: float) -> Verified:
    from app.assembly.sinks import kafka_options
    from app.cli.goharvest.pump import verify
    from relay.kafka.reader import KafkaReader

    topic = options.topic if options.compat else settings.kafka_topic_prefix + options.topic
    async with KafkaReader(kafka_options(settings, "pump"), topic) as reader:
        progress = _progress("arrived", options.records)
        return await verify(reader.arrivals(), outbox.owed, options, idle_seconds, progress)


def _progress(doing: str, total: int) -> Callable[[int], None]:
    """Return a function that overwrites a progress line about ten times a second, on a terminal only."""
    shown_at = 0.0

    def show(number: int) -> None:
        nonlocal shown_at
        if sys.stderr.isatty() and (time.monotonic() - shown_at > 0.1 or number == total):
            shown_at = time.monotonic()
            print(f"\r{doing} {number} of {total}", end="\n" if number == total else "", file=sys.stderr)  # noqa: T201

    return show


def _shown(value: float) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)

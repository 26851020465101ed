"""Migrations: numbered SQL files, forward only, one at a time, checksummed.

``db/migrations/0001_publishing.sql`` is version 1. Each file and its row in the history run in one transaction. An
advisory lock lets any number of processes start at once. A file that changed after it was applied is refused, and so is
a database with a newer version.

The first files replace the 60 migrations of release 0.1.0, whose names and checksums are in ``replaced.sha256``. A
database that has all of these has the same schema: only its history is replaced. A database with fewer is refused
(docs/adr/0054-migrations-squashed-once.md).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import structlog

from db.bound import translated
from db.errors import DatabaseError
from db.holders import naming_blockers
from db.pooling.pool_options import PoolOptions
from db.session import open_session
from db.statements import STATEMENTS

__all__ = [
    "REPLACEMENTS",
    "AppliedMigration",
    "Migration",
    "MigrationPlan",
    "MigrationRefused",
    "migrate",
    "migrations",
    "pending",
    "replaced_migrations",
]

REPLACEMENTS = 7
"""How many of our files make the schema of the replaced migrations."""

_log: Final = structlog.get_logger(__name__)
_FOLDER = Path(__file__).parent / "migrations"
_FILE = re.compile(r"^(\d{4})_([a-z0-9_]+)\.sql$")
_REPLACED = _FOLDER / "replaced.sha256"
_REPLACED_RELEASE = "0.1.0 (commit b225a5c)"


class MigrationRefused(DatabaseError):
    """The database's history and the migration files do not agree; the text says how, and the cure."""


@dataclass(frozen=True, slots=True)
class AppliedMigration:
    """A row of the history: number, name, and the SHA-256 of the file's text."""

    version: int
    name: str
    checksum: str

    @property
    def label(self) -> str:
        """Return the file's name without its suffix."""
        return f"{self.version:04}_{self.name}"


@dataclass(frozen=True, slots=True)
class Migration(AppliedMigration):
    """One file, with its text."""

    text: str


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """The migrations that a database lacks: those to record, because their schema is there, then those to run."""

    to_record: tuple[Migration, ...]
    to_run: tuple[Migration, ...]

    @property
    def is_empty(self) -> bool:
        """Return whether the database lacks nothing."""
        return not (self.to_record or self.to_run)


_Known = TypeVar("_Known", bound=AppliedMigration)


def migrations(folder: Path = _FOLDER) -> list[Migration]:
    """Return every migration, in order; raise ValueError when the numbers have a gap or a repeat."""
    found = [_read(path) for path in sorted(folder.glob("*.sql"))]
    if [m.version for m in found] != list(range(1, len(found) + 1)):
        raise ValueError("migrations are not numbered 1, 2, 3 ... without gap or repeat")
    return found


def _read(path: Path) -> Migration:
    text = path.read_text(encoding="utf-8")
    return Migration(*_named(path.name), hashlib.sha256(text.encode()).hexdigest(), text)


def _named(file_name: str) -> tuple[int, str]:
    match = _FILE.match(file_name)
    if match is None:
        raise ValueError(f"{file_name} is not named NNNN_name.sql")
    return int(match[1]), match[2]


def replaced_migrations() -> Iterator[AppliedMigration]:
    """Yield the migrations of release 0.1.0 in order, from a file in the format of sha256sum."""
    for line in _REPLACED.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            checksum, file_name = line.split()
            yield AppliedMigration(*_named(file_name), checksum)


def _plan(ours: Sequence[Migration], applied: dict[int, str]) -> MigrationPlan:
    replaced = list(replaced_migrations())
    if not any(applied.get(migration.version) == migration.checksum for migration in replaced):
        return MigrationPlan((), tuple(_missing(ours, applied)))
    if missing := _missing(replaced, applied):
        raise MigrationRefused(
            f"the database has {len(replaced) - len(missing)} of the {len(replaced)} migrations of hookwire "
            f"{_REPLACED_RELEASE}: start that release on it once, then this one"
        )
    return MigrationPlan(tuple(ours[:REPLACEMENTS]), tuple(ours[REPLACEMENTS:]))


def _missing(known: Sequence[_Known], applied: dict[int, str]) -> list[_Known]:
    if applied and max(applied) > len(known):
        raise MigrationRefused(
            f"this database is newer than this version: it is at schema version {max(applied)}, this hookwire knows "
            f"{len(known)}; run the newer hookwire"
        )
    for migration in known:
        if applied.get(migration.version, migration.checksum) != migration.checksum:
            raise MigrationRefused(
                f"migration {migration.label} was changed after it was applied: this database is newer than this "
                "version (run the newer hookwire), or the file was edited (restore it)"
            )
    return [migration for migration in known if migration.version not in applied]


async def _applied(connection: Any) -> dict[int, str]:
    if await connection.fetchval(STATEMENTS["migration.history_exists"]) is None:
        return {}
    rows = await connection.fetch(STATEMENTS["migration.history"])
    return {row["version"]: row["checksum"] for row in rows}


async def pending(database_url: str, folder: Path = _FOLDER) -> MigrationPlan:
    """Return the plan of :func:`migrate`; raise :class:`MigrationRefused`."""
    connection = await open_session(_options(database_url, 60))
    with translated(sent=False):
        try:
            return _plan(migrations(folder), await _applied(connection))
        finally:
            await connection.close(timeout=2)


async def migrate(database_url: str, folder: Path = _FOLDER) -> MigrationPlan:
    """Apply missing migrations and return them; raise :class:`MigrationRefused` or :class:`DatabaseError`.

    A wait for a lock is logged every five seconds, with its holder.
    """
    ours = migrations(folder)
    connection = await open_session(_options(database_url, 600))

    async def ask(name: str, pid: int) -> Any:
        other = await open_session(_options(database_url, 10))
        try:
            with translated(sent=False):
                return await other.fetch(STATEMENTS[name], pid)
        finally:
            await other.close(timeout=2)

    def tell(named: str) -> None:
        _log.info("migrations wait for a lock", holders=named)

    async with naming_blockers(connection.get_server_pid(), ask, tell):
        return await _apply(connection, ours)


async def _apply(connection: Any, ours: Sequence[Migration]) -> MigrationPlan:
    with translated(sent=False):
        try:
            await connection.execute(STATEMENTS["migration.lock"])
            # IF NOT EXISTS needs the right to CREATE, which a role may lack when everything exists.
            if await connection.fetchval(STATEMENTS["migration.history_exists"]) is None:
                await connection.execute(STATEMENTS["migration.create_history"])
            plan = _plan(ours, await _applied(connection))
            await _replace_history(connection, plan.to_record)
            for migration in plan.to_run:
                async with connection.transaction():
                    await connection.execute(migration.text)
                    await _record(connection, migration)
        finally:
            await connection.close(timeout=2)
    return plan


def _options(database_url: str, seconds: float) -> PoolOptions:
    """Return those of a session that may wait for other processes' migrations, and may read whole tables."""
    return PoolOptions(
        database_url, application_name="migrations of hookwire", statement_seconds=seconds, lock_seconds=seconds,
        idle_in_transaction_seconds=seconds, reads_whole_tables=True,
    )  # fmt: skip


async def _replace_history(connection: Any, replacements: Sequence[Migration]) -> None:
    if replacements:
        async with connection.transaction():
            await connection.execute(STATEMENTS["migration.clear_history"])
            for migration in replacements:
                await _record(connection, migration)


async def _record(connection: Any, migration: Migration) -> None:
    await connection.execute(STATEMENTS["migration.record"], migration.version, migration.name, migration.checksum)

"""Migrations: numbered SQL files, forward only, one at a time, checksummed (EC-H01).

``db/migrations/0001_house.sql`` is version 1. Each file and its row in the history run in one transaction. An advisory
lock lets any number of processes start at once. A file that changed after it was applied is refused, and so is a
database with a newer version.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from db.bound import translated
from db.errors import DatabaseError
from db.statements import STATEMENTS

__all__ = ["Migration", "MigrationRefused", "migrate", "migrations", "pending"]

_FOLDER = Path(__file__).parent / "migrations"
_FILE = re.compile(r"^(\d{4})_([a-z0-9_]+)\.sql$")


class MigrationRefused(DatabaseError):
    """The database's history and the migration files do not agree; the text says how, and the cure."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file: its number, its name, its text, and the SHA-256 of the text."""

    version: int
    name: str
    text: str
    checksum: str


def migrations(folder: Path = _FOLDER) -> list[Migration]:
    """Return every migration, in order; raise ValueError when the numbers have a gap or a repeat."""
    found = []
    for path in sorted(folder.glob("*.sql")):
        match = _FILE.match(path.name)
        if match is None:
            raise ValueError(f"{path.name} is not named NNNN_name.sql")
        text = path.read_text(encoding="utf-8")
        found.append(Migration(int(match[1]), match[2], text, hashlib.sha256(text.encode()).hexdigest()))
    if [m.version for m in found] != list(range(1, len(found) + 1)):
        raise ValueError("migrations are not numbered 1, 2, 3 ... without gap or repeat")
    return found


def _still_to_apply(ours: Sequence[Migration], applied: dict[int, str]) -> list[Migration]:
    if applied and max(applied) > len(ours):
        raise MigrationRefused(
            f"the database is at schema version {max(applied)}, this hookwire knows {len(ours)}: run the newer hookwire"
        )
    for migration in ours:
        if applied.get(migration.version, migration.checksum) != migration.checksum:
            raise MigrationRefused(
                f"migration {migration.version:04}_{migration.name} was changed after it was applied: restore the file"
            )
    return [migration for migration in ours if migration.version not in applied]


async def _applied(connection: Any) -> dict[int, str]:
    if await connection.fetchval(STATEMENTS["migration.history_exists"]) is None:
        return {}
    rows = await connection.fetch(STATEMENTS["migration.history"])
    return {row["version"]: row["checksum"] for row in rows}


async def pending(database_url: str, folder: Path = _FOLDER) -> list[Migration]:
    """Return the migrations that :func:`migrate` would apply; raise :class:`MigrationRefused`."""
    with translated(sent=False):
        connection = await asyncpg.connect(database_url, timeout=5, command_timeout=60)
        try:
            return _still_to_apply(migrations(folder), await _applied(connection))
        finally:
            await connection.close(timeout=2)


async def migrate(database_url: str, folder: Path = _FOLDER) -> list[str]:
    """Apply missing migrations and return their names; raise :class:`MigrationRefused` or :class:`DatabaseError`."""
    ours = migrations(folder)
    done = []
    with translated(sent=False):
        connection = await asyncpg.connect(database_url, timeout=5, command_timeout=600)
        try:
            await connection.execute(STATEMENTS["migration.lock"])
            # IF NOT EXISTS needs the right to CREATE, which a role may lack when everything exists.
            if await connection.fetchval(STATEMENTS["migration.history_exists"]) is None:
                await connection.execute(STATEMENTS["migration.create_history"])
            for migration in _still_to_apply(ours, await _applied(connection)):
                async with connection.transaction():
                    await connection.execute(migration.text)
                    await connection.execute(
                        STATEMENTS["migration.record"], migration.version, migration.name, migration.checksum
                    )
                done.append(f"{migration.version:04}_{migration.name}")
        finally:
            await connection.close(timeout=2)
    return done

"""``hookwire reincarnate``: give a restored or cloned database a new name, so that it is another installation."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from app.cli.entry import Config, Json, run, say, settings_from, tell
from app.cli.failure import CommandFailed

if TYPE_CHECKING:
    from db.pool import Database, Row

__all__ = ["reincarnate"]

_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz234567"
_NAME_LENGTH: Final = 8
_SKIPPED_IDS: Final = 1_000_000

Yes = Annotated[bool, typer.Option("--yes", help="Do it. Without this, the command only says what it would do.")]


def reincarnate(yes: Yes = False, as_json: Json = False, config: Config = None) -> None:
    """Give a restored or cloned database a new name: the middle part of the ids of its new events.

    Stop every process of the hub first. The events that it has keep their ids.

    Examples:

      hookwire reincarnate

      hookwire reincarnate --yes
    """
    run(_reincarnate(yes, as_json, config))


async def _reincarnate(yes: bool, as_json: bool, config: Path | None) -> int:
    from app.cli.database import hub_database

    async with hub_database(settings_from(config), application_name="hookwire reincarnate") as database:
        await _refuse_if_used(database)
        if not yes:
            row = await database.fetchrow("event.installation")
            assert row is not None, "a migrated database has its row"
            tell(
                f"the name is {row['incarnation']}; with --yes it gets a new one, and {_SKIPPED_IDS:,} ids are skipped"
            )
            return 2
        changed = await _rename(database)
    if as_json:
        say(json.dumps(changed))
    else:
        say(f"{changed['before']} is {changed['now']} now; new events have ids above {changed['last_id']:,}")
    return 0


async def _refuse_if_used(database: Database) -> None:
    """Raise :class:`CommandFailed` while a process of the hub has a session here."""
    row = await database.fetchrow("installation.processes")
    assert row is not None, "a row of scalars"
    if row["sessions"] or row["relays"]:
        raise CommandFailed(
            f"the database is in use by the hub ({row['sessions']} sessions, {row['relays']} relays): stop every "
            "process, and run this again after a minute",
            1,
        )


async def _rename(database: Database) -> dict[str, object]:
    """Change the name while nobody publishes. Raise :class:`CommandFailed` while a transaction does."""
    from db.errors import Busy

    name = "".join(secrets.choice(_ALPHABET) for _ in range(_NAME_LENGTH))
    async with database.transaction() as transaction:
        try:
            await transaction.execute("layout.stop_publishing")
        except Busy:
            raise CommandFailed(
                "another transaction uses the hub's tables: stop the programs that publish by SQL, and run this again",
                1,
            ) from None
        row: Row | None = await transaction.fetchrow("installation.reincarnate", name, _SKIPPED_IDS)
        assert row is not None, "a migrated database has its row"
        await transaction.fetchval("event.ensure_partitions")
    return {"before": row["before"], "now": name, "last_id": row["last_id"]}

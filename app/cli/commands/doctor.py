"""``hookwire doctor``: run all checks, and print the cure of each finding."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.entry import Config, Json, Url, run, say, settings_from
from app.settings.settings import Settings
from runtime.counted import counted

if TYPE_CHECKING:
    from app.checks import Check

__all__ = ["doctor", "print_checks"]

_MARKS = {"ok": "[green]ok[/]", "note": "[dim]note[/]", "warn": "[yellow]warning[/]", "refuse": "[red]refused[/]",
          "unreachable": "[red]unreachable[/]"}  # fmt: skip


Ledger = Annotated[
    bool,
    typer.Option(
        "--ledger", help="Check only the ledger: whether every accepted event has left for its sinks, by closed hours."
    ),
]


def doctor(url: Url = None, as_json: Json = False, config: Config = None, by_ledger: Ledger = False) -> None:
    """Check settings, database, brokers, keys, the egress guard and the running hub, without changing anything.

    The settings are those of this shell; the hub answers for itself at --url. Exit code 0: all is well; 1: findings; 3:
    the database, a broker or the named hub cannot be reached.

    Examples:

      hookwire doctor

      hookwire doctor --url https://hub.example

      hookwire doctor --ledger

      HOOKWIRE_DATABASE_URL=postgresql://hookwire:secret@db/hookwire hookwire doctor --json
    """
    if by_ledger:
        from app.cli.ledger import ledger

        run(ledger(settings_from(config), as_json))
    run(_doctor(url, as_json, config))


async def _doctor(url: str | None, as_json: bool, config: Path | None) -> int:
    return print_checks(await _all(settings_from(config), url), as_json=as_json)


async def _all(settings: Settings, url: str | None) -> list[Check]:
    from app.checks.brokers import broker_checks
    from app.checks.process import descriptor_check, guard_check
    from app.checks.settings import settings_checks
    from app.cli.running_hub import hub_checks

    return [
        *settings_checks(settings, os.environ),
        descriptor_check(settings),
        await guard_check(settings, settings.listen_address[1]),
        *await _database(settings),
        *await broker_checks(settings),
        *await hub_checks(url, settings),
    ]


async def _database(settings: Settings) -> list[Check]:
    from app.checks.check import Check
    from app.checks.database import database_checks
    from app.checks.keys import key_checks
    from app.checks.lakes import lake_checks
    from app.checks.standby_fence import standby_fence_checks
    from app.checks.tasks import task_checks
    from app.cli.database import database_url, is_made
    from app.cli.failure import CommandFailed
    from db.embedded.server import EmbeddedError
    from db.errors import DatabaseError
    from db.pool import PoolOptions

    try:
        if not is_made(settings):
            detail = f"the embedded database does not exist yet; hookwire serve creates it in {settings.data_dir}"
            return [Check("database", "database", "note", detail)]
        async with database_url(settings) as url:
            found = await database_checks(settings, PoolOptions(url))
            migrated = any(check.subject == "schema" and check.level == "ok" for check in found)
            options = PoolOptions(url)
            later = (
                [*await key_checks(settings, options), *await task_checks(options), *await lake_checks(options)]
                if migrated else []
            )  # fmt: skip
            is_reached = not any(check.level == "unreachable" for check in found)
            return [*found, *(await standby_fence_checks(settings, options) if is_reached else []), *later]
    except (CommandFailed, DatabaseError, EmbeddedError) as error:
        return [Check("database", "database", "unreachable", str(error))]


def print_checks(found: Sequence[Check], *, as_json: bool) -> int:
    """Print the checks, as JSON or as a table. Return the exit code: 1 for findings, 3 if something is not reached."""
    if as_json:
        say(json.dumps([asdict(check) for check in found]))
    else:
        _print(found)
    if any(check.level == "unreachable" for check in found):
        return 3
    return 1 if any(check.is_finding for check in found) else 0


def _print(found: Sequence[Check]) -> None:
    from rich.markup import escape

    from app.cli.table import console, table

    checks = table(("What", "State", "Found"), folds=("What", "Found"))
    for check in found:
        cure = f"\n[bold]{escape(check.cure)}[/]" if check.cure else ""
        checks.add_row(escape(check.subject), _MARKS[check.level], escape(check.detail) + cure)
    console().print(checks)
    findings = sum(check.is_finding for check in found)
    console().print(f"{counted(len(found), 'check')}, {counted(findings, 'finding')}")

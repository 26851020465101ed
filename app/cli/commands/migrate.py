"""``hookwire migrate``: bring the database to the schema of this release, or say what that would do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from app.cli.entry import Config, Json, run, say, settings_from
from app.cli.failure import CommandFailed

__all__ = ["migrate"]

Plan = Annotated[bool, typer.Option("--plan", help="Only print what would be applied.")]
Verify = Annotated[bool, typer.Option("--verify", help="Exit with 1 if anything is pending or was changed.")]


def migrate(plan: Plan = False, verify: Verify = False, as_json: Json = False, config: Config = None) -> None:
    """Apply pending migrations. `hookwire serve` does the same when it starts; any number may run at once.

    Examples:

      hookwire migrate --plan

      hookwire migrate

      HOOKWIRE_DATABASE_URL=postgresql://owner:secret@db/hookwire hookwire migrate --verify
    """
    if plan and verify:
        raise CommandFailed("--plan and --verify exclude each other", 2)
    run(_migrate(plan, verify, as_json, config))


async def _migrate(plan: bool, verify: bool, as_json: bool, config: Path | None) -> int:
    from app.cli.database import database_url
    from db.migrate import migrate as apply
    from db.migrate import pending

    async with database_url(settings_from(config)) as url:
        if plan or verify:
            names = [f"{migration.version:04}_{migration.name}" for migration in await pending(url)]
        else:
            names = await apply(url)
    word = "pending" if plan or verify else "applied"
    if as_json:
        say(json.dumps({word: names}))
    else:
        say(
            "\n".join(f"{word} {name}" for name in names) or f"nothing {'is pending' if plan or verify else 'to apply'}"
        )
    return 1 if verify and names else 0

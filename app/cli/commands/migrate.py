"""``hookwire migrate``: bring the database to the schema of this release, or print the steps to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from app.cli.entry import Config, Json, run, say, settings_from
from app.cli.failure import CommandFailed

__all__ = ["migrate"]

Plan = Annotated[bool, typer.Option("--plan", help="Only print the migrations to apply.")]
Verify = Annotated[bool, typer.Option("--verify", help="Exit with 1 if a migration is pending or was changed.")]


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

    is_plan = plan or verify
    async with database_url(settings_from(config)) as url:
        done = await (pending(url) if is_plan else apply(url))
    words = ("to_record", "pending") if is_plan else ("recorded", "applied")
    found = {
        word: [migration.label for migration in group]
        for word, group in zip(words, (done.to_record, done.to_run), strict=True)
    }
    if as_json:
        say(json.dumps(found))
    else:
        lines = [f"{word.replace('_', ' ')} {label}" for word, labels in found.items() for label in labels]
        say("\n".join(lines) or f"nothing {'is pending' if is_plan else 'to apply'}")
    return 1 if verify and not done.is_empty else 0

"""``hookwire pipeline check`` and ``convert``: check the files of a lake, convert an older lake. They need no Java."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from app.cli.entry import Config, Json, say, settings_from
from app.cli.pipeline.lake import Lake, lake_of, told_failures

__all__ = ["check", "convert"]

Deep = Annotated[bool, typer.Option("--deep", help="Read every byte, and compare it with the hash in the log.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing.")]
Quarantine = Annotated[bool, typer.Option("--quarantine", help="Move damaged files from the table to quarantine/.")]


def check(
    lake: Lake = None, deep: Deep = False, quarantine: Quarantine = False, as_json: Json = False, config: Config = None
) -> None:
    """Check that every file of the lake's tables exists, is complete, and has the right number of rows.

    It reads the end of each file and no rows. `hookwire pipeline audit` checks that all events are there and in order.
    With --deep it reads every byte, and names each file that is not as it was written.

    Exit code 1: some files are damaged. With --quarantine they are moved to quarantine/ of the lake, and the table's
    log names the reason. For bronze, the audit then names the lost events, and `hookwire pipeline replay --lost`
    publishes them again. For other tables, run `hookwire pipeline deliveries`, `metrics` or `slo`: they compute the
    days again, deliveries only while the database still has the attempts.

    Examples:

      hookwire pipeline check

      hookwire pipeline check --deep --quarantine --json
    """
    from pipeline.damage import inspect, put_aside
    from pipeline.runs import recorded_run
    from pipeline.tables import lake_tables

    storage = lake_of(lake, settings_from(config))
    with told_failures():
        found = [inspect(storage, table, deep=deep) for table in lake_tables(storage)]
        damaged = [(f"{one.table.name}/{damage.file.path}", damage) for one in found for damage in one.damages]
        records = sum(damage.file.rows for _, damage in damaged)
        if quarantine and damaged:
            with recorded_run(storage, "check", {"quarantine": True}) as run:
                for one in found:
                    put_aside(storage, one.table, one.damages, run.id)
                run.counts, run.state = {"files": len(damaged), "records": records}, "findings"
    files, unknown = sum(one.files for one in found), sum(one.without_hash for one in found)
    done = {
        "files": files, "damaged": [{"path": path, "reason": damage.reason} for path, damage in damaged],
        "records": records, "quarantined": quarantine, "without_hash": unknown,
    }  # fmt: skip
    lines = [f"{path}: {damage.reason}" for path, damage in damaged]
    verb = "put into quarantine" if quarantine else "damaged"
    hashed = f"; the log has no hash of {unknown} of them any more" if unknown else ""
    words = f"{files} files were checked, {len(damaged)} {verb}, {records:,} records in them{hashed}"
    _result(done, as_json, "\n".join([*lines, words]))
    if damaged:
        raise typer.Exit(1)


def convert(lake: Lake = None, dry_run: DryRun = False, as_json: Json = False, config: Config = None) -> None:
    """Convert a lake of an older version into Delta tables. No data file is copied; the command can be repeated.

    Stop the archive of the older version first. The old logs are moved to before-delta/ of the lake.

    Examples:

      hookwire pipeline convert --dry-run

      hookwire pipeline convert
    """
    from pipeline.conversion import convert, old_log
    from pipeline.runs import recorded_run
    from pipeline.tables import lake_tables

    storage = lake_of(lake, settings_from(config))
    tables = lake_tables(storage)
    with told_failures():
        if dry_run:
            found = [old_log(storage, table) for table in tables]
        else:
            with recorded_run(storage, "convert", {}) as run:
                found = [convert(storage, table, run.id) for table in tables]
                run.counts = {"tables": sum(one is not None for one in found)}
    done = {one.table: {"files": len(one.files), "rows": one.rows} for one in found if one is not None}
    lines = [f"{name}: {counts['files']} files, {counts['rows']:,} rows" for name, counts in done.items()]
    verb = "would be" if dry_run else "were"
    _result({"tables": done}, as_json, "\n".join([*lines, f"{len(done)} tables {verb} converted"]))


def _result(done: dict[str, Any], as_json: bool, words: str) -> None:
    say(json.dumps(done) if as_json else words)

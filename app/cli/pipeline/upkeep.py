"""``hookwire pipeline compact`` and ``retain``: keep a lake small."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli.entry import Config, Json, settings_from
from app.cli.failure import CommandFailed
from app.cli.listing import print_result
from app.cli.pipeline.lake import DryRun, Lake, Topic, lake_of, session, tell, told_failures
from app.cli.pipeline.marks import marked, note_bounds
from runtime.counted import counted, were

if TYPE_CHECKING:
    from app.settings.settings import Settings
    from pipeline.compaction import Folder
    from pipeline.lake import Table
    from pipeline.storage import LakeStorage

__all__ = ["compact", "retain"]

TableName = Annotated[
    Literal["bronze", "deliveries", "metrics", "slo", "quarantined", "typed"],
    typer.Option(
        "--table",
        help="Archived events, attempts, metrics, service levels, notes of quarantine, typed and rejected rows.",
    ),
]
FileSize = Annotated[int, typer.Option("--file-mb", min=1, max=4096, help="The approximate size of new files.")]
Days = Annotated[
    int | None, typer.Option("--days", min=1, max=36_500, help="Keep this number of days; delete earlier ones.")
]
Confirm = Annotated[
    bool, typer.Option("--confirm", help="Confirm in the database what the lake notes as deleted; delete nothing.")
]
_FOLDERS_OF_TYPED = ("typed", "rejected")
_MEBIBYTE = 1024 * 1024
_REPLACED_KEPT_HOURS = 24


def compact(
    lake: Lake = None, file_mb: FileSize = 128, dry_run: DryRun = False, as_json: Json = False, config: Config = None
) -> None:
    """Replace the small files of closed days by few large ones, and delete unused files that are older than a day.

    Files of older versions, which Polars cannot read, get other names. Their contents stay.
    Unused files are replaced files of any table, and files of killed batches that have been repeated since.

    Examples:

      hookwire pipeline compact --dry-run

      hookwire pipeline compact --file-mb 256
    """
    from pipeline.compaction import compact, crowded
    from pipeline.lake import bronze
    from pipeline.repair.renaming import rename
    from pipeline.runs import recorded_run
    from pipeline.tables import lake_tables

    settings = settings_from(config)
    storage = lake_of(lake, settings)
    table = bronze(storage)
    with told_failures():
        folders = crowded(table.snapshot(), datetime.now(UTC).date(), file_mb * _MEBIBYTE)
    files, rows = sum(len(folder.files) for folder in folders), sum(folder.rows for folder in folders)
    done = {"folders": len(folders), "files": files, "rows": rows, "fewer_files": 0, "renamed_files": 0,
            "deleted_files": 0}  # fmt: skip
    if not dry_run:
        inputs = {"file_mb": file_mb}
        with told_failures():
            tables = lake_tables(storage)
        with told_failures(), marked(settings, storage, tables), recorded_run(storage, "compact", inputs) as run:
            run.counts = done
            if folders:
                spark = session("compact", settings)
                done["fewer_files"] = compact(spark, table, folders, run.id, file_mb * _MEBIBYTE, _tell_folder)
            done["renamed_files"] = sum(rename(storage, each, run.id) for each in tables)
            done["deleted_files"] = sum(each.vacuum(_REPLACED_KEPT_HOURS, unnamed=True) for each in tables)
    verb = "would be" if dry_run else were(files)
    words = (
        f"{counted(files, 'file')} of {counted(len(folders), 'folder')} {verb} compacted, {counted(rows, 'record')}; "
        f"{counted(done['fewer_files'], 'file')} fewer, {done['renamed_files']} renamed, "
        f"{done['deleted_files']} old ones deleted"
    )
    print_result(done, words, as_json=as_json)


def _tell_folder(folder: Folder) -> None:
    tell(f"{folder.day} {folder.topic}: {counted(len(folder.files), 'file')}, {counted(folder.rows, 'record')}")


def retain(
    days: Days = None, lake: Lake = None, topic: Topic = None, table: TableName = "bronze", dry_run: DryRun = False,
    confirm: Confirm = False, as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Delete whole days with their files: of the archived events, or of what --table names.

    The database notes first which archived days are deleted. The audit leaves these days out and prints them; it names
    deleted days that the database does not know of. Without a database, confirm them later by --confirm.

    Examples:

      hookwire pipeline retain --days 400 --dry-run

      hookwire pipeline retain --days 30 --topic metrics.ticks

      hookwire pipeline retain --days 90 --table deliveries

      hookwire pipeline retain --days 400 --table typed --topic orders

      hookwire pipeline retain --confirm
    """
    from pipeline.retention import expired, retain
    from pipeline.runs import recorded_run

    if topic is not None and table not in ("bronze", "typed"):
        raise CommandFailed(f"--topic is for bronze and typed: {table} has no folders by topic", 2)
    if confirm == (days is not None):
        raise CommandFailed("give --days, or --confirm, which confirms what the lake notes", 2)
    settings = settings_from(config)
    storage = lake_of(lake, settings)
    if days is None:
        with told_failures():
            _confirm(settings, storage, as_json)
        return
    before = (datetime.now(UTC) - timedelta(days=days)).date()
    with told_failures():
        named = _named(storage, table)
        gone = [file for each in named for file in expired(each.snapshot(), before, topic)]
    if not dry_run:
        inputs = {"before": before.isoformat(), "topic": topic, "table": table}
        with told_failures(), marked(settings, storage, named), recorded_run(storage, "retain", inputs) as run:
            # The database first: after a kill in between, a repeat finds the same files.
            if gone and table == "bronze":
                note_bounds(settings, storage, {topic or "": before.isoformat()})
            gone = [file for each in named for file in retain(storage, each, before, run.id, topic)]
            run.counts = {"files": len(gone)}
    records = sum(file.rows for file in gone)
    done = {"before": before.isoformat(), "files": len(gone), "records": records}
    verb = "would be" if dry_run else were(records)
    words = f"{counted(records, 'record')} of before {before} {verb} dropped, in {counted(len(gone), 'file')}"
    print_result(done, words, as_json=as_json)


def _named(storage: LakeStorage, table: str) -> list[Table]:
    """Return the table of that name; for ``typed`` those of typed and rejected rows of all topics and versions."""
    from pipeline.tables import lake_tables

    folders = _FOLDERS_OF_TYPED if table == "typed" else (table,)
    return [each for each in lake_tables(storage) if each.name.partition("/")[0] in folders]


def _confirm(settings: Settings, storage: LakeStorage, as_json: bool) -> None:
    from pipeline.lake import bronze

    kept = dict(bronze(storage).snapshot().state.kept)
    confirmed = note_bounds(settings, storage, kept)
    done = {"noted": kept, "confirmed": confirmed}
    days = ", ".join(f"{topic or 'all topics'} before {day}" for topic, day in sorted(kept.items())) or "nothing"
    print_result(done, f"noted as deleted: {days}; {counted(confirmed, 'bound')} confirmed", as_json=as_json)

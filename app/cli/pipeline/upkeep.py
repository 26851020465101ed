"""``hookwire pipeline compact``, ``retain`` and ``erase``: keep a lake small, and delete a person's events."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from app.cli.entry import Config, Json, say, settings_from
from app.cli.failure import CommandFailed
from app.cli.pipeline.lake import Lake, lake_of, session, tell, told_failures

if TYPE_CHECKING:
    from pipeline.compaction import Folder

__all__ = ["compact", "erase", "retain"]

Topic = Annotated[str | None, typer.Option("--topic", help="This Kafka topic only.")]
TableName = Annotated[
    Literal["bronze", "deliveries", "metrics", "slo", "quarantined"],
    typer.Option("--table", help="Archived events, attempts, metrics, service levels, notes of quarantine."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing.")]
FileSize = Annotated[int, typer.Option("--file-mb", min=1, max=4096, help="The approximate size of new files.")]
Days = Annotated[int, typer.Option("--days", min=1, max=36_500, help="Keep this number of days; delete earlier ones.")]
Keys = Annotated[list[str] | None, typer.Option("--key", help="An ordering key of the subject; may be repeated.")]
KeysFile = Annotated[Path | None, typer.Option("--keys-file", help="A file with ordering keys, one per line.")]
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
        with told_failures(), recorded_run(storage, "compact", {"file_mb": file_mb}) as run:
            run.counts = done
            if folders:
                spark = session("compact", settings)
                done["fewer_files"] = compact(spark, table, folders, run.id, file_mb * _MEBIBYTE, _tell_folder)
            tables = lake_tables(storage)
            done["renamed_files"] = sum(rename(storage, each, run.id) for each in tables)
            done["deleted_files"] = sum(each.vacuum(_REPLACED_KEPT_HOURS, unnamed=True) for each in tables)
    verb = "would be" if dry_run else "were"
    words = (
        f"{files} files of {len(folders)} days and topics {verb} compacted, {rows:,} records; "
        f"{done['fewer_files']} files fewer, {done['renamed_files']} renamed, {done['deleted_files']} old ones deleted"
    )
    _result(done, as_json, words)


def _tell_folder(folder: Folder) -> None:
    tell(f"{folder.day} {folder.topic}: {len(folder.files)} files, {folder.rows:,} records")


def retain(
    days: Days, lake: Lake = None, topic: Topic = None, table: TableName = "bronze", dry_run: DryRun = False,
    as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Delete whole days of one table with their files: of the archived events, or of the table that --table names.

    Examples:

      hookwire pipeline retain --days 400 --dry-run

      hookwire pipeline retain --days 30 --topic metrics.ticks

      hookwire pipeline retain --days 90 --table deliveries
    """
    from pipeline.retention import expired, retain
    from pipeline.runs import recorded_run
    from pipeline.tables import lake_tables

    if topic is not None and table != "bronze":
        raise CommandFailed(f"--topic is for bronze: {table} has no folders by topic", 2)
    storage = lake_of(lake, settings_from(config))
    named = next(each for each in lake_tables(storage) if each.name == table)
    before = (datetime.now(UTC) - timedelta(days=days)).date()
    with told_failures():
        gone = expired(named.snapshot(), before, topic)
    if not dry_run:
        inputs = {"before": before.isoformat(), "topic": topic, "table": table}
        with told_failures(), recorded_run(storage, "retain", inputs) as run:
            gone = retain(storage, named, before, run.id, topic)
            run.counts = {"files": len(gone)}
    done = {"before": before.isoformat(), "files": len(gone), "records": sum(file.rows for file in gone)}
    verb = "would be" if dry_run else "were"
    _result(done, as_json, f"{done['records']:,} records of before {before} {verb} dropped, in {len(gone)} files")


def erase(
    key: Keys = None, keys_file: KeysFile = None, lake: Lake = None, topic: Topic = None, dry_run: DryRun = False,
    as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Erase every record of one subject's keys from the lake, and search the lake again as a proof.

    This includes quarantine/ and files of killed batches; unreadable files of these two kinds are deleted.

    Numbers, topics and hours of the erased events stay, so that the audit does not report them as lost. Keys and
    payloads do not stay. The hub's database and Kafka are not touched. Exit code 1: new records were written meanwhile;
    run it again.

    Examples:

      hookwire pipeline erase --key customer-17 --dry-run

      hookwire pipeline erase --keys-file subject.txt --json
    """
    from pipeline.erasure import Subject, erase, find, find_beside
    from pipeline.lake import bronze
    from pipeline.runs import recorded_run

    settings = settings_from(config)
    storage = lake_of(lake, settings)
    subject = Subject(tuple(_keys(key, keys_file)), topic)
    spark, table = session("erase", settings), bronze(storage)
    if dry_run:
        with told_failures():
            found, beside = find(spark, table, subject), find_beside(storage, table, subject)
        records = sum(found.values())
        unreadable = sum(one.found is None for one in beside)
        done = {
            "records": records, "files": len(found), "remnants": len(beside), "unreadable": unreadable,
            "remaining": records,
        }  # fmt: skip
        _result(done, as_json, f"{records:,} records in {len(found)} files would be erased, and those in {len(beside)} "
                f"files beside the table, {unreadable} of which cannot be read and would be deleted")  # fmt: skip
        return
    # The run does not note the keys, because they may name a person.
    with told_failures(), recorded_run(storage, "erase", {"keys": len(subject.keys), "topic": topic}) as run:
        erased = erase(spark, storage, table, subject, run.id)
        run.counts = done = {name: getattr(erased, name) for name in erased.__slots__}
    words = (
        f"{erased.records:,} records erased from {erased.files} files, {erased.replaced} older files deleted, "
        f"{erased.remnants} beside the table cleared"
    )
    _result(done, as_json, f"{words}; a search of the lake finds {erased.remaining} left")
    if erased.remaining:
        raise typer.Exit(1)


def _keys(given: list[str] | None, file: Path | None) -> list[str]:
    keys = list(given or ())
    if file is not None:
        try:
            keys += file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise CommandFailed(f"cannot read {file}: {error}", 2) from None
    if not (keys := [key for key in keys if key]):
        raise CommandFailed("no key was given: name at least one by --key or --keys-file", 2)
    return keys


def _result(done: dict[str, Any], as_json: bool, words: str) -> None:
    say(json.dumps(done) if as_json else words)

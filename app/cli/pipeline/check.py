"""``hookwire pipeline check`` and ``convert``: check the files of a lake, convert an older lake. They need no Java."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.entry import Config, Json, settings_from
from app.cli.failure import CommandFailed
from app.cli.listing import print_result
from app.cli.pipeline.lake import DryRun, Lake, lake_of, told_failures
from runtime.counted import counted, were

if TYPE_CHECKING:
    from pipeline.lake import Table
    from pipeline.repair.damage import Damage, Inspection
    from pipeline.repair.foreign_rows import RowChange
    from pipeline.storage import LakeStorage

__all__ = ["accept_commit", "accept_log", "accept_seals", "check", "convert", "forget"]

Deep = Annotated[bool, typer.Option("--deep", help="Read every byte, and compare it with the hash in the log.")]
Quarantine = Annotated[bool, typer.Option("--quarantine", help="Move unreadable files from the table to quarantine/.")]
Number = Annotated[int, typer.Argument(min=0, help="The number of the commit in the table's log.")]
TableName = Annotated[str, typer.Option("--table", help="The table of the lake.")]
NamedLake = Annotated[str, typer.Option("--lake", help="The lake, a folder or URI, as `hookwire status` names it.")]
_NAMED_MAX = 10


def check(
    lake: Lake = None, deep: Deep = False, quarantine: Quarantine = False, as_json: Json = False, config: Config = None
) -> None:
    """Check that every file of the lake's tables exists and is complete, and that the log says the truth about it.

    It reads the end of each file and no rows. `hookwire pipeline audit` checks that all events are there and in order.
    With --deep it reads every byte, and names each file that is not as it was written.

    It also names the commits of other tools. A commit that rearranges files, such as OPTIMIZE, is a note. A commit that
    changed rows is a finding with event ids, until `hookwire pipeline accept-commit` accepts it. If the hub's database
    answers, each log has to hold the newest commit that the database knows.

    Exit code 1: there are findings. With --quarantine, files whose records cannot be read are moved to quarantine/ of
    the lake, and the table's log names the reason. A file whose records can be read always stays. For bronze, the audit
    then names the lost events, and `hookwire pipeline replay --lost` publishes them again. For other tables, run
    `hookwire pipeline deliveries`, `metrics`, `slo` or `typed`: they compute the days again, deliveries only while the
    database still has the attempts.

    Examples:

      hookwire pipeline check

      hookwire pipeline check --deep --quarantine --json
    """
    from app.cli.pipeline.marks import LogMarks
    from pipeline.repair.damage import inspect, put_aside
    from pipeline.repair.foreign_rows import changes
    from pipeline.runs import recorded_run
    from pipeline.tables import lake_tables

    settings = settings_from(config)
    storage = lake_of(lake, settings)
    with told_failures():
        tables = lake_tables(storage)
        marks = LogMarks(settings, storage, tables, has_all=True)
        other_logs = marks.departures()
        found = [inspect(storage, table, deep=deep) for table in tables]
        changed = [
            (one.table.name, each) for one in found for each in changes(storage, one.table, one.foreign, _NAMED_MAX)
        ]
        damaged = [(f"{one.table.name}/{damage.file.path}", damage) for one in found for damage in one.damages]
        lost = [damage for _, damage in damaged if damage.is_lost]
        records = sum(damage.file.rows for damage in lost)
        quarantine = quarantine and not other_logs  # a cut log names old files
        if quarantine and lost:
            with recorded_run(storage, "check", {"quarantine": True}) as run:
                for one in found:
                    put_aside(storage, one.table, one.damages, run.id)
                run.counts, run.state = {"files": len(lost), "records": records}, "findings"
            marks.store()
    files, unknown = sum(one.files for one in found), sum(one.without_hash for one in found)
    notes = _notes(found, changed)
    done = {
        "files": files, "records": records, "quarantined": quarantine, "without_hash": unknown, "notes": notes,
        "damaged": [{"path": path, "reason": damage.reason, "lost": damage.is_lost} for path, damage in damaged],
        "foreign": [{"table": table, **asdict(each), "commit": each.commit.version, "tool": each.commit.tool,
                     "operation": each.commit.operation} for table, each in changed],
        "logs": other_logs,
    }  # fmt: skip
    lines = [*other_logs]
    lines += [f"{path}: {damage.reason}" for path, damage in damaged]
    lines += [f"{table}: {each.sentence}" for table, each in changed]
    lines += [f"note: {note}" for note in notes]
    words = _summary(found, damaged, changed, is_put_aside=quarantine)
    print_result(done, "\n".join([*lines, words]), as_json=as_json)
    if damaged or changed or other_logs:
        raise typer.Exit(1)


def _summary(
    found: Sequence[Inspection], damaged: Sequence[tuple[str, Damage]], changed: Sequence[object], *, is_put_aside: bool
) -> str:
    """Return how much was checked and what is wrong, in one line."""
    lost = [damage for _, damage in damaged if damage.is_lost]
    files, unknown = sum(one.files for one in found), sum(one.without_hash for one in found)
    verb = "put into quarantine" if is_put_aside else "lost"
    hashed = f"; the log has no hash of {unknown} of them any more" if unknown else ""
    return (
        f"{counted(files, 'file')} {were(files)} checked, {len(damaged)} damaged, {len(lost)} of them {verb}, "
        f"{counted(sum(damage.file.rows for damage in lost), 'record')} in "
        f"them; the log is wrong about {len(damaged) - len(lost)}; "
        f"{len(changed)} commits of other tools changed rows{hashed}"
    )


def _notes(found: Sequence[Inspection], changed: Sequence[tuple[str, RowChange]]) -> list[str]:
    """Return the commits of other tools that changed no row, in words."""
    findings = {(table, each.commit.version) for table, each in changed}
    return [
        f"{one.table.name}: {commit.name}, changed no row"
        for one in found
        for commit in one.foreign
        if (one.table.name, commit.version) not in findings
    ]


def accept_commit(
    number: Number, lake: Lake = None, table: TableName = "bronze", as_json: Json = False, config: Config = None
) -> None:
    """Accept a commit of another tool that changed rows, so that `check` and `audit` do not report it any more.

    NUMBER is the number that `hookwire pipeline check` names. The audit still names each lost or altered event. `typed`
    computes the days anew in which bronze has other rows by it.

    Examples:

      hookwire pipeline accept-commit 17
    """
    from app.cli.pipeline.marks import marked
    from pipeline.repair.foreign_rows import accept, changed_files
    from pipeline.runs import recorded_run
    from pipeline.typed.tables import forget_days

    settings = settings_from(config)
    storage = lake_of(lake, settings)
    with told_failures():
        named = _named(storage, table)
    inputs = {"table": table, "commit": number}
    with told_failures(), marked(settings, storage, [named]), recorded_run(storage, "accept-commit", inputs) as run:
        if not accept(named, number, run.id):
            raise CommandFailed(f"{table} has no commit {number} of another tool that waits: see `check`", 2)
        if table == "bronze":
            forget_days(storage, changed_files(named, number), "accept-commit", run.id)
    words = f"commit {number} of {table} is accepted"
    print_result({"table": table, "commit": number, "done": "accepted"}, words, as_json=as_json)


def accept_log(lake: Lake = None, table: TableName = "bronze", as_json: Json = False, config: Config = None) -> None:
    """Let the present log of a table count, although it lacks commits that the database knows.

    Do this after a lake was restored from a backup or begun anew on purpose. `check` and `audit` name the difference
    until then, and no job writes to the table. The archive then reads again what the log lacks, as far as Kafka keeps
    it. The audit names each event that is lost.

    Examples:

      hookwire pipeline accept-log
    """
    from app.cli.pipeline.marks import LogMarks
    from pipeline.typed.tables import named_table

    settings = settings_from(config)
    storage = lake_of(lake, settings)
    with told_failures():
        # Somebody may have deleted a version of a topic's typed rows.
        LogMarks(settings, storage, [named_table(storage, table) or _named(storage, table)]).accept()
    print_result({"table": table, "done": "accepted"}, f"the log of {table} is accepted as it is", as_json=as_json)


def accept_seals(lake: Lake = None, as_json: Json = False, config: Config = None) -> None:
    """Let the present records of the lake count although no seal proves them. It needs the hub's keys, and Spark.

    Do this after an archive ran without the hub's keys, or after the hub has lost a key. The audit then counts such
    records of before, and names those of events that are accepted later. If the number rises, it says so. It still
    names records that were altered.

    Examples:

      hookwire pipeline accept-seals
    """
    from app.cli.pipeline.auditing.seals import accept_present

    settings = settings_from(config)
    with told_failures():
        since = accept_present(settings, lake_of(lake, settings))
    done = {"sealed_from": since.isoformat(), "done": "accepted"}
    print_result(done, f"records of before {since} are accepted", as_json=as_json)


def forget(lake: NamedLake, as_json: Json = False, config: Config = None) -> None:
    """Let the database forget a lake that is not used any more, so that `hookwire status` does not tell it.

    It forgets how the lake's audits ended, and all by which it confirms the lake. That is marks of logs, bounds of
    retention, the time of the seals, and proved days. The lake itself stays as it is, and its store need not answer.
    The next archive or audit of the lake begins anew.

    Examples:

      hookwire pipeline forget --lake s3a://lakes/copy
    """
    from app.cli.pipeline.auditing.note import forgotten
    from pipeline.storage import full_uri

    settings, uri = settings_from(config), full_uri(lake)
    rows = asyncio.run(forgotten(settings, uri))
    if not rows:
        raise CommandFailed(f"the database does not know the lake {uri}", 2)
    done = {"lake": uri, "rows": rows, "done": "forgotten"}
    print_result(done, f"the database has forgotten the lake {uri}", as_json=as_json)


def _named(storage: LakeStorage, name: str) -> Table:
    from pipeline.tables import lake_tables

    named = next((each for each in lake_tables(storage) if each.name == name), None)
    if named is None:
        raise CommandFailed(f"the lake has no table {name}", 2)
    return named


def convert(lake: Lake = None, dry_run: DryRun = False, as_json: Json = False, config: Config = None) -> None:
    """Convert a lake of an older version into Delta tables. No data file is copied; the command can be repeated.

    Stop the archive of the older version first. The old logs are moved to before-delta/ of the lake.

    Examples:

      hookwire pipeline convert --dry-run

      hookwire pipeline convert
    """
    from app.cli.pipeline.marks import marked
    from pipeline.conversion import convert, old_log
    from pipeline.runs import recorded_run
    from pipeline.tables import lake_tables

    settings = settings_from(config)
    storage = lake_of(lake, settings)
    with told_failures():
        tables = lake_tables(storage)
        if dry_run:
            found = [old_log(storage, table) for table in tables]
        else:
            with marked(settings, storage, tables), recorded_run(storage, "convert", {}) as run:
                found = [convert(storage, table, run.id) for table in tables]
                run.counts = {"tables": sum(one is not None for one in found)}
    done = {one.table: {"files": len(one.files), "rows": one.rows} for one in found if one is not None}
    lines = [
        f"{name}: {counted(counts['files'], 'file')}, {counted(counts['rows'], 'row')}" for name, counts in done.items()
    ]
    verb = "would be" if dry_run else were(len(done))
    lines.append(f"{counted(len(done), 'table')} {verb} converted")
    print_result({"tables": done}, "\n".join(lines), as_json=as_json)

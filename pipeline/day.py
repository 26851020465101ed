"""Days: tables whose days are replaced as a whole, so that a job for a day may run any number of times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date

from pyspark.sql import DataFrame

from pipeline.delta.snapshot import Change, DataFile, Snapshot
from pipeline.lake import Table

__all__ = ["counts_of_days", "put_days", "replacing", "sources_of_days", "written"]


def counts_of_days(snapshot: Snapshot) -> dict[date, int]:
    """Return the number of rows of each day."""
    counts: dict[date, int] = {}
    for file in snapshot.files:
        counts[file.day] = counts.get(file.day, 0) + file.rows
    return counts


def put_days(table: Table, added: tuple[DataFile, ...], sources: Mapping[date, int], job: str, run: str) -> None:
    """Replace all files of these days by these files, in one commit.

    ``sources`` holds the number of source rows of each day. A day that is not in it stays as it is.

    Raises LakeConflict and LakeDamaged.
    """
    days = {day.isoformat(): rows for day, rows in sources.items()}
    table.amend(lambda basis: replacing(basis, added, days, lambda file: file.values["dt"], job, run))


def replacing(
    basis: Snapshot, added: tuple[DataFile, ...], sources: Mapping[str, int], key_of: Callable[[DataFile], str],
    job: str, run: str,
) -> Change:  # fmt: skip
    """Return the change by which these files replace all files of these days.

    ``sources`` has the keys of ``State.days``; ``key_of`` returns the key of a file's day.
    """
    assert {key_of(file) for file in added} <= sources.keys(), "files are of the days that are put"
    removed = tuple(file.path for file in basis.files if key_of(file) in sources)
    state = replace(basis.state, days={**basis.state.days, **sources})
    return Change(job, run, added, removed, state, {"days": dict(sources)})


def sources_of_days(table: Table) -> dict[date, int]:
    """Return the number of source rows of each day, without days that have lost a file to quarantine since."""
    return {date.fromisoformat(day): rows for day, rows in table.snapshot().state.days.items()}


def written(table: Table, frame: DataFrame) -> tuple[DataFile, ...]:
    """Write rows into few files that are not part of the table yet."""
    return table.write(frame.coalesce(1), table.snapshot().number + 1)

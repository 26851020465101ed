"""Foreign rows: which rows another tool's commit added to a table and removed from it, by their names.

A tool that changes one row writes its whole file again. So the rows of the removed and the added files are compared.
The driver reads these files, and keeps a number for each row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import ArrowException

from pipeline.delta.foreign import ForeignCommit
from pipeline.delta.snapshot import Change, DataFile, Snapshot
from pipeline.lake import Table
from pipeline.storage import LakeStorage

__all__ = ["RowChange", "accept", "changes"]

_BATCH_ROWS: Final = 10_000


@dataclass(frozen=True, slots=True)
class RowChange:
    """Rows that a commit of another tool added and removed, and the names of some: event ids, else places.

    An altered row is removed and added. ``problem`` says why the rows could not be compared; "" if they were.
    """

    commit: ForeignCommit
    added: int
    removed: int
    examples: Sequence[str]
    problem: str = ""

    @property
    def sentence(self) -> str:
        """Return the change and its cure as a sentence."""
        number = self.commit.version
        rows = self.problem or f"it added {self.added:,} rows and removed {self.removed:,}"
        names = f": {' '.join(self.examples)}" if self.examples else ""
        return f"{self.commit.name}, changed rows; {rows}{names}; hookwire pipeline accept-commit {number} accepts it"


def changes(lake: LakeStorage, table: Table, foreign: Sequence[ForeignCommit], examples_max: int) -> list[RowChange]:
    """Return the changes of rows by these commits.

    A commit may say that it only rearranges. It is believed if it keeps the number of rows of each day and topic. An
    audit proves their contents. Of any other commit all rows are compared.
    """
    found = (_change(lake, table, commit, examples_max) for commit in foreign)
    return [change for change in found if change is not None]


def accept(table: Table, version: int, run: str) -> bool:
    """Accept the rows of another tool's commit; return whether there is such a commit that is not accepted yet.

    Raises LakeConflict and LakeDamaged.
    """
    is_there = False

    def change(basis: Snapshot) -> Change | None:
        nonlocal is_there
        left = tuple(commit for commit in basis.state.foreign if commit.version != version)
        is_there = len(left) < len(basis.state.foreign)
        state = replace(basis.state, foreign=left)
        return Change("accept-commit", run, state=state, notes={"accepted": version}) if is_there else None

    table.amend(change)
    return is_there


def changed_files(table: Table, version: int) -> list[DataFile]:
    """Return the files that a commit added and removed; all of the table if the log does not say it any more."""
    entry = table.entry(version)
    files = [*entry.files("add"), *entry.files("remove")] if entry is not None else []
    return files if files and all("dt" in file.values for file in files) else list(table.snapshot().files)


def _change(lake: LakeStorage, table: Table, commit: ForeignCommit, examples_max: int) -> RowChange | None:
    entry = table.entry(commit.version)
    if entry is None:
        problem = "its entry is not in the log any more"
        return RowChange(commit, 0, 0, (), problem) if commit.changes_rows else None
    added, removed = entry.files("add"), entry.files("remove")
    if not (added or removed):
        return None
    try:
        if not commit.changes_rows and _counts(lake, table, added) == _counts(lake, table, removed):
            return None
        # Added minus removed: a row on both sides has not changed.
        difference = Counter(number for number, _ in _rows(lake, table, added, names=False))
        difference.subtract(number for number, _ in _rows(lake, table, removed, names=False))
        changed = {number: count for number, count in difference.items() if count}
        named = (name for number, name in _rows(lake, table, [*added, *removed], names=True) if number in changed)
        examples = sorted(_first(named, examples_max)) if changed else []
    except (ArrowException, FileNotFoundError, ValueError):
        problem = "its files are deleted already, so its rows cannot be named"
        return RowChange(commit, 0, 0, (), problem) if commit.changes_rows else None
    more, fewer = (sum(sign * count for count in changed.values() if sign * count > 0) for sign in (1, -1))
    return RowChange(commit, more, fewer, examples) if changed else None


def _counts(lake: LakeStorage, table: Table, files: Sequence[DataFile]) -> Counter[str]:
    """Return the rows of the files by their partition values."""
    counts: Counter[str] = Counter()
    for file in files:
        with lake.open(table.place(file)) as opened:
            counts[repr(sorted(file.values.items()))] += pq.read_metadata(opened).num_rows
    return counts


def _first(names: Iterator[str], limit: int) -> set[str]:
    found: set[str] = set()
    for name in names:
        found.add(name)
        if len(found) == limit:
            break
    return found


def _rows(lake: LakeStorage, table: Table, files: Sequence[DataFile], *, names: bool) -> Iterator[tuple[int, str]]:
    """Yield a number for each row, which covers all of its columns, and the row's name if ``names``."""
    columns = [name for name in table.schema.names if files and name not in files[0].values]
    for file in files:
        place = repr(sorted(file.values.items()))
        with lake.open(table.place(file)) as opened:
            for batch in pq.ParquetFile(opened).iter_batches(_BATCH_ROWS):
                for row in _plain(batch, columns):
                    yield hash((place, repr(row))), _name(dict(zip(columns, row, strict=True)), file) if names else ""


def _plain(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows as values that are equal whichever tool wrote the file. Times are numbers of any year."""
    found = []
    for name in columns:
        if name not in batch.schema.names:
            found.append([None] * batch.num_rows)
            continue
        values = batch.column(name)
        if pa.types.is_timestamp(values.type):
            values = values.cast(pa.timestamp("us")).cast(pa.int64())
        found.append(values.to_pylist())
    return zip(*found, strict=True)


def _name(row: dict[str, Any], file: DataFile) -> str:
    place = [file.values.get("topic"), row.get("partition"), row.get("offset")]
    return str(row.get("event_id") or ":".join(str(part) for part in place if part is not None))

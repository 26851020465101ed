"""Words: the statistics that other readers take from a table's log, and the rows that they count."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError
from pyarrow import ArrowException

from pipeline.delta.snapshot import Snapshot
from pipeline.lake import LakeDamaged, Table

__all__ = ["counted_by_deltalake", "statistics"]

_ROWS_AT_ONCE: Final = 1_000
_ALWAYS: Final = {"path", "num_records"}


def statistics(table: Table, wanted: Collection[str] | None = None) -> dict[str, dict[str, Any]]:
    """Return the log's words on each file, by its path. Raises LakeDamaged.

    They are ``num_records``, and as far as the log has them ``min.<column>``, ``max.<column>`` and
    ``null_count.<column>``. ``deleted_rows`` is true if the file has a deletion vector.

    ``wanted``: the paths of these files only.
    """
    opened = table.opened()
    if opened is None:
        return {}
    try:
        said = pa.table(opened.get_add_actions(flatten=True))
        if wanted is not None:
            said = said.filter(pa.array([unquote(path) in wanted for path in said["path"].to_pylist()], pa.bool_()))
        # In parts: a row names each column, and most of them are null.
        rows = [
            {name: value for name, value in row.items() if value is not None or name in _ALWAYS}
            for part in said.to_batches(max_chunksize=_ROWS_AT_ONCE)
            for row in part.to_pylist()
        ]
        vectors = pa.table(opened.deletion_vectors())["filepath"].to_pylist()
    except DeltaError as error:  # the vector itself cannot be read
        reason = str(error).partition("\n")[0][:300]
        raise LakeDamaged(f"{table.name} has a deletion vector, which hookwire does not read: {reason}") from error
    except (OverflowError, ValueError) as error:
        raise LakeDamaged(f"{table.name}: the log has a time outside the years 1 to 9999 ({error})") from error
    with_vector = [unquote(path) for path in vectors]
    return {
        (path := unquote(row["path"])): row | {"deleted_rows": any(each.endswith(path) for each in with_vector)}
        for row in rows
    }


def counted_by_deltalake(table: Table, snapshot: Snapshot) -> int:
    """Return how many rows ``deltalake`` counts in all days of these files, as a second reader.

    Raises LakeDamaged if it cannot read them.
    """
    opened = table.opened(snapshot.version) if snapshot.files else None
    if opened is None:
        return 0
    days = pa.array(sorted({file.values["dt"] or None for file in snapshot.files}, key=str)).cast(pa.date32())
    of_days = pc.is_in(pc.field("dt"), value_set=days)
    try:
        return int(opened.to_pyarrow_dataset().count_rows(filter=of_days))
    except (ArrowException, DeltaError, OSError) as error:
        reason = str(error).partition("\n")[0][:300]
        raise LakeDamaged(f"{table.name}: deltalake cannot read these days: {reason}") from error

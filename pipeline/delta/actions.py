"""Actions: the words of the Delta log on a file, as we write and as we read them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any, Final
from urllib.parse import quote, unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from pipeline.delta.snapshot import DataFile
from pipeline.delta.statistics import NUMBER

__all__ = ["actions_of", "commit_of", "listed"]

_KEPT: Final = "/:=+"
"""Letters of a path that need no escape in the log."""


def actions_of(
    added: Sequence[DataFile], removed: Sequence[DataFile], partitions: Sequence[str], now: int
) -> list[AddAction | RemoveAction]:
    """Return the actions that remove and add these files; ``now`` is in milliseconds."""
    gone = [RemoveAction(each.path, True, now, size=each.bytes, partition_values=_values(each, partitions))
            for each in removed]  # fmt: skip
    return [*gone, *(_addition(file, partitions, now) for file in added)]


def _addition(file: DataFile, partitions: Sequence[str], now: int) -> AddAction:
    low, high = file.numbers or (None, None)
    bounds = {} if low is None else {"minValues": {NUMBER: low}, "maxValues": {NUMBER: high}}
    stats = json.dumps({"numRecords": file.rows, **bounds})
    return AddAction(file.path, file.bytes, _values(file, partitions), now, True, stats)


def commit_of(
    ours: Mapping[str, Any], files: Sequence[DataFile], partitions: Sequence[str], app: str, now: int
) -> bytes:
    """Return a commit that only adds files, in the words of ``deltalake``; ``ours`` are our notes on it.

    ``now`` is in milliseconds.
    """
    parameters = {"mode": "Append", "partitionBy": json.dumps(list(partitions))}
    info = {"timestamp": now, "operation": "WRITE", "operationParameters": parameters, "engineInfo": app, app: ours}
    added = [_addition(file, partitions, now) for file in files]
    lines: list[dict[str, Any]] = [
        {"commitInfo": info},
        *({"add": {
            "path": quote(each.path, safe=_KEPT), "partitionValues": dict(each.partition_values), "size": each.size,
            "modificationTime": each.modification_time, "dataChange": each.data_change, "stats": each.stats,
        }} for each in added),
        {"txn": {"appId": app, "version": ours["number"]}},
    ]  # fmt: skip
    return b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)


def listed(table: DeltaTable, partitions: Sequence[str], rows_in: Callable[[DataFile], int]) -> Iterator[DataFile]:
    """Yield the files that the log names. ``rows_in`` counts the rows of a file of which the log does not say it."""
    rows = pa.table(table.get_add_actions(flatten=True))
    needed = ["path", "size_bytes", "num_records", *(f"{bound}.{NUMBER}" for bound in ("min", "max"))]
    needed += [f"partition.{name}" for name in partitions]
    for row in rows.select([name for name in needed if name in rows.column_names]).to_pylist():
        file = _file(row, partitions)
        yield file if row["num_records"] is not None else replace(file, rows=rows_in(file))


def _file(row: Mapping[str, Any], partitions: Sequence[str]) -> DataFile:
    values = {name: _text(row.get(f"partition.{name}")) for name in partitions}
    low, high = row.get(f"min.{NUMBER}"), row.get(f"max.{NUMBER}")
    numbers = None if low is None or high is None else (low, high)
    return DataFile(unquote(row["path"]), row["num_records"] or 0, row["size_bytes"], numbers=numbers, partition=values)


def _values(file: DataFile, partitions: Sequence[str]) -> dict[str, str | None]:
    return {name: file.values[name] or None for name in partitions}


def _text(value: Any) -> str:
    """Return a partition value as the log writes it; "" for null."""
    return "" if value is None else value.isoformat() if isinstance(value, date) else str(value)

"""Statistics: compares the log's words on the values of a file with the file itself.

Other readers skip files by these statistics and count by them, so a wrong one is a wrong answer for them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, NamedTuple

import pyarrow.parquet as pq
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

__all__ = [
    "EARLIEST",
    "LATEST",
    "NUMBER",
    "ValueBounds",
    "event_numbers",
    "hidden_column",
    "other_type",
    "wrong_bounds",
    "wrong_statistics",
]

NUMBER: Final = "event_number"

_PHYSICAL: Final[Mapping[type[DataType], tuple[str, ...]]] = {
    BinaryType: ("BYTE_ARRAY",), DateType: ("INT32",), DoubleType: ("DOUBLE",), IntegerType: ("INT32",),
    LongType: ("INT64",), StringType: ("BYTE_ARRAY",), TimestampType: ("INT64", "INT96"),
}  # fmt: skip
"""Parquet's own names of the types that a column may have."""
_SHORTENED_MIN: Final = 32
"""No writer of Delta shortens a text to fewer characters than these."""
EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
LATEST: Final = datetime.max.replace(tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
"""The protocol lets the log leave out finer parts of a time."""


class ValueBounds(NamedTuple):
    """The least and the greatest value of a column of a file, None if all are null, and the number of nulls.

    Texts are bytes in UTF-8.
    """

    low: Any
    high: Any
    nulls: int | None


def wrong_bounds(said: Mapping[str, Any], metadata: pq.FileMetaData, real: Mapping[str, ValueBounds]) -> str | None:
    """Return the first wrong word of a file's footer, or of the log on it; None if there is none.

    ``real`` are the bounds of the values that the file holds. ``said`` is a value of ``words.statistics``.
    """
    footer = {name: ValueBounds(low, high, nulls) for name, low, high, nulls in _columns(metadata)}
    for column, bounds in real.items():
        if bounds.low == EARLIEST or bounds.high == LATEST:
            return f"it has a time of {column} outside the years 1 to 9999"
        nothing = ValueBounds(None, None, None)
        in_log = ValueBounds(said.get(f"min.{column}"), said.get(f"max.{column}"), said.get(f"null_count.{column}"))
        for who, words in (("footer", footer.get(column, nothing)), ("log", in_log)):
            if words.nulls not in (None, bounds.nulls):
                return f"its {who} says {words.nulls} nulls in {column}, and it has {bounds.nulls}"
            for bound, named, value, is_low in (
                ("min", words.low, bounds.low, True), ("max", words.high, bounds.high, False),
            ):  # fmt: skip
                if named is not None and (value is None or not _agree(named, value, is_low=is_low)):
                    return f"its {who} says {bound} {_shown(named)} of {column}, and it is {_shown(value)}"
    return None


def wrong_statistics(said: Mapping[str, Any], metadata: pq.FileMetaData) -> str | None:
    """Return the first wrong word of the log on a file; None if all that can be compared agrees.

    ``said`` is a value of ``words.statistics``.
    """
    if said["deleted_rows"]:
        return "a deletion vector, which is no feature of this table, deletes rows of it"
    if said["num_records"] not in (None, metadata.num_rows):
        return f"the log says {said['num_records']} rows, and it has {metadata.num_rows}"
    for column, low, high, nulls in _columns(metadata):
        found = said.get(f"null_count.{column}")
        if found is not None and nulls is not None and found != nulls:
            return f"the log says {found} nulls in {column}, and it has {nulls}"
        for bound, real, is_low in (("min", low, True), ("max", high, False)):
            named = said.get(f"{bound}.{column}")
            if named is not None and real is not None and not _agree(named, real, is_low=is_low):
                return f"the log says {bound} {_shown(named)} of {column}, and it is {_shown(real)}"
    return None


def other_type(metadata: pq.FileMetaData, schema: StructType) -> str | None:
    """Return the first column of a file whose type is not that of the table; None if there is none.

    Columns that are nested, or of other tools, are not compared.
    """
    wanted = {field.name: _PHYSICAL.get(type(field.dataType), ()) for field in schema.fields}
    for place in range(metadata.num_columns):
        column = metadata.schema.column(place)
        types = wanted.get(column.path, ())
        if types and column.physical_type not in types:
            return f"the column {column.path} has the type {column.physical_type}, and should have {types[0]}"
    return None


def hidden_column(metadata: pq.FileMetaData, schema: StructType, known: Collection[str]) -> str | None:
    """Return the first of our columns that a file has and the schema in the log lacks; None if there is none.

    Every other reader takes the log's schema, and does not see the column.
    """
    held = {metadata.schema.column(place).path.partition(".")[0] for place in range(metadata.num_columns)}
    hidden = sorted(held & set(schema.names) - set(known))
    return f"the log's schema lacks the column {hidden[0]}, which it has" if hidden else None


def _columns(metadata: pq.FileMetaData) -> Iterator[tuple[str, Any, Any, int | None]]:
    """Yield name, least value, greatest value and number of nulls of each column that is not nested."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for place in range(metadata.num_columns if groups else 0):
        name = groups[0].column(place).path_in_schema
        known = [group.column(place).statistics for group in groups]
        if "." in name or any(each is None for each in known):
            continue
        nulls = sum(each.null_count for each in known) if all(each.has_null_count for each in known) else None
        # A group of nulls only has no bounds.
        full = [each for each, group in zip(known, groups, strict=True) if each.null_count != group.num_rows]
        if full and all(each.has_min_max for each in full):
            yield name, min(_bound(each, "min") for each in full), max(_bound(each, "max") for each in full), nulls
        else:
            yield name, None, None, nulls


def _bound(of: pq.Statistics, name: str) -> Any:
    """Return a bound in a footer, for a text in bytes: not each one is UTF-8. A time that Python does not have is the
    nearest that it has.
    """
    if of.physical_type == "BYTE_ARRAY":
        return getattr(of, f"{name}_raw")
    try:
        return getattr(of, name)
    except (OverflowError, ValueError):
        return LATEST if getattr(of, f"{name}_raw") > 0 else EARLIEST


def _agree(named: Any, real: Any, *, is_low: bool) -> bool:
    """Return whether a bound in the log is that of the file. A text may be shortened, and then only bounds it."""
    named, real = (each.encode() if isinstance(each, str) else each for each in (named, real))
    if isinstance(named, datetime) and isinstance(real, datetime):
        return abs(_in_utc(named) - _in_utc(real)) < _MILLISECOND
    if isinstance(named, bytes) and isinstance(real, bytes):
        return _is_bound(named, real, is_low=is_low)
    if isinstance(named, (bool, int, date)) and isinstance(real, type(named)):
        return named == real
    return True


def _is_bound(named: bytes, real: bytes, *, is_low: bool) -> bool:
    """Return whether a text in UTF-8, which keeps the order, bounds the real one. Writers may shorten it."""
    is_cut = len(named) >= _SHORTENED_MIN and real.startswith(named)
    return named <= real if is_low else named >= real or is_cut


def _shown(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _in_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def event_numbers(metadata: pq.FileMetaData) -> tuple[int, int] | None:
    """Return the least and the greatest event number, if each row group has them."""
    groups = [metadata.row_group(n) for n in range(metadata.num_row_groups)]
    columns = [group.column(n) for group in groups for n in range(metadata.num_columns)]
    found = [column.statistics for column in columns if column.path_in_schema == NUMBER]
    if not found or not all(statistics is not None and statistics.has_min_max for statistics in found):
        return None
    return min(statistics.min for statistics in found), max(statistics.max for statistics in found)

"""Seal: a keyed hash over every column of a row of bronze, so that none can be altered unseen.

::

    name, "=", length, ":", bytes     of each column that is not null, in the order of the schema
      '--> HMAC-SHA256 --> ``seal``       its first 32 hexadecimal digits
    key of the installation ---> ``seal_key``   a name of the key, which tells nothing about it

The archive seals rows. Whoever rearranges them later keeps their seals, and never makes one. A row without a seal was
written by an older version, by an archive without the keys, or by somebody else. Null columns are left out of the
hash. So null is not empty, and a column that a later version adds does not break the seals of before.

The keys are joined as a table of a few rows. As literals they would stand in Spark's plans and event logs.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pipeline.bronze import FUTURE_SECONDS, believed_at
from pipeline.frame import frame_of
from pipeline.schema import BRONZE, SEAL

__all__ = ["NO_KEYS", "SealKeys", "SealedFrom", "Seals", "sealed", "sealed_since", "unproved", "with_seal_state"]

_BLOCK_BYTES: Final = 64
_DIGITS: Final = 32
_PADS: Final = "seal_key string, inner_pad binary, outer_pad binary"
_EVER: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class SealKeys:
    """The keys of an installation's seals, at most 64 bytes each, the current one first. Its text shows none."""

    keys: tuple[bytes, ...] = field(default=(), repr=False)

    @property
    def names(self) -> list[str]:
        """Return the name of each key, as in the column ``seal_key``."""
        return [_name(key) for key in self.keys]

    def rows(self, most: int | None = None) -> list[list[object]]:
        """Return name and pads of each key, at most ``most``."""
        return [[_name(key), _pad(key, 0x36), _pad(key, 0x5C)] for key in self.keys[:most]]


NO_KEYS: Final = SealKeys()


@dataclass(frozen=True, slots=True)
class Seals:
    """What an audit knows of seals. Rows that were accepted from ``since`` on have one; None if nobody knows.

    At most ``unproved`` rows have no seal that proves them; None if nobody knows.
    """

    keys: SealKeys = NO_KEYS
    since: datetime | None = None
    unproved: int | None = None


class SealedFrom(NamedTuple):
    """The time from which all rows of a lake are sealed, and the number of rows that no seal proves."""

    since: datetime
    unproved: int


def sealed(rows: DataFrame, keys: SealKeys) -> DataFrame:
    """Return rows of bronze with their seals, in their order; without a key as they are."""
    if not keys.keys:
        return rows
    pads = F.broadcast(frame_of(rows.sparkSession, keys.rows(1), _PADS))
    return rows.drop(*SEAL).crossJoin(pads).withColumn("seal", _seal()).select(*BRONZE.names)


def with_seal_state(rows: DataFrame, seals: Seals) -> DataFrame:
    """Return the rows with the column ``seal_state``, which is null if the seal is that of the row.

    * ``broken``: a column is not as it was when the row was sealed.
    * ``unsealed``: there is no seal, although the event was accepted after the first seals.
    * ``other key``: the seal was made with a key that the audit does not have.
    * ``unproved``: one of these two, in a row of before ``since``.
    """
    is_later = F.lit(False)
    if seals.since is not None:
        is_later = believed_at(F.col("archived_at")) >= F.lit(seals.since)
    is_known, has_key = F.col("inner_pad").isNotNull(), F.col("seal_key").isNotNull()
    state = (
        F.when(is_known, F.when(~F.col("seal").eqNullSafe(_seal()), "broken"))
        .when(has_key & (is_later | F.lit(seals.since is None)), "other key")
        .when(is_later, "unsealed")
        .otherwise("unproved")
    )
    return _with_pads(rows, seals.keys).withColumn("seal_state", state).drop("inner_pad", "outer_pad")


def sealed_since(rows: DataFrame, keys: SealKeys) -> SealedFrom | None:
    """Return the time from which all rows are sealed; None if no row has a seal of these keys. No seal is computed.

    Nobody believes a row that says that it is of the future. The clocks of two machines may differ by an hour.
    """
    # As a number: a forged time of the year 10000 is none of Python's.
    newest = F.max(F.when(F.col("seal_key").isNull(), F.unix_micros(believed_at(F.col("archived_at")))))
    counted = F.count("inner_pad").alias("sealed"), F.count("*").alias("rows")
    found = _with_pads(rows, keys).agg(*counted, newest.alias("newest")).first()
    if found is None or not found["sealed"]:
        return None
    latest = datetime.now(UTC) + timedelta(seconds=FUTURE_SECONDS)
    micros = 0 if found["newest"] is None else min(found["newest"] + 1, round(latest.timestamp() * 1_000_000))
    return SealedFrom(_EVER + timedelta(microseconds=max(0, micros)), found["rows"] - found["sealed"])


def unproved(rows: DataFrame, keys: SealKeys) -> int:
    """Return the number of rows that no seal of these keys can prove. No seal is computed."""
    return _with_pads(rows, keys).where("inner_pad IS NULL").count()


def _with_pads(rows: DataFrame, keys: SealKeys) -> DataFrame:
    """Return the rows with the pads of their keys, which are null for a row without a seal or of another key."""
    return rows.join(F.broadcast(frame_of(rows.sparkSession, keys.rows(), _PADS)), "seal_key", "left")


def _name(key: bytes) -> str:
    return hmac.new(key, b"name of the key", hashlib.sha256).hexdigest()[:16]


def _pad(key: bytes, byte: int) -> bytes:
    """Return the key as HMAC puts it before a text (RFC 2104)."""
    return bytes(each ^ byte for each in key.ljust(_BLOCK_BYTES, b"\0"))


def _seal() -> Column:
    """Return the seal of a row that has the columns of ``_PADS``."""
    inner = F.sha2(F.concat(F.col("inner_pad"), *_parts()), 256)
    return F.substring(F.sha2(F.concat(F.col("outer_pad"), F.unhex(inner)), 256), 1, _DIGITS)


def _parts() -> Iterable[Column]:
    for each in BRONZE.fields:
        if each.name not in SEAL:
            held = _bytes(each)
            head = F.concat(F.lit(f"{each.name}="), F.octet_length(held).cast("string"), F.lit(":"))
            yield F.coalesce(F.concat(head.cast("binary"), held), F.lit(b""))


def _bytes(of: StructField) -> Column:
    """Return the value of a column as bytes; null for null. Each value has bytes of its own."""
    column = F.col(of.name)
    match of.dataType:
        case BinaryType():
            return column
        case StringType():
            return column.cast("binary")
        case IntegerType() | LongType():
            return column.cast("string").cast("binary")
        case TimestampType():
            return F.unix_micros(column).cast("string").cast("binary")
        case DateType():
            return F.unix_date(column).cast("string").cast("binary")
        case ArrayType(elementType=element):
            return _listed(column, isinstance(element, StructType)).cast("binary")
    raise TypeError(f"no bytes for {of.dataType} in {of.name}")


def _listed(column: Column, has_values: bool) -> Column:
    """Return the elements in hexadecimal digits. Spark does not compile lambdas; most rows have no element."""

    def text(element: Column) -> Column:
        name = F.hex(element["key"]) if has_values else F.hex(element)
        value = F.coalesce(F.concat(F.lit("="), F.hex(element["value"])), F.lit("")) if has_values else F.lit("")
        return F.coalesce(F.concat(F.lit("+"), name, value), F.lit("-"))

    listed = F.array_join(F.transform(column, text), ",")
    return F.when(F.size(column) > 0, listed).when(column.isNotNull(), "")

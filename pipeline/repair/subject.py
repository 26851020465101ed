"""Subject: whose records an erasure looks for, in Spark's rows and in those of pyarrow."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

__all__ = ["SUBJECT_COLUMNS", "Subject"]

SUBJECT_COLUMNS: Final = ("key", "event_id", "ce_subject")
"""The columns of bronze that name a subject. Files of older versions and of other tools may lack the later two."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A person or thing to erase: the keys, the ids or the CloudEvents subjects of its events.

    With ``topic``, only this Kafka topic is searched.
    """

    keys: tuple[str, ...] = ()
    topic: str | None = None
    event_ids: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()

    def matches(self) -> Column:
        """Return whether a row of bronze, or of a table made of it, belongs to the subject."""
        named = [
            F.coalesce(_column(name).isin(values), F.lit(False)) for name, values in self._values().items() if values
        ]
        is_theirs = reduce(Column.__or__, named, F.lit(False))
        return is_theirs & (F.col("topic") == self.topic) if self.topic is not None else is_theirs

    def found_in(self, rows: pa.Table) -> pa.Array:
        """Return for each row whether it belongs to the subject. The topic is that of the file's folder."""
        found = pa.array([False] * rows.num_rows, pa.bool_())
        for name, values in self._values().items():
            if values and name in rows.column_names:
                kind = pa.binary() if name == "key" else pa.string()
                found = pc.or_(found, pc.is_in(rows[name].cast(kind), pa.array(values, kind)))
        return found

    def _values(self) -> dict[str, list[bytearray] | list[str]]:
        """Return the values of each column of ``SUBJECT_COLUMNS``; a key is compared as bytes."""
        return {
            "key": [bytearray(key.encode()) for key in self.keys],
            "event_id": [*self.event_ids],
            "ce_subject": [*self.subjects],
        }


def _column(name: str) -> Column:
    """Return a column of ``SUBJECT_COLUMNS``. A key is bytes in bronze and text in other tables."""
    return F.col("key").cast("binary") if name == "key" else F.col(name)

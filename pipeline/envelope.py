"""Envelope: moves the headers that the relay writes from Kafka's ``headers`` into columns (FP-15).

A nested column costs more to write than all others together, and bronze has a typed column for each of these headers.
Our Kafka source does this in Python; this module does it for rows of Spark's connector. Both follow ``schema.RECORD``.
"""

from __future__ import annotations

from functools import reduce
from operator import add

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from pipeline.schema import ENVELOPE, RECORD

__all__ = ["is_twice", "last_header", "unfolded"]


def unfolded(records: DataFrame) -> DataFrame:
    """Return rows of ``schema.KAFKA`` as rows of ``schema.RECORD``."""
    found = records.withColumns({name: last_header(name) for name in ENVELOPE.values()})
    taken = reduce(add, (F.col(name).isNotNull().cast("int") for name in ENVELOPE.values()))
    # Spark does not compile lambdas, so this one runs only for records that have other headers.
    others = F.filter("headers", lambda each: ~each["key"].isin(*ENVELOPE.values()) | each["value"].isNull())
    kept = F.when(is_twice(F.col("headers.key")), F.col("headers")).otherwise(others)
    return found.withColumn("headers", F.when(F.size("headers") > taken, kept)).select(*RECORD.names)


def last_header(name: str) -> Column:
    """Return the bytes of the last header of that name; null if there is none."""
    place = F.array_position(F.reverse("headers.key"), name)  # counts from 1; 0 means not found
    return F.get(F.reverse("headers.value"), place - 1)


def is_twice(names: Column) -> Column:
    """Return whether a name is in the list more than once."""
    return F.size(names) > F.size(F.array_distinct(names))

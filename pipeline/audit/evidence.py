"""Evidence: the records of bronze as numbers that are cheap to sort and to sum."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from pipeline.audit.content import content
from pipeline.audit.seal import Seals, with_seal_state
from pipeline.bronze import believed_at

__all__ = ["BUCKETS", "evidence", "ghosts", "hash_number", "ledger_hash"]

_JSON: Final = r"^application/([a-z0-9.+-]+\+)?json\s*(;|$)"
_HOUR_MICROS: Final = 3_600_000_000
_FIRST_MICROS, _LAST_MICROS = (
    round((datetime(*day, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) * 1_000_000
    for day in ((1, 1, 2), (9999, 12, 31))
)
BUCKETS: Final = 4
"""An hour of a topic has this number of cells, by the remainder of the id, as in the ledger."""


def evidence(
    bronze: DataFrame, incarnation: str, late_seconds: float | None = None, seals: Seals | None = None
) -> DataFrame:
    """Return a row for each record: ``topic`` (Kafka's), ``key``, ``id``, ``event_id``, ``term``, ``hour``,
    ``partition``, ``offset``, ``archived_at``, ``is_late``, ``is_misfiled``, ``is_erased``, ``is_malformed``,
    ``digest``, ``seal_state``.

    * ``id``: the number of an event of this installation. It is null for foreign records, for events that a restored
      database does not have, and for a number that is not that of ``event_id``. ``incarnation`` may have names before
      in ``former``, each with its last number.
    * ``is_late``: the event reached Kafka more than ``late_seconds`` after its acceptance.
    * ``is_misfiled``: the record is not in the folder of its day.
    * ``is_malformed``: the content type says JSON but the value is not JSON. Spark computes it only for queries that
      use it.
    * ``digest``: see ``content.content``; null for erased records.
    * ``seal_state``: see ``seal.with_seal_state``; null for erased records, and without ``seals``.
    """
    bronze = with_seal_state(bronze, seals) if seals else bronze.withColumn("seal_state", F.lit(None).cast("string"))
    is_mine = _is_mine(incarnation)
    at = believed_at(F.col("archived_at"))
    seconds = (F.unix_micros("timestamp") - F.unix_micros(at)) / 1_000_000
    is_late = F.lit(False) if late_seconds is None else F.coalesce(seconds > late_seconds, F.lit(False))
    return bronze.select(
        "topic",
        F.col("key").cast("string").alias("key"),
        F.when(is_mine, F.col("event_number")).alias("id"),
        "event_id",
        "term",
        _hour(at).alias("hour"),
        "partition",
        "offset",
        "archived_at",
        is_late.alias("is_late"),
        F.coalesce(F.col("dt") != F.to_date(at), F.lit(True)).alias("is_misfiled"),
        F.lit(False).alias("is_erased"),
        _is_malformed().alias("is_malformed"),
        content().alias("digest"),
        "seal_state",
    )


def _is_mine(incarnation: str) -> Column:
    mine = F.col("event_id").startswith(f"evt_{incarnation}_")
    for through, name in getattr(incarnation, "former", ()):
        mine |= F.col("event_id").startswith(f"evt_{name}_") & (F.col("event_number") <= through)
    return mine & (F.substring_index("event_id", "_", -1) == F.col("event_number").cast("string"))


def ghosts(erased: DataFrame, incarnation: str) -> DataFrame:
    """Return the evidence of erased records. Only their numbers are known, so they can only be counted."""
    is_mine = _is_mine(incarnation)
    return erased.dropDuplicates(["topic", "kafka_topic_id", "partition", "offset", "event_id"]).select(
        "topic",
        F.lit(None).cast("string").alias("key"),
        F.when(is_mine, F.col("event_number")).alias("id"),
        "event_id",
        F.lit(None).cast("long").alias("term"),
        _hour(F.col("accepted_at")).alias("hour"),
        "partition",
        "offset",
        F.lit(None).cast("timestamp").alias("archived_at"),
        F.lit(False).alias("is_late"),
        F.lit(False).alias("is_misfiled"),
        F.lit(True).alias("is_erased"),
        F.lit(False).alias("is_malformed"),
        F.lit(None).cast("string").alias("digest"),
        F.lit(None).cast("string").alias("seal_state"),
    )


def _hour(moment: Column) -> Column:
    """Return the beginning of the hour in UTC, which is the ledger's, in every zone of a session.

    A forged time outside the years 1 to 9999 counts as one at their edge, because Python has no other.
    """
    micros = F.greatest(F.least(F.unix_micros(moment), F.lit(_LAST_MICROS)), F.lit(_FIRST_MICROS))
    return F.timestamp_micros(micros - F.pmod(micros, F.lit(_HOUR_MICROS)))


def _is_malformed() -> Column:
    says_json = F.lower(F.col("content_type")).rlike(_JSON)
    is_json = F.try_parse_json(F.col("value").cast("string")).isNotNull()
    return F.coalesce(says_json & F.col("value").isNotNull() & ~is_json, F.lit(False))


def ledger_hash(number: Column) -> Column:
    """Return the ledger's hash of an id."""
    # ANSI mode, the default of Spark 4, forbids a cast to binary.
    return hash_number(F.sha2(F.unhex(F.lpad(F.hex(number), 16, "0")), 256))


def hash_number(digest: Column) -> Column:
    """Return the first 64 bits of a hexadecimal hash as a long, which has a sign."""
    return F.conv(F.substring(digest, 1, 16), 16, -10).cast("long")

"""Sides: the events of the database beside the records of the lake, cell by cell, to name what somebody altered.

The ledger shows that a cell of the database is not as it was, and cannot show which event. The lake has the other side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from pipeline.audit.evidence import BUCKETS, evidence
from pipeline.delta.snapshot import Snapshot
from pipeline.frame import frame_of
from pipeline.lake import Table

__all__ = ["CellName", "HubEvent", "Sides", "sides_of"]

_IDS_MAX: Final = 100_000
_PLACE: Final = "topic string, hour timestamp, bucket long"
_STORED: Final = f"{_PLACE}, id long, digest string, is_sent boolean"


class CellName(NamedTuple):
    """A cell: Kafka's topic, an hour in UTC and a quarter of the ids."""

    topic: str
    hour: datetime
    bucket: int


class HubEvent(NamedTuple):
    """An event of the database. ``is_sent``: it is owed to Kafka, and does not wait. ``digest``: as in ``content``."""

    place: CellName
    id: int
    digest: str
    is_sent: bool


@dataclass(frozen=True, slots=True)
class Sides:
    """The ids of one cell. ``differing``: both sides have the event, with other contents.

    ``archived``: only the lake has it here. ``stored``: only the database has it here.
    """

    differing: Sequence[int] = ()
    archived: Sequence[int] = ()
    stored: Sequence[int] = ()


def sides_of(
    spark: SparkSession, table: Table, snapshot: Snapshot, incarnation: str, places: Sequence[CellName],
    events: Sequence[HubEvent],
) -> dict[CellName, Sides]:  # fmt: skip
    """Return the differences of these cells, at most 100,000 ids of all; ``events`` are all events of the cells."""
    if not places:
        return {}
    days, topics = {place.hour.date().isoformat() for place in places}, {place.topic for place in places}
    files = snapshot.where(lambda file: file.values["dt"] in days and file.values["topic"] in topics)
    wanted = F.broadcast(frame_of(spark, [list(place) for place in places], _PLACE))
    stored = frame_of(spark, [[*event.place, event.id, event.digest, event.is_sent] for event in events], _STORED)
    both = _archived(table.read(spark, files), incarnation, wanted).join(
        stored.withColumnRenamed("digest", "stored_digest"), ["topic", "hour", "bucket", "id"], "full_outer"
    )
    is_archived, is_stored = F.col("digests").isNotNull(), F.col("stored_digest").isNotNull()
    side = (
        F.when(is_archived & is_stored & (F.col("digests") != F.array("stored_digest")), "differing")
        .when(is_archived & ~is_stored, "archived")
        .when(~is_archived & F.col("is_sent"), "stored")
    )
    rows = both.withColumn("side", side).where("side IS NOT NULL").orderBy("id").limit(_IDS_MAX).collect()
    found: dict[CellName, dict[str, list[int]]] = {place: {} for place in places}
    for row in rows:
        place = CellName(row["topic"], row["hour"].astimezone(UTC), row["bucket"])
        found[place].setdefault(row["side"], []).append(row["id"])
    return {place: Sides(**ids) for place, ids in found.items()}


def _archived(rows: DataFrame, incarnation: str, wanted: DataFrame) -> DataFrame:
    """Return the ids of the lake in these cells, each with the set of its contents' hashes."""
    records = evidence(rows, incarnation).where("id IS NOT NULL")
    placed = records.withColumn("bucket", F.col("id").bitwiseAND(F.lit(BUCKETS - 1)))
    digests = F.collect_set(F.coalesce("digest", F.lit("\0"))).alias("digests")
    return (
        placed.join(wanted, ["topic", "hour", "bucket"], "left_semi")
        .groupBy("topic", "hour", "bucket", "id")
        .agg(digests)
    )

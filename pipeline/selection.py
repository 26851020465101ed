"""Selection: the events of bronze that a replay or a backfill sends, each once and in order of acceptance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import ceil
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from pipeline.delta.snapshot import Snapshot

__all__ = ["ArchivedEvent", "Selection", "archived", "count", "files_of", "in_slices", "numbers", "own", "select"]

_ISO = "yyyy-MM-dd'T'HH:mm:ss'Z'"
_SLICE_BYTES: Final = 32 * 1024 * 1024
_SLICE_BYTES_MAX: Final = 8 * _SLICE_BYTES
_ROW_BYTES: Final = 512
"""Roughly the memory of an event beside its payload."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The events to replay; None or an empty value means any. ``topics`` are Kafka's.

    ``above`` and ``through`` are numbers of events; only events above the one, up to the other, are selected.
    """

    topics: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    event_ids: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    above: int = 0
    through: int | None = None


@dataclass(frozen=True, slots=True)
class ArchivedEvent:
    """An event as it was published. ``attributes`` are its CloudEvents attributes and its trace, by header name.

    ``headers`` are all of its headers, by the names that they have in Kafka.
    """

    event_id: str
    number: int
    topic: str
    key: str | None
    content_type: str | None
    attributes: dict[str, str]
    payload: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    sequence: int | None = None
    accepted_at: datetime | None = None


def files_of(snapshot: Snapshot, selection: Selection) -> Snapshot:
    """Return the snapshot with the files of the requested topics and numbers only, so that no other file is opened."""
    topics, above, through = selection.topics, selection.above, selection.through
    named = snapshot.where(lambda file: file.values["topic"] in topics) if topics else snapshot
    return named.where(
        lambda file: (
            file.numbers is None or (file.numbers[1] > above and (through is None or file.numbers[0] <= through))
        )
    )


def select(bronze: DataFrame, selection: Selection) -> DataFrame:
    """Return the first record of each event, in order. Records without an event id are left out: they cannot be
    replayed.
    """
    return _chosen(bronze, selection).dropDuplicates(["topic", "event_id"]).orderBy("event_number")


def own(bronze: DataFrame, selection: Selection, names: Mapping[int, str]) -> DataFrame:
    """Return the first record of each event of one installation. ``names`` has its names, each by the number above
    which events bear it.
    """
    return _chosen(bronze, selection).where(_bears(names)).dropDuplicates(["event_id"])


def _bears(names: Mapping[int, str]) -> Column:
    """Return whether the id of a row has the name that its number has here."""
    number, is_own = F.col("event_number"), F.lit(False)
    bounds = sorted(names)
    for above, through in zip(bounds, [*bounds[1:], None], strict=True):
        bears = F.col("event_id").startswith(f"evt_{names[above]}_") & (number > above)
        is_own |= bears if through is None else bears & (number <= through)
    return is_own


def in_slices(rows: DataFrame) -> DataFrame:
    """Return rows in the order of their numbers, in partitions that fit into memory however many rows there are."""
    size = F.length("value")
    row = rows.select(
        F.count("*").alias("rows"), F.sum(size).alias("bytes"), F.coalesce(F.max(size), F.lit(0)).alias("largest")
    ).first()
    assert row is not None, "an aggregate has one row"
    usual = ((row["bytes"] or 0) + row["rows"] * _ROW_BYTES) / _SLICE_BYTES
    # Spark cuts by the number of rows, and the largest ones may be neighbours.
    worst = row["rows"] * (row["largest"] + _ROW_BYTES) / _SLICE_BYTES_MAX
    slices = max(1, min(ceil(max(usual, worst)), row["rows"]))
    return rows.repartitionByRange(slices, "event_number").sortWithinPartitions("event_number")


def numbers(rows: DataFrame) -> Iterator[int]:
    """Yield the numbers of the events in order."""
    narrow = rows.select("event_number", F.lit(None).cast("binary").alias("value"))
    return (row["event_number"] for row in in_slices(narrow).toLocalIterator(prefetchPartitions=True))


def _chosen(bronze: DataFrame, selection: Selection) -> DataFrame:
    rows = bronze.where("event_number IS NOT NULL").where(F.col("event_number") > selection.above)
    if selection.through is not None:
        rows = rows.where(F.col("event_number") <= selection.through)
    if selection.topics:
        rows = rows.where(F.col("topic").isin(list(selection.topics)))
    if selection.keys:
        rows = rows.where(F.col("key").isin([bytearray(key.encode()) for key in selection.keys]))
    if selection.event_ids:
        rows = rows.where(F.col("event_id").isin(list(selection.event_ids)))
    if selection.since is not None:
        rows = rows.where(F.col("accepted_at") >= F.lit(selection.since))
    if selection.until is not None:
        rows = rows.where(F.col("accepted_at") < F.lit(selection.until))
    return rows


def count(selected: DataFrame) -> dict[str, Any]:
    """Return the number of events, their least and greatest number, and the times of acceptance of the oldest and the
    newest (ISO 8601).
    """
    row = selected.select(
        F.count("*").alias("events"),
        F.min("event_number").alias("first"),
        F.max("event_number").alias("last"),
        F.date_format(F.min("accepted_at"), _ISO).alias("oldest"),
        F.date_format(F.max("accepted_at"), _ISO).alias("newest"),
    ).first()
    assert row is not None, "an aggregate has one row"
    return row.asDict()


def archived(selected: DataFrame) -> Iterator[ArchivedEvent]:
    """Yield the events; one partition of them is in memory at a time."""
    columns = (
        "event_id", "event_number", "topic", "key", "content_type", "headers", "value", "sequence", "archived_at",
        "accepted_at",
    )  # fmt: skip
    return map(_event, selected.select(*columns).toLocalIterator(prefetchPartitions=True))


def _event(row: Row) -> ArchivedEvent:
    headers = {header["key"]: _text(header["value"]) for header in row["headers"] or ()}
    attributes = {
        name.replace("ce_", "ce-", 1): value
        for name, value in headers.items()
        if name.startswith("ce_") or name in ("traceparent", "tracestate")
    }
    key = None if row["key"] is None else _text(row["key"])
    payload = bytes(row["value"] or b"")
    number, topic, content_type = row["event_number"], row["topic"], row["content_type"]
    at = _in_utc(row["accepted_at"] or row["archived_at"])
    return ArchivedEvent(
        row["event_id"], number, topic, key, content_type, attributes, payload, headers, row["sequence"], at
    )


def _in_utc(moment: datetime) -> datetime:
    """Return a time of Spark, which Python has in the zone of the machine and without its name."""
    return moment.astimezone(UTC)


def _text(value: bytearray | None) -> str:
    return bytes(value or b"").decode("utf-8", "replace")

"""Selection: the events of bronze that a replay sends, each once and in order of acceptance (PL-07)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from pipeline.delta.snapshot import Snapshot

__all__ = ["ArchivedEvent", "Selection", "archived", "count", "files_of", "select"]

_ISO = "yyyy-MM-dd'T'HH:mm:ss'Z'"


@dataclass(frozen=True, slots=True)
class Selection:
    """The events to replay; None or an empty value means any. ``topic`` is Kafka's.

    ``above`` is an event's number; only events with higher numbers are selected.
    """

    topic: str | None = None
    keys: tuple[str, ...] = ()
    event_ids: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    above: int = 0


@dataclass(frozen=True, slots=True)
class ArchivedEvent:
    """An event as it was published. ``attributes`` are its CloudEvents attributes and its trace, by header name."""

    event_id: str
    number: int
    topic: str
    key: str | None
    content_type: str | None
    attributes: dict[str, str]
    payload: bytes


def files_of(snapshot: Snapshot, selection: Selection) -> Snapshot:
    """Return the snapshot with the files of the requested topic only, so that no other file is opened."""
    topic = selection.topic
    return snapshot if topic is None else snapshot.where(lambda file: file.values["topic"] == topic)


def select(bronze: DataFrame, selection: Selection) -> DataFrame:
    """Return the first record of each event. Records without an event id are left out: they cannot be replayed."""
    rows = bronze.where("event_number IS NOT NULL").where(F.col("event_number") > selection.above)
    if selection.topic is not None:
        rows = rows.where(F.col("topic") == selection.topic)
    if selection.keys:
        rows = rows.where(F.col("key").isin([bytearray(key.encode()) for key in selection.keys]))
    if selection.event_ids:
        rows = rows.where(F.col("event_id").isin(list(selection.event_ids)))
    if selection.since is not None:
        rows = rows.where(F.col("accepted_at") >= F.lit(selection.since))
    if selection.until is not None:
        rows = rows.where(F.col("accepted_at") < F.lit(selection.until))
    return rows.dropDuplicates(["topic", "event_id"]).orderBy("event_number")


def count(selected: DataFrame) -> dict[str, Any]:
    """Return the number of events, and the times of acceptance of the oldest and the newest (ISO 8601)."""
    row = selected.select(
        F.count("*").alias("events"),
        F.date_format(F.min("accepted_at"), _ISO).alias("oldest"),
        F.date_format(F.max("accepted_at"), _ISO).alias("newest"),
    ).first()
    assert row is not None, "an aggregate has one row"
    return row.asDict()


def archived(selected: DataFrame) -> Iterator[ArchivedEvent]:
    """Yield the events; one partition of them is in memory at a time."""
    columns = ("event_id", "event_number", "topic", "key", "content_type", "headers", "value")
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
    return ArchivedEvent(row["event_id"], number, topic, key, content_type, attributes, payload)


def _text(value: bytearray | None) -> str:
    return bytes(value or b"").decode("utf-8", "replace")

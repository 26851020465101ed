"""Bronze: converts Kafka's columns into bronze, with the relay's envelope in typed columns and its faults.

It is a pure function of DataFrames. It uses Spark's expressions only, so that no row passes
through Python. Spark does not compile lambdas, so the few lambdas here run only for rows with a fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from pipeline.envelope import is_twice, last_header
from pipeline.schema import BRONZE, CLOUDEVENT, ENVELOPE, SEAL

__all__ = ["FUTURE_SECONDS", "REASONS", "believed_at", "to_bronze"]

_EVENT_ID: Final = r"^evt_[a-z2-7]{8}_[1-9][0-9]{0,18}$"
FUTURE_SECONDS: Final = 3_600
"""How much later than it was archived an event may have been accepted: clocks differ."""

REASONS: Final = {
    "event_id": "no header hookwire-event-id, or no event id: no relay of this hub sent it",
    "sequence": "the header hookwire-sequence is no number",
    "term": "no header hookwire-term, or no number",
    "accepted_at": "no header hookwire-accepted-at, or no time of the years 1 to 9999",
    "future": "accepted more than an hour after it was archived",
    "past": "accepted before 2020",
    "timestamp": "Kafka's timestamp lies outside the years 1 to 9999",
    "headers": "a header of the envelope came twice",
    "value": "no value at all: a tombstone",
}
"""The values of ``quarantine`` and their meanings."""


def to_bronze(records: DataFrame, archived_at: datetime, topic_ids: Mapping[str, str] | None = None) -> DataFrame:
    """Return each row of ``schema.RECORD`` as one row of ``schema.BRONZE``, without a seal.

    ``topic_ids``: the id that Kafka gave each topic.
    """
    archived = F.lit(archived_at)
    named = records.withColumns(
        {
            "timestamp": _readable(F.col("timestamp")),
            "timestamp_type": F.col("timestampType"),
            "kafka_topic_id": _topic_id(topic_ids or {}),
            "event_id": F.when(_text("hookwire-event-id").rlike(_EVENT_ID), _text("hookwire-event-id")),
            "sequence": _text("hookwire-sequence").try_cast("bigint"),
            "term": _text("hookwire-term").try_cast("bigint"),
            "accepted_at": _readable(_text("hookwire-accepted-at").try_cast("timestamp")),
            "content_type": _text("content-type"),
            **{name: F.try_validate_utf8(last_header(name).cast("string")) for name in CLOUDEVENT},
            "archived_at": archived,
            **{name: F.lit(None).cast("string") for name in SEAL},
        }
    ).withColumn("event_number", F.substring_index("event_id", "_", -1).try_cast("bigint"))
    judged = named.withColumn("quarantine", _quarantine(archived))
    dated = judged.withColumns({"dt": F.to_date(believed_at(archived)), "headers": _kept_headers()})
    return dated.select(*BRONZE.names)


def believed_at(archived: Column) -> Column:
    """Return the time of acceptance, or the time of archiving if the former is missing or impossible."""
    return F.coalesce(F.when(~_is_unbelievable(archived), F.col("accepted_at")), archived)


def _readable(moment: Column) -> Column:
    """Return a time, or null for one that Python's readers of the lake cannot hold in every zone."""
    first, last = (F.lit(day).cast("timestamp") for day in ("0001-01-02", "9999-12-31"))
    return F.when((moment >= first) & (moment < last), moment)


def _topic_id(ids: Mapping[str, str]) -> Column:
    if not ids:
        return F.lit(None).cast("string")
    if len(ids) == 1:
        return F.lit(next(iter(ids.values())))
    return F.try_element_at(F.create_map(*(F.lit(part) for pair in ids.items() for part in pair)), F.col("topic"))


def _text(name: str) -> Column:
    """Return a header of the envelope as text; null if it is missing, or if it is a content type and not UTF-8."""
    text = F.col(name).cast("string")
    return F.try_validate_utf8(text) if name == ENVELOPE["content_type"] else text


def _kept_headers() -> Column:
    """Return the headers that have no column, and those of the envelope whose column could not be read."""
    unread = {header: F.col(header).isNotNull() & F.col(column).isNull() for column, header in ENVELOPE.items()}
    pairs = (
        F.when(is_so, F.struct(F.lit(header).alias("key"), F.col(header).alias("value")))
        for header, is_so in unread.items()
    )
    # A record with two headers of one name keeps all its headers in this list.
    is_short = reduce(or_, unread.values()) & ~F.coalesce(is_twice(F.col("headers.key")), F.lit(False))
    return F.when(is_short, _joined(F.col("headers"), F.array_compact(F.array(*pairs)))).otherwise(F.col("headers"))


def _joined(headers: Column, more: Column) -> Column:
    return F.when(headers.isNull(), more).otherwise(F.concat(headers, more))


def _is_unbelievable(archived: Column) -> Column:
    accepted = F.col("accepted_at")
    return accepted.isNull() | (accepted > archived + F.expr(f"INTERVAL {FUTURE_SECONDS} SECONDS")) | _is_past()


def _is_past() -> Column:
    return F.col("accepted_at") < F.lit("2020-01-01").cast("timestamp")


def _quarantine(archived: Column) -> Column:
    """Return the reasons that apply to the row; null if none applies."""
    names = F.col("headers.key")
    wrong = {
        "event_id": F.col("event_number").isNull(),
        "sequence": F.col("sequence").isNull() & _text("hookwire-sequence").isNotNull(),
        "term": F.col("term").isNull(),
        "accepted_at": F.col("accepted_at").isNull(),
        "future": F.col("accepted_at") > archived + F.expr(f"INTERVAL {FUTURE_SECONDS} SECONDS"),
        "past": _is_past(),
        "timestamp": F.col("timestamp").isNull(),
        "headers": is_twice(names) & is_twice(_ours(names)),
        "value": F.col("value").isNull(),
    }
    assert wrong.keys() == REASONS.keys(), "each reason is explained"
    return F.when(reduce(or_, wrong.values()), _reasons(wrong))


def _ours(names: Column) -> Column:
    return F.filter(names, lambda name: name.startswith("hookwire-"))


def _reasons(wrong: Mapping[str, Column]) -> Column:
    return F.array_compact(F.array(*(F.when(is_so, F.lit(reason)) for reason, is_so in wrong.items())))

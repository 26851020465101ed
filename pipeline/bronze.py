"""From Kafka's columns to bronze: the relay's envelope in typed columns, and its faults (PL-X01, PL-X03).

A pure function of DataFrames (PL-C03), and all of it in Spark's own expressions, so that no row is handed to Python.
Spark compiles no lambda and nothing within one, so the few lambdas here run only for rows with a fault.
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
from pipeline.schema import BRONZE, CLOUDEVENT, ENVELOPE

__all__ = ["REASONS", "believed_at", "to_bronze"]

_EVENT_ID: Final = r"^evt_[a-z2-7]{8}_[1-9][0-9]{0,18}$"
_FUTURE_SECONDS: Final = 3_600

REASONS: Final = {
    "event_id": "no header hookwire-event-id, or no event id: no relay of this hub sent it",
    "sequence": "the header hookwire-sequence is no number",
    "term": "no header hookwire-term, or no number",
    "accepted_at": "no header hookwire-accepted-at, or no time",
    "future": "accepted more than an hour after it was archived",
    "past": "accepted before 2020",
    "headers": "a header of the envelope came twice",
    "value": "no value at all: a tombstone",
}
"""What stands in ``quarantine``, and why."""


def to_bronze(records: DataFrame, archived_at: datetime) -> DataFrame:
    """Return rows of ``schema.RECORD`` as rows of ``schema.BRONZE``, none more and none less."""
    archived = F.lit(archived_at)
    named = records.withColumns(
        {
            "timestamp_type": F.col("timestampType"),
            "event_id": F.when(_text("hookwire-event-id").rlike(_EVENT_ID), _text("hookwire-event-id")),
            "sequence": _text("hookwire-sequence").try_cast("bigint"),
            "term": _text("hookwire-term").try_cast("bigint"),
            "accepted_at": _text("hookwire-accepted-at").try_cast("timestamp"),
            "content_type": _text("content-type"),
            **{name: last_header(name).cast("string") for name in CLOUDEVENT},
            "archived_at": archived,
        }
    ).withColumn("event_number", F.substring_index("event_id", "_", -1).try_cast("bigint"))
    judged = named.withColumn("quarantine", _quarantine(archived))
    dated = judged.withColumns({"dt": F.to_date(believed_at(archived)), "headers": _kept_headers()})
    return dated.select(*BRONZE.names)


def believed_at(archived: Column) -> Column:
    """Return when a record was accepted, or archived where that is missing or impossible."""
    return F.coalesce(F.when(~_is_unbelievable(archived), F.col("accepted_at")), archived)


def _text(name: str) -> Column:
    """Return a header of the envelope as text; null if there is none, or a content type that is no UTF-8."""
    text = F.col(name).cast("string")
    return F.try_validate_utf8(text) if name == ENVELOPE["content_type"] else text


def _kept_headers() -> Column:
    """Return the headers without a column, and those of the envelope whose column could not be read."""
    unread = {header: F.col(header).isNotNull() & F.col(column).isNull() for column, header in ENVELOPE.items()}
    pairs = (
        F.when(is_so, F.struct(F.lit(header).alias("key"), F.col(header).alias("value")))
        for header, is_so in unread.items()
    )
    # A record that has two headers of one name has kept them all.
    is_short = reduce(or_, unread.values()) & ~F.coalesce(is_twice(F.col("headers.key")), F.lit(False))
    return F.when(is_short, _joined(F.col("headers"), F.array_compact(F.array(*pairs)))).otherwise(F.col("headers"))


def _joined(headers: Column, more: Column) -> Column:
    return F.when(headers.isNull(), more).otherwise(F.concat(headers, more))


def _is_unbelievable(archived: Column) -> Column:
    accepted = F.col("accepted_at")
    return accepted.isNull() | (accepted > archived + F.expr(f"INTERVAL {_FUTURE_SECONDS} SECONDS")) | _is_past()


def _is_past() -> Column:
    return F.col("accepted_at") < F.lit("2020-01-01").cast("timestamp")


def _quarantine(archived: Column) -> Column:
    """Return the reasons that apply; null when there is none."""
    names = F.col("headers.key")
    wrong = {
        "event_id": F.col("event_number").isNull(),
        "sequence": F.col("sequence").isNull() & _text("hookwire-sequence").isNotNull(),
        "term": F.col("term").isNull(),
        "accepted_at": F.col("accepted_at").isNull(),
        "future": F.col("accepted_at") > archived + F.expr(f"INTERVAL {_FUTURE_SECONDS} SECONDS"),
        "past": _is_past(),
        "headers": is_twice(names) & is_twice(_ours(names)),
        "value": F.col("value").isNull(),
    }
    assert wrong.keys() == REASONS.keys(), "each reason is explained"
    return F.when(reduce(or_, wrong.values()), _reasons(wrong))


def _ours(names: Column) -> Column:
    return F.filter(names, lambda name: name.startswith("hookwire-"))


def _reasons(wrong: Mapping[str, Column]) -> Column:
    return F.array_compact(F.array(*(F.when(is_so, F.lit(reason)) for reason, is_so in wrong.items())))

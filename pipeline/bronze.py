"""From Kafka's columns to bronze: the relay's envelope in typed columns, and what is wrong with it (PL-X01, PL-X03).

A pure function of DataFrames (PL-C03), and all of it in Spark's own expressions, so that a row never visits Python.
Spark compiles no lambda, and nothing that stands within one: so the few there are look only at rows with a fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from pipeline.schema import BRONZE, CLOUDEVENT

__all__ = ["REASONS", "believed_at", "to_bronze"]

_EVENT_ID: Final = r"^evt_[a-z2-7]{8}_[1-9][0-9]{0,18}$"
_FUTURE_SECONDS: Final = 3_600

REASONS: Final = {
    "event_id": "no header hookwire-event-id, or no id of ours: nobody of ours sent it",
    "sequence": "the header hookwire-sequence is no number",
    "term": "no header hookwire-term, or no number",
    "accepted_at": "no header hookwire-accepted-at, or no time",
    "future": "accepted more than an hour after it was archived",
    "past": "accepted before 2020",
    "headers": "a header of the envelope came twice",
    "payload": "the content type says JSON, and the value is none",
    "value": "no value at all: a tombstone",
}
"""What stands in ``quarantine``, and why."""


def to_bronze(records: DataFrame, archived_at: datetime) -> DataFrame:
    """Rows of ``schema.KAFKA`` as rows of ``schema.BRONZE``, none more and none less."""
    archived = F.lit(archived_at)
    turned = records.withColumns({"_names": F.reverse("headers.key"), "_contents": F.reverse("headers.value")})
    named = turned.withColumns(
        {
            "timestamp_type": F.col("timestampType"),
            "event_id": F.when(_text("hookwire-event-id").rlike(_EVENT_ID), _text("hookwire-event-id")),
            "sequence": _text("hookwire-sequence").try_cast("bigint"),
            "term": _text("hookwire-term").try_cast("bigint"),
            "accepted_at": _text("hookwire-accepted-at").try_cast("timestamp"),
            "content_type": _text("content-type"),
            **{name: _text(name) for name in CLOUDEVENT},
            "archived_at": archived,
        }
    ).withColumn("event_number", F.substring_index("event_id", "_", -1).try_cast("bigint"))
    judged = named.withColumn("quarantine", _quarantine(archived))
    return judged.withColumn("dt", F.to_date(believed_at(archived))).select(*BRONZE.names)


def believed_at(archived: Column) -> Column:
    """The moment that a record belongs to: when it was accepted, or archived where that is missing or impossible."""
    return F.coalesce(F.when(~_is_unbelievable(archived), F.col("accepted_at")), archived)


def _text(name: str) -> Column:
    """The last header of that name, as text; null if there is none or it is no UTF-8."""
    place = F.array_position("_names", name)  # from 1; 0: there is none
    value = F.get("_contents", place - 1)
    return F.try_validate_utf8(value.cast("string")) if name == "content-type" else value.cast("string")


def _is_unbelievable(archived: Column) -> Column:
    accepted = F.col("accepted_at")
    return accepted.isNull() | (accepted > archived + F.expr(f"INTERVAL {_FUTURE_SECONDS} SECONDS")) | _is_past()


def _is_past() -> Column:
    return F.col("accepted_at") < F.lit("2020-01-01").cast("timestamp")


def _quarantine(archived: Column) -> Column:
    """The reasons that apply; null when there is none."""
    content = F.col("value").cast("string")
    says_json = F.lower(F.col("content_type")).rlike(r"^application/([a-z0-9.+-]+\+)?json\s*(;|$)")
    wrong = {
        "event_id": F.col("event_number").isNull(),
        "sequence": F.col("sequence").isNull() & _text("hookwire-sequence").isNotNull(),
        "term": F.col("term").isNull(),
        "accepted_at": F.col("accepted_at").isNull(),
        "future": F.col("accepted_at") > archived + F.expr(f"INTERVAL {_FUTURE_SECONDS} SECONDS"),
        "past": _is_past(),
        "headers": _is_twice(F.col("_names")) & _is_twice(_ours(F.col("_names"))),
        "payload": says_json & F.try_parse_json(content).isNull(),
        "value": F.col("value").isNull(),
    }
    assert wrong.keys() == REASONS.keys(), "each reason is explained"
    return F.when(reduce(or_, wrong.values()), _reasons(wrong))


def _is_twice(names: Column) -> Column:
    return F.size(names) > F.size(F.array_distinct(names))


def _ours(names: Column) -> Column:
    return F.filter(names, lambda name: name.startswith("hookwire-"))


def _reasons(wrong: Mapping[str, Column]) -> Column:
    return F.array_compact(F.array(*(F.when(is_so, F.lit(reason)) for reason, is_so in wrong.items())))

"""Inquiry: compares all cells at once, then id by id where cells differ or a lane is suspect.

The caller reads the ledger, calls :func:`compare_cells`, reads the accepted ids of unequal cells, and calls
:func:`inquire` with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import Any, Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from pipeline.audit.cell import cells, compared, summed_hours
from pipeline.audit.evidence import BUCKETS
from pipeline.audit.lane import faults, lanes, suspects, with_order
from pipeline.audit.verdict import (
    EXAMPLES_MAX,
    differences,
    grouped,
    in_state,
    latecomers,
    malformed,
    misfiled,
    out_of_order,
    strangers,
    strays,
)
from pipeline.frame import frame_of

__all__ = [
    "OTHER_KEY",
    "Cell",
    "Finding",
    "are_equally_many",
    "compare_cells",
    "count_suspects",
    "in_question",
    "inquire",
    "unexplained",
]

_COUNTED: Final = {"lost", "phantom", "altered", "misplaced", "duplicated", "repeated"}
"""The faults that change a cell's count or sum."""
OTHER_KEY: Final = "sealed with another key"
"""The fault of records that cannot be judged: the audit does not have the key of their seals."""
_NOTED: Final = {"repeated", "malformed"}
"""Observations that are named but are not a fault of the hub."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A Kafka topic, an hour and a quarter of the ids; ``bucket`` is None for records that are not ours.

    ``owed`` events were accepted, with ids from ``owed_low`` to ``owed_high``. ``records`` records are in the lake.
    Of these, ``late`` reached Kafka too late, ``misfiled`` are in another day's folder, and ``erased`` are only
    counted. ``has_contents``: the contents agree with the accepted events; None if that is unknown or some were erased.
    ``is_equal``: the number, the least and the greatest id agree with the ledger; where contents are unknown, so does
    the checksum of the ids. The last four count records by the state of their seals (see ``seal.with_seal_state``).
    """

    topic: str
    hour: datetime
    bucket: int | None
    owed: int
    owed_low: int | None
    owed_high: int | None
    records: int
    late: int
    misfiled: int
    erased: int
    is_equal: bool
    has_contents: bool | None
    broken: int = 0
    unsealed: int = 0
    other_key: int = 0
    unproved: int = 0

    @property
    def differs(self) -> bool:
        """Return whether the events or their contents differ."""
        return not self.is_equal or self.has_contents is False


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault with its Kafka topic, hour, count and some of the event ids.

    ``fault`` is lost, phantom, altered, misplaced, duplicated, reordered, stale term, late, unsealed, sealed with
    another key or unexplained. In the database it is unaccounted, contradictory, deleted, inserted, rewritten,
    exchanged, uncounted or miscounted. An unexplained cell differs although its events agree. repeated (a duplicate
    that the sink's mode allows) and malformed (published that way) are not findings. For a fault on the way to a
    webhook, ``topic`` is the hub's topic and ``subscription`` is set.
    """

    fault: str
    topic: str
    hour: datetime
    count: int
    examples: Sequence[str]
    subscription: str | None = None

    @property
    def is_finding(self) -> bool:
        """Return whether something is wrong."""
        return self.fault not in _NOTED and self.is_judged

    @property
    def is_judged(self) -> bool:
        """Return whether the audit could compare these records."""
        return self.fault != OTHER_KEY


def compare_cells(records: DataFrame, ledger: DataFrame) -> list[Cell]:
    """Return every cell of evidence and ledger. It needs one pass over a few columns of bronze, and no sort."""
    summed = summed_hours(ledger, records)
    sides = compared(ledger, cells(records, summed), summed)
    return [Cell(**_in_utc(row)) for row in sides.orderBy("hour", "topic", "bucket").collect()]


def count_suspects(records: DataFrame) -> int:
    """Return how many records repeat an earlier record of their lane, or have an older term. It sorts numbers only."""
    return lanes(records).where("is_repeat OR is_stale").count()


def inquire(
    records: DataFrame, accepted: DataFrame, compared: Sequence[Cell], asked: Sequence[Cell], *,
    suspects_found: int, repeats_are_legal: bool, examples_max: int = EXAMPLES_MAX, beyond: DataFrame | None = None,
    before: DataFrame | None = None, judges_json: bool = False,
) -> list[Finding]:  # fmt: skip
    """Return findings event by event, in ``asked`` cells (see :func:`in_question`) and in suspect lanes of all cells.

    ``suspects_found`` is the result of :func:`count_suspects`. ``accepted`` (see ``verdict.ACCEPTED``) holds every
    event of the cells in ``asked``. ``repeats_are_legal``: the sink delivers at least once, so a re-run in order is not
    a fault. ``beyond`` holds records of other hours with ids of these hours. ``before`` holds the order of the day
    before (see ``lane.with_order``). ``judges_json``: name malformed payloads.
    """
    found: list[DataFrame] = []
    if any(cell.broken for cell in compared):
        found.append(in_state(records, "broken", "altered"))
    if asked:
        pool = with_order(records if beyond is None else records.unionByName(beyond), before)
        differing = differences(accepted, _in_sight(pool, asked, accepted))
        # A record that both the database and its seal call altered is one finding.
        found = [rows.join(differing, ["topic", "event_id", "fault"], "left_anti") for rows in found]
        found.append(differing)
    if any(cell.unsealed for cell in compared):
        found.append(in_state(records, "unsealed", "unsealed"))
    if any(cell.other_key for cell in compared):
        found.append(in_state(records, "other key", OTHER_KEY))
    if beyond is not None:
        found.append(strays(beyond, records))
    if any(cell.bucket is None for cell in compared):
        found.append(strangers(records))
    if any(cell.late for cell in compared):
        found.append(latecomers(records))
    if any(cell.misfiled for cell in compared):
        found.append(misfiled(records))
    if judges_json:
        found.append(malformed(records))
    if suspects_found:
        odd = suspects(lanes(with_order(records, before)))
        found.append(out_of_order(faults(odd), repeats_are_legal=repeats_are_legal))
    if not found:
        return []
    rows = grouped(reduce(DataFrame.unionByName, found), examples_max).orderBy("hour", "topic", "fault").collect()
    return [Finding(**_in_utc(row)) for row in rows]


def unexplained(
    asked: Sequence[Cell], findings: Sequence[Finding], awaited: Collection[tuple[str, datetime, int]]
) -> list[Finding]:
    """Return the cells that differ although none of their events has a fault, so that no difference is hidden.

    If ids, number and each event agree, the ledger's sum of contents is wrong: ``miscounted``. ``awaited``: the topic,
    hour and quarter of events that are missing in Kafka for a known reason.
    """
    named = {(found.topic, found.hour) for found in findings if found.fault in _COUNTED}
    silent = [
        cell for cell in asked
        if cell.differs and (cell.topic, cell.hour) not in named
        and (cell.topic, cell.hour, cell.bucket) not in awaited
    ]  # fmt: skip
    return [
        Finding("miscounted", cell.topic, cell.hour, 1, [f"the ledger's row of sink kafka, bucket {cell.bucket}"])
        if cell.is_equal
        else Finding("unexplained", cell.topic, cell.hour, max(1, abs(cell.owed - cell.records)), [])
        for cell in silent
    ]


def are_equally_many(compared: Sequence[Cell]) -> bool:
    """Return whether each hour of a topic has as many records as events, whoever they are of."""
    more: Counter[tuple[str, datetime]] = Counter()
    for cell in compared:
        more[cell.topic, cell.hour] += cell.records - cell.owed
    return not any(more.values())


def in_question(compared: Sequence[Cell], *, contents: bool = False) -> list[Cell]:
    """Return the cells to compare id by id: those that differ, or with ``contents`` all cells that have ids."""
    return [cell for cell in compared if cell.bucket is not None and (contents or cell.differs)]


def _in_sight(records: DataFrame, asked: Sequence[Cell], accepted: DataFrame) -> DataFrame:
    """Return the records of these cells, and records of the same or of accepted events in other cells."""
    places = [(cell.topic, cell.hour, cell.bucket) for cell in asked]
    wanted = F.broadcast(frame_of(records.sparkSession, places, "topic string, hour timestamp, bucket long"))
    bucketed = records.where("id IS NOT NULL").withColumn("bucket", F.col("id").bitwiseAND(F.lit(BUCKETS - 1)))
    place = ["topic", "hour", "bucket"]
    inside = bucketed.join(wanted, place, "left_semi")
    events = accepted.select("topic", "id").unionByName(inside.select("topic", "id")).distinct()
    elsewhere = bucketed.join(wanted, place, "left_anti").join(events, ["topic", "id"], "left_semi")
    return inside.unionByName(elsewhere)


def _in_utc(row: Row) -> dict[str, Any]:
    """Convert the hour to UTC: Spark returns local times without a zone."""
    return row.asDict() | {"hour": row["hour"].astimezone(UTC)}

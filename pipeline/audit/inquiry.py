"""An inquiry: first all cells at once, then id by id where the cells differ or a lane is suspect (PL-A04).

Who asks is the caller: it reads the ledger, calls :func:`compare_cells`, reads the accepted ids of the cells that are
not equal, and calls :func:`inquire` with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from pipeline.audit.cell import cells, compared
from pipeline.audit.evidence import BUCKETS
from pipeline.audit.lane import faults, lanes, suspects
from pipeline.audit.verdict import EXAMPLES_MAX, differences, grouped, latecomers, out_of_order, strangers
from pipeline.frame import frame_of

__all__ = ["Cell", "Finding", "compare_cells", "count_suspects", "in_question", "inquire"]


@dataclass(frozen=True, slots=True)
class Cell:
    """A topic of Kafka's, an hour and a quarter of the ids; ``bucket`` is None for records that are not ours.

    ``owed`` events were accepted, with ids from ``owed_low`` to ``owed_high``; ``records`` are in the lake, of which
    ``late`` reached Kafka too late.
    """

    topic: str
    hour: datetime
    bucket: int | None
    owed: int
    owed_low: int | None
    owed_high: int | None
    records: int
    late: int
    is_equal: bool


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, in which topic of Kafka's and hour, how often, and some of the event ids.

    ``fault``: lost, phantom, altered, duplicated, reordered, stale term, late, unaccounted; repeated is a duplicate
    that the sink's mode allows, and nothing that somebody has to look at. Of what went wrong on the way to a webhook
    ``topic`` is the hub's, and ``subscription`` says whose.
    """

    fault: str
    topic: str
    hour: datetime
    count: int
    examples: Sequence[str]
    subscription: str | None = None

    @property
    def is_finding(self) -> bool:
        """Whether somebody should look."""
        return self.fault != "repeated"


def compare_cells(records: DataFrame, ledger: DataFrame) -> list[Cell]:
    """Every cell of the evidence and of the ledger; one pass over a few columns of bronze, and nothing to sort."""
    sides = compared(ledger, cells(records))
    return [Cell(**_in_utc(row)) for row in sides.orderBy("hour", "topic", "bucket").collect()]


def count_suspects(records: DataFrame) -> int:
    """How many records repeat one before them in their lane, or come under an older term; sorts numbers only."""
    return lanes(records).where("is_repeat OR is_stale").count()


def inquire(
    records: DataFrame, accepted: DataFrame, compared: Sequence[Cell], asked: Sequence[Cell], *,
    suspects_found: int, repeats_are_legal: bool, examples_max: int = EXAMPLES_MAX,
) -> list[Finding]:  # fmt: skip
    """What is wrong, event by event: in ``asked`` cells (see :func:`in_question`), and, where :func:`count_suspects`
    has found some, in suspect lanes of all.

    ``accepted`` (see ``verdict.ACCEPTED``) holds every event of the cells in ``asked``. ``repeats_are_legal``: the sink
    is at least once, so that a re-run in order is no fault.
    """
    found: list[DataFrame] = []
    if asked:
        found.append(differences(accepted, _within(records, asked)))
    if any(cell.bucket is None for cell in compared):
        found.append(strangers(records))
    if any(cell.late for cell in compared):
        found.append(latecomers(records))
    if suspects_found:
        found.append(out_of_order(faults(suspects(lanes(records))), repeats_are_legal=repeats_are_legal))
    if not found:
        return []
    rows = grouped(reduce(DataFrame.unionByName, found), examples_max).orderBy("hour", "topic", "fault").collect()
    return [Finding(**_in_utc(row)) for row in rows]


def in_question(compared: Sequence[Cell], *, contents: bool = False) -> list[Cell]:
    """The cells to look at id by id: those that are not equal; with ``contents`` all that have ids, byte by byte."""
    return [cell for cell in compared if cell.bucket is not None and (contents or not cell.is_equal)]


def _within(records: DataFrame, cells: Sequence[Cell]) -> DataFrame:
    """The records of these cells."""
    places = [(cell.topic, cell.hour, cell.bucket) for cell in cells]
    wanted = frame_of(records.sparkSession, places, "topic string, hour timestamp, bucket long")
    bucketed = records.withColumn("bucket", F.col("id").bitwiseAND(F.lit(BUCKETS - 1)))
    return bucketed.join(F.broadcast(wanted), ["topic", "hour", "bucket"], "left_semi")


def _in_utc(row: Row) -> dict[str, Any]:
    """Spark hands out moments without a zone, in this machine's."""
    return row.asDict() | {"hour": row["hour"].astimezone(UTC)}

"""The audit of one lake: what ``app`` asks, with rows of the database on one side and findings on the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from pipeline.audit.cell import LEDGER
from pipeline.audit.evidence import evidence, ghosts
from pipeline.audit.inquiry import Cell, Finding, compare_cells, count_suspects, inquire
from pipeline.audit.verdict import ACCEPTED
from pipeline.bronze import to_bronze
from pipeline.erasure import erased_table
from pipeline.frame import frame_of
from pipeline.kafka_options import SparkKafkaOptions
from pipeline.kafka_range import Range
from pipeline.kafka_reader import read_ranges
from pipeline.lake import bronze
from pipeline.retention import forgotten
from pipeline.storage import LakeStorage

__all__ = ["Accepted", "LakeAudit"]


@dataclass(frozen=True, slots=True)
class Accepted:
    """An event of the write side, as ``verdict.ACCEPTED`` describes it."""

    id: int
    event_id: str
    topic: str
    key: str | None
    hour: datetime
    state: str
    digest: str


class LakeAudit:
    """Of the hours from ``since`` until ``until``, for the installation whose ids carry ``incarnation``.

    ``late_seconds``: how long after it was accepted an event may reach Kafka; None asks for nothing.
    """

    def __init__(
        self, spark: SparkSession, lake: LakeStorage, incarnation: str, since: datetime, until: datetime,
        late_seconds: float | None = None,
    ) -> None:  # fmt: skip
        self._spark = spark
        within = (F.col("hour") >= F.lit(since)) & (F.col("hour") < F.lit(until))
        table, erased = bronze(lake), erased_table(lake)
        self.snapshot = table.snapshot()
        self._evidence = partial(evidence, incarnation=incarnation, late_seconds=late_seconds)
        rows = table.read(spark, self.snapshot).where(F.col("dt").between(since.date(), until.date()))
        records = self._evidence(rows)
        if erased.snapshot().files:
            records = records.unionByName(ghosts(erased.read(spark), incarnation))
        self._within = within
        self._records = records.where(within)
        self._is_forgotten = forgotten(self.snapshot)

    def compare(self, ledger: Sequence[Mapping[str, Any]]) -> list[Cell]:
        """All cells of both sides; ``ledger`` has the columns of ``cell.LEDGER``."""
        names = [field.split()[0] for field in LEDGER.split(", ")]
        kept = [row for row in ledger if not self._is_forgotten(row["topic"], row["hour"])]
        rows = frame_of(self._spark, [[row[name] for name in names] for row in kept], LEDGER)
        cells = compare_cells(self._records, rows)
        self._cells = [cell for cell in cells if not self._is_forgotten(cell.topic, cell.hour)]
        self._suspects = count_suspects(self._records)
        return self._cells

    def add_unarchived(self, kafka: SparkKafkaOptions, ranges: Sequence[Range]) -> None:
        """What is in Kafka and not in the lake yet is not lost: :meth:`inquire` reads these ranges too."""
        if ranges:
            rows = to_bronze(read_ranges(self._spark, kafka, ranges), datetime.now(UTC))
            self._records = self._records.unionByName(self._evidence(rows).where(self._within))

    def inquire(
        self, accepted: Sequence[Accepted], asked: Sequence[Cell], *, repeats_are_legal: bool, examples_max: int
    ) -> list[Finding]:
        """Id by id what is wrong, after :meth:`compare`; ``accepted`` are all events of the cells in ``asked``."""
        names = [field.split()[0] for field in ACCEPTED.split(", ")]
        events = frame_of(self._spark, [[getattr(event, name) for name in names] for event in accepted], ACCEPTED)
        return inquire(
            self._records, events, self._cells, asked,
            suspects_found=self._suspects, repeats_are_legal=repeats_are_legal, examples_max=examples_max,
        )  # fmt: skip

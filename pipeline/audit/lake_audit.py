"""The audit of one lake: it turns rows of the database into findings, for ``app``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from pipeline.audit.bounds import wrong_files
from pipeline.audit.cell import LEDGER
from pipeline.audit.evidence import BUCKETS, evidence, ghosts
from pipeline.audit.held import HeldLake
from pipeline.audit.inquiry import Cell, Finding, compare_cells, count_suspects, inquire, unexplained
from pipeline.audit.lane import ORDER, with_order
from pipeline.audit.proof import EARLIEST, DayTopic
from pipeline.audit.seal import SealedFrom, Seals, sealed_since
from pipeline.audit.seen import differences_seen
from pipeline.audit.side import CellName, HubEvent, Sides, sides_of
from pipeline.audit.verdict import ACCEPTED
from pipeline.bronze import to_bronze
from pipeline.frame import frame_of
from pipeline.kafka_options import SparkKafkaOptions
from pipeline.kafka_range import Range
from pipeline.kafka_reader import read_ranges
from pipeline.retention import forgotten

__all__ = ["Accepted", "LakeAudit"]

_FIRST: Final = datetime.combine(EARLIEST, time(), UTC)
_FIRST_DAY: Final = EARLIEST.isoformat()


@dataclass(frozen=True, slots=True)
class Accepted:
    """An event of the write side, as ``verdict.ACCEPTED`` describes it."""

    id: int
    event_id: str
    topic: str
    hour: datetime
    state: str
    digest: str


class LakeAudit:
    """An audit of the hours from ``since`` until ``until``, for the installation whose ids contain ``incarnation``.

    Records whose hour is in the future or before 2020 are judged too, because no other audit would see them.
    ``late_seconds``: the time from acceptance in which an event has to reach Kafka; None sets no limit. ``outside``:
    the number of records in hours that were not judged, because they are open or were not requested. ``seals``: None
    leaves seals out. ``has_seals``: :meth:`compare` has proved the seal of a record.

    A record that says that it is of an earlier hour, in the folder of another day that is judged, is misplaced.
    ``early``: after :meth:`compare`, the number of records of earlier hours of the first day, by topic.

    ``proved_day``: earlier audits have proved all days through this one, but not the days and topics ``left_out``. It
    ends at ``since`` or earlier. Their files have not changed, or are named. Of that day only the order of its keys is
    read, once, and of days before it nothing.
    """

    def __init__(
        self, spark: SparkSession, held: HeldLake, incarnation: str, since: datetime, until: datetime,
        late_seconds: float | None = None, seals: Seals | None = None, proved_day: date | None = None,
        left_out: Collection[DayTopic] = (),
    ) -> None:  # fmt: skip
        self._spark = spark
        self._incarnation = incarnation
        self._seals = seals
        table, erased = held.bronze, held.erased
        self.snapshot = table.snapshot()
        self._evidence = partial(evidence, incarnation=incarnation, late_seconds=late_seconds)
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        hour = F.col("hour")
        self._is_judged = ((hour >= F.lit(since)) & (hour < F.lit(until))) | (hour > tomorrow) | (hour < _FIRST)
        self._since = since
        self._is_held = self._is_judged | ((hour < since) & F.col("is_misfiled"))
        self._table = table
        last_moment = until - timedelta(microseconds=1)
        first, last, impossible = (moment.date().isoformat() for moment in (since, last_moment, tomorrow))
        # Folders of impossible days are read together with the days that are judged.
        days = self.snapshot.where(
            lambda file: first <= (day := file.values["dt"]) <= last or not _FIRST_DAY <= day <= impossible
        )
        opening = _FIRST_DAY if proved_day is None else (proved_day + timedelta(days=1)).isoformat()
        self._open, notes = (
            each.where(
                lambda file: (
                    not _FIRST_DAY <= file.values["dt"] < opening or (file.day, file.values["topic"]) in left_out
                )
            )
            for each in (self.snapshot, erased.snapshot())
        )
        self._lake = held.storage
        self._read = ((table, days), (erased, notes))
        self._records = self._evidence(table.read(spark, days), seals=seals).where(self._is_held)
        self._has_erased = bool(notes.files)
        if self._has_erased:
            ghostly = ghosts(erased.read(spark, notes), incarnation)
            self._records = self._records.unionByName(ghostly.where(self._is_judged))
        before = self.snapshot.where(lambda file: file.day == proved_day)
        self._before = self._evidence(table.read(spark, before)).select(*ORDER).persist() if before.files else None
        self._beyond: DataFrame | None = None
        self._is_forgotten = forgotten(self.snapshot)
        self.outside: int | None = None
        self.early: Counter[str] = Counter()
        self.has_seals = False

    def differences_seen(self, examples_max: int) -> list[str]:
        """Return, in sentences, each difference that other readers see (``pipeline.audit.seen``)."""
        read = self._read
        found = [text for table, files in read for text in differences_seen(self._lake, table, files, examples_max)]
        if found:  # perhaps a file that cannot be read
            return found
        return [text for table, files in read for text in wrong_files(self._spark, self._lake, table, files)]

    def compare(self, ledger: Sequence[Mapping[str, Any]]) -> list[Cell]:
        """Return all cells of both sides; ``ledger`` has the columns of ``cell.LEDGER``."""
        names = [field.split()[0] for field in LEDGER.split(", ")]
        kept = [row for row in ledger if not self._is_forgotten(row["topic"], row["hour"])]
        rows = frame_of(self._spark, [[row[name] for name in names] for row in kept], LEDGER)
        cells = [cell for cell in compare_cells(self._records, rows) if not self._is_gone(cell)]
        self._cells = [cell for cell in cells if not self._is_earlier(cell)]
        self._misplaced = [cell for cell in cells if self._is_earlier(cell)]
        if self.outside is None:
            self.outside = self.snapshot.rows - sum(cell.records - cell.erased for cell in self._cells)
            self.has_seals = self._proves_seals()  # before records of Kafka come, which have none
            self.early = self._earlier()
        self._suspects = count_suspects(with_order(self._records, self._before))
        self._beyond = self._strayed(kept)
        return self._cells

    def _earlier(self) -> Counter[str]:
        """Count the records of hours of the first day that are not judged: the ledger began within it."""
        first = self.snapshot.where(lambda file: file.day == self._since.date())
        if self._since.time() == time() or not first.files:
            return Counter()
        rows = self._evidence(self._table.read(self._spark, first)).where(F.col("hour") < self._since)
        found = rows.where("NOT is_misfiled").groupBy("topic").count().collect()
        return Counter({row["topic"]: row["count"] for row in found})

    def _proves_seals(self) -> bool:
        others = (cell.erased + cell.broken + cell.unsealed + cell.other_key + cell.unproved for cell in self._cells)
        return self._seals is not None and sum(cell.records for cell in self._cells) > sum(others)

    def sealed_since(self) -> SealedFrom | None:
        """Return the time from which all records of the lake are sealed (see ``seal.sealed_since``)."""
        return None if self._seals is None else sealed_since(self._table.read(self._spark), self._seals.keys)

    def add_unarchived(self, kafka: SparkKafkaOptions, ranges: Sequence[Range]) -> None:
        """Read these ranges of Kafka too: their records are not archived yet, but not lost. Then compare again."""
        if ranges:
            rows = to_bronze(read_ranges(self._spark, kafka, ranges), datetime.now(UTC))
            self._records = self._records.unionByName(self._evidence(rows).where(self._is_judged))

    def other_installation(self) -> str | None:
        """Return the name of the other installation that all judged records are of, after :meth:`compare`.

        Return None if some are this one's, or of several, or have a name that this one had before.
        """
        if {cell.bucket for cell in self._cells if cell.records} != {None}:
            return None
        name = F.substring_index(F.substring_index("event_id", "_", 2), "_", -1)
        named = self._records.where("event_id IS NOT NULL").select(name.alias("name")).distinct().limit(2).collect()
        own = {self._incarnation, *(each for _, each in getattr(self._incarnation, "former", ()))}
        return str(named[0]["name"]) if len(named) == 1 and named[0]["name"] not in own else None

    def erased_ids(self) -> list[int]:
        """Return the ids of the installation's events that the lake notes as erased, in the judged hours, in order."""
        if not self._has_erased:
            return []
        return sorted(
            row["id"] for row in self._records.where("is_erased AND id IS NOT NULL").select("id").distinct().collect()
        )

    def still_there(self, ids: Collection[int]) -> list[int]:
        """Return those of the ids whose records are in the lake, in the judged hours, in order."""
        if not ids:
            return []
        wanted = frame_of(self._spark, [[number] for number in ids], "id long")
        return sorted(
            row["id"]
            for row in self._records.where(~F.col("is_erased")).join(wanted, "id").select("id").distinct().collect()
        )

    def sides(self, places: Sequence[CellName], events: Sequence[HubEvent]) -> dict[CellName, Sides]:
        """Return what database and lake have differently in these cells, of any hour; ``events`` are all of theirs."""
        return sides_of(self._spark, self._table, self.snapshot, self._incarnation, places, events)

    def inquire(
        self, accepted: Sequence[Accepted], asked: Sequence[Cell], *, repeats_are_legal: bool, examples_max: int,
        judges_json: bool = False,
    ) -> list[Finding]:  # fmt: skip
        """Return findings id by id, after :meth:`compare`; ``accepted`` are all events of the cells in ``asked``.

        ``judges_json``: parse each payload whose content type says JSON; this doubles the cost of the audit.
        """
        names = [field.split()[0] for field in ACCEPTED.split(", ")]
        events = frame_of(self._spark, [[getattr(event, name) for name in names] for event in accepted], ACCEPTED)
        found = inquire(
            self._records, events, [*self._cells, *self._misplaced], asked, suspects_found=self._suspects,
            repeats_are_legal=repeats_are_legal, examples_max=examples_max, beyond=self._beyond, before=self._before,
            judges_json=judges_json,
        )  # fmt: skip
        if self._before is not None:
            self._before.unpersist()
        awaited = {(of.topic, of.hour, of.id % BUCKETS) for of in accepted if of.state != "sent"}
        return [*found, *unexplained(asked, found, awaited)]

    def _is_gone(self, cell: Cell) -> bool:
        """Return whether retention deleted the cell. A record that still exists is in the wrong folder."""
        return cell.records == cell.erased and self._is_forgotten(cell.topic, cell.hour)

    def _is_earlier(self, cell: Cell) -> bool:
        """Return whether the cell is of an hour before the judged ones. Its records are in the wrong folder."""
        return _FIRST <= cell.hour < self._since

    def _strayed(self, ledger: Sequence[Mapping[str, Any]]) -> DataFrame | None:
        """Return records of hours that are not judged whose ids lie between the judged ones; None if there are none.

        Ids rise with time, so there are few: neighbours of the first and last hour, and copies with another date. A
        proved day has the ledger's events only, and therefore none of these.
        """
        lows = [row["owed_low"] for row in ledger]
        if not lows:
            return None
        low, high = min(lows), max(row["owed_high"] for row in ledger)
        overlapping = self._open.where(
            lambda file: file.numbers is None or (file.numbers[0] <= high and low <= file.numbers[1])
        )
        rows = self._table.read(self._spark, overlapping).where(F.col("event_number").between(low, high))
        beyond = self._evidence(rows).where("id IS NOT NULL").where(~self._is_held)
        return beyond if beyond.limit(1).count() else None

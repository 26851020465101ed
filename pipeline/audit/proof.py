"""Proof: a digest of all that an audit compares in one day and Kafka topic. A proved day need not be read again.

::

    bytes of the day's files, or the store's word on their  .
    version; the log's words on them; erased records, too --.
    cells of the ledger ------------------------------------+--> digest --> as proved before? then the day stays proved
    options of the audit; columns that the log lacks -------'

Hashing a file costs a fraction of an audit of its rows; on S3 no byte is read (``pipeline.audit.digest``). An audit
begins after the last proved day before the first day that changed. Of that day it reads the few columns by which keys
are compared across the border. The digests belong into the database: a process that writes into the lake must not be
able to forge them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from hashlib import sha256
from typing import Any

from pyspark.sql import SparkSession

from pipeline.audit.digest import digests
from pipeline.audit.held import HeldTables
from pipeline.delta.columns import missing
from pipeline.delta.snapshot import DataFile, Snapshot
from pipeline.lake import Table
from pipeline.repair.words import statistics
from pipeline.retention import forgotten
from pipeline.storage import LakeStorage

__all__ = ["DayTopic", "Proof", "Proofs", "proofs_of", "shrunk"]

DayTopic = tuple[date, str]


@dataclass(frozen=True, slots=True)
class Proof:
    """A digest of one day and topic: of its files, and behind a colon of its cells in the ledger.

    ``unproved`` counts cells whose contents could not be compared, ``unsealed`` the records that no seal proves.
    """

    digest: str
    records: int
    unproved: int = 0
    unsealed: int = 0

    @property
    def files(self) -> str:
        """Return the digest of the files alone."""
        return self.digest.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Proofs:
    """The present digest of each day and topic, and the snapshot of bronze that they describe."""

    snapshot: Snapshot
    days: Mapping[DayTopic, Proof]

    def last_proved_day(self, proved: Mapping[DayTopic, Proof], since: date = date.min) -> date | None:
        """Return the last day that is as it was when it was proved, before the first other one.

        Return None if the first day is none of these. The ledger knows nothing of days before ``since``. Only their
        files are compared, and none of them is returned.
        """
        last: date | None = None
        for day in sorted({day for day, _ in self.days}):
            if not all(self._stands(place, proved.get(place), since) for place in self.days if place[0] == day):
                break
            last = day if day >= since else None
        return last

    def _stands(self, place: DayTopic, before: Proof | None, since: date) -> bool:
        present = self.days[place]
        if before is None or before.files != present.files:
            return False
        return place[0] < since or before.digest == present.digest

    def through(self, day: date, since: date = date.min) -> list[DayTopic]:
        """Return the places from ``since`` through this day."""
        return [place for place in self.days if since <= place[0] <= day]


def proofs_of(
    spark: SparkSession, lake: LakeStorage, held: HeldTables, ledger: Iterable[Mapping[str, Any]],
    options: Sequence[object],
) -> Proofs:  # fmt: skip
    """Return the digests of all days that retention keeps. ``ledger`` has the columns of ``cell.LEDGER``."""
    table, erased, _ = held
    snapshot, of_erased = table.snapshot(), erased.snapshot()
    is_forgotten = forgotten(snapshot)
    parts: dict[DayTopic, list[str]] = {}
    owed: dict[DayTopic, list[str]] = {}
    for of, files in ((table, snapshot), (erased, of_erased)):
        for place, text in _hashed(spark, lake, of, files):
            parts.setdefault(place, []).append(text)
    records = _counted(snapshot)
    for row in ledger:
        if not is_forgotten(row["topic"], row["hour"]):
            place = row["hour"].astimezone(UTC).date(), row["topic"]
            owed.setdefault(place, []).append(json.dumps([str(value) for value in dict(row).values()]))
    # An erased record stays erased where its whole day is dropped.
    kept = {
        place
        for place in parts.keys() | owed.keys()
        if not is_forgotten(place[1], datetime.combine(place[0], time(), UTC))
    }
    given = json.dumps([*(str(option) for option in options), *_lacking(table), *_lacking(erased)])
    days = {
        place: Proof(f"{_digest([given, *parts.get(place, ())])}:{_digest(owed.get(place, ()))}", records[place])
        for place in kept | records.keys()
    }
    return Proofs(snapshot, days)


def _digest(parts: Iterable[str]) -> str:
    return sha256("\n".join(sorted(parts)).encode()).hexdigest()


def shrunk(proved: Mapping[DayTopic, int], bronze: Snapshot, erased: Snapshot) -> list[str]:
    """Return in sentences which days have fewer records than were ``proved``. The ledger knows them no more.

    So nothing else tells that records are missing. Erased ones count as there, and so do days that retention deleted.
    """
    present, noted, is_forgotten = _counted(bronze), _counted(erased), forgotten(bronze)
    return [
        f"bronze: {records:,} records of {topic} on {day} were proved, and {present[day, topic]:,} are there. The "
        "ledger does not know this day any more. Restore its files, or let the lake count as it is by `hookwire "
        "pipeline accept-log --table bronze`"
        for (day, topic), records in sorted(proved.items())
        if present[day, topic] + noted[day, topic] < records
        and not is_forgotten(topic, datetime.combine(day, time(), UTC))
    ]


def _counted(snapshot: Snapshot) -> Counter[DayTopic]:
    counts = Counter[DayTopic]()
    for file in snapshot.files:
        counts[_place(file)] += file.rows
    return counts


def _hashed(spark: SparkSession, lake: LakeStorage, table: Table, snapshot: Snapshot) -> list[tuple[DayTopic, str]]:
    """Return the place of each file, and a text that holds its digest and the log's words on it."""
    found = digests(spark, lake, [table.place(file) for file in snapshot.files]) if snapshot.files else []
    words = statistics(table) if snapshot.files else {}
    return [
        (_place(file), f"{table.name} {file.path} {digest} {words.get(file.path)}")
        for file, digest in zip(snapshot.files, found, strict=True)
    ]


def _lacking(table: Table) -> list[str]:
    """Return our columns that the log's schema lacks, which every other reader would not see."""
    opened = table.opened()
    return [] if opened is None else [f"{table.name} lacks {field.name}" for field in missing(opened, table.schema)]


def _place(file: DataFile) -> DayTopic:
    return file.day, file.values["topic"]

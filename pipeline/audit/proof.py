"""Proof: a digest of all that an audit compares in one day and Kafka topic. A proved day need not be read again.

::

    bytes of the day's files, or the store's word on their  .
    version; the log's words on them; erased records, too --.
    cells of the ledger; erased events that it knows -------+--> digest --> as proved before? then the day stays proved
    options of the audit, and the time of the first seals --+
    columns that the log lacks -----------------------------'

Hashing a file costs a fraction of an audit of its rows; on S3 no byte is read (``pipeline.audit.digest``). An audit
begins after the last proved day before the first day that changed. Of that day it reads the few columns by which keys
are compared across the border. The digests belong into the database: a process that writes into the lake must not be
able to forge them.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from hashlib import sha256
from typing import Any

from pyspark.sql import SparkSession

from pipeline.audit.digest import digests
from pipeline.audit.held import HeldTable
from pipeline.delta.columns import missing
from pipeline.delta.snapshot import DataFile, Snapshot
from pipeline.erasure import erased_table
from pipeline.lake import Table, bronze
from pipeline.repair.words import statistics
from pipeline.retention import forgotten
from pipeline.storage import LakeStorage

__all__ = ["DayTopic", "Proof", "Proofs", "proofs_of"]

DayTopic = tuple[date, str]


@dataclass(frozen=True, slots=True)
class Proof:
    """A digest of one day and topic. ``unproved`` counts cells whose contents could not be compared, ``unsealed`` the
    records that no seal proves.
    """

    digest: str
    records: int
    unproved: int = 0
    unsealed: int = 0


@dataclass(frozen=True, slots=True)
class Proofs:
    """The present digest of each day and topic, and the snapshot of bronze that they describe."""

    snapshot: Snapshot
    days: Mapping[DayTopic, Proof]

    def last_proved_day(self, proved: Mapping[DayTopic, Proof]) -> date | None:
        """Return the last day that is as it was when it was proved, before the first other one.

        Return None if the first day is none of these.
        """
        last: date | None = None
        for day in sorted({day for day, _ in self.days}):
            here = {place: proof for place, proof in self.days.items() if place[0] == day}
            if any(place not in proved or proved[place].digest != proof.digest for place, proof in here.items()):
                break
            last = day
        return last

    def through(self, day: date) -> list[DayTopic]:
        """Return the places of this day and of earlier ones."""
        return [place for place in self.days if place[0] <= day]


def proofs_of(
    spark: SparkSession, lake: LakeStorage, ledger: Iterable[Mapping[str, Any]], options: Sequence[object],
    erased_events: Sequence[tuple[int, bool]] = (),
) -> Proofs:  # fmt: skip
    """Return the digests of all days that retention keeps. ``ledger`` has the columns of ``cell.LEDGER``.

    ``erased_events``: the numbers of those that the database calls erased, in order, and whether the lake erased them.
    """
    table, erased = bronze(lake, HeldTable), erased_table(lake, HeldTable)
    snapshot, of_erased = table.snapshot(), erased.snapshot()
    is_forgotten = forgotten(snapshot)
    parts: dict[DayTopic, list[str]] = {}
    records: dict[DayTopic, int] = {}
    numbers: dict[DayTopic, list[int]] = {}
    for of, files in ((table, snapshot), (erased, of_erased)):
        for place, text in _hashed(spark, lake, of, files):
            parts.setdefault(place, []).append(text)
    for file in snapshot.files:
        place = _place(file)
        records[place] = records.get(place, 0) + file.rows
    for row in ledger:
        if not is_forgotten(row["topic"], row["hour"]):
            place = row["hour"].astimezone(UTC).date(), row["topic"]
            parts.setdefault(place, []).append(json.dumps([str(value) for value in dict(row).values()]))
            numbers.setdefault(place, []).extend((row["owed_low"], row["owed_high"]))
    for place, owed in numbers.items():
        first, last = bisect_left(erased_events, (min(owed),)), bisect_left(erased_events, (max(owed) + 1,))
        parts[place].append(json.dumps(erased_events[first:last]))
    # An erased record stays erased where its whole day is dropped.
    kept = {place for place in parts if not is_forgotten(place[1], datetime.combine(place[0], time(), UTC))}
    given = json.dumps([*(str(option) for option in options), *_lacking(table), *_lacking(erased)])
    days = {
        place: Proof(sha256("\n".join([given, *sorted(parts[place])]).encode()).hexdigest(), records.get(place, 0))
        for place in kept | records.keys()
    }
    return Proofs(snapshot, days)


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

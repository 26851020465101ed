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

The ledger drops old hours, and a later version audits otherwise. So a proof also has a hash of each file and of the
log's words on it. By these a day is compared that is older than the ledger, and each file that changed can be named.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from hashlib import sha256
from typing import Any, Final

from pyspark.sql import SparkSession

from pipeline.audit.digest import digests
from pipeline.audit.held import HeldLake
from pipeline.delta.columns import missing
from pipeline.delta.snapshot import DataFile, Snapshot
from pipeline.lake import Table
from pipeline.repair.words import statistics
from pipeline.retention import first_kept, forgotten
from pipeline.storage import LakeStorage

__all__ = ["EARLIEST", "DayTopic", "Proof", "Proofs", "plain", "proofs_of"]

DayTopic = tuple[date, str]
EARLIEST: Final = date(2020, 1, 1)
"""An earlier day is impossible, and every audit reads it."""
_WORDS: Final = frozenset({"num_records", "size_bytes", "deleted_rows"})
_OF_COLUMNS: Final = ("min.", "max.", "null_count.")


@dataclass(frozen=True, slots=True)
class Proof:
    """A digest of one day and topic. ``unproved`` counts cells whose contents could not be compared, ``unsealed`` the
    records that no seal proves. ``files``: table, path and hash of each file, with a space between them; None if an
    older version proved the day.
    """

    digest: str
    records: int
    unproved: int = 0
    unsealed: int = 0
    files: tuple[str, ...] | None = ()

    def differences(self, present: Proof) -> list[str]:
        """Return which files are others at present, in words, in order."""
        before, now = (dict(file.rsplit(" ", 1) for file in proof.files or ()) for proof in (self, present))
        words = [
            f"{file} {'was altered' if file in before else 'is new'}" for file in now if before.get(file) != now[file]
        ]
        return sorted([*words, *(f"{file} is gone" for file in before.keys() - now.keys())])


@dataclass(frozen=True, slots=True)
class Proofs:
    """The present digest of each day and topic, and the snapshot of bronze that they describe.

    The ledger covers the days from ``first`` on. Earlier ones are compared by their files alone.
    """

    snapshot: Snapshot
    days: Mapping[DayTopic, Proof]
    first: date = date.min

    def last_proved_day(self, proved: Mapping[DayTopic, Proof]) -> date | None:
        """Return the last day that is as it was when it was proved, before the first other one that can be judged.

        Return None if there is none.
        """
        last: date | None = None
        others = {place[0] for place in self.days if not self._stands(place, proved)}
        for day in sorted({day for day, _ in self.days}):
            if day not in others:
                last = day
            elif not self._is_aged(day):
                break
        return last

    def standing(self, last: date | None, proved: Mapping[DayTopic, Proof]) -> list[DayTopic]:
        """Return the places that are as they were when they were proved: those before ``first``, and all through
        ``last``.
        """
        return [
            place for place in self.days
            if self._stands(place, proved) and (self._is_aged(place[0]) or (last is not None and place[0] <= last))
        ]  # fmt: skip

    def changed(self, proved: Mapping[DayTopic, Proof]) -> list[DayTopic]:
        """Return the places before ``first`` whose files are others than those that were proved, in order."""
        return sorted(
            place for place, known in proved.items()
            if self._is_aged(place[0]) and not self.is_forgotten(place)
            and known.files not in (None, self.of(place).files)
        )  # fmt: skip

    def left_out(self, proved: Mapping[DayTopic, Proof]) -> dict[DayTopic, int]:
        """Return the records of each place before ``first`` that no audit has proved."""
        return {
            place: proof.records for place, proof in self.days.items()
            if self._is_aged(place[0]) and (place not in proved or proved[place].files is None)
        }  # fmt: skip

    def of(self, place: DayTopic) -> Proof:
        """Return the present digest of a place; that of no file, if all are gone."""
        return self.days.get(place, Proof("", 0))

    def is_forgotten(self, place: DayTopic) -> bool:
        """Return whether retention has deleted the day."""
        return place[0].isoformat() < first_kept(self.snapshot, place[1])

    def _stands(self, place: DayTopic, proved: Mapping[DayTopic, Proof]) -> bool:
        known, present = proved.get(place), self.days[place]
        if known is None:
            return False
        return known.files == present.files if self._is_aged(place[0]) else known.digest == present.digest

    def _is_aged(self, day: date) -> bool:
        return _is_aged(day, self.first)


def proofs_of(
    spark: SparkSession, held: HeldLake, ledger: Iterable[Mapping[str, Any]], options: Sequence[object],
    erased_events: Sequence[tuple[int, bool]] = (), first: date = date.min, known: Collection[DayTopic] = (), *,
    reads_all: bool = True,
) -> Proofs:  # fmt: skip
    """Return the digests of all days that retention keeps. ``ledger`` has the columns of ``cell.LEDGER``.

    ``erased_events``: the numbers of those that the database calls erased, in order, and whether the lake erased them.
    ``first``: the first day that the ledger covers. Of earlier days only the ``known`` ones are hashed, and of the
    others the log's number of records is taken. Only earlier days are read unless ``reads_all``.
    """
    table, erased = held.bronze, held.erased
    snapshot = table.snapshot()
    is_forgotten = forgotten(snapshot)

    def is_wanted(file: DataFile) -> bool:
        return _place(file) in known if _is_aged(file.day, first) else reads_all

    parts: dict[DayTopic, list[str]] = {}
    hashes: dict[DayTopic, list[str]] = {}
    numbers: dict[DayTopic, list[int]] = {}
    for of, files in ((table, snapshot.where(is_wanted)), (erased, erased.snapshot().where(is_wanted))):
        for place, path, text in _hashed(spark, held.storage, of, files):
            parts.setdefault(place, []).append(text)
            hashes.setdefault(place, []).append(f"{of.name} {path} {sha256(text.encode()).hexdigest()}")
    records: Counter[DayTopic] = Counter()
    for file in snapshot.where(lambda file: reads_all or _is_aged(file.day, first)).files:
        records[_place(file)] += file.rows
    for row in ledger:
        if not is_forgotten(row["topic"], row["hour"]):
            place = row["hour"].astimezone(UTC).date(), row["topic"]
            parts.setdefault(place, []).append(json.dumps([str(value) for value in dict(row).values()]))
            numbers.setdefault(place, []).extend((row["owed_low"], row["owed_high"]))
    for place, owed in numbers.items():
        low, high = bisect_left(erased_events, (min(owed),)), bisect_left(erased_events, (max(owed) + 1,))
        parts[place].append(json.dumps(erased_events[low:high]))
    # An erased record stays erased where its whole day is dropped.
    kept = {place for place in parts if not is_forgotten(place[1], datetime.combine(place[0], time(), UTC))}
    given = json.dumps([*(str(option) for option in options), *_lacking(table), *_lacking(erased)])
    days = {
        place: Proof(
            sha256("\n".join([given, *sorted(parts.get(place, ()))]).encode()).hexdigest(), records[place],
            files=tuple(sorted(hashes.get(place, ()))),
        )
        for place in kept | records.keys()
    }  # fmt: skip
    return Proofs(snapshot, days, first)


def _hashed(
    spark: SparkSession, lake: LakeStorage, table: Table, snapshot: Snapshot
) -> list[tuple[DayTopic, str, str]]:
    """Return the place and the path of each file, and a text that holds its digest and the log's words on it."""
    found = digests(spark, lake, [table.place(file) for file in snapshot.files]) if snapshot.files else []
    words = statistics(table, {file.path for file in snapshot.files}) if snapshot.files else {}
    return [
        (_place(file), file.path, f"{table.name} {file.path} {digest} {plain(words.get(file.path, {}), file.values)}")
        for file, digest in zip(snapshot.files, found, strict=True)
    ]


def plain(words: Mapping[str, Any], values: Mapping[str, str]) -> str:
    """Return the log's words on a file, and its ``values``, in a form that no later version may change.

    The days of years are compared by it. So it names its words, and a reader of the log that has more adds none.
    """
    chosen = {name: word for name, word in words.items() if name in _WORDS or name.startswith(_OF_COLUMNS)}
    return json.dumps(chosen | {"values": dict(values)}, sort_keys=True, default=_told)


def _told(value: object) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return value.isoformat() if isinstance(value, date) else str(value)


def _lacking(table: Table) -> list[str]:
    """Return our columns that the log's schema lacks, which every other reader would not see."""
    opened = table.opened()
    return [] if opened is None else [f"{table.name} lacks {field.name}" for field in missing(opened, table.schema)]


def _is_aged(day: date, first: date) -> bool:
    """Return whether a day that can be is older than the ledger, which covers the days from ``first`` on."""
    return EARLIEST <= day < first


def _place(file: DataFile) -> DayTopic:
    return file.day, file.values["topic"]

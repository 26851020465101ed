"""Rows: what the records of a day are, in whatever files they lie.

Compaction rearranges files and keeps rows, and so does the OPTIMIZE of other tools. The ledger cannot show it of a day
that it does not cover any more. The proof of the day has the sum of the contents' hashes. The seals prove the rest of
each row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pyspark.sql import SparkSession

from pipeline.audit.bounds import wrong_files
from pipeline.audit.cell import LEDGER
from pipeline.audit.evidence import evidence
from pipeline.audit.held import HeldTable
from pipeline.audit.inquiry import Cell, compare_cells
from pipeline.audit.proof import DayTopic, Proof
from pipeline.audit.seal import Seals
from pipeline.audit.seen import differences_seen
from pipeline.frame import frame_of
from pipeline.lake import bronze
from pipeline.storage import LakeStorage

__all__ = ["Rows", "rearranged", "rows_of"]

_MODULUS = 2**64


class Rows(NamedTuple):
    """The number of records, and the sum of their contents' hashes modulo 2^64.

    ``doubtful``: how many have no seal that proves them, or are in the folder of another day.
    """

    records: int = 0
    content: int = 0
    doubtful: int = 0


def rows_of(cells: Iterable[Cell]) -> dict[DayTopic, Rows]:
    """Return the rows of each day and topic; a place without a record has none."""
    found: dict[DayTopic, Rows] = defaultdict(Rows)
    for cell in cells:
        place = cell.hour.date(), cell.topic
        records, content, doubtful = found[place]
        more = cell.misfiled + cell.broken + cell.unsealed + cell.other_key + cell.unproved
        found[place] = Rows(records + cell.records - cell.erased, (content + cell.content) % _MODULUS, doubtful + more)
    return found


def rearranged(
    spark: SparkSession, lake: LakeStorage, incarnation: str, seals: Seals, changed: Mapping[DayTopic, Proof]
) -> set[DayTopic]:
    """Return the places whose rows are those that were proved, each with its seal, in other files.

    Every other reader has to see the same rows. If one of the files is damaged, no place is returned.
    """
    table = bronze(lake, HeldTable)
    files = table.snapshot().where(lambda file: (file.day, file.values["topic"]) in changed)
    if not files.files or differences_seen(lake, table, files, 1) or wrong_files(spark, lake, table, files):
        return set()
    records = evidence(table.read(spark, files), incarnation, seals=seals)
    found = rows_of(compare_cells(records, frame_of(spark, [], LEDGER)))
    return {
        place for place, known in changed.items()
        if known.content is not None and found[place] == Rows(known.records, known.content)
    }  # fmt: skip

"""An audit of one day over a log of 43,200 commits, beside the same table in one commit, in one run.

    python -m benchmarks.commits --commits 43200 --rounds 5

So many commits are what ``archive --follow 60`` makes in 30 days. Each adds a file; a compaction at the end of each day
exchanges those of the day for one. The audited day is real, and of the others the log has the names alone. The log is
written as ``deltalake`` writes it, with a checkpoint at every hundredth commit, of which the last one counts.
Both tables have the same files, so that the difference is the log's length.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from benchmarks.pipeline import INCARNATION, generated, ledger_of, seconds
from pipeline.audit.evidence import evidence
from pipeline.audit.held import HeldLake
from pipeline.audit.lake_audit import LakeAudit
from pipeline.delta.snapshot import Change, DataFile, Snapshot, State
from pipeline.lake import Table, bronze
from pipeline.session import SessionOptions, spark_session
from pipeline.storage import LakeStorage

DAYS = 30
FIRST_DAY = date(2026, 1, 15)
SINCE = datetime(2026, 1, 15, tzinfo=UTC)
EVENTS = 100_000
FILE_ROWS, FILE_BYTES = 1_000, 40_000
UNCHECKED = 99  # commits behind the last checkpoint
STATE = State({"orders": {0: 1, 1: 1, 2: 1, 3: 1}})

Step = tuple[list[DataFile], list[DataFile]]


def named(number: int, day: int) -> DataFile:
    """Name a file that the log alone knows, with events behind those of the audited day."""
    path = f"data/{number:06d}-a1b2c3/dt={FIRST_DAY + timedelta(day)}/topic=orders/part-0.snappy.parquet"
    low = EVENTS + 1 + number * FILE_ROWS
    return DataFile(path, FILE_ROWS, FILE_BYTES, "0" * 64, (low, low + FILE_ROWS - 1))


def steps(commits: int) -> Iterator[Step]:
    """Yield the files that each commit behind the first adds and removes."""
    of_day = commits // DAYS
    small: list[DataFile] = []
    for number in range(2, commits + 1):
        day = 1 + (number - 1) // of_day
        if number % of_day == 0 and number < commits:
            yield [named(number, day)], small
            small = []
        else:
            small.append(named(number, day))
            yield [small[-1]], []


def line(action: str, file: DataFile, more: Mapping[str, Any]) -> str:
    values = {name: file.values[name] for name in ("dt", "topic")}
    return json.dumps({action: {"path": file.path, "partitionValues": values, "size": file.bytes, **more}})


def text_of(number: int, step: Step, live: int, at: int) -> str:
    """Write a commit in the words of the log."""
    added, removed = step
    assert all(file.numbers for file in added)
    ours = {
        "id": f"{number:016x}", "number": number, "job": "compact" if removed else "archive", "run": "bench",
        "files": live, "state": {"offsets": {"orders": {str(n): 1 for n in range(4)}}, "incarnations": {}, "kept": {},
                                 "days": {}},
        "notes": {}, "sha256": {file.path: file.sha256 for file in added},
    }  # fmt: skip
    info = {"timestamp": at, "operation": "WRITE", "operationParameters": {"mode": "Append"}, "hookwire": ours}
    taken = {"dataChange": True, "deletionTimestamp": at, "extendedFileMetadata": True}
    head = json.dumps({"commitInfo": info}, separators=(",", ":"))  # a reader looks for this beginning
    lines = [head, *(line("remove", file, taken) for file in removed)]
    for file in added:
        low, high = file.numbers or (0, 0)
        stats = {"numRecords": file.rows, "minValues": {"event_number": low}, "maxValues": {"event_number": high}}
        lines.append(line("add", file, {"modificationTime": at, "dataChange": True, "stats": json.dumps(stats)}))
    return "\n".join([*lines, json.dumps({"txn": {"appId": "hookwire", "version": number}})]) + "\n"


def audited_day(spark: SparkSession, table: Table) -> tuple[DataFile, ...]:
    return table.write(generated(spark, EVENTS), 1)


def in_one_commit(spark: SparkSession, table: Table, commits: int) -> None:
    files = {file.path: file for file in audited_day(spark, table)}
    for added, removed in steps(commits):
        files.update((file.path, file) for file in added)
        for file in removed:
            del files[file.path]
    table.commit(Snapshot(), Change("archive", "bench", tuple(files.values()), state=STATE))


def in_many_commits(spark: SparkSession, table: Table, folder: Path, commits: int) -> None:
    first = table.commit(Snapshot(), Change("archive", "bench", audited_day(spark, table), state=STATE))
    live = len(first.files)
    begun = int(time.time() * 1000) - commits * 60_000
    for number, step in enumerate(steps(commits), 2):
        live += len(step[0]) - len(step[1])
        text = text_of(number, step, live, begun + number * 60_000)
        (folder / "bronze/_delta_log" / f"{number:020d}.json").write_text(text)
        if number == commits - UNCHECKED:
            DeltaTable(table_uri(folder)).create_checkpoint()


def table_uri(folder: Path) -> str:
    return (folder / "bronze").as_uri()


def audit(spark: SparkSession, lake: LakeStorage, owed: Sequence[Mapping[str, Any]]) -> None:
    cells = LakeAudit(spark, HeldLake(lake), INCARNATION, SINCE, SINCE + timedelta(days=1), 3600).compare(owed)
    assert cells, "the day has cells"
    assert not any(cell.differs for cell in cells), "the lake is clean"


def run(spark: SparkSession, folder: Path, commits: int, rounds: int) -> None:
    lakes = {"1 commit": LakeStorage(str(folder / "one")), f"{commits:,} commits": LakeStorage(str(folder / "many"))}
    one, many = lakes.values()
    in_one_commit(spark, bronze(one), commits)
    in_many_commits(spark, bronze(many), folder / "many", commits)
    assert len(bronze(one).snapshot().files) == len(bronze(many).snapshot().files), "only the log differs"
    of_day = bronze(one).snapshot().where(lambda file: file.values["dt"] == FIRST_DAY.isoformat())
    rows = ledger_of(evidence(bronze(one).read(spark, of_day), INCARNATION)).collect()
    owed = [{**row.asDict(), "hour": row["hour"].astimezone(UTC)} for row in rows]
    reading: dict[str, list[float]] = {name: [] for name in lakes}
    auditing: dict[str, list[float]] = {name: [] for name in lakes}
    for _ in range(rounds + 1):
        for name, lake in lakes.items():
            reading[name].append(seconds(bronze(lake).snapshot))
            auditing[name].append(seconds(partial(audit, spark, lake, owed)))
    print(f"{len(bronze(many).snapshot().files):,} files, audit of a day of {EVENTS:,} events, {rounds} warm rounds")
    for name in lakes:
        log, whole = (times[name][1:] for times in (reading, auditing))
        spread = f"({min(whole):.2f}-{max(whole):.2f})"
        print(f"{name:15} log {statistics.median(log):6.3f} s   audit {statistics.median(whole):6.2f} s {spread}")
    few, more = (statistics.median(times[1:]) for times in auditing.values())
    print(f"{more - few:+.2f} s for the length of the log")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--commits", type=int, default=43_200)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    spark = spark_session(SessionOptions("benchmark", master="local[2]"))
    with tempfile.TemporaryDirectory(prefix="hookwire-bench-") as name:
        run(spark, Path(name), options.commits, options.rounds)
    spark.stop()


if __name__ == "__main__":
    main()

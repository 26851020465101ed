"""A day of one-minute commits over 50 topics: files, log, commit time, audit time (GP-12).

    python -m benchmarks.minutes --minutes 1440 --topics 50 --events 20

Each minute is a commit with a file for each topic, as ``archive --follow 60`` makes it. The files are written without
Spark, because a job for each minute would take hours. Spark merges small files as it does for the archive.
``--no-merge`` is the archive of before. At the end the whole day is audited, and another reader counts it.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.pipeline import INCARNATION, ledger_of
from pipeline.audit.evidence import evidence
from pipeline.audit.held import HeldLake
from pipeline.audit.lake_audit import LakeAudit
from pipeline.compaction import Upkeep
from pipeline.delta.snapshot import Change, DataFile, State
from pipeline.frame import arrow_schema
from pipeline.lake import Table, bronze
from pipeline.repair.words import counted_by_deltalake
from pipeline.schema import BRONZE, BRONZE_PARTITIONS
from pipeline.session import SessionOptions, spark_session
from pipeline.storage import LakeStorage

DAY = datetime(2026, 1, 15, tzinfo=UTC)
SCHEMA = pa.schema([each for each in arrow_schema(BRONZE) if each.name not in BRONZE_PARTITIONS])


def rows(first: int, events: int, at: datetime) -> list[dict[str, Any]]:
    """Rows of bronze as the archive writes them."""
    moments = [(first + n, at + timedelta(milliseconds=n)) for n in range(events)]
    return [
        {
            "partition": 0, "offset": number, "timestamp": then, "timestamp_type": 0, "key": b"key %d" % (number % 100),
            "value": b"%0100d" % number, "event_id": f"evt_{INCARNATION}_{number}", "event_number": number,
            "sequence": number, "term": 7, "accepted_at": then, "archived_at": then,
        }
        for number, then in moments
    ]  # fmt: skip


def written(folder: Path, commit: int, topic: int, of: list[dict[str, Any]]) -> DataFile:
    """Write a file as Spark would, but without a flush to the disk, which is not measured here."""
    path = f"data/{commit:06d}-a1b2c3/dt={DAY:%Y-%m-%d}/topic=topic{topic}/part-0.parquet"
    place = folder / "bronze" / path
    place.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(of, SCHEMA), place, compression="zstd")
    content = place.read_bytes()
    numbers = of[0]["event_number"], of[-1]["event_number"]
    return DataFile(path, len(of), len(content), sha256(content).hexdigest(), numbers)


def a_day(
    spark: SparkSession, table: Table, folder: Path, minutes: int, topics: int, events: int, *, merges: bool
) -> None:
    """Make the commits, and print what they took."""
    commits, merging, most, number = [], [], 0, 0
    snapshot, upkeep = table.snapshot(), Upkeep(lambda: spark, table, "bench")
    for minute in range(minutes):
        at = DAY + timedelta(minutes=minute)
        files = []
        for topic in range(topics):
            files.append(written(folder, snapshot.number + 1, topic, rows(number + 1, events, at)))
            number += events
        began = time.perf_counter()
        snapshot = table.commit(snapshot, Change("archive", "bench", tuple(files), state=State()))
        commits.append(time.perf_counter() - began)
        most = max(most, len(snapshot.files))
        if merges:
            began = time.perf_counter()
            assert upkeep.done(DAY.date()) is None
            merging.append(time.perf_counter() - began)
            snapshot = table.refreshed()
    assert upkeep.ended() is None
    print(f"{minutes} commits of {topics} files, {number:,} events")
    print(f"{most:,} files at most, {len(snapshot.files):,} at last")
    millis = [1000 * seconds for seconds in commits]
    print(f"a commit: median {statistics.median(millis):.1f} ms, worst {max(millis):.1f} ms")
    if merging:
        print(f"merging: {sum(merging):.1f} s in all, {max(merging):.1f} s at most at once")


def looked_at(spark: SparkSession, lake: LakeStorage, folder: Path) -> None:
    """Print what readers pay for it."""
    log = [path.stat().st_size for path in (folder / "bronze/_delta_log").iterdir() if path.is_file()]
    print(f"log: {len(log):,} files, {sum(log) / 1024**2:.1f} MiB")
    stored = [path.stat().st_size for path in (folder / "bronze/data").rglob("*.parquet")]
    print(f"data: {len(stored):,} files, {sum(stored) / 1024**2:.1f} MiB, with those that a vacuum will delete")
    table = bronze(lake)
    began = time.perf_counter()
    snapshot = table.snapshot()
    print(f"opening the table: {time.perf_counter() - began:.2f} s")
    hours = [DAY, DAY + timedelta(days=1)]
    found = ledger_of(evidence(table.read(spark), INCARNATION)).collect()
    owed = [{**each.asDict(), "hour": each["hour"].astimezone(UTC)} for each in found]
    for number in range(2):
        began = time.perf_counter()
        audit = LakeAudit(spark, HeldLake(lake), INCARNATION, hours[0], hours[1], 3600)
        differences = audit.differences_seen(10)
        seen = time.perf_counter() - began
        cells = audit.compare(owed)
        assert not differences, differences
        assert not any(cell.differs for cell in cells), "the lake is clean"
        print(f"audit {number + 1}: {time.perf_counter() - began:.1f} s, {seen:.1f} s of it for what other readers see")
    began = time.perf_counter()
    assert counted_by_deltalake(table, snapshot) == snapshot.rows
    print(f"another reader counts {snapshot.rows:,} rows in {time.perf_counter() - began:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minutes", type=int, default=1440)
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--events", type=int, default=20, help="of each topic in a minute")
    parser.add_argument("--no-merge", action="store_true")
    options = parser.parse_args()
    spark = spark_session(SessionOptions("benchmark", master="local[2]"))
    with tempfile.TemporaryDirectory(prefix="hookwire-bench-") as name:
        lake = LakeStorage(name)
        a_day(
            spark, bronze(lake), Path(name), options.minutes, options.topics, options.events,
            merges=not options.no_merge,
        )  # fmt: skip
        looked_at(spark, lake, Path(name))
    spark.stop()


if __name__ == "__main__":
    main()

"""The audit against a bare count and group-by over the same files, in one run (PL-A04).

    python -m benchmarks.pipeline --events 10000000 --rounds 3

Bronze is generated: events of 100 bytes on 100,000 keys, four partitions, three hours, in Parquet as the archive
writes it. The yardstick counts the rows and groups them by event id, as a simple query for repeats does. Ours compares
every cell's count, contents, least and greatest id with the ledger. It also looks for repeats, disorder and stale
terms. The data has no faults, so no further step follows. The audit without contents compares the checksum of the ids
instead, as it does for cells that the ledger began before it had contents. All three alternate. The output has medians,
their ratios, and the peak memory of the JVM and of Python. The JVM's heap is that of every command (1 GB).
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from pipeline.audit.cell import cells
from pipeline.audit.evidence import evidence
from pipeline.audit.inquiry import compare_cells, count_suspects
from pipeline.delta.snapshot import Change
from pipeline.lake import bronze
from pipeline.schema import BRONZE
from pipeline.session import SessionOptions, spark_session
from pipeline.storage import LakeStorage

INCARNATION = "abcd2345"
KEYS = 100_000
PARTITIONS = 4
HOURS = 3


def generated(spark: SparkSession, events: int) -> DataFrame:
    """Return rows of bronze. A key's events lie in one partition, in the order of their numbers."""
    number = F.col("id") + 1
    key = F.concat(F.lit("key "), (number % KEYS).cast("string"))
    at = F.timestamp_seconds(F.lit(1_768_467_600) + F.col("id") * (HOURS * 3600) / events)
    made = {
        "topic": F.lit("orders"),
        "partition": (number % PARTITIONS).cast("int"),
        "offset": F.floor(F.col("id") / PARTITIONS),
        "timestamp": at,
        "timestamp_type": F.lit(0),
        "key": key.cast("binary"),
        "value": F.rpad(number.cast("string"), 100, "x").cast("binary"),
        "event_id": F.concat(F.lit(f"evt_{INCARNATION}_"), number.cast("string")),
        "event_number": number,
        "sequence": number,
        "term": F.lit(7).cast("long"),
        "accepted_at": at,
        "archived_at": at,
        "dt": F.to_date(at),
    }
    columns = (made.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in BRONZE.fields)
    return spark.range(events, numPartitions=PARTITIONS).select(*columns)


def yardstick(rows: DataFrame) -> None:
    rows.count()
    repeated = rows.groupBy("event_id").count().where("count > 1").count()
    assert repeated == 0, repeated


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def peak_megabytes(process: int | str) -> float:
    """Return the peak resident memory of a process, in megabytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0.0)


def jvm_peak_megabytes() -> float:
    """Return the peak resident memory of this process's children, in megabytes."""
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return max(map(peak_megabytes, children), default=0.0)


def ledger_of(records: DataFrame) -> DataFrame:
    """Return the cells of a write side that had accepted these records."""
    hours = [datetime(2026, 1, 15, 9, tzinfo=UTC) + timedelta(hours=n) for n in range(HOURS)]
    return cells(records, hours).select(
        "topic", "hour", "bucket", F.col("records").alias("owed"), F.col("sum").alias("owed_sum"),
        F.col("low").alias("owed_low"), F.col("high").alias("owed_high"), F.col("content").alias("owed_content"),
    )  # fmt: skip


def run(spark: SparkSession, lake: LakeStorage, events: int, rounds: int) -> None:
    table = bronze(lake)
    table.commit(table.snapshot(), Change("archive", "bench", table.write(generated(spark, events), 1)))
    ledger = ledger_of(evidence(table.read(spark), INCARNATION))
    ledger = ledger.localCheckpoint()
    unknown = ledger.withColumn("owed_content", F.lit(None).cast("decimal(20,0)"))

    def audit(owed: DataFrame, has_contents: bool | None) -> None:
        records = evidence(table.read(spark), INCARNATION, late_seconds=3600)
        if has_contents is None:
            records = records.withColumn("digest", F.lit(None).cast("string"))
        found = compare_cells(records, owed)
        assert {(cell.is_equal, cell.has_contents, cell.late) for cell in found} == {(True, has_contents, 0)}
        assert count_suspects(records) == 0, "the lake is clean"

    contenders: dict[str, Callable[[], None]] = {
        "count and group-by": lambda: yardstick(table.read(spark)),
        "audit": lambda: audit(ledger, has_contents=True),
        "audit without contents": lambda: audit(unknown, has_contents=None),
    }
    figures: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, work in contenders.items():
            figures[name].append(seconds(work))
    base = statistics.median(figures["count and group-by"])
    size = sum(file.bytes for file in table.snapshot().files) / 1024**2
    print(f"{events:,} events, {size:,.0f} MB of Parquet, {rounds} rounds")
    for name, times in figures.items():
        middle = statistics.median(times)
        print(f"{name:22} {middle:7.2f} s ({min(times):.2f}-{max(times):.2f})  {middle / base:5.2f} x")
    print(f"JVM: {jvm_peak_megabytes():,.0f} MB at most; Python: {peak_megabytes('self'):,.0f} MB at most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    spark = spark_session(SessionOptions("benchmark", master="local[2]"))
    with tempfile.TemporaryDirectory(prefix="hookwire-bench-") as folder:
        run(spark, LakeStorage(folder), options.events, options.rounds)
    spark.stop()


if __name__ == "__main__":
    main()

"""A query of a typed table against the same query of plain Parquet files with the same rows, in one run (GP-13).

    python -m benchmarks.typed --events 1000000 --rounds 5

Bronze is generated: orders in JSON of about 130 bytes, four days, on 100,000 keys. `hookwire pipeline typed` computes
the days. The yardstick is one Parquet file for each day with the same columns, written by Spark. DuckDB asks both for a
sum by country and day over a twentieth of the rows. It reads the typed table through `deltalake`, opening its log each
time, and the yardstick as a pyarrow dataset. Both alternate. The output has medians and their ratio, and how many
events a second `typed` computed.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow.dataset as ds
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from benchmarks.pipeline import INCARNATION, KEYS, seconds
from pipeline.delta.snapshot import Change
from pipeline.lake import bronze
from pipeline.schema import BRONZE
from pipeline.session import SessionOptions, spark_session
from pipeline.storage import LakeStorage
from pipeline.typed.day import SeenBronze, TopicVersion, fill, stale_days
from pipeline.typed.shape import shape_of
from pipeline.typed.tables import TAKEN

DAYS: Final = 4
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "order": {"type": "integer"}, "amount": {"type": "number"}, "country": {"type": "string"},
        "placed_at": {"type": "string", "format": "date-time"},
        "customer": {"type": "object", "properties": {"id": {"type": "integer"}, "segment": {"type": "string"}}},
    },
    "required": ["order", "amount"],
}  # fmt: skip
QUERY: Final = """
SELECT dt, country, count(*), sum(amount) FROM orders WHERE customer.segment = 's7'
GROUP BY dt, country ORDER BY dt, country
"""


def generated(spark: SparkSession, events: int) -> DataFrame:
    """Return rows of bronze with orders in JSON."""
    number = F.col("id") + 1
    at = F.timestamp_seconds(F.lit(1_768_435_200) + F.col("id") * (DAYS * 86_400) / events)
    order = F.struct(
        number.alias("order"),
        (number % 9973 / 7).alias("amount"),
        F.concat(F.lit("c"), (number % 40).cast("string")).alias("country"),
        F.date_format(at, "yyyy-MM-dd'T'HH:mm:ss'Z'").alias("placed_at"),
        F.struct(
            (number % KEYS).alias("id"), F.concat(F.lit("s"), (number % 20).cast("string")).alias("segment")
        ).alias("customer"),
    )
    made = {
        "topic": F.lit("orders"), "partition": (number % 4).cast("int"), "offset": F.floor(F.col("id") / 4),
        "key": (number % KEYS).cast("string").cast("binary"), "value": F.to_json(order).cast("binary"),
        "event_id": F.concat(F.lit(f"evt_{INCARNATION}_"), number.cast("string")), "event_number": number,
        "sequence": number, "term": F.lit(7).cast("long"), "accepted_at": at, "archived_at": at, "dt": F.to_date(at),
    }  # fmt: skip
    columns = (made.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in BRONZE.fields)
    return spark.range(events, numPartitions=4).select(*columns)


def run(spark: SparkSession, lake: LakeStorage, folder: Path, events: int, rounds: int) -> None:
    table = bronze(lake)
    table.commit(table.snapshot(), Change("archive", "bench", table.write(generated(spark, events), 1)))
    of = TopicVersion("orders", 1, shape_of(SCHEMA, TAKEN), "orders")
    archived = SeenBronze(lake)
    days = stale_days(archived, of, date.min, date.max)
    computing = seconds(lambda: [fill(spark, archived, of, day, "bench") for day in days])
    typed = of.tables(lake)[1]
    typed.read(spark).repartition("dt").write.partitionBy("dt").parquet(str(folder / "plain"))

    def asked(dataset: Callable[[], ds.Dataset]) -> list[Any]:
        with duckdb.connect() as connection:
            connection.register("orders", dataset())
            return connection.sql(QUERY).fetchall()

    contenders: dict[str, Callable[[], ds.Dataset]] = {
        "plain Parquet": lambda: ds.dataset(str(folder / "plain"), partitioning="hive"),
        "typed table": lambda: DeltaTable(lake.spark_path(typed.name)).to_pyarrow_dataset(),
    }
    counts = {name: sum(row[2] for row in asked(dataset)) for name, dataset in contenders.items()}
    assert len(set(counts.values())) == 1, counts
    figures: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, dataset in contenders.items():
            figures[name].append(seconds(partial(asked, dataset)))
    base = statistics.median(figures["plain Parquet"])
    print(f"{events:,} events of {len(days)} days computed in {computing:.1f} s, {events / computing:,.0f}/s")
    for name, times in figures.items():
        middle = statistics.median(times)
        print(f"{name:14} {middle:7.3f} s ({min(times):.3f}-{max(times):.3f})  {middle / base:5.2f} x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    spark = spark_session(SessionOptions("benchmark", master="local[2]"))
    with tempfile.TemporaryDirectory(prefix="hookwire-bench-") as folder:
        run(spark, LakeStorage(f"{folder}/lake"), Path(folder), options.events, options.rounds)
    spark.stop()


if __name__ == "__main__":
    main()

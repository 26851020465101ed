"""Ask the lake by plain PySpark, without Delta's package: python examples/lake/with_pyspark.py FOLDER

Needs `pip install deltalake pyspark` and Java 17 or 21. FOLDER is the lake (HOOKWIRE_PIPELINE_LAKE). `deltalake` says
which files belong to the table; Spark reads those. Prints the events of each day and Kafka topic. On a cluster that has
Delta's package, `spark.read.format("delta").load(f"{lake}/bronze")` does the same.
"""

import sys

from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention


def main(lake: str) -> None:
    spark = SparkSession.builder.appName("lake").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    files = DeltaTable(f"{lake}/bronze").file_uris()
    bronze = spark.read.option("basePath", f"{lake}/bronze/data").parquet(*files)
    days = bronze.groupBy("dt", "topic").agg(
        F.countDistinct("event_id").alias("events"),
        F.count("*").alias("records"),
        F.sum(F.length("value")).alias("bytes"),
    )
    for row in days.orderBy("dt", "topic").collect():
        print(f"{row.dt} {row.topic}: {row.events} events in {row.records} records, {row.bytes} bytes")


if __name__ == "__main__":
    main(sys.argv[1])

"""The one factory of Spark sessions: every setting that a job relies on stands here (PL-V02, PL-V05, PL-C01)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

__all__ = ["SessionOptions", "spark_session"]

_ALWAYS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # What is read in a batch is bounded by the job, so few large files are better than many small ones.
    "spark.sql.parquet.compression.codec": "zstd",
    # The old INT96 has no statistics, so that nobody could skip files or row groups by time.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A task writes into so many folders at once before it sorts its rows by folder; each holds a row group in memory.
    "spark.sql.maxConcurrentOutputFileWriters": "4",
}
_LOCALLY = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
}


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """``master``: None leaves it to Spark's own files; under ``spark-submit`` that one's stands (PL-C01).

    ``memory`` is the driver's, in Spark's words ("1g"); a local session has no other. ``jars`` are for the JVM's Kafka
    source. ``ui``: Spark's own pages, on a port that it chooses. ``more``: further settings of Spark, which win.
    """

    name: str = "hookwire"
    master: str | None = "local[*]"
    memory: str = "1g"
    jars: tuple[Path, ...] = ()
    ui: bool = False
    more: Mapping[str, str] = field(default_factory=dict)


def spark_session(options: SessionOptions) -> SparkSession:
    """The session of this process, made by the first call. Java is looked for by ``pipeline.java`` before this."""
    # Workers start the first python3 on PATH otherwise, which has none of our packages (PL-V02).
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(options.name)
    for name, value in _settings(options).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _settings(options: SessionOptions) -> dict[str, str]:
    settings = {**_ALWAYS, "spark.ui.enabled": str(options.ui).lower(), "spark.driver.memory": options.memory}
    # Said before the JVM's logging has been set up, or Spark prints a page of warnings at each start.
    quiet = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    settings["spark.driver.extraJavaOptions"] = quiet
    # spark-submit has named a master, and has started the JVM with it.
    if options.master is not None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        settings["spark.master"] = options.master
        settings |= _LOCALLY if options.master.startswith("local") else {}
    if options.jars:
        settings["spark.jars"] = ",".join(str(jar) for jar in options.jars)
    return settings | dict(options.more)

"""The one factory of Spark sessions: every setting that a job relies on stands here (PL-V02, PL-V05, PL-C01)."""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

__all__ = ["SessionFailed", "SessionOptions", "settings_of", "spark_session"]

_DEFAULT_MASTER: Final = "local[*]"

_ALWAYS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # What is read in a batch is bounded by the job, so few large files are better than many small ones.
    "spark.sql.parquet.compression.codec": "zstd",
    # The old INT96 has no statistics, so that no reader could skip files or row groups by time.
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
    master: str | None = _DEFAULT_MASTER
    memory: str = "1g"
    jars: tuple[Path, ...] = ()
    ui: bool = False
    more: Mapping[str, str] = field(default_factory=dict)


class SessionFailed(Exception):
    """Spark did not start; the text is the last line that it printed."""


def spark_session(options: SessionOptions) -> SparkSession:
    """Return the session of this process; the first call makes it. ``pipeline.java`` looks for Java before.

    Raises :class:`SessionFailed`.
    """
    # Workers start the first python3 on PATH otherwise, which has none of our packages (PL-V02).
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(options.name)
    for name, value in settings_of(options, _users_names()).items():
        builder = builder.config(name, value)
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it logs each closed connection
    with tempfile.TemporaryFile() as log, _said_into(log):
        try:
            return builder.getOrCreate()
        except (PySparkException, Py4JError) as error:
            log.seek(0)
            lines = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
            reason = lines[-1] if lines else str(error).partition("\n")[0]
            raise SessionFailed(f"Spark did not start: {reason[:500]}") from error


def settings_of(options: SessionOptions, users: Collection[str] = ()) -> dict[str, str]:
    """Return our settings but those that the user has set, then ``more``, which wins (FP-12)."""
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
    is_named = options.master not in (None, _DEFAULT_MASTER)
    left = {name for name in users if name != "spark.master" or not is_named}
    return {name: value for name, value in settings.items() if name not in left} | dict(options.more)


def _users_names() -> set[str]:
    """Return the names of settings that ``spark-submit`` or Spark's own file of defaults has set."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        SparkContext._ensure_initialized()
        return {name for name, _ in SparkConf().getAll()}
    folder = os.environ.get("SPARK_CONF_DIR") or Path(os.environ.get("SPARK_HOME", "/nowhere"), "conf")
    file = Path(folder) / "spark-defaults.conf"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return {re.split(r"[\s=:]", line.strip(), maxsplit=1)[0] for line in lines if line.strip().startswith("spark.")}


@contextmanager
def _said_into(log: IO[bytes]) -> Iterator[None]:
    """Redirect standard error, which the JVM inherits at its start: on a good run its lines are noise (FP-14)."""
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)

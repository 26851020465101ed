"""The only factory of Spark sessions: it holds every setting that a job relies on."""

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

__all__ = ["OURS", "SessionFailed", "SessionOptions", "SettingRefused", "cores", "settings_of", "spark_session"]

_DEFAULT_MASTER: Final = "local[*]"
# Lines of a Java trace that hold no reason, and the text before a reason.
_FRAME: Final = re.compile(r"\s+at |\s+\.\.\. ")
_CLASS: Final = re.compile(r"""^(Exception in thread "[^"]*" |Caused by: )?[\w.$]+(Exception|Error): """)

OURS: Final = {
    # Days and hours are those of UTC, and a time is an instant with microseconds.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # The old INT96 has no statistics, so readers could not skip files or row groups by time.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Times before 1582 mean the same day in the file and in Spark.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    # A value that does not fit is an error and never null.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    # A file that is damaged or missing is named and never skipped.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
}
"""The settings that the lake's meaning rests on: with others, the same records would be other days, or fewer rows. They
are ours, and Spark's file of defaults does not change them."""
_ALWAYS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # The job bounds its batches, so few large files are better than many small ones.
    "spark.sql.parquet.compression.codec": "zstd",
    # A task that writes to more folders at once sorts its rows by folder first. Each open folder needs memory.
    "spark.sql.maxConcurrentOutputFileWriters": "4",
}
_LOCALLY = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    # Spark looks at more than 32 files in a task for each, which costs more than the look.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
}


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Options of a session.

    ``master`` None uses Spark's own configuration; under ``spark-submit`` its master holds. ``memory`` is the
    driver's, in Spark's syntax ("1g"); a local session has no other. ``jars`` are for the JVM's Kafka source. ``ui``
    serves Spark's web pages on a free port. ``more`` holds further settings of Spark; they override ours.
    """

    name: str = "hookwire"
    master: str | None = _DEFAULT_MASTER
    memory: str = "1g"
    jars: tuple[Path, ...] = ()
    ui: bool = False
    more: Mapping[str, str] = field(default_factory=dict)


class SessionFailed(Exception):
    """Spark did not start; the text is the last line that it printed."""


class SettingRefused(Exception):
    """A setting of Spark that is ours alone has another value; the text names it."""


def spark_session(options: SessionOptions) -> SparkSession:
    """Return the session of this process; the first call starts it. ``pipeline.java`` checks Java first.

    Raises :class:`SessionFailed` and :class:`SettingRefused`.
    """
    # Without this setting workers start the first python3 on PATH, which has none of our packages.
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
            lines = log.read().decode(errors="replace").splitlines()
            said = [line for line in lines if line.strip() and not _FRAME.match(line)]
            reason = _CLASS.sub("", said[-1]) if said else str(error).partition("\n")[0]
            raise SessionFailed(f"Spark did not start: {reason[:500]}") from error


def cores(spark: SparkSession) -> int:
    """Return how many cores the session has now, or the parallelism that the user has set."""
    return int(spark.sparkContext.defaultParallelism)


def settings_of(options: SessionOptions, users: Collection[str] = ()) -> dict[str, str]:
    """Return our settings without those that the user has set, then ``more``, which overrides ours.

    ``OURS`` always hold. Raises :class:`SettingRefused` if ``more`` names one of them with another value.
    """
    refused = {name: value for name, value in options.more.items() if name in OURS and value != OURS[name]}
    for name, value in refused.items():
        raise SettingRefused(f"{name}={value} is refused: the lake rests on {OURS[name]}; leave this setting out")
    settings = {**_ALWAYS, "spark.ui.enabled": str(options.ui).lower(), "spark.driver.memory": options.memory}
    # This is set before the JVM's logging starts. Otherwise Spark prints a page of warnings at each start.
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
    return {name: value for name, value in settings.items() if name not in left} | dict(options.more) | OURS


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
    """Redirect standard error, which the JVM inherits at its start, to ``log``: a good run shows none of it."""
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)

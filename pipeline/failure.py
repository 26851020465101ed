"""Failure: turns errors of Spark and the JVM into one sentence with its cure (FP-07)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException

from pipeline.lake import LakeDamaged
from pipeline.storage import DiskFull

__all__ = ["SparkFailed", "hadoop_version", "named", "sentence"]

# Words of Spark and Parquet for a file that cannot be read.
_UNREADABLE: Final = re.compile(
    r"FAILED_READ_FILE|CANNOT_READ_FILE|PATH_NOT_FOUND|ParquetDecodingException|is not a Parquet file"
    r"|[Cc]ould not read (?:page|footer)|[Cc]orrupt"
)
_FILE: Final = re.compile(r"\b[a-z0-9]+:/[^\s'\"]+\.parquet\b")
_NO_PACKAGE: Final = re.compile(r"Class org\.apache\.hadoop\.fs\.(\S+) not found|No FileSystem for scheme \"?(\w+)")

_PACKAGES: Final = (
    ("s3a", "s3a", "org.apache.hadoop:hadoop-aws"),
    ("azurebfs", "abfss", "org.apache.hadoop:hadoop-azure"),
    ("abfs", "abfss", "org.apache.hadoop:hadoop-azure"),
    ('"gs"', "gs", "com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26"),
)
"""For each store: a pattern in the trace, the scheme of the URI, and the package to install."""


class SparkFailed(Exception):
    """A job of Spark failed; the text is one sentence with the cause."""


@contextmanager
def named() -> Iterator[None]:
    """Turn an error of a Spark job into :class:`LakeDamaged` or :class:`SparkFailed`.

    An error in the query itself passes unchanged.
    """
    try:
        yield
    except (AnalysisException, ParseException) as error:
        if "PATH_NOT_FOUND" not in str(error):
            raise
        raise _damaged(str(error)) from error
    except (PySparkException, Py4JJavaError) as error:
        if _UNREADABLE.search(str(error)):
            raise _damaged(str(error)) from error
        raise SparkFailed(sentence(error)) from error


def sentence(error: Exception) -> str:
    """Return the cause and its cure in one line."""
    text = str(error)
    if own := re.search(r"KafkaReadError: (.+)", text):
        return own[1]
    if DiskFull.is_in(text):
        return str(DiskFull())
    if _NO_PACKAGE.search(text):
        return f"Spark has no package for this kind of store: {_package_for(text)}"
    causes = re.findall(r"^Caused by: (?:[\w.$]+: )?(.+)$", text, re.MULTILINE)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (causes or lines or [type(error).__name__])[-1 if causes else 0][:500]


def _package_for(text: str) -> str:
    for sign, scheme, package in _PACKAGES:
        if sign in text:
            coordinates = f"{package}:{hadoop_version()}" if package.startswith("org.apache.hadoop:") else package
            return f"--conf spark.jars.packages={coordinates} adds the package for {scheme}:"
    return "--conf spark.jars.packages=... adds it"


def hadoop_version() -> str:
    """Return the version of this Spark's Hadoop client; its packages have the same."""
    jars = Path(pyspark.__file__).parent / "jars"
    names = (path.name for path in jars.glob("hadoop-client-api-*.jar"))
    return next(names, "hadoop-client-api-3.4.1.jar").removeprefix("hadoop-client-api-").removesuffix(".jar")


def _damaged(text: str) -> LakeDamaged:
    file = _FILE.search(text)
    name = unquote(file[0]) if file else "a file of the lake"
    return LakeDamaged(
        f"{name} cannot be read ({sentence(Exception(text))}): if another job has just replaced it, run this command "
        "again; else hookwire pipeline check says what is wrong with it, and --quarantine moves it out of the table"
    )

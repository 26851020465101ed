"""The Python of Spark's workers. Workers are other processes, perhaps on machines with another Python."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

__all__ = ["PACKAGES", "Python", "python_here", "python_of_workers"]

PACKAGES = ("pyspark", "pyarrow", "pandas", "protobuf", "confluent-kafka", "deltalake")


@dataclass(frozen=True, slots=True)
class Python:
    """An interpreter, and its versions of ``PACKAGES``; '' for a missing package."""

    executable: str
    packages: dict[str, str]


def python_here() -> Python:
    """Return this process's Python."""
    return Python(sys.executable, dict(_versions()))


def python_of_workers(spark: SparkSession) -> Python:
    """Return the Python of a worker; a task on the worker finds it out."""

    @F.udf("string")
    def look(_: int) -> str:
        from pipeline.workers import python_here

        here = python_here()
        return "\n".join([here.executable, *here.packages.values()])

    [row] = spark.range(1).select(look("id").alias("seen")).collect()
    executable, *versions = row["seen"].split("\n")
    return Python(executable, dict(zip(PACKAGES, versions, strict=True)))


def _versions() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            yield package, ""

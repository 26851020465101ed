"""Digest: what tells an audit that a file is still the one that it proved.

S3 says which version of a file it has, and when it was stored, so nobody reads its bytes again. In a folder whoever
writes can set any time stamp, so each byte is hashed. The executors of a cluster do that, or else the threads of this
process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from pipeline.frame import frame_of
from pipeline.session import cores
from pipeline.storage import LakeStorage

__all__ = ["digests", "spread"]

_MISSING: Final = "missing"
_TASKS_PER_CORE: Final = 4


def digests(spark: SparkSession, lake: LakeStorage, paths: Sequence[str]) -> list[str]:
    """Return the digest of each file of the lake, in this order."""
    if lake.has_versions or str(spark.conf.get("spark.master")).startswith("local"):
        return lake.each(paths, partial(_digest, lake))
    return spread(spark, lake, paths)


def spread(spark: SparkSession, lake: LakeStorage, paths: Sequence[str]) -> list[str]:
    """Return the digests that the executors compute. They must reach the lake by the same path."""
    tasks = max(1, min(len(paths), _TASKS_PER_CORE * cores(spark)))
    rows = frame_of(spark, [[place, path] for place, path in enumerate(paths)], "place long, path string")
    found = rows.repartition(tasks).mapInArrow(partial(_hashed, lake), "place long, digest string").collect()
    return [row["digest"] for row in sorted(found, key=lambda row: int(row["place"]))]


def _hashed(lake: LakeStorage, parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        found = [_digest(lake, path) for path in part.column("path").to_pylist()]
        yield pa.RecordBatch.from_arrays([part.column("place"), pa.array(found, pa.string())], ["place", "digest"])


def _digest(lake: LakeStorage, path: str) -> str:
    try:
        return lake.version(path) or lake.sha256(path)
    except FileNotFoundError:
        return _MISSING

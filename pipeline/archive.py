"""Archive: copies Kafka records into bronze, each exactly once.

::

    log of bronze --> next offsets ------------.
                                               +--> plan --> Spark reads, types, writes --> commit: files and offsets
    Kafka --> first record, end of commits ----'            (files that no reader sees)     (in one instant)

A batch that ends before its commit leaves files that belong to no table. It is repeated from the same offsets. The
archive keeps no checkpoint outside the table, because a checkpoint could be ahead of the table or behind it. So it is a
loop of bounded batches and not a stream of Spark (docs/adr/0044).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from pipeline.audit.seal import NO_KEYS, SealKeys, sealed
from pipeline.bronze import to_bronze
from pipeline.delta.snapshot import Change, DataFile, Snapshot
from pipeline.failure import sentence
from pipeline.kafka_options import SparkKafkaOptions
from pipeline.kafka_range import Bounds, Range, RangePlan, RangeProblem, planned
from pipeline.kafka_reader import bounds_of, incarnations_of, read_ranges, topics_of
from pipeline.lake import LakeConflict, Table
from pipeline.session import cores

__all__ = [
    "ArchiveFailed",
    "ArchiveOptions",
    "Archived",
    "archive",
    "batch_rows",
    "plan_archive",
    "tasks_of",
    "unarchived",
]

_TASK_RECORDS = (5_000, 50_000)


class ArchiveFailed(Exception):
    """A batch could not be read or written; none of its records are in the lake."""


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """Options of the archive.

    ``topics`` are names of Kafka topics. An empty list means all topics that begin with ``prefix``, except internal
    topics of Kafka and the hub. ``batch_records_max`` limits the memory of a batch, and the work that a kill loses.
    ``accept_loss``: go on if retention deleted records too early, or if a topic was created anew or has shrunk. The
    table's log notes each loss. ``seals``: the keys of the rows' seals; without one, no row is sealed.
    """

    topics: tuple[str, ...] = ()
    prefix: str = ""
    batch_records_max: int = 1_000_000
    accept_loss: bool = False
    seals: SealKeys = NO_KEYS

    def is_wanted(self, topic: str) -> bool:
        """Return whether this Kafka topic has to be archived."""
        if self.topics:
            return topic in self.topics
        return topic.startswith(self.prefix) and not topic.startswith(("__", "hookwire.", f"{self.prefix}hookwire."))


@dataclass(frozen=True, slots=True)
class Archived:
    """Counts of the archive so far.

    ``quarantined`` counts the ``rows`` that have a fault. ``waiting`` is the number of offsets that are left.
    """

    batches: int = 0
    rows: int = 0
    quarantined: int = 0
    waiting: int = 0
    problems: tuple[RangeProblem, ...] = ()

    def __add__(self, later: Archived) -> Archived:
        """Return the sums of both, with the ``waiting`` offsets of the later one."""
        return Archived(
            self.batches + later.batches,
            self.rows + later.rows,
            self.quarantined + later.quarantined,
            later.waiting,
            tuple(dict.fromkeys((*self.problems, *later.problems))),
        )

    @property
    def findings(self) -> int:
        """Return the number of partitions that stopped or lost records; a deleted topic does not count."""
        return sum(problem.kind != "gone" for problem in self.problems)


def plan_archive(table: Table, kafka: SparkKafkaOptions, options: ArchiveOptions) -> RangePlan:
    """Return the plan of the next batch, without Spark. Raises KafkaUnreachable and LakeDamaged."""
    return _plan(table.snapshot(), _held(kafka, options), options)


def unarchived(snapshot: Snapshot, kafka: SparkKafkaOptions, topics: Collection[str]) -> tuple[Range, ...]:
    """Return committed offsets of these Kafka topics that are not archived, without Spark. Raises KafkaUnreachable."""
    options = ArchiveOptions(tuple(topics), batch_records_max=sys.maxsize, accept_loss=True)
    ranges = _plan(snapshot, _held(kafka, options), options).ranges if topics else ()
    return tuple(of for of in ranges if of.start < of.until)


def archive(
    session: Callable[[], SparkSession],
    table: Table,
    kafka: SparkKafkaOptions,
    options: ArchiveOptions,
    run: str,
    told: Callable[[Archived], object] = lambda _: None,
    is_stopping: Callable[[], bool] = lambda: False,
) -> Archived:
    """Archive all records that are committed in Kafka now, batch by batch. Call ``told`` after each batch.

    ``session`` is called only when there are records to read, because a Spark session costs seconds.

    Raises :class:`ArchiveFailed`, KafkaUnreachable, LakeConflict and LakeDamaged. Earlier batches stay in the lake.
    """
    table.upgrade()
    held, snapshot = _held(kafka, options), table.refreshed()
    plan = _plan(snapshot, held, options)
    done = Archived(waiting=plan.size + plan.waiting, problems=plan.problems)
    while plan.ranges and not is_stopping():
        try:
            snapshot, rows, quarantined = _batch(session, table, kafka, plan, held, snapshot, options.seals, run)
        except (PySparkException, Py4JJavaError) as error:
            raise ArchiveFailed(sentence(error)) from error
        done = Archived(done.batches + 1, done.rows + rows, done.quarantined + quarantined, plan.waiting, done.problems)
        told(done)
        plan = _plan(snapshot, held, options)
    return done


class _Held(NamedTuple):
    """The present state of Kafka: the bounds of each partition, and the incarnation of each topic."""

    bounds: Mapping[tuple[str, int], Bounds]
    incarnations: Mapping[str, str]


def _held(kafka: SparkKafkaOptions, options: ArchiveOptions) -> _Held:
    topics = topics_of(kafka, options.is_wanted)
    return _Held(bounds_of(kafka, topics), incarnations_of(kafka, topics))


def _plan(basis: Snapshot, held: _Held, options: ArchiveOptions) -> RangePlan:
    wanted = {topic: of for topic, of in basis.offsets.items() if options.is_wanted(topic)}
    known = basis.state.incarnations
    anew = {topic for topic, of in held.incarnations.items() if known.get(topic, of) != of}
    return planned(wanted, held.bounds, options.batch_records_max, anew=anew, accept_loss=options.accept_loss)


def _batch(
    session: Callable[[], SparkSession], table: Table, kafka: SparkKafkaOptions, plan: RangePlan, held: _Held,
    basis: Snapshot, seals: SealKeys, run: str,
) -> tuple[Snapshot, int, int]:  # fmt: skip
    """Run one batch from its plan to its commit; return the new snapshot, the rows and the quarantined rows."""
    files, quarantined = _written(session(), table, kafka, plan, held, basis, seals) if plan.size else ((), 0)
    offsets = {topic: dict(of) for topic, of in basis.offsets.items()}
    for of in plan.ranges:
        offsets.setdefault(of.topic, {})[of.partition] = of.until
    incarnations = {**basis.state.incarnations, **{of.topic: held.incarnations[of.topic] for of in plan.ranges}}
    read = {(of.topic, of.partition) for of in plan.ranges}
    notes: dict[str, list[list[object]]] = {"ranges": [list(of) for of in plan.ranges]}
    for problem in plan.problems:
        if (problem.topic, problem.partition) in read:
            notes.setdefault(problem.kind, []).append(list(problem[1:]))
    state = replace(basis.state, offsets=offsets, incarnations=incarnations)
    rows = sum(file.rows for file in files)
    table.refuse_deleted(files)
    try:
        return table.commit(basis, Change("archive", run, files, state=state, notes=notes)), rows, quarantined
    except LakeConflict:
        table.discard(files)  # the other job may have erased a subject whose records are in these files
        raise


def _written(
    spark: SparkSession, table: Table, kafka: SparkKafkaOptions, plan: RangePlan, held: _Held, basis: Snapshot,
    seals: SealKeys,
) -> tuple[tuple[DataFile, ...], int]:  # fmt: skip
    seen = Observation()
    ids = {of.topic: held.incarnations[of.topic] for of in plan.ranges}
    rows = batch_rows(spark, kafka, plan.ranges, ids).observe(seen, F.count("quarantine").alias("quarantined"))
    files = table.write(sealed(rows, seals), basis.number + 1)  # records of a range stay in the order of their offsets
    return files, seen.get["quarantined"]


def tasks_of(records: int, of_cores: int) -> int:
    """Return the number of tasks of a batch: each core has work, if a task is worth its file; at least two."""
    least, most = _TASK_RECORDS
    return max(2, records // max(least, min(most, records // of_cores)))


def batch_rows(
    spark: SparkSession, kafka: SparkKafkaOptions, ranges: Collection[Range], ids: Mapping[str, str] | None = None
) -> DataFrame:
    """Return the records of the ranges as rows of bronze, in tasks that are worth a file each.

    ``ids``: the id that Kafka gave each topic.
    """
    full = [of for of in ranges if of.start < of.until]
    size, of_cores = sum(of.until - of.start for of in full), cores(spark)
    records = read_ranges(spark, kafka, full, of_cores).coalesce(tasks_of(size, of_cores))
    return to_bronze(records, datetime.now(UTC), ids)

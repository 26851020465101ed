"""Ranges of offsets that a batch reads. They are fixed before the batch, so that a repeat reads the same records."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

__all__ = ["Bounds", "Range", "RangePlan", "RangeProblem", "from_json", "planned", "task_size", "to_json"]


class Range(NamedTuple):
    """Offsets of one partition, from ``start`` until before ``until``."""

    topic: str
    partition: int
    start: int
    until: int

    def parts(self, size: int) -> Iterator[Range]:
        """Yield pieces of at most ``size`` offsets."""
        for start in range(self.start, self.until, size):
            yield self._replace(start=start, until=min(start + size, self.until))


_TASK_OFFSETS: Final = (5_000, 250_000)


def task_size(offsets: int, tasks: int) -> int:
    """Return how many offsets a task reads, so that all ``tasks`` cores of a cluster have work."""
    least, most = _TASK_OFFSETS
    return max(least, min(most, -(-offsets // tasks)))


class Bounds(NamedTuple):
    """The present bounds of a partition: its first record, and the end of its committed records."""

    low: int
    end: int


class RangeProblem(NamedTuple):
    """The reason why a partition cannot be read from the archive's next offset.

    There are four kinds:

    * "lost": Kafka's retention deleted the offsets from ``start`` until before ``until``.
    * "anew": the topic was deleted and created again.
    * "shrunk": the partition ends before ``start``, because Kafka has lost data.
    * "gone": the partition does not exist any more.
    """

    kind: str
    topic: str
    partition: int
    start: int
    until: int

    @property
    def sentence(self) -> str:
        """Return the problem as a sentence."""
        place = f"Kafka topic {self.topic}, partition {self.partition}"
        match self.kind:
            case "lost":
                lost = self.until - self.start
                return (
                    f"{place}: {lost} offsets from {self.start} on were deleted by retention before they were archived"
                )
            case "anew":
                return f"{place}: the topic was deleted and made again after offset {self.start} was to be read next"
            case "shrunk":
                return f"{place} ends at offset {self.until}, and {self.start} was to be read next: Kafka has lost data"
        return f"{place} is not there any more; its records up to offset {self.start} are archived"


@dataclass(frozen=True, slots=True)
class RangePlan:
    """The plan of a batch. ``ranges``: the offsets to read; ``waiting``: the number of offsets left for later
    batches.
    """

    ranges: tuple[Range, ...] = ()
    problems: tuple[RangeProblem, ...] = ()
    waiting: int = 0

    @property
    def size(self) -> int:
        """Return the number of offsets. Some may be marks of transactions, not records."""
        return sum(of.until - of.start for of in self.ranges)


def planned(
    offsets: Mapping[str, Mapping[int, int]],
    bounds: Mapping[tuple[str, int], Bounds],
    records_max: int,
    *,
    anew: Collection[str] = (),
    accept_loss: bool = False,
) -> RangePlan:
    """Return the next batch: committed records, limited to ``records_max`` evenly, so that no partition falls behind.

    A partition that was never read begins at its first record. A partition with a problem is left out. With
    ``accept_loss`` it continues instead: behind the gap if records are lost, at the first record if its topic is in
    ``anew``. A partition that has shrunk continues at its end, with an empty range.
    """
    ranges, problems = [], []
    for topic, partition in sorted({*bounds, *((t, p) for t, of in offsets.items() for p in of)}):
        start, held = offsets.get(topic, {}).get(partition), bounds.get((topic, partition))
        problem = _problem(topic, partition, start, held, is_anew=topic in anew)
        if problem is not None:
            problems.append(problem)
        if held is None or (problem is not None and not accept_loss):
            continue
        first = held.low if start is None or topic in anew else min(max(start, held.low), held.end)
        if first < held.end or problem is not None:
            ranges.append(Range(topic, partition, first, held.end))
    ready = sum(of.until - of.start for of in ranges)
    if ready > records_max:
        ranges = [of._replace(until=of.start + -((of.start - of.until) * records_max // ready)) for of in ranges]
    plan = RangePlan(tuple(ranges), tuple(problems))
    return RangePlan(plan.ranges, plan.problems, ready - plan.size)


def _problem(
    topic: str, partition: int, start: int | None, held: Bounds | None, *, is_anew: bool
) -> RangeProblem | None:
    if start is None:
        return None
    if held is None:
        return RangeProblem("gone", topic, partition, start, start)
    if is_anew:
        return RangeProblem("anew", topic, partition, start, held.end)
    if held.end < start:
        return RangeProblem("shrunk", topic, partition, start, held.end)
    return RangeProblem("lost", topic, partition, start, held.low) if start < held.low else None


def to_json(ranges: Iterable[Range]) -> str:
    """Return ranges as the text of an option of the Python source."""
    return json.dumps(list(ranges))


def from_json(text: str) -> list[Range]:
    """Return the ranges in the text of :func:`to_json`."""
    return [Range(*values) for values in json.loads(text)]

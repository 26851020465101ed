"""Checker of jobs: find broken promises after workers were killed (JB-85, JT-25, JF-45).

It reads the database at the end: every enqueued job, the archive, and the numbers of state events. It also reads the
events and follow-up jobs that were committed with results. Each result tells the attempt that it belongs to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["EndedJob", "JobEvidence", "check_jobs"]


@dataclass(frozen=True, slots=True)
class EndedJob:
    """A row of the archive. ``result_attempt``: the attempt whose result is stored; None without a result."""

    id: str
    state: str
    attempts: int
    attempts_max: int
    result_attempt: int | None


@dataclass(frozen=True, slots=True)
class JobEvidence:
    """The rows at the end, by job id. ``numbers`` are those of its state events, in the order of their commit."""

    enqueued: Sequence[str]
    ended: Sequence[EndedJob]
    live: Sequence[str] = ()
    events: Sequence[str] = ()
    follow_ups: Sequence[str] = ()
    rows: Sequence[str] = ()
    numbers: Mapping[str, Sequence[int]] = field(default_factory=dict)


def check_jobs(evidence: JobEvidence) -> list[str]:
    """Return the findings; none where every promise was kept."""
    ended = {job.id: job for job in evidence.ended}
    completed = {job.id for job in evidence.ended if job.state == "completed"}
    seen = Counter(job.id for job in evidence.ended) + Counter(evidence.live)
    found = [f"{job} is lost" for job in evidence.enqueued if not seen[job]]
    found += [f"{job} has {count} states" for job, count in seen.items() if count > 1]
    found += [f"{job} has not ended" for job in evidence.live]
    for job in ended.values():
        if job.attempts > job.attempts_max:
            found.append(f"{job.id} was tried {job.attempts} times of {job.attempts_max}")
        if job.result_attempt is not None and job.result_attempt != job.attempts:
            found.append(f"{job.id} has the stale result of attempt {job.result_attempt}, not of {job.attempts}")
    for name, effects in (("event", evidence.events), ("follow-up", evidence.follow_ups)):
        counts = Counter(effects)
        found += [f"{job} has {counts[job]} result {name}s" for job in sorted(completed) if counts[job] != 1]
        found += [f"{job} has a {name} without a result" for job in sorted(counts.keys() - completed)]
    rows = Counter(evidence.rows)
    found += [f"{job} has {count} rows of its own" for job, count in rows.items() if count > 1]
    found += [f"{job} has a row without a result" for job in sorted(rows.keys() - completed)]
    found += [
        f"{job} has state events {list(numbers)}"
        for job, numbers in evidence.numbers.items()
        if list(numbers) != sorted(set(numbers))
    ]
    return found

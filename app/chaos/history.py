"""History of the writers: one line per publish attempt (OR-01, OR-02).

A writer that may itself be killed writes the attempt as ``unknown`` before it sends, and again with the outcome
afterwards. Of several lines with one (mark, attempt), the last line counts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from app.chaos.log import LineLog, read_log
from app.chaos.mark import Mark


class PublishOutcome(StrEnum):
    """How a publish attempt ended, seen from the client."""

    OK = "ok"
    """Answered 2xx: must be at every sink."""
    FAIL = "fail"
    """Refused for certain (4xx): must be nowhere."""
    UNKNOWN = "unknown"
    """Time-out, 5xx, reset: must be at all sinks or at none."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try to publish the event of a mark."""

    mark: Mark
    outcome: PublishOutcome
    event_id: str | None = None
    """The id in the answer; only known when ok."""
    attempt: int = 1
    """Counts the tries for this mark from 1; all of them carry the same Idempotency-Key."""
    client_time: float = 0.0
    """Unix seconds by the client's clock when it was sent."""


class HistoryWriter:
    """Appends attempts to a history log."""

    def __init__(self, log: LineLog) -> None:
        self._log = log

    def record(self, attempt: Attempt) -> None:
        """Write one line, flushed."""
        self._log.write(
            {
                **attempt.mark._asdict(),
                "attempt": attempt.attempt,
                "client_time": attempt.client_time,
                "outcome": attempt.outcome,
                "event_id": attempt.event_id,
            }
        )


def read_history(path: Path) -> Iterator[Attempt]:
    """Yield the attempts of a history log.  ValueError for a line that is none."""
    for record in read_log(path):
        yield _attempt(record)


def _attempt(record: dict[str, object]) -> Attempt:
    match record:
        case {
            "attempt": int(attempt),
            "client_time": int() | float() as client_time,
            "outcome": "ok" | "fail" | "unknown" as outcome,
            "event_id": str() | None as event_id,
        }:
            return Attempt(Mark.from_record(record), PublishOutcome(outcome), event_id, attempt, float(client_time))
    raise ValueError(f"not a line of a history: {record}")

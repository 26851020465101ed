"""Records that the sinks received: one line per record in the order of arrival (OR-02, OR-12).

Also the events that a sink did not get: dead letters, and events on their way.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.chaos.log import LineLog, read_log
from app.chaos.mark import Mark


@dataclass(frozen=True, slots=True)
class Arrival:
    """One record that a sink's reader received.  None = the carrier does not show it."""

    sink: str
    index: int
    """Position in the order of arrival at this sink, rising."""
    mark: Mark
    event_id: str | None = None
    sequence: int | None = None
    """hookwire's sequence, from the header."""
    term: int | None = None
    """The relay's term, from the header."""
    stream: str = ""
    """A part of the sink with one order (a Kafka partition, a queue); across streams no order of terms is expected."""
    group: int = 0
    """The partition group that the term belongs to."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event that the system gave up for a sink, with its reason kept; it is not lost."""

    sink: str
    mark: Mark
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class OnItsWay:
    """An event that the database still owes to a sink: it waits, is held or is being sent. It is not lost."""

    sink: str
    mark: Mark


class ArrivalWriter:
    """Appends a sink's arrivals to a log.  Write first, acknowledge to the broker afterwards."""

    def __init__(self, log: LineLog, sink: str, index_first: int = 0) -> None:
        """Continue a log. ``index_first``: the number of arrivals that it holds already."""
        self._log = log
        self._sink = sink
        self._index = index_first

    def record(
        self,
        mark: Mark,
        *,
        event_id: str | None = None,
        sequence: int | None = None,
        term: int | None = None,
        stream: str = "",
        group: int = 0,
    ) -> Arrival:
        """Number the arrival and write one line, flushed."""
        arrival = Arrival(self._sink, self._index, mark, event_id, sequence, term, stream, group)
        self._index += 1
        self._log.write(
            {
                "sink": arrival.sink,
                "index": arrival.index,
                **mark._asdict(),
                "event_id": event_id,
                "sequence": sequence,
                "term": term,
                "stream": stream,
                "group": group,
            }
        )
        return arrival


def read_arrivals(path: Path) -> Iterator[Arrival]:
    """Yield the arrivals of a log.  ValueError for a line that is none."""
    for record in read_log(path):
        yield _arrival(record)


def _arrival(record: dict[str, object]) -> Arrival:
    match record:
        case {
            "sink": str(sink),
            "index": int(index),
            "event_id": str() | None as event_id,
            "sequence": int() | None as sequence,
            "term": int() | None as term,
            "stream": str(stream),
            "group": int(group),
        }:
            return Arrival(sink, index, Mark.from_record(record), event_id, sequence, term, stream, group)
    raise ValueError(f"not a line of an arrival log: {record}")

"""The judge: a pure function over the writers' history and the sinks' logs (OR-03, OR-04; I1-I5).

The counts, per sink:

    accepted                 events whose publish was answered ok
    delivered                accepted events that arrived
    dead_lettered            accepted events that the system gave up with a reason (they may have arrived too)
    on_their_way             accepted, not arrived yet, and still owed to the sink by the database
    lost                     accepted, and neither arrived, nor given up, nor on its way                      (I1)
    invented                 arrived or given up, and never published, or refused, or a second event of one mark (I2)
    duplicate_adjacent       repeats that follow directly on the same event, per key
    duplicate_non_adjacent   all other repeats
    duplicate_forbidden      repeats that the sink's promise does not allow                               (I3, RR-01)
    inverted                 first occurrences that come after a later one of their key, or will              (I3)
    sequence_disorder        hookwire's sequence does not rise with the key's commit order, or changes      (RR-13)
    stale_term               records of an older term after the first of a newer one                          (I5)

The rule of ``batch``. Number a key's events by first occurrence. A relay reads the lowest records that are not yet
purged, in order. So the arrivals of a key are runs of consecutive numbers. Records below the start of a run were purged
or soon will be, and never return. So each run starts at or above the start of its predecessor.

    1 2 3 | 1 2 3 4      allowed: 1-3 were sent, not purged, and sent again by the next term
    1 2 3 | 2 3 | 3 4    allowed: the re-run was cut short by another change of term
    1 2 3 | 2 3 | 1      forbidden: 1 was purged before the second run began
    1 2 3 | 1 | 4 | 2    forbidden: two relays send into each other

Events without a key, and events whose outcome stayed unknown, have no place in the order; they are judged for loss,
presence and repetition only.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from app.chaos.arrivals import Arrival, DeadLetter, OnItsWay
from app.chaos.history import Attempt, PublishOutcome
from app.chaos.mark import Mark

FINDINGS_PER_KIND_MAX = 10


class Promise(StrEnum):
    """The promise of a sink, beyond "nothing is lost, nothing is invented"."""

    RECORD = "record"
    """First occurrences in order; a repeat follows directly on its first (AMQP, one in flight per key)."""
    BATCH = "batch"
    """First occurrences in order; repeats are runs from the lowest record not yet purged (Kafka, RR-01)."""
    UNORDERED = "unordered"
    """At least once, in any order."""


@dataclass(frozen=True, slots=True)
class HistoryFinding:
    """One piece of evidence."""

    kind: str
    """The name of the count that it adds to."""
    sink: str
    mark: Mark
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SinkReport:
    """The counts of one sink; see the module's docstring."""

    sink: str
    promise: Promise
    accepted: int = 0
    delivered: int = 0
    dead_lettered: int = 0
    on_their_way: int = 0
    lost: int = 0
    invented: int = 0
    duplicate_adjacent: int = 0
    duplicate_non_adjacent: int = 0
    duplicate_forbidden: int = 0
    inverted: int = 0
    sequence_disorder: int = 0
    stale_term: int = 0

    @property
    def holds(self) -> bool:
        """Return whether the sink kept its promise so far; events may still be on their way."""
        return not any(getattr(self, kind) for kind in VIOLATIONS)


VIOLATIONS = ("lost", "invented", "duplicate_forbidden", "inverted", "sequence_disorder", "stale_term")


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict over all sinks."""

    accepted: int
    failed: int
    unknown: int
    """Publishes that never got a clear answer."""
    unknown_half_present: int
    """The number of these that are at some sinks and not at others (OR-01)."""
    sinks: tuple[SinkReport, ...]
    findings: tuple[HistoryFinding, ...]
    """The first few of each kind and sink."""

    @property
    def holds(self) -> bool:
        """Return whether every sink kept its promise so far and the sinks agree about unknown events."""
        return self.unknown_half_present == 0 and all(sink.holds for sink in self.sinks)

    def total(self, kind: str) -> int:
        """Return a count summed over the sinks."""
        return sum(getattr(sink, kind) for sink in self.sinks)


def check(
    history: Iterable[Attempt],
    arrivals: Iterable[Arrival],
    dead_letters: Iterable[DeadLetter],
    promises: Mapping[str, Promise],
    on_their_way: Iterable[OnItsWay] = (),
) -> Report:
    """Judge a run in which every published event was due at every sink of ``promises``.

    For sinks that get a part of the topics, check them apart with that part of the history.  Arrivals of one sink come
    in the order of their index; ValueError for logs that do not, or that name an unknown sink. ``on_their_way`` and
    ``dead_letters`` were read before the arrivals, so that none falls between them.
    """
    published = _fold(history)
    benches = {sink: _Bench(sink, promise, published) for sink, promise in promises.items()}
    for arrival in arrivals:
        _bench_of(benches, arrival.sink).hear(arrival)
    for letter in dead_letters:
        _bench_of(benches, letter.sink).hear_dead_letter(letter)
    for event in on_their_way:
        _bench_of(benches, event.sink).await_arrival(event.mark)
    reports = tuple(bench.close() for bench in benches.values())
    half = [
        HistoryFinding("unknown_half_present", sink, mark, "present here, absent elsewhere")
        for mark, one in published.items()
        if one.outcome is PublishOutcome.UNKNOWN
        for sink in _sinks_if_half([(bench.sink, mark in bench.present) for bench in benches.values()])
    ]
    findings = [finding for bench in benches.values() for finding in bench.findings]
    outcomes = Counter(one.outcome for one in published.values())
    return Report(
        accepted=outcomes[PublishOutcome.OK],
        failed=outcomes[PublishOutcome.FAIL],
        unknown=outcomes[PublishOutcome.UNKNOWN],
        unknown_half_present=len({finding.mark for finding in half}),
        sinks=reports,
        findings=(*findings, *half[:FINDINGS_PER_KIND_MAX]),
    )


class _Published(NamedTuple):
    """The result of all attempts for one mark."""

    outcome: PublishOutcome
    event_id: str | None


class _Placement(NamedTuple):
    """The relation of one arrival to earlier ones of its key."""

    is_first: bool
    is_adjacent: bool
    starts_below: bool
    """It starts a run below the start of the previous run."""


@dataclass(slots=True)
class _Lane:
    """One key at one sink."""

    positions: dict[int, int] = field(default_factory=dict)
    """n -> number of its first occurrence, from 0"""
    position: int = -1
    """of the latest arrival"""
    run_start: int = 0
    n_highest: int = 0
    sequences: dict[int, int] = field(default_factory=dict)

    def place(self, n: int) -> _Placement:
        """Process the next arrival; return its relation to the earlier ones."""
        is_first = n not in self.positions
        position = self.positions.setdefault(n, len(self.positions))
        before, self.position = self.position, position
        starts_below = position < self.run_start
        if position != before + 1:
            self.run_start = max(self.run_start, position)
        return _Placement(is_first, position == before, starts_below)

    def is_inverted(self, n: int) -> bool:
        """Return whether this first occurrence comes after a higher one."""
        inverted, self.n_highest = n < self.n_highest, max(n, self.n_highest)
        return inverted


class _Bench:
    """Judges the arrivals of one sink."""

    def __init__(self, sink: str, promise: Promise, published: Mapping[Mark, _Published]) -> None:
        self.sink = sink
        self.present: set[Mark] = set()
        """Marks that arrived, were given up or are on their way."""
        self.findings: list[HistoryFinding] = []
        self._promise = promise
        self._published = published
        self._counts: Counter[str] = Counter()
        self._arrived: set[Mark] = set()
        self._given_up: set[Mark] = set()
        self._awaited: set[Mark] = set()
        self._event_ids: dict[Mark, str] = {}
        self._inventions: set[tuple[Mark, str | None]] = set()
        self._lanes: dict[tuple[str, str, str | None], _Lane] = {}
        self._terms: dict[tuple[str, int], int] = {}
        self._index = -1

    def hear(self, arrival: Arrival) -> None:
        """Take the next arrival."""
        if arrival.index <= self._index:
            raise ValueError(f"the arrivals at {self.sink} are not in the order of their index")
        self._index = arrival.index
        self._check_term(arrival)
        if self._is_invented(arrival.mark, arrival.event_id):
            return
        self._arrived.add(arrival.mark)
        self._check_order(arrival)

    def hear_dead_letter(self, letter: DeadLetter) -> None:
        """Take an event that was given up."""
        if not self._is_invented(letter.mark, letter.event_id):
            self._given_up.add(letter.mark)

    def await_arrival(self, mark: Mark) -> None:
        """Take an event that is still on its way here."""
        self._awaited.add(mark)

    def close(self) -> SinkReport:
        """Find missing events and write the report."""
        here = self._arrived | self._given_up
        self.present = here | self._awaited
        accepted = {mark for mark, one in self._published.items() if one.outcome is PublishOutcome.OK}
        for mark in sorted(accepted - self.present, key=repr):
            self._find("lost", mark)
        on_their_way = (accepted & self._awaited) - here
        self._check_overtaken(on_their_way)
        for group, lane in self._lanes.items():
            self._check_sequences(group, lane)
        return SinkReport(
            sink=self.sink,
            promise=self._promise,
            accepted=len(accepted),
            delivered=len(accepted & self._arrived),
            dead_lettered=len(accepted & self._given_up),
            on_their_way=len(on_their_way),
            **self._counts,
        )

    def _find(self, kind: str, mark: Mark, detail: str = "") -> None:
        self._counts[kind] += 1
        if self._counts[kind] <= FINDINGS_PER_KIND_MAX:
            self.findings.append(HistoryFinding(kind, self.sink, mark, detail))

    def _check_term(self, arrival: Arrival) -> None:
        if arrival.term is None:
            return
        order = (arrival.stream, arrival.group)
        newest = self._terms.setdefault(order, arrival.term)
        if arrival.term < newest:
            self._find("stale_term", arrival.mark, f"term {arrival.term} after term {newest}")
        self._terms[order] = max(newest, arrival.term)

    def _is_invented(self, mark: Mark, event_id: str | None) -> bool:
        one = self._published.get(mark)
        reason = ""
        if one is None:
            reason = "never published"
        elif one.outcome is PublishOutcome.FAIL:
            reason = "its publish was refused"
        elif event_id is not None:
            expected = one.event_id or self._event_ids.setdefault(mark, event_id)
            if event_id != expected:
                reason = f"a second event: {event_id} beside {expected}"
        if reason and (mark, event_id) not in self._inventions:
            self._inventions.add((mark, event_id))
            self._find("invented", mark, reason)
        return bool(reason)

    def _check_order(self, arrival: Arrival) -> None:
        mark = arrival.mark
        lane = self._lanes.setdefault((mark.run, mark.topic, mark.key), _Lane())
        placement = lane.place(mark.n)
        is_ordered = self._promise is not Promise.UNORDERED and mark.key is not None
        is_certain = self._published[mark].outcome is PublishOutcome.OK
        if not placement.is_first:
            self._find("duplicate_adjacent" if placement.is_adjacent else "duplicate_non_adjacent", mark)
            if is_ordered and self._is_forbidden(placement):
                self._find("duplicate_forbidden", mark, f"index {arrival.index}")
        elif is_ordered and is_certain and lane.is_inverted(mark.n):
            self._find("inverted", mark, f"after n={lane.n_highest}")
        if arrival.sequence is None or mark.key is None or not is_certain:
            return
        if lane.sequences.setdefault(mark.n, arrival.sequence) != arrival.sequence:
            self._find("sequence_disorder", mark, "two sequences for one event")

    def _check_overtaken(self, on_their_way: Iterable[Mark]) -> None:
        """Find events that are out of order whenever they arrive: a later event of their key is here already."""
        if self._promise is Promise.UNORDERED:
            return
        for mark in sorted(on_their_way, key=repr):
            lane = self._lanes.get((mark.run, mark.topic, mark.key))
            if lane is not None and mark.n < lane.n_highest:
                self._find("inverted", mark, f"still on its way, after n={lane.n_highest}")

    def _is_forbidden(self, placement: _Placement) -> bool:
        return placement.starts_below if self._promise is Promise.BATCH else not placement.is_adjacent

    def _check_sequences(self, group: tuple[str, str, str | None], lane: _Lane) -> None:
        before = None
        for n, sequence in sorted(lane.sequences.items()):
            if before is not None and sequence <= before:
                self._find("sequence_disorder", Mark(*group, n), f"sequence {sequence} after {before}")
            before = sequence


def _fold(history: Iterable[Attempt]) -> dict[Mark, _Published]:
    """Join the attempts of each mark. Of several lines for one attempt the last counts; one ok makes the mark ok."""
    tries: dict[Mark, dict[int, Attempt]] = {}
    for attempt in history:
        tries.setdefault(attempt.mark, {})[attempt.attempt] = attempt
    published = {}
    for mark, by_number in tries.items():
        outcomes = {attempt.outcome for attempt in by_number.values()}
        outcome = next(
            one for one in (PublishOutcome.OK, PublishOutcome.UNKNOWN, PublishOutcome.FAIL) if one in outcomes
        )
        event_ids = [attempt.event_id for attempt in by_number.values() if attempt.outcome is PublishOutcome.OK]
        published[mark] = _Published(outcome, next(filter(None, event_ids), None))
    return published


def _bench_of(benches: Mapping[str, _Bench], sink: str) -> _Bench:
    if sink not in benches:
        raise ValueError(f"the logs name a sink without a promise: {sink}")
    return benches[sink]


def _sinks_if_half(presence: list[tuple[str, bool]]) -> list[str]:
    """Return the sinks that have the event, if others have not."""
    having = [sink for sink, is_present in presence if is_present]
    return having if len(having) < len(presence) else []

"""NELI, the leader election of obsidiandynamics over a Kafka consumer group, as a machine without I/O (ADR 16).

The group's coordinator gives each partition of a small topic to one member; the member with the partition may lead.
That is only half of an election: a member that was cut off or stopped does not learn that it lost its partition. So a
leader sends *beats* through its own partition, reads them back, and has each one confirmed by the coordinator. A
confirmed beat proves that the leader can reach the brokers and is still a member. The leader trusts it for
``fence_seconds`` from the moment before that beat *left*. Without a confirmed beat it fences itself, long before the
coordinator may give the partition to another member (session time-out). Reading the beat back is not enough, though
goneli stops there. A member that wakes up after the end of its session can still write and read. It would count as
leader until it learns of the end.

::

                assigned                       our own beat was confirmed, grace over
      follower ----------> candidate --------------------------------------------------> leader
         ^                     ^   |                                                      |  |
         |       revoked       |   |                  LeaderAcquired                      |  |
         +---------------------|---+                                                      |  |
         |                     |                                                          |  |
         |                     +------- LeaderFenced: none confirmed in time, <-----------+  |
         |                                 or another's beat with a higher term              |
         |                                                                                   |
         +------ barrier: LeaderRevoked, then wait until every role is left, <---------------+
                 at most half the rebalance time-out; a role not left by then is LeaderFenced

*Roles.* A relay has N partition groups, the election's topic M partitions. Role j belongs to partition j mod M (paper,
"Non-exclusive and exclusive NELI"; RO-05). Either number may be larger.

*Beats that count.* Only our own beats of this assignment count, recognised by sender and running number. Another
member's beat counts only if its term for a role is above ours and the broker stamped it after our first (LogAppendTime;
RK-09, RL-18). Wall clocks of different machines are never compared. Our own times are monotonic (RL-17); the brokers'
times are compared with each other.

*Revoke is a barrier, fence an immediate stop* (RG-07). While the barrier is closed the rebalance waits for this member,
so a successor cannot start. The brokers wait no longer than the rebalance time-out, so the barrier takes at most half
of it (RL-15, RK-03). A fenced leader cannot delay its successor.

*Detection is not fencing.* As the paper says, check-then-act can always be overtaken. The term in PostgreSQL and the
broker's own fence refuse a leader that wakes up too late (RR-08, RO-04). This machine only finds a leader soon.

The machine takes ``(now, input)`` and returns ``(outputs, events)``; ``now`` is seconds on a monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "Assigned",
    "BarrierOpen",
    "Beat",
    "Confirm",
    "Confirmed",
    "Event",
    "Heard",
    "Input",
    "LeaderAcquired",
    "LeaderFenced",
    "LeaderRevoked",
    "Left",
    "Neli",
    "NeliTimes",
    "Output",
    "Revoked",
    "SendBeat",
    "TermRaised",
    "Tick",
]  # fmt: skip

_BEATS_OUT_MAX = 64


@dataclass(frozen=True, slots=True)
class NeliTimes:
    """Seconds. Raises ValueError unless fence_seconds < session_seconds: two leaders could overlap (paper: T + e).

    ``beat_seconds``: between two beats. ``fence_seconds``: how long a confirmed beat counts. ``session_seconds``: after
    which the coordinator gives up a silent member. ``rebalance_seconds``: how long it waits for the members at a
    rebalance. ``grace_seconds``: how long a new leader waits (the paper's grace period; 0 where the term fences).
    """

    beat_seconds: float = 0.5
    fence_seconds: float = 4.0
    session_seconds: float = 6.0
    rebalance_seconds: float = 10.0
    grace_seconds: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.beat_seconds < self.fence_seconds / 2:
            raise ValueError("beat_seconds must be less than half of fence_seconds: one lost beat would fence")
        if self.fence_seconds >= self.session_seconds:
            raise ValueError("fence_seconds must be less than session_seconds")


# --- inputs -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Assigned:
    """The coordinator has assigned these partitions to us; they replace all earlier ones."""

    partitions: frozenset[int]


@dataclass(frozen=True, slots=True)
class Revoked:
    """The coordinator revokes all partitions, as at each rebalance of the classic protocol (RK-02)."""


@dataclass(frozen=True, slots=True)
class Left:
    """The holder of a role has stopped, by itself or on request."""

    role: int


@dataclass(frozen=True, slots=True)
class TermRaised:
    """The role's term was raised; our beats name it from now on."""

    role: int
    term: int


@dataclass(frozen=True, slots=True)
class Beat:
    """The contents of a beat on a partition. ``number`` rises by one with each beat of its sender; terms by role."""

    sender: str
    number: int
    terms: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Heard:
    """A beat was read from a partition; ``broker_ms`` is when the broker appended it, by its clock."""

    partition: int
    beat: Beat
    broker_ms: int


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The coordinator has confirmed that we are a member of this assignment; asked with this beat."""

    partition: int
    number: int


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Input = Assigned | Revoked | Left | TermRaised | Heard | Confirmed | Tick


# --- outputs and events -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SendBeat:
    """Append a beat to a partition."""

    partition: int
    beat: Beat


@dataclass(frozen=True, slots=True)
class Confirm:
    """Ask the coordinator whether we still belong to this assignment (an offset commit: it names our generation)."""

    partition: int
    number: int


@dataclass(frozen=True, slots=True)
class BarrierOpen:
    """The rebalance may go on."""


@dataclass(frozen=True, slots=True)
class LeaderAcquired:
    """This member leads a role: raise its term, then act."""

    role: int


@dataclass(frozen=True, slots=True)
class LeaderRevoked:
    """This member stops leading: finish the records in flight, then :class:`Left`."""

    role: int


@dataclass(frozen=True, slots=True)
class LeaderFenced:
    """This member may not lead any more: stop at once, then :class:`Left`."""

    role: int
    reason: str


Output = SendBeat | Confirm | BarrierOpen
Event = LeaderAcquired | LeaderRevoked | LeaderFenced


# --- the machine ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Partition:
    """A partition that is assigned to us. ``out``: our beats that are not confirmed, by number, with when they left."""

    assigned_at: float
    state: Literal["candidate", "leader"] = "candidate"
    beaten_at: float = float("-inf")
    trusted_until: float = float("-inf")
    first_broker_ms: int | None = None
    out: dict[int, float] = field(default_factory=dict)


class Neli:
    """One member's view. Not shared between tasks.

    ``leads(role)`` and ``trusted_until(role)`` may be asked at any time; everything else goes through :meth:`receive`.
    """

    def __init__(self, me: str, partitions: int, roles: int, times: NeliTimes) -> None:
        self._me = me
        self._partition_count = partitions
        self._role_count = roles
        self._times = times
        self._partitions: dict[int, _Partition] = {}
        self._acting: dict[int, int] = {}
        """The term of each role that a task here holds, or may still hold; 0 until it was raised."""
        self._rebalancing = False
        self._barrier_until: float | None = None
        self._number = 0

    def receive(self, now: float, event: Input) -> tuple[list[Output], list[Event]]:
        """Apply an input; return the outputs and the events."""
        outputs: list[Output] = []
        events: list[Event] = []
        match event:
            case Assigned(partitions):
                events += self._assigned(now, partitions)
            case Revoked():
                events += self._revoked(now)
            case Left(role):
                self._acting.pop(role, None)
            case TermRaised(role, term):
                if role in self._acting:
                    self._acting[role] = term
            case Heard():
                events += self._heard(event)
                outputs += self._confirm(event)
            case Confirmed(partition, number):
                self._confirmed(now, partition, number)
            case Tick():
                pass
        events += self._fence_overdue(now)
        events += self._retake()
        outputs += self._open_barrier(now, events)
        outputs += self._beats(now)
        return outputs, events

    def leads(self, role: int) -> bool:
        """Return whether this member leads a role, as far as it knows."""
        partition = self._partitions.get(role % self._partition_count)
        return not self._rebalancing and partition is not None and partition.state == "leader"

    def trusted_until(self, role: int) -> float:
        """Return the time until which the leadership may be trusted without a new confirmation."""
        partition = self._partitions.get(role % self._partition_count)
        return partition.trusted_until if partition is not None and partition.state == "leader" else float("-inf")

    def due_at(self, now: float) -> float:
        """Return when the next tick is due."""
        due = [now + self._times.beat_seconds]
        due += [p.beaten_at + self._times.beat_seconds for p in self._partitions.values()]
        due += [p.trusted_until for p in self._partitions.values() if p.state == "leader"]
        if self._barrier_until is not None:
            due.append(self._barrier_until)
        return max(min(due), now)

    def _roles(self, partition: int) -> range:
        return range(partition, self._role_count, self._partition_count)

    def _assigned(self, now: float, partitions: frozenset[int]) -> list[Event]:
        """Replace the assignment: nothing is kept across a rebalance."""
        events = self._revoked(now)
        self._rebalancing, self._barrier_until = False, None
        self._partitions = {partition: _Partition(now) for partition in sorted(partitions)}
        return events

    def _revoked(self, now: float) -> list[Event]:
        if self._rebalancing:
            return []
        led = [role for role in self._acting if self.leads(role)]
        self._rebalancing, self._barrier_until = True, now + self._times.rebalance_seconds / 2
        return [LeaderRevoked(role) for role in led]

    def _heard(self, heard: Heard) -> list[Event]:
        partition = self._partitions.get(heard.partition)
        if partition is None or self._rebalancing:
            return []
        if heard.beat.sender != self._me:
            return self._heard_rival(heard, partition)
        if partition.first_broker_ms is None and heard.beat.number in partition.out:
            partition.first_broker_ms = heard.broker_ms
        return []

    def _confirm(self, heard: Heard) -> Iterator[Output]:
        """Apply a confirmation; beats that left before the assignment or before a fence do not count."""
        partition = self._partitions.get(heard.partition)
        ours = heard.beat.sender == self._me and not self._rebalancing
        if ours and partition is not None and heard.beat.number in partition.out:
            yield Confirm(heard.partition, heard.beat.number)

    def _confirmed(self, now: float, number: int, beat: int) -> None:
        partition = self._partitions.get(number)
        left_at = partition.out.pop(beat, None) if partition is not None and not self._rebalancing else None
        if partition is None or left_at is None:
            return  # of an earlier assignment
        partition.trusted_until = max(partition.trusted_until, left_at + self._times.fence_seconds)
        grace_over = now >= partition.assigned_at + self._times.grace_seconds
        if partition.state == "candidate" and grace_over and now < partition.trusted_until:
            partition.state = "leader"

    def _heard_rival(self, heard: Heard, partition: _Partition) -> list[Event]:
        """Fence a role that another member leads too: its term is higher, and it came later by the broker's clock."""
        after_us = partition.first_broker_ms is not None and heard.broker_ms >= partition.first_broker_ms
        rivals = dict(heard.beat.terms)
        mine = [role for role in self._roles(heard.partition) if self._acting.get(role)]
        if partition.state != "leader" or not after_us:
            return []
        if any(rivals.get(role, 0) > self._acting[role] for role in mine):
            return self._fence(heard.partition, partition, f"{heard.beat.sender} leads with a higher term")
        return []

    def _fence_overdue(self, now: float) -> list[Event]:
        events: list[Event] = []
        for number, partition in self._partitions.items():
            if partition.state == "leader" and now >= partition.trusted_until:
                events += self._fence(number, partition, "no beat was confirmed in time")
        return events

    def _fence(self, number: int, partition: _Partition, reason: str) -> list[Event]:
        """Become a candidate again, with the next beat that leaves."""
        partition.state = "candidate"
        partition.trusted_until = float("-inf")
        partition.out.clear()
        return [LeaderFenced(role, reason) for role in self._roles(number) if role in self._acting]

    def _retake(self) -> Iterator[Event]:
        """Take our roles without a holder: at the start of a leadership, or after a holder has left."""
        if self._rebalancing:
            return
        for number, partition in self._partitions.items():
            if partition.state == "leader":
                for role in self._roles(number):
                    if role not in self._acting:
                        self._acting[role] = 0
                        yield LeaderAcquired(role)

    def _open_barrier(self, now: float, events: list[Event]) -> Iterator[Output]:
        """Open the barrier once all holders have left, or half the time is over. The rest must stop at once."""
        if self._barrier_until is None or (self._acting and now < self._barrier_until):
            return
        self._barrier_until = None
        self._partitions = {}
        events += [LeaderFenced(role, "not left within half the rebalance time-out") for role in self._acting]
        yield BarrierOpen()

    def _beats(self, now: float) -> Iterator[Output]:
        if self._rebalancing:
            return
        for number, partition in self._partitions.items():
            if now >= partition.beaten_at + self._times.beat_seconds:
                yield SendBeat(number, self._next_beat(now, number, partition))

    def _next_beat(self, now: float, number: int, partition: _Partition) -> Beat:
        self._number += 1
        partition.beaten_at = now
        partition.out[self._number] = now
        if len(partition.out) > _BEATS_OUT_MAX:
            del partition.out[next(iter(partition.out))]
        roles = [role for role in self._roles(number) if self._acting.get(role)]
        return Beat(self._me, self._number, tuple((role, self._acting[role]) for role in roles))

"""NELI without I/O: each arrow of its diagram, then any number of members under any sequence of mishaps.

"Paper" is the NELI paper of obsidiandynamics; Fast NELI is what goneli makes of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from relay.election.neli_core import (
    Assigned,
    BarrierOpen,
    Beat,
    Confirm,
    Confirmed,
    Event,
    Heard,
    LeaderAcquired,
    LeaderFenced,
    LeaderRevoked,
    Left,
    Neli,
    NeliTimes,
    Output,
    Revoked,
    SendBeat,
    TermRaised,
    Tick,
)
from tests.examples import examples

TIMES = NeliTimes(beat_seconds=1, fence_seconds=4, session_seconds=6, rebalance_seconds=10)
ZERO = frozenset({0})


def member(partitions: int = 1, roles: int = 1, times: NeliTimes = TIMES) -> Neli:
    return Neli("me", partitions, roles, times)


def beats(outputs: list[Output]) -> list[Beat]:
    return [output.beat for output in outputs if isinstance(output, SendBeat)]


def back(neli: Neli, now: float, beat: Beat, broker_ms: int = 1, partition: int = 0) -> list[Event]:
    """A beat is read back and, if that was asked for, confirmed; what happened."""
    outputs, events = neli.receive(now, Heard(partition, beat, broker_ms))
    for output in outputs:
        if isinstance(output, Confirm):
            events += neli.receive(now, Confirmed(output.partition, output.number))[1]
    return events


def leader(neli: Neli, now: float = 0.0, partition: int = 0) -> list[Event]:
    """Assigned, and the first beat was confirmed at once; what happened."""
    outputs, _ = neli.receive(now, Assigned(frozenset({partition})))
    [beat] = beats(outputs)
    return back(neli, now, beat, 1_000, partition)


# --- the arrows -------------------------------------------------------------------------------------------------


def test_an_assignment_makes_a_candidate_that_beats_and_does_not_lead() -> None:
    """RL-18: goneli leads as soon as it is assigned, whatever it can reach."""
    neli = member()
    outputs, events = neli.receive(0, Assigned(ZERO))
    assert (outputs, events, neli.leads(0)) == ([SendBeat(0, Beat("me", 1))], [], False)


def test_a_beat_that_came_back_and_was_confirmed_makes_a_leader() -> None:
    """Paper, "receipt of one's own heartbeat"; trusted from when the beat left."""
    neli = member()
    [beat] = beats(neli.receive(0, Assigned(ZERO))[0])
    heard = neli.receive(0.7, Heard(0, beat, 5))
    _, events = neli.receive(0.8, Confirmed(0, 1))
    assert (heard, events, neli.trusted_until(0)) == (([Confirm(0, 1)], []), [LeaderAcquired(0)], 4)


@pytest.mark.parametrize(
    ("partitions", "roles", "assigned", "led"),
    [(1, 4, {0}, [0, 1, 2, 3]), (4, 4, {1}, [1]), (4, 10, {2, 3}, [2, 3, 6, 7]), (4, 2, {0, 3}, [0])],
)
def test_role_j_belongs_to_partition_j_mod_m(partitions: int, roles: int, assigned: set[int], led: list[int]) -> None:
    """Paper, roles and partitions; RO-05."""
    neli = member(partitions, roles)
    outputs, _ = neli.receive(0, Assigned(frozenset(assigned)))
    events = [event for o in outputs if isinstance(o, SendBeat) for event in back(neli, 0, o.beat, 1, o.partition)]
    assert sorted(event.role for event in events) == led


def test_without_a_proof_a_leader_fences_itself() -> None:
    """RL-17, RK-06: on the monotonic clock, before the session can end."""
    neli = member()
    leader(neli)
    before = neli.receive(3.9, Tick())[1]
    _, events = neli.receive(4.0, Tick())
    assert (before, events, neli.leads(0)) == ([], [LeaderFenced(0, "no beat was confirmed in time")], False)


def test_a_fenced_leader_leads_again_when_a_new_beat_comes_back_and_its_holder_has_left() -> None:
    """Fast NELI, 2.4.3; a beat from before the fence does not count."""
    neli = member()
    leader(neli)
    old = beats(neli.receive(2, Tick())[0])
    new = beats(neli.receive(9, Tick())[0])
    stale = back(neli, 9, old[0], 2_000)
    acting = back(neli, 9, new[0], 3_000)
    _, left = neli.receive(9, Left(0))
    assert (stale, acting, left) == ([], [], [LeaderAcquired(0)])


def test_a_beat_of_an_earlier_assignment_proves_nothing() -> None:
    """RK-09."""
    neli = member()
    [old] = beats(neli.receive(0, Assigned(ZERO))[0])
    neli.receive(1, Revoked())
    neli.receive(2, Assigned(ZERO))
    neli.receive(2, Confirmed(0, old.number))
    assert (back(neli, 2, old), neli.leads(0)) == ([], False)


@pytest.mark.parametrize(
    ("term", "broker_ms", "fenced"),
    [(8, 1_001, True), (7, 1_001, False), (8, 999, False)],
    ids=["a later term", "not a higher term", "appended before our own"],
)
def test_anothers_beat_fences_only_with_a_higher_term_and_a_later_stamp(
    term: int, broker_ms: int, fenced: bool
) -> None:
    """RL-18, RK-09: sender, term and the broker's stamp are all looked at."""
    neli = member()
    leader(neli)
    neli.receive(0, TermRaised(0, 7))
    _, events = neli.receive(1, Heard(0, Beat("other", 1, ((0, term),)), broker_ms))
    assert events == ([LeaderFenced(0, "other leads with a higher term")] if fenced else [])


def test_beats_name_the_terms_of_their_roles() -> None:
    neli = member(1, 2)
    leader(neli)
    neli.receive(0, TermRaised(1, 7))
    assert beats(neli.receive(1, Tick())[0]) == [Beat("me", 2, ((1, 7),))]


def test_a_revoke_asks_and_its_barrier_opens_when_everybody_has_left() -> None:
    """RG-07; no beat leaves meanwhile."""
    neli = member(1, 2)
    leader(neli)
    steps = [neli.receive(1, event) for event in (Revoked(), Left(0), Left(1), Tick())]
    assert steps == [([], [LeaderRevoked(0), LeaderRevoked(1)]), ([], []), ([BarrierOpen()], []), ([], [])]


def test_the_barrier_opens_at_half_the_rebalance_time_out_though_members_act() -> None:
    """RL-15, RK-03, F53."""
    neli = member(times=NeliTimes(1, 5.9, 6, 10))
    leader(neli)
    neli.receive(0, Revoked())
    early = neli.receive(4.9, Tick())
    late = neli.receive(5, Tick())
    reason = "not left within half the rebalance time-out"
    assert (early, late) == (([], []), ([BarrierOpen()], [LeaderFenced(0, reason)]))


def test_a_revoke_of_nothing_opens_the_barrier_at_once() -> None:
    assert member().receive(0, Revoked()) == ([BarrierOpen()], [])


def test_a_new_leader_waits_for_the_grace_period() -> None:
    """RL-19; paper, exclusive mode."""
    neli = member(times=NeliTimes(1, 4, 6, 10, grace_seconds=3))
    [first] = beats(neli.receive(0, Assigned(ZERO))[0])
    too_early = back(neli, 0.9, first)
    [second] = beats(neli.receive(2.9, Tick())[0])
    assert (too_early, back(neli, 3, second)) == ([], [LeaderAcquired(0)])


@pytest.mark.parametrize(("beat", "fence", "session"), [(1, 6, 6), (1, 7, 6), (2, 4, 6), (0, 4, 6)])
def test_times_under_which_two_could_lead_are_refused(beat: float, fence: float, session: float) -> None:
    """Paper: T + e below the session time-out."""
    with pytest.raises(ValueError, match="must be less"):
        NeliTimes(beat, fence, session)


# --- any sequence of mishaps ------------------------------------------------------------------------------------


@dataclass
class Node:
    """A member with its holder and its link. A node that is cut hears nothing, and nothing it says arrives."""

    neli: Neli
    contact_at: float
    cut: bool = False
    paused: bool = False
    joined: bool = False
    pending: bool = False
    acts: set[int] = field(default_factory=set)
    leaving: set[int] = field(default_factory=set)
    generation: int = 0

    @property
    def reachable(self) -> bool:
        return not (self.cut or self.paused)


class Cluster(RuleBasedStateMachine):
    """A coordinator of the classic protocol, a log for each partition, and members that are cut, paused, slow.

    I5: never do two act for a role while both may trust their lead.
    """

    PARTITIONS, ROLES, NODES = 2, 3, 3

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.logs: dict[int, list[tuple[Beat, int]]] = {p: [] for p in range(self.PARTITIONS)}
        self.nodes = [Node(Neli(f"n{n}", self.PARTITIONS, self.ROLES, TIMES), 0.0) for n in range(self.NODES)]
        self.group: set[int] = set()
        self.rebalance_since: float | None = None
        self.generation = 0
        self.term = 0
        for number in range(self.NODES):
            self.join(number)
        self.coordinate()

    def feed(self, node: Node, event: object) -> None:
        outputs, events = node.neli.receive(self.now, event)  # type: ignore[arg-type]
        for output in outputs:
            if isinstance(output, BarrierOpen):
                node.joined = node.pending
            elif isinstance(output, SendBeat) and not node.cut:
                self.logs[output.partition].append((output.beat, int(self.now * 1000)))
                self.feed(node, Heard(output.partition, output.beat, int(self.now * 1000)))
            elif isinstance(output, Confirm) and self.is_member(node):
                self.feed(node, Confirmed(output.partition, output.number))
        for happened in events:
            self.happened(node, happened)

    def is_member(self, node: Node) -> bool:
        in_group = any(self.nodes[number] is node for number in self.group)
        return not node.cut and in_group and node.generation == self.generation

    def happened(self, node: Node, event: Event) -> None:
        match event:
            case LeaderAcquired(role):
                self.term += 1
                node.acts.add(role)
                self.feed(node, TermRaised(role, self.term))
            case LeaderRevoked(role):
                node.leaving.add(role)
            case LeaderFenced(role):
                self.leave(node, role)

    def leave(self, node: Node, role: int) -> None:
        node.acts.discard(role)
        node.leaving.discard(role)
        self.feed(node, Left(role))

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0, 2.0, 7.0]))
    def time_passes(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.1)):
            self.now = round(self.now + 0.1, 3)
            for number, node in enumerate(self.nodes):
                if not node.paused:
                    self.feed(node, Tick())
                if node.reachable and number in self.group:
                    node.contact_at = self.now
            self.coordinate()

    @rule(number=st.integers(0, NODES - 1))
    def join(self, number: int) -> None:
        if number not in self.group and self.nodes[number].reachable:
            self.group.add(number)
            self.nodes[number].contact_at = self.now
            self.begin_rebalance()

    @rule(number=st.integers(0, NODES - 1))
    def pause_or_resume(self, number: int) -> None:
        self.nodes[number].paused = not self.nodes[number].paused

    @rule(number=st.integers(0, NODES - 1))
    def cut_or_mend(self, number: int) -> None:
        self.nodes[number].cut = not self.nodes[number].cut

    @rule(number=st.integers(0, NODES - 1))
    def holders_finish(self, number: int) -> None:
        node = self.nodes[number]
        if not node.paused:
            for role in list(node.leaving):
                self.leave(node, role)

    def begin_rebalance(self) -> None:
        self.rebalance_since = self.now
        for node in self.nodes:
            node.pending, node.joined = True, False

    def coordinate(self) -> None:
        gone = {n for n in self.group if self.now - self.nodes[n].contact_at > TIMES.session_seconds}
        if gone:
            self.group -= gone
            self.begin_rebalance()
        if self.rebalance_since is None:
            return
        for number in sorted(self.group):
            node = self.nodes[number]
            if node.reachable and node.pending and not node.joined:
                self.feed(node, Revoked())
                node.joined = node.joined or not node.neli._barrier_until
        if self.now - self.rebalance_since >= TIMES.rebalance_seconds:
            self.group = {n for n in self.group if self.nodes[n].joined}
        if all(self.nodes[n].joined for n in self.group):
            self.assign()

    def assign(self) -> None:
        self.rebalance_since = None
        self.generation += 1
        members = sorted(self.group)
        for index, number in enumerate(members):
            node = self.nodes[number]
            node.pending = False
            given = frozenset(range(index, self.PARTITIONS, len(members)))
            if node.reachable:  # one that does not hear of it will be given up by its session
                node.generation = self.generation
                self.feed(node, Assigned(given))

    def trusting(self) -> Iterator[tuple[int, int]]:
        for number, node in enumerate(self.nodes):
            for role in node.acts:
                if self.now < node.neli.trusted_until(role):
                    yield role, number

    @invariant()
    def nobody_shares_a_role(self) -> None:
        roles = [role for role, _ in self.trusting()]
        assert len(roles) == len(set(roles)), sorted(self.trusting())


Cluster.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=60, deadline=None)
TestCluster = Cluster.TestCase


def test_a_cluster_that_is_left_alone_leads_every_role() -> None:
    """Liveness: the machine above does elect."""
    cluster = Cluster()
    for _ in range(20):
        cluster.time_passes(1.0)
        for number in range(3):
            cluster.holders_finish(number)
    assert sorted(role for role, _ in cluster.trusting()) == [0, 1, 2]

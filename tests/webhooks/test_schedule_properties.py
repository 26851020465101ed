"""webhooks/schedule.py, whatever happens in whatever order: limits, lanes, work conserving, no starvation (HO-11)."""

from collections import Counter
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.examples import examples
from tests.webhooks.delivery_model import (
    DELIVERED,
    FAILED,
    SLOW,
    THROTTLED,
    TOO_LARGE,
    Model,
    options,
    receiver,
)  # fmt: skip
from webhooks.worker_options import SlotOptions

HOSTS = {1: "a", 2: "a", 3: "a", 4: "b", 5: "b", 6: "c"}
ORDERED = frozenset({2, 5})
BATCHES = {3: 3, 5: 4}
ENDS = [DELIVERED, DELIVERED, SLOW, FAILED, THROTTLED, TOO_LARGE]


def model() -> Model:
    return Model({id_: receiver(id_, host, BATCHES.get(id_, 1)) for id_, host in HOSTS.items()}, ORDERED)


class ScheduleMachine(RuleBasedStateMachine):
    """A worker that works after whatever happens."""

    def __init__(self) -> None:
        super().__init__()
        self.model = model()

    @rule(id_=st.sampled_from(sorted(HOSTS)), key=st.sampled_from("xy"), events=st.integers(1, 6))
    def publish(self, id_: int, key: str, events: int) -> None:
        for _ in range(events):
            self.model.publish(id_, key)
        self.model.work()

    @precondition(lambda self: self.model.flying)
    @rule(place=st.integers(0, 9), outcome=st.sampled_from(ENDS))
    def end(self, place: int, outcome: object) -> None:
        self.model.end(place, outcome)  # type: ignore[arg-type]
        self.model.work()

    @precondition(lambda self: self.model.unsettled)
    @rule()
    def settle(self) -> None:
        self.model.settle()
        self.model.work()

    @rule(seconds=st.sampled_from([0.5, 6.0, 30.0]))
    def pass_time(self, seconds: float) -> None:
        """Leases end while attempts are in flight when the process was stopped for a while."""
        self.model.pass_time(seconds)
        self.model.work()

    @invariant()
    def no_limit_is_exceeded(self) -> None:
        assert list(self.model.broken_limits()) == []

    @invariant()
    def a_lane_is_in_flight_once(self) -> None:
        assert self.model.lanes_twice() == []

    @invariant()
    def nothing_waits_that_may_start(self) -> None:
        assert self.model.forgotten_starts() == []

    @invariant()
    def nothing_is_due_that_may_be_claimed(self) -> None:
        assert self.model.forgotten_claims() == set()

    @invariant()
    def what_is_counted_is_there(self) -> None:
        held = {claim.event.id for one in self.model.flying for claim in one.claims}
        held |= {claim.event.id for claim in self.model.waiting.values()}
        assert (self.model.schedule.waiting, self.model.schedule.in_flight, self.model.schedule.payload_bytes) == (
            len(self.model.waiting), len(self.model.flying), 7 * len(held),
        )  # fmt: skip

    def teardown(self) -> None:
        """Nothing starves: when all receivers are well, everything is delivered, in the order of each lane."""
        rounds = 0
        while self.model.rows:
            rounds += 1
            assert rounds < 1_000, self.model.rows
            while self.model.flying:
                self.model.end(0, DELIVERED)
            self.model.settle()
            self.model.pass_time(1.0)
            self.model.work()
        assert self.model.unordered_lanes() == []


TestSchedule = ScheduleMachine.TestCase
TestSchedule.settings = settings(max_examples=examples(40), stateful_step_count=30, deadline=None)


@settings(max_examples=examples(40), deadline=None)
@given(
    hosts=st.lists(st.sampled_from("abcde"), min_size=2, max_size=12),
    hanging=st.sets(st.integers(1, 12), max_size=6),
    total=st.integers(2, 8),
)
def test_those_that_hang_for_ever_starve_nobody(hosts: list[str], hanging: set[int], total: int) -> None:
    """WH-I01: each of the others gets all its events while attempts of those in flight never end."""
    slots = SlotOptions(total=total, per_subscription=2, per_host=4)
    around = Model({id_: receiver(id_, host) for id_, host in enumerate(hosts, 1)}, given=options(slots))
    living = {id_ for id_ in around.receivers if id_ not in hanging}
    for id_ in living:  # they have succeeded before
        around.publish(id_)
        around.work()
        while around.flying:
            around.end(0, DELIVERED)
        around.settle()
    for _ in range(5):
        for id_ in around.receivers:
            around.publish(id_)
    for _ in range(200):
        around.work()
        alive = [place for place, one in enumerate(around.flying) if one.claims[0].subscriber.id in living]
        if not alive:
            break
        around.end(alive[0], DELIVERED)
        around.settle()
    assert {row.subscription for row in around.rows.values()} & living == set()


@settings(max_examples=examples(30), deadline=None)
@given(hosts=st.lists(st.sampled_from("abc"), min_size=2, max_size=9), total=st.integers(2, 6))
def test_between_two_turns_of_a_subscription_the_others_have_few(hosts: list[str], total: int) -> None:
    """WH-I01: with a backlog for all, hosts take turns, and so do the subscriptions of a host."""
    slots = SlotOptions(total=total, per_subscription=4, per_host=4)
    around = Model(
        {id_: receiver(id_, host) for id_, host in enumerate(hosts, 1)}, given=options(slots, 100, len(hosts))
    )
    for turn in range(150):
        for id_ in around.receivers:
            if sum(row.subscription == id_ for row in around.rows.values()) < 4:
                around.publish(id_)
        around.work()
        around.end(0, DELIVERED)
        around.settle()
        if turn == 50:
            assert around.proven.keys() == around.receivers.keys()
            around.sent.clear()
    # A host that was full begins at the end of the line.
    most = 2 * len(set(hosts)) * max(Counter(hosts).values())
    order = [id_ for id_, *_ in around.sent]
    gaps = {id_: longest_gap(order, id_) for id_ in around.receivers}
    assert {id_: gap for id_, gap in gaps.items() if gap > most} == {}


def longest_gap(order: list[int], wanted: int) -> int:
    places = [-1, *(place for place, id_ in enumerate(order) if id_ == wanted), len(order)]
    return max(after - before for before, after in pairwise(places))

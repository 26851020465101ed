"""webhooks/slots.py: how many attempts each may have in flight, and which is next (WH-I01)."""

from webhooks.outcome import Outcome
from webhooks.scheduled_subscription import ScheduledSubscription
from webhooks.slots import Slots
from webhooks.worker_options import SlotOptions

DELIVERED, FAILED = Outcome("delivered", 204), Outcome("server_error", 500)


def waiting(slots: Slots, host: str, *ids: int, proven: bool = True) -> list[ScheduledSubscription]:
    """Subscriptions that wait for slots at a host."""
    subscriptions = [ScheduledSubscription(id_, 64, is_proven=proven) for id_ in ids]
    for one in subscriptions:
        slots.place(one, host)
    return subscriptions


def started(slots: Slots, hosts: dict[int, str], most: int) -> list[int]:
    """Which subscriptions get slots, one after the other."""
    order = []
    while len(order) < most and (subscription := slots.next()) is not None:
        slots.take(hosts[subscription.id], is_proven=subscription.is_proven)
        order.append(subscription.id)
    return order


def test_a_worker_has_so_many_slots_in_all() -> None:
    slots = Slots(SlotOptions(total=3, per_host=9))
    waiting(slots, "a", 1)
    assert (started(slots, {1: "a"}, 9), slots.used) == ([1, 1, 1], 3)


def test_a_host_has_its_own_limit_over_all_its_subscriptions() -> None:
    slots = Slots(SlotOptions(total=10, per_host=4))
    waiting(slots, "a", 1, 2)
    waiting(slots, "b", 3)
    order = started(slots, {1: "a", 2: "a", 3: "b"}, 99)
    assert [order.count(id_) for id_ in (1, 2, 3)] == [2, 2, 4]


def test_those_who_have_not_lately_succeeded_share_half() -> None:
    slots = Slots(SlotOptions(total=8, per_host=8))
    waiting(slots, "a", 2, proven=False)
    waiting(slots, "b", 3, proven=False)
    unproven = started(slots, {2: "a", 3: "b"}, 99)
    left = slots.unproven_free
    waiting(slots, "c", 1)
    assert (unproven, left, started(slots, {1: "c"}, 99)) == ([2, 3, 2, 3], 0, [1, 1, 1, 1])


def test_they_share_half_of_each_host_too() -> None:
    """WH-I01: a thousand dead behind a gateway leave room for those who live there."""
    slots = Slots(SlotOptions(total=40, per_host=8))
    waiting(slots, "a", 2, 3, proven=False)
    unproven = started(slots, {2: "a", 3: "a"}, 99)
    waiting(slots, "a", 1)
    assert (unproven, started(slots, {1: "a"}, 99)) == ([2, 3, 2, 3], [1, 1, 1, 1])


def test_one_slot_is_never_too_few_to_begin_with() -> None:
    slots = Slots(SlotOptions(total=1))
    waiting(slots, "a", 1, proven=False)
    assert started(slots, {1: "a"}, 9) == [1]


def test_hosts_take_turns_and_so_do_the_subscriptions_of_a_host_and_the_unproven() -> None:
    """WH-I01."""
    slots = Slots(SlotOptions(total=99, per_host=99))
    waiting(slots, "a", 1, 2)
    waiting(slots, "b", 3)
    waiting(slots, "c", 4, proven=False)
    assert started(slots, {1: "a", 2: "a", 3: "b", 4: "c"}, 8) == [1, 4, 3, 4, 2, 4, 3, 4]


def test_the_slot_that_is_given_back_goes_to_the_next_that_waits_there() -> None:
    slots = Slots(SlotOptions(total=9, per_host=1))
    waiting(slots, "a", 1, 2)
    first = started(slots, {1: "a"}, 9)
    slots.give("a", was_proven=True)
    assert (first, started(slots, {2: "a"}, 9), slots.used) == ([1], [2], 1)


def test_nothing_is_remembered_of_a_host_without_slots_and_without_waiting_subscriptions() -> None:
    slots = Slots(SlotOptions())
    (one,) = waiting(slots, "a", 1)
    started(slots, {1: "a"}, 1)
    slots.place(one, None)
    slots.give("a", was_proven=True)
    assert (slots.next(), slots.used, slots._hosts, slots._places) == (None, 0, {}, {})


def test_a_failure_takes_the_trust_away_and_a_success_gives_it_back() -> None:
    subscription = ScheduledSubscription(1, 8, is_proven=True)
    told = []
    for outcome in (FAILED, DELIVERED, None):
        subscription.learn(outcome, 8)
        told.append((subscription.is_proven, subscription.is_fast))
    assert told == [(False, False), (True, True), (False, False)]


def test_an_overloaded_receiver_gets_half_as_many_at_once_and_they_grow_again_one_by_one() -> None:
    """WH-R16: also the slow start after an outage."""
    subscription = ScheduledSubscription(1, 8)
    told = []
    for outcome in (*[FAILED] * 4, *[DELIVERED] * 8):
        subscription.learn(outcome, 8)
        told.append(subscription.window)
    assert told == [4, 2, 1, 1, 2, 3, 4, 5, 6, 7, 8, 8]

"""webhooks/slots.py: who may have how many attempts in flight (WH-I01)."""

from hypothesis import given
from hypothesis import strategies as st

from webhooks.slots import SlotOptions, Slots


def taken(slots: Slots, subscription: int, host: str, wanted: int) -> int:
    """How many of so many slots are granted."""
    return sum(slots.try_take(subscription, host) for _ in range(wanted))


def proven(options: SlotOptions, *subscriptions: int) -> Slots:
    """Slots where these subscriptions have succeeded once."""
    slots = Slots(options)
    for subscription in subscriptions:
        assert slots.try_take(subscription, "h")
        slots.give(subscription, "h", was_proven=False, succeeded=True)
    return slots


def test_a_subscription_has_its_own_limit() -> None:
    slots = proven(SlotOptions(total=10, per_subscription=3, per_host=10), 1, 2)
    assert (taken(slots, 1, "a", 5), taken(slots, 2, "a", 5), slots.used, slots.free) == (3, 3, 6, 4)


def test_a_host_has_its_own_limit_over_all_its_subscriptions() -> None:
    slots = proven(SlotOptions(total=10, per_subscription=3, per_host=4), 1, 2, 3)
    assert (taken(slots, 1, "a", 3), taken(slots, 2, "a", 3), taken(slots, 3, "b", 3)) == (3, 1, 3)


def test_those_who_have_not_lately_succeeded_share_half() -> None:
    slots = proven(SlotOptions(total=8, per_subscription=8, per_host=8), 1)
    assert (taken(slots, 2, "a", 8), slots.unproven_free, taken(slots, 3, "b", 8), taken(slots, 1, "c", 8)) == (
        4,
        0,
        0,
        4,
    )


def test_they_share_half_of_each_host_too() -> None:
    """WH-I01: a thousand dead behind a gateway leave room for who lives there."""
    slots = proven(SlotOptions(total=40, per_subscription=9, per_host=8), 1)
    assert (taken(slots, 2, "a", 9), taken(slots, 3, "a", 9), taken(slots, 3, "b", 9), taken(slots, 1, "a", 9)) == (
        4, 0, 4, 4,
    )  # fmt: skip


def test_one_slot_is_never_too_few_to_begin_with() -> None:
    assert taken(Slots(SlotOptions(total=1)), 1, "a", 2) == 1


def test_a_failure_takes_the_trust_away_and_a_success_gives_it_back() -> None:
    slots = proven(SlotOptions(), 1)
    told = [slots.is_proven(1)]
    for succeeded in (False, True):
        was_proven = slots.is_proven(1)
        slots.try_take(1, "a")
        slots.give(1, "a", was_proven=was_proven, succeeded=succeeded)
        told.append(slots.is_proven(1))
    assert told == [True, False, True]


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from("ab"), st.booleans(), st.booleans()), max_size=200))
def test_slots_keep_their_limits_and_all_are_free_in_the_end(steps: list[tuple[int, str, bool, bool]]) -> None:
    """Whatever is taken and given in whatever order: the limits hold, and at the end everything is free again."""
    options = SlotOptions(total=6, per_subscription=3, per_host=4)
    slots = Slots(options)
    held: list[tuple[int, str, bool]] = []
    for subscription, host, take, succeeded in steps:
        if take:
            was_proven = slots.is_proven(subscription)
            if slots.try_take(subscription, host):
                held.append((subscription, host, was_proven))
        elif held:
            subscription, host, was_proven = held.pop(0)
            slots.give(subscription, host, was_proven=was_proven, succeeded=succeeded)
        assert slots.used == len(held) <= options.total
        assert all(sum(h == host for _, h, _ in held) <= options.per_host for host in "ab")
        assert sum(not was_proven for *_, was_proven in held) == options.total // 2 - slots.unproven_free
    for subscription, host, was_proven in held:
        slots.give(subscription, host, was_proven=was_proven, succeeded=True)
    assert (slots.used, slots.unproven_free, slots._by_host, slots._by_subscription) == (0, 3, {}, {})


def attempt(slots: Slots, *, succeeded: bool) -> int:
    """One attempt, and how many it may have at once afterwards."""
    assert slots.try_take(1, "a")
    slots.give(1, "a", was_proven=slots.is_proven(1), succeeded=succeeded, overloaded=not succeeded)
    return slots.window(1)


def test_an_overloaded_receiver_gets_half_as_many_at_once_and_they_grow_again_one_by_one() -> None:
    """WH-R16: also the slow start after an outage."""
    slots = Slots(SlotOptions(total=100, per_subscription=8, per_host=100))
    told = [attempt(slots, succeeded=succeeded) for succeeded in (*[False] * 4, *[True] * 8)]
    assert told == [4, 2, 1, 1, 2, 3, 4, 5, 6, 7, 8, 8]


def test_others_keep_their_slots_when_one_is_overloaded() -> None:
    slots = proven(SlotOptions(total=100, per_subscription=8, per_host=100), 2)
    attempt(slots, succeeded=False)
    assert (taken(slots, 1, "a", 9), taken(slots, 2, "b", 9)) == (4, 8)

"""webhooks/schedule.py: which subscription claims how many, and what starts next."""

import ast
from dataclasses import replace
from pathlib import Path

from tests.webhooks.delivery_model import (
    DELIVERED,
    FAILED,
    SLOTS,
    SLOW,
    TOO_LARGE,
    claim,
    options,
    receiver,
)  # fmt: skip
from webhooks import schedule
from webhooks.schedule import Schedule
from webhooks.worker_options import SlotOptions

WIDE = SlotOptions(total=64, per_subscription=16, per_host=64)
"""Four for a subscription that is not fast, 32 for all that are unproven."""


def proven(given: Schedule, *ids: int) -> Schedule:
    """These have succeeded once, fast."""
    for number, id_ in enumerate(ids, 10_000):
        given.admit([claim(number, receiver(id_, f"h{id_}"))])
        dispatch = given.start(0.0)
        assert dispatch is not None
        given.finish(dispatch, DELIVERED)
    return given


def test_the_module_has_neither_clock_nor_input_nor_output() -> None:
    """HO-11: time is a parameter; nothing is awaited."""
    tree = ast.parse(Path(schedule.__file__).read_text("utf-8"))
    imported = {
        name.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    waits = [node for node in ast.walk(tree) if isinstance(node, ast.Await | ast.AsyncFunctionDef)]
    assert (imported & {"time", "asyncio", "random", "datetime", "db.pool", "structlog"}, waits) == (set(), [])


# --- what is claimed --------------------------------------------------------------------------------------------


def test_both_lines_come_in_turns_and_each_in_the_order_of_its_coming() -> None:
    given = proven(Schedule(options(WIDE, 1000, 64)), 1, 2)
    given.mark_due([30, 10, 20, 2, 1])
    assert list(given.wanted()) == [2, 30, 1, 10, 20]


def test_a_thousand_dead_stand_before_nobody_alive() -> None:
    """WH-I01: also when a claim is for one subscription only."""
    given = proven(Schedule(options(WIDE, 1000, 1)), 4)
    given.mark_due(range(1000, 2000))
    given.mark_due([4])
    assert [list(given.wanted()) for _ in range(3)] == [[4], [1000], [1001]]


def test_a_subscription_is_claimed_for_once_until_it_is_marked_again() -> None:
    given = Schedule(options(WIDE))
    given.mark_due([1])
    told = [given.wanted(), given.wanted()]
    given.mark_due([1])
    assert [*told, given.wanted()] == [{1: 4}, {}, {1: 4}]


def test_an_attempt_that_leaves_nothing_due_and_nothing_waiting_needs_no_look() -> None:
    """Each delivery of the direct path woke the claims, which found nothing."""
    given = Schedule(options(SlotOptions(total=1, per_subscription=1, per_host=1), 4))
    found = [given.may_claim]
    given.mark_due([1])
    found.append(given.may_claim)
    given.wanted()
    found.append(given.may_claim)
    given.admit([claim(1, receiver(1, "h1"))])
    found.append(given.may_claim)  # it may become too late
    assert given.start(0.0) is not None
    assert [*found, given.may_claim] == [False, True, False, True, False]


def test_what_got_as_many_as_it_asked_for_is_due_again() -> None:
    given = Schedule(options(WIDE))
    given.answered({1: 4, 2: 4, 3: 4}, {1: 4, 2: 3})
    assert given.wanted() == {1: 4}


def test_a_fast_subscription_is_read_ahead_and_a_slow_one_is_not() -> None:
    given = proven(Schedule(options(WIDE, 1000, 64)), 1, 2)
    given.admit([claim(1, receiver(2, "h2"))])
    dispatch = given.start(0.0)
    assert dispatch is not None
    given.finish(dispatch, SLOW)
    given.mark_due([1, 2])
    assert given.wanted() == {1: 500, 2: 4}


def test_more_is_claimed_when_half_of_what_was_claimed_has_started() -> None:
    """Few large claims cost the database less than many small ones."""
    given = proven(Schedule(options(SlotOptions(total=8, per_subscription=1, per_host=8), 16, 64)), 1, 2)
    given.mark_due([1, 2])
    asked = given.wanted()
    given.admit([claim(number, receiver(1, "h1")) for number in range(8)])
    given.mark_due([1])
    while not (more := given.wanted()):
        dispatch = given.start(0.0)
        assert dispatch is not None
        given.finish(dispatch, DELIVERED)
    assert (asked, more, given.waiting) == ({1: 8, 2: 8}, {1: 8}, 4)


def test_the_unproven_together_claim_no_more_than_they_have_slots() -> None:
    """WH-I01."""
    given = Schedule(options(SlotOptions(total=20, per_subscription=16, per_host=20)))
    given.mark_due(range(100))
    assert given.wanted() == {0: 4, 1: 4, 2: 2}


def test_while_more_than_half_of_the_room_is_taken_those_without_a_waiting_claim_ask_for_a_few() -> None:
    """A receiver that hangs, with many claims that wait for it, delays no other."""
    given = proven(Schedule(options(WIDE, claim_max=100)), 1, 2, 3)
    given.mark_due([1])
    asked = given.wanted()
    given.admit([claim(number, receiver(1, "h1")) for number in range(asked[1])])
    while given.start(0.0) is not None:
        pass
    given.mark_due([1, 2, 3])
    few = given.wanted()
    given.return_all()
    assert (asked, few, given.wanted()) == ({1: 100}, {2: 4, 3: 4}, {1: 100})


def test_no_more_events_are_claimed_than_fit_into_memory() -> None:
    """Else a thousand would be claimed and released again for each one that fits."""
    held = [claim(number, receiver(2, "h2")) for number in range(4)]
    asked = []
    for fitting in (4, 4.5, 10):
        bytes_max = int(fitting * held[0].event.size_bytes)
        given = proven(Schedule(replace(options(WIDE, 1000), payload_bytes_max=bytes_max)), 1)
        given.admit(held)
        given.mark_due([1])
        asked.append(given.wanted())
    assert asked == [{}, {1: 1}, {1: 6}]


def test_a_throttled_subscription_asks_again_at_its_time_once() -> None:
    """WH-I06."""
    given = Schedule(options())
    for at in (7.0, 9.0, 5.0, 600.0):
        given.hold_back_until(1, at, now=0.0)
    alarms = []
    while (at := given.next_at()) is not None:
        alarms.append(at)
        given.advance(at)
    assert (alarms, given.wanted()) == ([5.0, 7.0], {1: 1})


def test_a_subscription_that_wants_single_events_again_is_claimed_for_as_such() -> None:
    """WH-C05: a subscription that was changed keeps no share of its former batches."""
    given = Schedule(options(WIDE, 1000))
    asked = []
    for number, batch_max in enumerate((30, 1), 1):
        given.admit([claim(number, receiver(1, "a", batch_max, version=number))])
        dispatch = given.start(0.0)
        assert dispatch is not None
        given.finish(dispatch, SLOW)
        given.mark_due([1])
        asked.append(given.wanted())
    assert asked == [{1: 30}, {1: 4}]


def test_no_more_subscriptions_are_remembered_than_that_unless_they_are_active() -> None:
    given = Schedule(options(WIDE, 1000), remembered_max=10)
    given.mark_due([1])
    proven(given, *range(2, 95))
    assert (len(given._subscriptions) <= 10, given.wanted()) == (True, {1: 4})


# --- what starts ------------------------------------------------------------------------------------------------


def test_a_claim_whose_lease_is_too_short_for_an_attempt_is_returned() -> None:
    """RR-10."""
    given = Schedule(options())
    late, fine = (claim(number, receiver(1, "a"), leased_until=until) for number, until in ((1, 12.0), (2, 15.0)))
    given.admit([late, fine])
    started = given.start(3.0)
    assert started is not None
    assert (started.claims, given.take_returned(3.0), given.start(3.0)) == ([fine], [late], None)


def test_a_claim_that_waits_for_a_slot_is_returned_when_its_lease_gets_too_short() -> None:
    given = Schedule(options(SlotOptions(total=2, per_subscription=1, per_host=1)))
    claims = [claim(number, receiver(1, "a"), leased_until=10.0 + number) for number in (3, 4)]
    given.admit(claims)
    given.start(0.0)
    assert [given.take_returned(now) for now in (3.5, 4.5)] == [[], claims[1:]]


def test_what_has_started_and_is_not_sent_in_time_is_returned_and_its_lane_is_free() -> None:
    """RR-10: a process may be stopped between the start and the first byte. The earliest lease of a batch counts."""
    given = Schedule(options(WIDE))
    leases = (18.0, 16.0, 17.0)
    claims = [claim(number, receiver(1, "a", 8), str(number), leased_until=at) for number, at in enumerate(leases)]
    given.admit(claims)
    started = given.start(0.0)
    assert started is not None
    given.give_up(started)
    assert (started.latest_at, given.in_flight, given.take_returned(0.0)) == (16.0 - 10.0, 0, claims)
    given.admit(claims)
    again = given.start(0.0)
    assert again is not None
    assert again.claims == claims


def test_of_a_lane_one_claim_is_in_flight_and_other_lanes_pass_it() -> None:
    """WH-O02: two claims of a lane are here when the first was claimed again after its lease."""
    given = Schedule(options())
    claims = [claim(number, receiver(1, "a"), key) for number, key in ((1, "x"), (2, "x"), (3, "y"))]
    given.admit(claims)
    first, second = given.start(0.0), given.start(0.0)
    assert first is not None
    assert second is not None
    blocked = given.start(0.0)
    given.finish(first, DELIVERED)
    third = given.start(0.0)
    assert third is not None
    assert (first.claims, second.claims, blocked, third.claims) == (claims[:1], claims[2:], None, claims[1:2])


def test_of_a_lane_one_claim_is_in_a_batch() -> None:
    """WH-O02."""
    given = Schedule(options())
    claims = [claim(number, receiver(1, "a", 8), key) for number, key in ((1, "x"), (2, "y"), (3, "x"), (4, "y"))]
    given.admit(claims)
    started = given.start(0.0)
    assert started is not None
    assert (started.claims, given.start(0.0)) == (claims[:2], None)


def test_a_batch_that_was_too_large_is_returned_and_the_next_has_half_as_many() -> None:
    """DL-6."""
    given = Schedule(options(WIDE))
    claims = [claim(number, receiver(1, "a", 8)) for number in range(8)]
    given.admit(claims)
    first = given.start(0.0)
    assert first is not None
    given.finish(first, TOO_LARGE)
    returned = given.take_returned(0.0)
    given.admit(returned)
    second = given.start(0.0)
    assert second is not None
    assert (returned, second.claims, given.payload_bytes) == (claims, claims[:4], 8 * claims[0].event.size_bytes)


def test_a_subscription_that_is_no_longer_fast_gives_back_what_was_read_ahead() -> None:
    """A full queue would outlast its leases, and keep others from being claimed for."""
    given = proven(Schedule(options(SlotOptions(total=2, per_subscription=1, per_host=1))), 1)
    claims = [claim(number, receiver(1, "h1")) for number in range(5)]
    given.admit(claims)
    dispatch = given.start(0.0)
    assert dispatch is not None
    given.finish(dispatch, FAILED)
    assert (given.has_returned, given.take_returned(0.0), given.waiting) == (True, claims[1:], 0)


def test_events_that_several_claims_share_weigh_once() -> None:
    given = Schedule(options(SLOTS))
    given.admit([claim(1, receiver(id_, "a")) for id_ in (1, 2, 3)])
    held = given.payload_bytes
    given.return_all()
    given.take_returned(0.0)
    assert (held, given.payload_bytes) == (7, 0)

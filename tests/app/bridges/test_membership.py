"""What a membership allows, and when it aborts the requests of its claims."""

from __future__ import annotations

import asyncio
import math

import pytest

from app.bridges import membership
from app.bridges.membership import DeliveryMembership
from tests.waiting import until


class Clock:
    """The seconds since the machine was started, as a test wants them."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(membership, "boot_seconds", made)
    return made


async def request(of: DeliveryMembership, begun: asyncio.Event) -> str:
    """A request that nobody answers; return how it ended."""
    try:
        async with asyncio.timeout(None) as limit:
            of.begin(limit)
            begun.set()
            await asyncio.Event().wait()
    except TimeoutError:
        return "aborted"
    return "answered"


async def in_flight(of: DeliveryMembership) -> asyncio.Task[str]:
    begun = asyncio.Event()
    running = asyncio.create_task(request(of, begun))
    await begun.wait()
    return running


async def test_it_holds_for_ever_where_nobody_may_take_over(clock: Clock) -> None:
    """TO-05: a process that is alone aborts nothing, however long its database is away."""
    alone = DeliveryMembership(1)
    running = await in_flight(alone)
    clock.now += 1_000
    alone.end()
    assert (alone.holds(), running.done()) == (True, False)
    running.cancel()


async def test_it_is_over_at_its_limit_and_a_request_is_aborted_then(clock: Clock) -> None:
    """TO-01: the limit counts from the question, which is before the answer."""
    limited = DeliveryMembership(1)
    running = await in_flight(limited)
    limited.limit(clock.now + 1.0)
    held = limited.holds()
    clock.now += 1.0
    assert (held, limited.holds()) == (True, False)
    assert await running == "aborted"


async def test_after_waking_it_is_over_before_its_timer_comes(clock: Clock) -> None:
    """TO-04: the clock went on. What is sent after waking asks first."""
    stopped = DeliveryMembership(1)
    stopped.trust(clock.now + 3_600.0)
    clock.now += 3_600.0
    assert not stopped.holds()


async def test_a_limit_is_set_once_and_an_answer_moves_it(clock: Clock) -> None:
    """TO-01: the next question proves nothing before it is answered."""
    beside = DeliveryMembership(1)
    beside.limit(clock.now + 1.0)
    clock.now += 0.9
    beside.limit(clock.now + 1.0)
    clock.now += 0.2
    was_over = not beside.holds()
    beside.trust(clock.now + 1.0)
    assert (was_over, beside.holds()) == (True, True)
    beside.trust(math.inf)


async def test_a_former_membership_is_kept_or_ended_by_what_became_of_its_row(clock: Clock) -> None:
    """TO-01: whoever has deleted the row has the claims."""
    kept, ended = DeliveryMembership(1), DeliveryMembership(2)
    runs = [await in_flight(one) for one in (kept, ended)]
    for one in (kept, ended):
        one.limit(clock.now + 1.0)
    kept.keep()
    ended.end()
    await until(runs[1].done)
    clock.now += 10.0
    assert (kept.holds(), runs[0].done(), ended.holds(), runs[1].result()) == (True, False, False, "aborted")
    runs[0].cancel()


async def test_a_request_that_has_ended_is_left_alone(clock: Clock) -> None:
    """It may run again in the same task, for another claim."""
    over = DeliveryMembership(1)
    async with asyncio.timeout(None) as limit:
        over.begin(limit)
        over.finish(limit)
        over.limit(clock.now)
        await asyncio.sleep(0)
    assert (over.holds(), limit.expired()) == (False, False)

"""Turns of requests to subscribe: few at once, each for a limited time."""

from __future__ import annotations

import asyncio

from hub.form import FormRefused
from hub.turns import Turns


async def test_a_request_that_gets_no_turn_in_time_is_asked_to_come_back() -> None:
    """FX-07: 503 with Retry-After; the turn of the others is not touched."""
    turns = Turns(at_once=1, seconds_max=0.01)
    async with turns.turn():
        try:
            async with turns.turn():
                found = None
        except FormRefused as refused:
            found = refused.status, refused.retry_after_seconds
    async with turns.turn():
        pass

    assert found == (503, 5)


async def test_so_many_have_their_turn_at_once_and_the_others_follow() -> None:
    turns, held, most = Turns(at_once=2), 0, 0

    async def hold() -> None:
        nonlocal held, most
        async with turns.turn():
            held += 1
            most = max(most, held)
            await asyncio.sleep(0)
            held -= 1

    await asyncio.gather(*(hold() for _ in range(9)))

    assert (held, most) == (0, 2)

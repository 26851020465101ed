"""One answer of the database for all who look at nearly the same time (RO-11, SV-08)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from runtime.cached_query import CachedQuery


class _Asked:
    """Gives the answers one after the other, and waits before each until it is let."""

    def __init__(self, answers: Iterable[str | None]) -> None:
        self._answers = iter(answers)
        self.let = asyncio.Event()
        self.let.set()

    async def __call__(self) -> str | None:
        await self.let.wait()
        return next(self._answers)


@pytest.mark.parametrize(("fresh_seconds", "kept_times"), [(60, 0), (0, 1e12)], ids=["just asked", "took long"])
async def test_what_was_just_told_or_took_long_is_told_again(fresh_seconds: float, kept_times: float) -> None:
    cached = CachedQuery(_Asked(["first", "second"]), fresh_seconds, kept_times)
    assert [await cached.get(), await cached.get()] == ["first", "first"]


async def test_what_is_no_longer_fresh_is_asked_again() -> None:
    cached = CachedQuery(_Asked(["first", "second"]), fresh_seconds=0, kept_times=0)
    assert [await cached.get(), await cached.get()] == ["first", "second"]


async def test_who_looks_meanwhile_waits_for_the_same_answer() -> None:
    asked = _Asked(["first", "second"])
    cached = CachedQuery(asked, fresh_seconds=60, kept_times=0)
    asked.let.clear()
    viewers = [asyncio.ensure_future(cached.get()) for _ in range(3)]
    await asyncio.sleep(0)
    asked.let.set()
    assert await asyncio.gather(*viewers) == ["first"] * 3


async def test_that_there_was_no_answer_is_not_kept_however_long_it_took() -> None:
    cached = CachedQuery(_Asked([None, "back"]), fresh_seconds=0, kept_times=1e12)
    assert [await cached.get(), await cached.get()] == [None, "back"]


async def test_an_expired_answer_is_asked_again_also_one_that_is_awaited_now() -> None:
    asked = _Asked(["first", "second", "third"])
    cached = CachedQuery(asked, fresh_seconds=60, kept_times=0)
    asked.let.clear()
    viewer = asyncio.ensure_future(cached.get())
    await asyncio.sleep(0)
    cached.expire()
    asked.let.set()
    found = [await viewer, await cached.get()]
    cached.expire()
    assert [*found, await cached.get(), await cached.get()] == ["first", "second", "third", "third"]


async def test_an_asker_who_gave_up_leaves_the_question_to_the_next() -> None:
    asked = _Asked(["first"])
    cached = CachedQuery(asked, fresh_seconds=60, kept_times=0)
    asked.let.clear()
    viewers = [asyncio.ensure_future(cached.get()) for _ in range(2)]
    await asyncio.sleep(0)
    viewers[0].cancel()
    asked.let.set()
    assert await viewers[1] == "first"
